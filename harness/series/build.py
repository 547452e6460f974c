"""Build the kernel at every step of each topic, incrementally from the kernel that exists.

The finished kernel's objects are copied and taken back through the steps, from the last topic
to the first: at each step make compiles only what the step's files reach. The steps are linked
into one object and not into an image, whose tables of symbols take most of the time: the
symbols that this object does not define tell what the image would miss.
"""

import hashlib
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
from harness.kernel.topics import all_steps

SWITCH = "CONFIG_MIGRATE_COPY_OFFLOAD"
TREE = "tree-steps"

_NOT_COMPILED = re.compile(r"^(Documentation/|MAINTAINERS$|tools/)|\.(rst|md|txt)$")
_OBJECT = re.compile(r"^  (?:CC|AS|LD)\b.* (\S+)$")
_WARNING = re.compile(r"\bwarning: ", re.IGNORECASE)


def compiled_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return those files that a build of the kernel can depend on."""
    return {name: what for name, what in files.items() if not _NOT_COMPILED.search(name)}


def wanted_options(
    wanted: Mapping[str, str], last: Iterable[str], here: Iterable[str], off: str = ""
) -> dict[str, str]:
    """Return what the configuration of a step must contain.

    `last` and `here` are the options that the files of the stack define at its end and at
    this step: an option that comes later cannot be on yet. `off` is an option that is
    switched off; what depends on it is then not asked for.
    """
    later = set(last) - set(here)
    chosen = {name: value for name, value in wanted.items() if name not in later}
    if off:
        chosen = {name: value for name, value in chosen.items() if name not in last}
        chosen[off] = "n"
    return chosen


def undefined_symbols(listing: str) -> set[str]:
    """Return the symbols that an object needs and does not define, from `nm -u`."""
    return {line.split()[-1] for line in listing.splitlines() if line.strip()}


def _undefined_in(objects: Path) -> set[str]:
    return undefined_symbols(process.capture(["nm", "-u", str(objects / "vmlinux.o")]))


class Builder:
    """Builds steps of all topics; remembers those that have been built."""

    def __init__(
        self, paths: Paths, made: Stack, kernel: build.Kernel, tree: patches.Tree
    ) -> None:
        """Use the objects of `kernel`, which was built from `tree`, as the start."""
        self._paths = paths
        self._made = made
        self._kernel = kernel
        self._built_from = tree.path
        self._tree = made.source.home / TREE
        self._record = made.source.home / "built.json"
        self._config = (kernel.objects / ".config").read_text()
        fragments = build.fragments(paths, kernel.config)
        self._wanted = kconfig.merge(path.read_text() for path in fragments)
        # those of the linker's script: this kernel was linked
        self._by_the_linker = _undefined_in(kernel.objects)
        self._added = made.options(made.tip) - made.options(made.base)

    def run(self) -> None:
        """Build every step with all options on, and the whole stack also without `SWITCH`."""
        builds = [(all_steps(self._made.topics), SWITCH)]
        for topic in reversed(self._made.topics):
            for last in range(len(topic.steps), 0, -1):
                builds.append(([*self._made.before(topic), *topic.steps[:last]], ""))
        old = jsonio.recall(dict[str, float], self._record) or {}
        new: dict[str, float] = {}
        failures: list[HarnessError] = []
        for directory in (self._tree, *self._tree.parent.glob("objects-steps*")):
            shutil.rmtree(directory, ignore_errors=True)
        for number, (steps, off) in enumerate(builds, 1):
            revision = self._made.tip if off else self._made.pick(steps)
            key = self._key(revision, off)
            what = f"{steps[-1].name}{f', {SWITCH} off' if off else ''}"
            with ui.step(f"build {number}/{len(builds)} {what}") as progress:
                if seconds := new.get(key, old.get(key)):
                    new[key] = seconds
                    progress.reused(f"built in {seconds:.0f} s")
                    continue
                try:
                    text = self._build(revision, what, off, progress)
                except HarnessError as error:
                    failures.append(error)
                    progress.done("FAILED")
                    continue
                new[key] = progress.seconds
                jsonio.write(self._record, {**old, **new})
                progress.done(text)
        jsonio.write(self._record, new)
        if failures:
            others = [str(error) for error in failures[1:]]
            raise HarnessError(str(failures[0]), "\n".join([*others, failures[0].detail]))

    def _key(self, revision: str, off: str) -> str:
        """Name everything that the result of a build depends on."""
        files = compiled_files(self._made.files(revision))
        parts = [off, self._config, self._made.source.revision, build.compiler(), files]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _build(self, revision: str, what: str, off: str, progress: ui.Step) -> str:
        objects = self._tree.with_name("objects-steps-off" if off else "objects-steps")
        progress.progress("copying the objects")
        if not self._tree.exists():
            patches.update(self._made, self._made.tip, self._tree, self._built_from)
        if not objects.exists():
            build.copy_objects(self._kernel.objects, objects, {self._built_from: self._tree})
        patches.update(self._made, revision, self._tree)
        log = self._paths.logs / f"series-{re.sub(r'[^-.0-9A-Za-z]+', '-', what)}.log"
        self._configure(revision, objects, what, off, log)
        compiled = 0

        def watch(line: str) -> None:
            nonlocal compiled
            if match := _OBJECT.match(line):
                compiled += 1
                progress.progress(f"{compiled} objects, {match[1]}")

        output = process.run_logged(
            build.make(self._tree, objects, "vmlinux_o", "modules"),
            log,
            f"{what} does not build",
            on_line=watch,
        )
        if warnings := [line for line in output.splitlines() if _WARNING.search(line)]:
            raise HarnessError(
                f"{what} builds with a warning: {warnings[0]}", "\n".join(warnings)
            )
        if missing := sorted(_undefined_in(objects) - self._by_the_linker):
            raise HarnessError(f"{what} does not link: {', '.join(missing)} not defined")
        return f"{compiled} objects"

    def _configure(self, revision: str, objects: Path, what: str, off: str, log: Path) -> None:
        text = self._config
        if off:
            text = re.sub(rf"^{off}=.*$", f"# {off} is not set", text, flags=re.MULTILINE)
        (objects / ".config").write_text(text)
        process.run_logged(build.make(self._tree, objects, "olddefconfig"), log, what)
        final = kconfig.parse((objects / ".config").read_text())
        here = self._made.options(revision)
        wanted = wanted_options(self._wanted, self._added, here, off)
        if missing := kconfig.vanished(wanted, final):
            raise HarnessError(f"{what}: requested options vanished: {', '.join(missing)}")
