"""kernel/patches and kernel/overlay as topics, checked as far as that goes without a kernel.

kernel/patches/topics names the topics in the order of the stack. Each has a directory with
`series` (one line a step: a patch, then the overlay files and directories that it brings),
`cover-letter.txt` and, where other topics go first, `needs`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.paths import Paths

COVER_LETTER = "cover-letter.txt"


@dataclass(frozen=True)
class Step:
    """One commit: a patch of existing files, and the overlay files that come with it."""

    topic: str
    patch: str
    text: str
    overlay: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step in messages and in PATCH=."""
        return f"{self.topic}/{self.patch}"

    def mail(self, overlay: Path, tag: str = "") -> str:
        """Return the whole step as one mail for git am; `tag` ends its message."""
        text = self.text
        if tag:
            end = re.search(r"^(?:---|diff --git .*)$", text, re.MULTILINE)
            at = end.start() if end else len(text)
            text = f"{text[:at].rstrip()}\n\n{tag}\n{text[at:]}"
        return text + "".join(_new_file(name, overlay / name) for name in self.overlay)


@dataclass(frozen=True)
class Topic:
    """A part of the stack that is mailed by itself; `needs` holds all that go before it."""

    name: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...]
    cover: str


def read_text(path: Path) -> str:
    """Read a file of the kernel, which need not be UTF-8."""
    return path.read_bytes().decode(errors="surrogateescape")


def _new_file(name: str, path: Path) -> str:
    mode = "100755" if path.stat().st_mode & 0o100 else "100644"
    head = f"diff --git a/{name} b/{name}\nnew file mode {mode}\n"
    lines = read_text(path).split("\n")
    if lines == [""]:
        return head + "index 000000000000..e69de29bb2d1\n"
    end = ["\\ No newline at end of file"] if lines[-1] else []
    lines = lines if lines[-1] else lines[:-1]
    hunk = [f"@@ -0,0 +1,{len(lines)} @@", *("+" + line for line in lines), *end]
    return f"{head}--- /dev/null\n+++ b/{name}\n" + "\n".join(hunk) + "\n"


def touched_paths(patch: str) -> list[str]:
    """Return the paths that a patch edits, in its order."""
    paths = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch, re.MULTILINE)
    return list(dict.fromkeys(paths))


def lines_of(path: Path) -> list[list[str]]:
    """Return the words of each line, without comments; nothing if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [words for line in lines if (words := line.split("#", 1)[0].split())]


def overlay_files(paths: Paths) -> list[str]:
    """Return the paths of all overlay files within the kernel tree."""
    return sorted(
        str(path.relative_to(paths.overlay))
        for path in paths.overlay.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def read(paths: Paths, *, whole: bool = True) -> tuple[Topic, ...]:
    """Read the topics in stack order; whatever contradicts itself is one error.

    Unless `whole`, series and overlay may name different files: `make save` is about to add or
    remove them.
    """
    problems: list[str] = []
    overlay_problems: list[str] = []
    names = [words[0] for words in lines_of(paths.patches / "topics")]
    present = sorted(path.name for path in paths.patches.glob("*/"))
    problems += _differences("kernel/patches/topics", names, present)
    remaining = dict.fromkeys(overlay_files(paths), "")
    topics: list[Topic] = []
    for name in names:
        home = paths.patches / name
        entries = lines_of(home / "series")
        files = sorted(path.name for path in home.glob("*.patch"))
        series = f"kernel/patches/{name}/series"
        problems += _differences(series, [entry[0] for entry in entries], files)
        if [entry[0] for entry in entries] != files:
            problems.append(f"{series} is not in the order of the patches' numbers")
        steps = []
        for patch, *adds in entries:
            if patch in files:
                overlay = _assign(f"{name}/{patch}", adds, remaining, overlay_problems)
                steps.append(Step(name, patch, read_text(home / patch), overlay))
        needs = [words[0] for words in lines_of(home / "needs")]
        before = {topic.name: topic for topic in topics}
        for need in needs:
            if need not in before:
                problems.append(f"kernel/patches/{name}/needs: no topic {need} before {name}")
        all_needs = {n for need in needs if need in before for n in (*before[need].needs, need)}
        cover = home / COVER_LETTER
        if not cover.is_file():
            problems.append(f"kernel/patches/{name}/{COVER_LETTER} is missing")
        topics.append(
            Topic(
                name,
                tuple(steps),
                tuple(topic for topic in before if topic in all_needs),
                cover.read_text() if cover.is_file() else "",
            )
        )
    overlay_problems += [
        f"kernel/overlay/{file} belongs to no patch: name it behind the patch that brings it, "
        "in kernel/patches/<topic>/series"
        for file, step in remaining.items()
        if not step
    ]
    problems += overlay_problems if whole else []
    links = [path for path in paths.overlay.rglob("*") if path.is_symlink()]
    problems += [f"{link.relative_to(paths.root)} is a symbolic link" for link in links]
    if problems:
        raise HarnessError(problems[0], detail="\n".join(problems[1:]))
    return tuple(topics)


def _differences(what: str, named: Sequence[str], present: Sequence[str]) -> list[str]:
    twice = sorted({name for name in named if named.count(name) > 1})
    return [
        *(f"{what} names {name}, which does not exist" for name in set(named) - set(present)),
        *(f"{what} does not name {name}" for name in sorted(set(present) - set(named))),
        *(f"{what} names {name} twice" for name in twice),
    ]


def _assign(
    step: str, adds: Iterable[str], remaining: dict[str, str], problems: list[str]
) -> tuple[str, ...]:
    """Expand the names of a step to files, and take them from the remaining ones."""
    mine: list[str] = []
    for name in adds:
        found = [file for file in remaining if covers([name], file)]
        taken = [file for file in found if remaining[file]]
        problems += [f"{step}: {file} belongs to {remaining[file]} already" for file in taken]
        problems += [] if found else [f"{step}: {name} is not in kernel/overlay"]
        mine += [file for file in found if not remaining[file]]
        remaining.update(dict.fromkeys(mine, step))
    return tuple(mine)


def covers(adds: Iterable[str], file: str) -> bool:
    """Tell whether a line of `series` brings a file, by its name or by a directory's."""
    return any(f"{file}/".startswith(f"{name.rstrip('/')}/") for name in adds)


def all_steps(topics: Iterable[Topic]) -> list[Step]:
    """Return the steps of the whole stack."""
    return [step for topic in topics for step in topic.steps]


def find(steps: Sequence[Step], text: str) -> Step:
    """Return the one step whose name contains `text`, or is it."""
    if not text:
        raise HarnessError("PATCH= names no patch: see kernel/patches/*/series")
    found = [step for step in steps if step.name == text] or [
        step for step in steps if text in step.name
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise HarnessError(f"no patch is called '{text}': see kernel/patches/*/series")
    names = ", ".join(step.name.removesuffix(".patch") for step in found[:6])
    more = ", ..." if len(found) > 6 else ""
    raise HarnessError(f"PATCH={text} may be any of {len(found)}: {names}{more}")
