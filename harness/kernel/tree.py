"""The patched tree: hard links to pristine files, and copies of what our patches change."""

import hashlib
import json
import re
from collections.abc import Sequence
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
    content; `key` names the content of the whole tree; `absent` are the Kconfig options of
    steps that are not in it.
    """

    source: Source
    files: dict[str, str]
    key: str
    name: str = ALL
    absent: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Where the patched tree is."""
        return self.source.home / self.name

    @property
    def version(self) -> str:
        """The kernel's version."""
        return self.source.version

    def subset_key(self, *patterns: str) -> str:
        """Name the content of those touched files whose path matches a pattern."""
        chosen = {
            path: digest
            for path, digest in self.files.items()
            if any(re.search(pattern, path) for pattern in patterns)
        }
        return _key(self.source, chosen)


def get(
    paths: Paths,
    source: Source,
    name: str = ALL,
    only: Sequence[str] | None = None,
    extra: Sequence[Path] = (),
) -> Tree:
    """Bring a patched tree up to date and return it.

    `only` names the few steps that go into it (None for all of them), `extra` are patches on
    top of everything, `name` is the directory of such a tree.
    """
    title = "patches" if name == ALL else f"patches of {name}"
    with ui.step(title) as step, stack.assemble(paths, source, extra) as made:
        steps = topics.all_steps(made.topics)
        revision = made.tip
        if only is not None:
            wanted = {topics.find(steps, text).name for text in only}
            steps = [one for one in steps if one.name in wanted]
            revision = made.pick(steps)
        step.progress("linking the pristine tree")
        changed = update(made, revision, source.home / name)
        brought = sum(len(one.overlay) for one in steps)
        text = f"{len(steps) + len(extra)} patches, {brought} new files"
        if changed:
            step.done(f"{text}, {changed} files updated")
        else:
            step.reused(text)
        files = made.files(revision)
        absent = made.options(made.tip) - made.options(revision)
    return Tree(source, files, _key(source, files), name, frozenset(absent))


def update(made: Stack, revision: str, tree: Path, origin: Path | None = None) -> int:
    """Bring the tree at `tree` to a revision; return how many files changed.

    A tree that is not there yet begins with hard links to `origin`, another tree of this
    source (default: the pristine one).
    """
    source = made.source
    manifest = _manifest(tree)
    before = jsonio.recall(dict[str, Any], manifest) or {}
    if before.get("revision") != source.revision or not tree.exists():
        near = jsonio.recall(dict[str, Any], _manifest(origin)) if origin else None
        start = origin if origin and near else source.pristine
        _link(start, tree, source.home / "link.log")
        before = near or {"files": {}}
    manifest.unlink(missing_ok=True)  # while files change it would lie
    changed = made.sync(revision, tree, before["files"])
    record = {"revision": source.revision, "files": made.files(revision)}
    jsonio.write(manifest, record)
    return changed


def _manifest(tree: Path) -> Path:
    return tree.with_name("manifest.json" if tree.name == ALL else f"manifest-{tree.name}.json")


def _key(source: Source, files: dict[str, str]) -> str:
    text = json.dumps([source.home.name, source.revision, sorted(files.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _link(origin: Path, tree: Path, log: Path) -> None:
    """Make the tree's files hard links to those of another; later writes replace files."""
    process.run_logged(
        ["rsync", "-a", "--delete", "--modify-window=-1", f"--link-dest={origin}",
         f"{origin}/", f"{tree}/"],
        log,
        "linking the tree",
    )  # fmt: skip


def differences(tree: Tree) -> list[str]:
    """Return the files that the tree has changed on disk and should not have.

    Files of equal size and time count as the same: those of the tree are links to pristine
    ones, or were written since.
    """
    listing = process.capture(
        ["rsync", "-ain", "--delete", "--modify-window=-1", "--omit-dir-times",
         f"{tree.path}/", f"{tree.source.pristine}/"]
    )  # fmt: skip
    found = re.findall(r"^(?:\S{11}|\*deleting  ) (.*?)(?: -> .*)?$", listing, re.MULTILINE)
    return sorted(path for path in found if path not in tree.files and not path.endswith("/"))
