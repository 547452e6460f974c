"""A project and a kernel of a few files, for tests of patches, topics and the edit tool."""

import os
from pathlib import Path

from harness.core.paths import Paths
from harness.kernel import tree as patches
from harness.kernel.source import Source

LINES = "".join(f"line {n}\n" for n in range(1, 21))
AUTHOR = "A Developer <dev@example.com>"


def patch(subject: str, file: str, number: int, old: str, new: str) -> str:
    """Return a patch that changes line `number` of a file, with two lines around it."""
    places = f"-{number - 2},5 +{number - 2},5"
    before, after = (f" line {n}\n" for n in range(number - 2, number)), (
        f" line {n}\n" for n in range(number + 1, number + 3)
    )  # fmt: skip
    return (
        f"From: {AUTHOR}\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nSubject: [PATCH] {subject}\n\n"
        f"It is better.\n---\ndiff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n"
        f"@@ {places} @@\n{''.join(before)}-{old}\n+{new}\n{''.join(after)}"
    )


class Project:
    """Three topics: `fix` stands alone, `speed` needs it, `lab` stands alone."""

    def __init__(self, where: Path) -> None:
        """Write the project and its pristine kernel."""
        self.paths = Paths(root=where, cache=where / "cache", out=where / "out")
        self.source = Source(version="7.3.4", home=where / "cache/linux/x", revision="r1")
        for name, text in {
            "Makefile": "VERSION = 7\n", "mm/migrate.c": LINES, "mm/rmap.c": LINES,
            "mm/Kconfig": "config X\n", ".gitignore": "*.o\n",
        }.items():  # fmt: skip
            self.write(self.source.pristine / name, text)
        for name, text in {
            "topics": "fix # first\nspeed\nlab\n",
            "fix/series": "# comment\n0001-four.patch\n",
            "fix/0001-four.patch": patch("mm: fix 4", "mm/migrate.c", 4, "line 4", "four"),
            "speed/needs": "fix\n",
            "speed/series": "0001-ten.patch mm/offload.c drivers/new/\n0002-more.patch\n",
            "speed/0001-ten.patch": patch("mm: ten", "mm/migrate.c", 10, "line 10", "ten"),
            "speed/0002-more.patch": patch("mm: more", "mm/migrate.c", 17, "line 17", "more"),
            "lab/series": "0001-rmap.patch\n",
            "lab/0001-rmap.patch": patch("mm: rmap", "mm/rmap.c", 5, "line 5", "five"),
        }.items():
            self.write(self.paths.patches / name, text)
        for topic in ("fix", "speed", "lab"):
            home = self.paths.patches / topic
            self.write(home / "cover-letter.txt", f"mm: {topic}\n\nBody.\n")
            self.write(home / "tests", "# none\n")
        self.write(self.paths.overlay / "mm/offload.c", "int offload;\n")
        self.write(self.paths.overlay / "drivers/new/dcbm.c", "int dcbm;\nno end of line")

    @staticmethod
    def write(path: Path, text: str) -> None:
        """Write a file and the directories above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def patch(self, name: str) -> Path:
        """Return the path of a patch, or of another file of kernel/patches."""
        return self.paths.patches / name

    def get(self) -> patches.Tree:
        """Bring the tree up to date; backdate its files, so that a rewrite shows."""
        tree = patches.get(self.paths, self.source)
        for path in tree.path.rglob("*"):
            if path.is_file() and path.stat().st_nlink == 1:
                os.utime(path, (1, 1))
        return tree

    def contents(self) -> dict[str, bytes]:
        """Return everything below kernel/."""
        kernel = self.paths.patches.parent
        return {
            str(path.relative_to(kernel)): path.read_bytes()
            for path in kernel.rglob("*")
            if path.is_file()
        }
