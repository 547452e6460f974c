"""Build the kernel at every step of the series, incrementally from the one that exists.

The finished kernel's objects are copied and taken back through the series, from the last
step to the first: at each one only what that step's files reach is compiled again. The steps
are linked into one object and not into an image, whose tables of symbols take most of the
time: what the image would miss is told by the symbols that this object does not define.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build, kconfig
from harness.series.git import Scratch
from harness.series.plan import Plan, Step

SWITCH = "CONFIG_MIGRATE_COPY_OFFLOAD"

_NOT_COMPILED = re.compile(r"^(Documentation/|MAINTAINERS$|tools/)|\.(rst|md|txt)$")
_DEFINED = re.compile(r"^\s*(?:menu)?config (\w+)", re.MULTILINE)
_OBJECT = re.compile(r"^  (?:CC|AS|LD)\b.* (\S+)$")
_WARNING = re.compile(r"\bwarning: ", re.IGNORECASE)


def compiled_files(names: Iterable[str]) -> list[str]:
    """Return those files that a build of the kernel can depend on."""
    return [name for name in names if not _NOT_COMPILED.search(name)]


def defined_options(kconfigs: Iterable[str]) -> set[str]:
    """Return the options that Kconfig texts define, with their prefix."""
    return {f"CONFIG_{name}" for text in kconfigs for name in _DEFINED.findall(text)}


def wanted_options(
    wanted: Mapping[str, str], last: set[str], here: set[str], off: str = ""
) -> dict[str, str]:
    """Return what the configuration of a step must contain.

    `last` and `here` are the options that the files of the series define at its last step
    and at this one: an option that comes later cannot be on yet. `off` is an option that
    is switched off; what depends on it is then not asked for.
    """
    chosen = {name: value for name, value in wanted.items() if name not in last - here}
    if off:
        chosen = {name: value for name, value in chosen.items() if name not in last}
        chosen[off] = "n"
    return chosen


def undefined_symbols(listing: str) -> set[str]:
    """Return the symbols that an object needs and does not define, from `nm -u`."""
    return {line.split()[-1] for line in listing.splitlines() if line.strip()}


class Timestamps:
    """Modification times that tell make which files differ from what the objects saw.

    git writes a file whenever its contents change, be it back to what was compiled before:
    so the times of all files that the series touches are set from their contents.
    """

    def __init__(self, tree: Path, names: Sequence[str], built_from: Path) -> None:
        """Start from objects that were built from another tree."""
        self._tree = tree
        self._seen = {name: self._read(built_from / name) for name in names}

    @staticmethod
    def _read(path: Path) -> tuple[str, int]:
        if not path.is_file():
            return "", 0
        return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns

    def set(self) -> list[str]:
        """Give changed files the present time and the others their old one."""
        changed = []
        for name, (digest, _) in list(self._seen.items()):
            path = self._tree / name
            now, _ = self._read(path)
            if now != digest:
                self._seen[name] = now, time.time_ns()
                changed.append(name)
            if now:
                os.utime(path, ns=(self._seen[name][1],) * 2)
        return changed


@dataclass
class _Objects:
    """A copy of an object directory, moved to another source tree."""

    path: Path
    times: Timestamps
    options: Sequence[str] | None = None  # Kconfig files that they are configured for

    @classmethod
    def copy(
        cls, kernel: Path, built_from: Path, scratch: Scratch, plan: Plan, name: str
    ) -> "_Objects":
        path = scratch.tree.parent / name
        build.copy_objects(kernel, path, {built_from: scratch.tree})
        return cls(path, Timestamps(scratch.tree, plan.touched, built_from))


def _undefined_in(objects: Path) -> set[str]:
    return undefined_symbols(process.capture(["nm", "-u", str(objects / "vmlinux.o")]))


class Builder:
    """Builds steps of a series; remembers those that have been built."""

    def __init__(
        self, paths: Paths, plan: Plan, scratch: Scratch, kernel: build.Kernel, tree: Path
    ) -> None:
        """Use the objects of `kernel`, which was built from `tree`, as the start."""
        self._paths = paths
        self._plan = plan
        self._scratch = scratch
        self._kernel = kernel
        self._built_from = tree
        self._record = scratch.tree.parent / "built.json"
        self._config = (kernel.objects / ".config").read_text()
        fragments = build.fragments(paths, kernel.config)
        self._wanted = kconfig.merge(path.read_text() for path in fragments)
        self._objects: dict[str, _Objects] = {}
        # those of the linker's script: this kernel was linked
        self._by_the_linker = _undefined_in(kernel.objects)
        scratch.checkout("series")
        self._last = self._defined()
        self._added = self._last - defined_options(self._kconfigs(scratch.pristine))

    def run(self) -> None:
        """Build every step with the feature's options on, and the last one without."""
        record = json.loads(self._record.read_text()) if self._record.exists() else {}
        old: dict[str, float] = record
        new: dict[str, float] = {}
        failures: list[tuple[Step, HarnessError]] = []
        total = len(self._plan.steps)
        for step in reversed(self._plan.steps):
            self._scratch.checkout(f"step-{step.number}")
            variants = {"on": ""}
            if step.number == total:
                variants["off"] = SWITCH
            for variant, off in variants.items():
                key = self._key(variant)
                if key in new:
                    continue
                with ui.step(f"series build {step.number}/{total} {variant}") as progress:
                    if key in old:
                        new[key] = old[key]
                        progress.reused(f"built in {old[key]:.0f} s")
                        continue
                    try:
                        text = self._build(step, variant, off, progress)
                    except HarnessError as error:
                        failures.append((step, error))
                        progress.done("FAILED")
                        continue
                    new[key] = progress.seconds
                    self._record.write_text(json.dumps({**old, **new}))
                    progress.done(text)
        self._record.write_text(json.dumps(new))
        if failures:
            failures.sort(key=lambda failure: failure[0].number)
            others = [str(error) for _, error in failures[1:]]
            raise HarnessError(
                str(failures[0][1]), detail="\n".join([*others, failures[0][1].detail])
            )

    def _kconfigs(self, tree: Path) -> list[str]:
        names = [name for name in self._plan.touched if Path(name).name.startswith("Kconfig")]
        return [(tree / name).read_text() for name in names if (tree / name).is_file()]

    def _defined(self) -> set[str]:
        return defined_options(self._kconfigs(self._scratch.tree))

    def _key(self, variant: str) -> str:
        """Name everything that the result of a build depends on."""
        digest = hashlib.sha256()
        for part in (variant, self._config, self._scratch.revision, build.compiler()):
            digest.update(part.encode() + b"\0")
        for name in compiled_files(self._plan.touched):
            path = self._scratch.tree / name
            digest.update(name.encode() + b"\0")
            digest.update(path.read_bytes() if path.is_file() else b"\0absent")
        return digest.hexdigest()[:16]

    def _build(self, step: Step, variant: str, off: str, progress: ui.Step) -> str:
        what = f"series: {step.label}, {SWITCH[7:]} off" if off else f"series: {step.label}"
        if variant not in self._objects:
            progress.progress("copying the objects")
            self._objects[variant] = _Objects.copy(
                self._kernel.objects,
                self._built_from,
                self._scratch,
                self._plan,
                f"objects-{variant}",
            )
        objects = self._objects[variant]
        objects.times.set()
        log = self._paths.logs / f"series-{step.number}-{variant}.log"
        if objects.options != (options := self._kconfigs(self._scratch.tree)):
            self._configure(objects.path, what, off, log)
            objects.options = options
        compiled = 0

        def watch(line: str) -> None:
            nonlocal compiled
            if match := _OBJECT.match(line):
                compiled += 1
                progress.progress(f"{compiled} objects, {match[1]}")

        output = process.run_logged(
            build.make(self._scratch.tree, objects.path, "vmlinux_o", "modules"),
            log,
            f"{what} does not build",
            on_line=watch,
        )
        if warnings := [line for line in output.splitlines() if _WARNING.search(line)]:
            raise HarnessError(
                f"{what} builds with a warning: {warnings[0]}", "\n".join(warnings)
            )
        if missing := sorted(_undefined_in(objects.path) - self._by_the_linker):
            raise HarnessError(f"{what} does not link: {', '.join(missing)} not defined")
        return f"{compiled} objects"

    def _configure(self, objects: Path, what: str, off: str, log: Path) -> None:
        text = self._config
        if off:
            text = re.sub(rf"^{off}=.*$", f"# {off} is not set", text, flags=re.MULTILINE)
        (objects / ".config").write_text(text)
        process.run_logged(build.make(self._scratch.tree, objects, "olddefconfig"), log, what)
        final = kconfig.parse((objects / ".config").read_text())
        wanted = wanted_options(self._wanted, self._added, self._defined(), off)
        if missing := kconfig.vanished(wanted, final):
            raise HarnessError(f"{what}: requested options vanished: {', '.join(missing)}")
