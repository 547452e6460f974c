"""Kernels of series and of single patches: one tree and one directory of objects take them all.

From one to the next make compiles only what is reached by the files that differ. Every patch is
linked into one object and not into an image, whose tables of symbols take most of the time: the
symbols that this object does not define tell what the image would miss.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build
from harness.kernel import tree as patches
from harness.kernel.stack import Stack
from harness.kernel.tree import Tree

CONFIG = "series"
WITHOUT = "lab-without"  # the whole stack, compiled out

_HEADER = 100  # objects that are compiled because a header that many include differs, about
_NOT_COMPILED = re.compile(r"^(Documentation/|MAINTAINERS$|tools/)|\.(rst|md|txt)$")
_OBJECT = re.compile(r"^  (?:CC|AS|LD)\b.* (\S+)$")


def compiled_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return those files that a build of the kernel can depend on."""
    return {name: what for name, what in files.items() if not _NOT_COMPILED.search(name)}


def by_least_change(
    files: Mapping[str, Mapping[str, str]], start: Mapping[str, str]
) -> Iterator[str]:
    """Yield names, each time of the files that the fewest objects have to be compiled for."""
    here, left = compiled_files(start), {name: compiled_files(files[name]) for name in files}

    def cost(name: str) -> int:
        changed = {file for file, _ in here.items() ^ left[name].items()}
        return sum(_HEADER if "include/" in file else 1 for file in changed)

    while left:
        name = min(left, key=cost)
        here = left.pop(name)
        yield name


def tree_at(made: Stack, revision: str) -> Tree:
    """Bring the tree that all of them share to a revision."""
    name = f"tree-{CONFIG}"
    patches.update(made, revision, made.source.home / name)
    absent = made.options(made.tip) - made.options(revision)
    return Tree(made.source, made.files(revision), name, frozenset(absent))


def _undefined_in(objects: Path) -> set[str]:
    """Return the symbols that the one object of a kernel needs and does not define."""
    listing = process.capture(["nm", "-u", str(objects / "vmlinux.o")])
    return {line.split()[-1] for line in listing.splitlines()}


def build_steps(paths: Paths, made: Stack, whole: Tree) -> None:
    """Build every step of each topic, and the whole stack without the feature."""
    build.get(paths, whole, WITHOUT)
    build.get(paths, whole, "base", objects=True)
    # those of the linker's script: this kernel was linked
    by_the_linker = _undefined_in(build.object_dir(whole, "base"))
    record = made.source.home / "built.json"
    old = jsonio.recall(dict[str, float], record) or {}
    new: dict[str, float] = {}
    failures: list[HarnessError] = []
    commits = {topic: made.pick_topic(topic)[1:] for topic in made.topics}
    ends = {topic.name: made.files(commits[topic][-1]) for topic in made.topics}
    order = list(by_least_change(ends, made.files(made.tip)))
    for topic in sorted(made.topics, key=lambda topic: order.index(topic.name)):
        for commit, step in reversed(list(zip(commits[topic], topic.steps, strict=True))):
            key = jsonio.key([
                build.fragments(paths, CONFIG), made.source.revision, build.compiler(),
                compiled_files(made.files(commit)),
            ])  # fmt: skip
            with ui.step(f"build {step.name}") as progress:
                if seconds := new.get(key, old.get(key)):
                    new[key] = seconds
                    progress.done(f"built in {seconds:.0f} s", reused=True)
                    continue
                try:
                    compiled = _build(paths, tree_at(made, commit), by_the_linker, progress)
                except HarnessError as error:
                    what = HarnessError(f"{step.name}: {error}", error.detail)
                    failures.append(what)
                    progress.done(f"FAILED: {what}")
                    continue
                new[key] = progress.seconds
                jsonio.write(record, {**old, **new})
                progress.done(f"{compiled} objects")
    jsonio.write(record, new)
    if failures:
        others = [str(error) for error in failures[1:]]
        raise HarnessError(str(failures[0]), "\n".join([*others, failures[0].detail]))


def _build(paths: Paths, tree: Tree, by_the_linker: set[str], progress: ui.Step) -> int:
    """Build a tree but for its image; return how many objects were compiled or linked."""
    objects = build.configure(paths, tree, CONFIG)
    build.seed(tree, CONFIG)
    compiled = 0

    def watch(line: str) -> None:
        nonlocal compiled
        if match := _OBJECT.match(line):
            compiled += 1
            progress.progress(f"{compiled} objects, {match[1]}")

    output = build.run(paths, tree, CONFIG, "vmlinux_o", "modules", on_line=watch)
    if warnings := [line for line in output.splitlines() if "warning: " in line.lower()]:
        raise HarnessError(f"builds with a warning: {warnings[0]}", "\n".join(warnings))
    if missing := sorted(_undefined_in(objects) - by_the_linker):
        raise HarnessError(f"does not link: {', '.join(missing)} not defined")
    return compiled
