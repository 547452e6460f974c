"""The patched tree: hard links to pristine files, and copies of what our patches change."""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core import jsonio, process, ui
from harness.core.paths import Paths
from harness.kernel import stack, topics
from harness.kernel.source import Source
from harness.kernel.stack import Stack

ALL = "tree"  # with every step


@dataclass(frozen=True)
class Tree:
    """The patched tree.

    `files` maps every path that differs from the pristine tree to its mode and the hash of its
    content; `absent` are the Kconfig options of steps that are not in it.
    """

    source: Source
    files: dict[str, str]
    name: str = ALL
    absent: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Where the patched tree is."""
        return self.source.home / self.name

    def subset_key(self, *patterns: str) -> str:
        """Name the content of those touched files whose path matches a pattern."""
        chosen = [
            entry
            for entry in sorted(self.files.items())
            if any(re.search(pattern, entry[0]) for pattern in patterns)
        ]
        return jsonio.key([self.source.home.name, self.source.revision, chosen])


def get(
    paths: Paths, source: Source, name: str = ALL, only: Sequence[str] | None = None,
    edit: str = "",
) -> Tree:  # fmt: skip
    """Bring a patched tree up to date and return it.

    `only` names the few steps or series that go into it (None for all of them), `edit` a patch
    in kernel/configs on top of these, and `name` is the directory of such a tree.
    """
    title = "patches" if name == ALL else f"patches of {name}"
    with ui.step(title) as step, stack.assemble(paths, source) as made:
        steps = topics.all_steps(made.topics)
        revision = made.tip
        if only is not None:
            steps = topics.select(steps, only)
            revision = made.pick(steps, paths.configs / edit if edit else None)[-1]
        changed = update(made, revision, source.home / name)
        brought = sum(len(patch.overlay) for patch in steps)
        updated = f", {changed} files updated" if changed else ""
        step.done(f"{len(steps)} patches, {brought} new files{updated}", reused=not changed)
        absent = made.options(made.tip) - made.options(revision)
        return Tree(source, made.files(revision), name, frozenset(absent))


def update(made: Stack, revision: str, tree: Path) -> int:
    """Bring the tree at `tree` to a revision; return how many files changed.

    A file whose content is right keeps its time: make rebuilds what depends on the others.
    """
    source = made.source
    known = manifest(tree)
    before = jsonio.recall(dict[str, Any], known) or {}
    known.unlink(missing_ok=True)  # while files change it would lie
    if before.get("revision") != source.revision or not tree.exists():
        link(source.pristine, tree)
        before = {"files": {}}
    made.git.checkout(revision)
    files = made.files(revision)
    changed = 0
    for name in {**before["files"], **files}:
        origin = (made.git.tree if name in files else source.pristine) / name
        if not origin.exists():
            (tree / name).unlink(missing_ok=True)
            with suppress(OSError):  # up to the first directory that is not empty
                os.removedirs((tree / name).parent)
        elif same(origin, tree / name):
            continue
        else:
            replace(origin, tree / name)
        changed += 1
    jsonio.write(known, {"revision": source.revision, "files": files})
    return changed


def manifest(tree: Path) -> Path:
    """Return where the content of a tree is noted."""
    return tree.with_name("manifest.json" if tree.name == ALL else f"manifest-{tree.name}.json")


def link(origin: Path, tree: Path) -> None:
    """Make a tree of hard links to the files of another; later writes replace files."""
    shutil.rmtree(tree, ignore_errors=True)
    process.capture(["cp", "-alH", str(origin), str(tree)])


def same(path: Path, other: Path) -> bool:
    """Tell whether two files have the same content and may both be executed, or not."""
    return (
        other.is_file()
        and path.read_bytes() == other.read_bytes()
        and path.stat().st_mode & 0o111 == other.stat().st_mode & 0o111
    )


def replace(origin: Path, target: Path) -> None:
    """Put a copy in the target's place; the target may be a hard link to a pristine file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.new")
    shutil.copy(origin, fresh)
    fresh.replace(target)


def differences(made: Stack, tree: Path) -> list[str]:
    """Return the files of a tree on disk that are not what the whole stack makes of it.

    Untouched files of equal size and time count as the same: they are links to pristine ones. A
    file that no patch edits any longer has pristine content and a new time.
    """
    made.git.checkout(made.tip)
    files = made.files(made.tip)
    names = {name for name in files if not same(made.git.tree / name, tree / name)}
    listing = process.capture(
        ["rsync", "-ain", "--delete", "--modify-window=-1", "--omit-dir-times",
         f"{tree}/", f"{made.source.pristine}/"]
    )  # fmt: skip
    others = re.findall(r"^(?:\S{11}|\*deleting  ) (.*?[^/])(?: -> .*)?$", listing, re.MULTILINE)
    for name in set(others) - files.keys():
        origin = made.source.pristine / name
        if not (origin.is_file() and same(origin, tree / name)):
            names.add(name)
    return sorted(names)
