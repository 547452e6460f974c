"""Build the kernel at every step of each topic, incrementally from the kernel that exists.

The finished kernel's objects are copied and taken back through the steps, from the last topic
to the first: at each step make compiles only what the step's files reach. The steps are linked
into one object and not into an image, whose tables of symbols take most of the time: the
symbols that this object does not define tell what the image would miss.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build, kconfig
from harness.kernel import tree as patches
from harness.kernel.stack import Stack

SWITCH = "CONFIG_MIGRATION_COPY_OFFLOAD"
MIGRATORS = ("CONFIG_DCBM_DMA", "CONFIG_MTCOPY", "CONFIG_SAMPLE_MIGRATOR")  # that select it

_NOT_COMPILED = re.compile(r"^(Documentation/|MAINTAINERS$|tools/)|\.(rst|md|txt)$")
_OBJECT = re.compile(r"^  (?:CC|AS|LD)\b.* (\S+)$")


def compiled_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return those files that a build of the kernel can depend on."""
    return {name: what for name, what in files.items() if not _NOT_COMPILED.search(name)}


def wanted_options(
    wanted: Mapping[str, str], ours: Iterable[str], here: Iterable[str], *, off: bool
) -> dict[str, str]:
    """Return what the configuration of a step must contain.

    `ours` and `here` are the options that the whole stack and this step define: one that comes
    later cannot be on yet. With `off` nothing of ours is asked for but that SWITCH is off.
    """
    absent = set(ours) if off else set(ours) - set(here)
    chosen = {name: value for name, value in wanted.items() if name not in absent}
    return {**chosen, SWITCH: "n"} if off else chosen


def _undefined_in(objects: Path) -> set[str]:
    """Return the symbols that the one object of a kernel needs and does not define."""
    listing = process.capture(["nm", "-u", str(objects / "vmlinux.o")])
    return {line.split()[-1] for line in listing.splitlines()}


class Builder:
    """Builds steps of all topics; remembers those that have been built."""

    def __init__(self, paths: Paths, made: Stack, config: str, tree: patches.Tree) -> None:
        """Use the objects of a configuration, which were built from `tree`, as the start."""
        self._paths, self._made, self._built_from = paths, made, tree.path
        self._tree = made.source.home / "tree-steps"
        self._objects = build.object_dir(tree, config)
        self._config = (self._objects / ".config").read_text()
        self._wanted = kconfig.parse(build.fragments(paths, config))
        # those of the linker's script: this kernel was linked
        self._by_the_linker = _undefined_in(self._objects)
        self._ours = made.options(made.tip) - made.options(made.base)

    def run(self) -> None:
        """Build every step with all options on, and the whole stack also without `SWITCH`."""
        made = self._made
        builds = [(made.tip, f"the stack, {SWITCH} off", True)]
        for topic in reversed(made.topics):
            commits = made.pick_topic(topic)[1:]
            steps = zip(commits, topic.steps, strict=True)
            builds += reversed([(commit, step.name, False) for commit, step in steps])
        record = made.source.home / "built.json"
        old = jsonio.recall(dict[str, float], record) or {}
        new: dict[str, float] = {}
        failures: list[HarnessError] = []
        for directory in (self._tree, *self._tree.parent.glob("objects-steps*")):
            shutil.rmtree(directory, ignore_errors=True)
        patches.manifest(self._tree).unlink(missing_ok=True)
        for number, (revision, what, off) in enumerate(builds, 1):
            parts = [
                off, self._config, made.source.revision, build.compiler(),
                compiled_files(made.files(revision)),
            ]  # fmt: skip
            key = jsonio.digest(json.dumps(parts, sort_keys=True))[:16]
            with ui.step(f"build {number}/{len(builds)} {what}") as progress:
                if seconds := new.get(key, old.get(key)):
                    new[key] = seconds
                    progress.done(f"built in {seconds:.0f} s", reused=True)
                    continue
                try:
                    compiled = self._build(revision, what, progress, off=off)
                except HarnessError as error:
                    failures.append(error)
                    progress.done("FAILED")
                    continue
                new[key] = progress.seconds
                jsonio.write(record, {**old, **new})
                progress.done(f"{compiled} objects")
        jsonio.write(record, new)
        if failures:
            others = [str(error) for error in failures[1:]]
            raise HarnessError(str(failures[0]), "\n".join([*others, failures[0].detail]))

    def _build(self, revision: str, what: str, progress: ui.Step, *, off: bool) -> int:
        """Build a revision; return how many objects were compiled or linked."""
        objects = self._tree.with_name("objects-steps-off" if off else "objects-steps")
        progress.progress("copying the objects")
        if not self._tree.exists():  # with the times of the tree that the objects are made from
            patches.link(self._built_from, self._tree)
            shutil.copy(patches.manifest(self._built_from), patches.manifest(self._tree))
        if not objects.exists():
            build.copy_objects(self._objects, objects, {self._built_from: self._tree})
        patches.update(self._made, revision, self._tree)
        log = self._paths.logs / f"series-{re.sub(r'[^-.0-9A-Za-z]+', '-', what)}.log"
        text = self._config
        if off:
            for name in (SWITCH, *MIGRATORS):
                text = re.sub(rf"^{name}=.*$", f"# {name} is not set", text, flags=re.MULTILINE)
        config = objects / ".config"
        config.write_text(text)
        process.run_logged(build.make(self._tree, objects, "olddefconfig"), log, what)
        here = self._made.options(revision)
        kconfig.check(wanted_options(self._wanted, self._ours, here, off=off), config, what)
        compiled = 0

        def watch(line: str) -> None:
            nonlocal compiled
            if match := _OBJECT.match(line):
                compiled += 1
                progress.progress(f"{compiled} objects, {match[1]}")

        make = build.make(self._tree, objects, "vmlinux_o", "modules")
        said = process.run_logged(make, log, f"{what} does not build", on_line=watch)
        if warnings := [line for line in said.splitlines() if "warning: " in line.lower()]:
            error = f"{what} builds with a warning: {warnings[0]}"
            raise HarnessError(error, "\n".join(warnings))
        if missing := sorted(_undefined_in(objects) - self._by_the_linker):
            raise HarnessError(f"{what} does not link: {', '.join(missing)} not defined")
        return compiled
