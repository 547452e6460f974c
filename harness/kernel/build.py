"""The kernel, its modules and headers, built out of tree from the patched tree.

One object directory per configuration stays in the cache. All clones share the results, without
it, and out/ receives a copy.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core import jsonio, process, space, store, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian, kconfig, source
from harness.kernel import tree as patches
from harness.kernel.arch import ARM64, X86_64, Architecture
from harness.kernel.tree import Tree


@dataclass(frozen=True)
class Config:
    """A kernel that can be built: its fragments, in the order in which they apply.

    They go on top of tinyconfig, or with `debian` on top of Debian's configuration, or the one
    that KCONFIG names, cut down to the modules that are listed in the file LSMOD. `only` names
    the few steps or series of the stack in it (None for all), `edit` a patch in kernel/configs
    on top of these. The objects of a first build start as a copy of those of the configuration
    `seed`, whose headers are mostly the same. `variables` are make's.
    """

    fragments: tuple[str, ...]
    only: tuple[str, ...] | None = None
    edit: str = ""
    seed: str = ""
    architecture: Architecture = X86_64
    debian: bool = False
    variables: tuple[str, ...] = ()


_COMMON = ("base.config",)
_BASE = (*_COMMON, "lab.config")
_PROGRAMS = (*_BASE, "programs.config")
_HEART = ("memfd-pin", "copy-offload")

# Directories in whose objects KASAN checks each access: those that the series touches, and what
# maps for DMA. In all the others as well it takes 1.4 times as long to compile and to run, and
# what it finds there is seldom ours: the object that was freed too early is used here, too.
_WATCHED = (
    "mm", "mm/damon", "mm/tests", "fs", "fs/hugetlbfs", "fs/proc", "arch/x86/lib",
    "drivers/base", "drivers/dma%", "drivers/iommu%", "drivers/migrate_offload%",
    "kernel/dma", "samples/migrate_offload",
)  # fmt: skip
_KASAN = f"KASAN_SANITIZE=$(if $(filter {' '.join(_WATCHED)},$(obj)),y,n)"

CONFIGS = {
    "base": Config(_BASE),
    "debug": Config((*_COMMON, "debug.config"), variables=(_KASAN,)),
    "arm64": Config((*_COMMON, "arm64.config"), architecture=ARM64),
    # what Debian's user space boots on, and what Debian's kernel would be with ours
    "systemd": Config((*_BASE, "systemd.config"), seed="base"),
    "debian": Config(("debian.config",), debian=True),
    # what `make image` boots on servers and laptops
    "image": Config((*_PROGRAMS, "image.config"), seed="base"),
    # what base is compared with: nothing of ours, and only the instrument
    "lab-vanilla": Config(_BASE, only=(), seed="base"),
    "lab-traced": Config(
        _BASE, only=("mm-migrate-trace-phases", "mm-migrate-latency"), seed="lab-vanilla"
    ),
    # the heart alone: batches that a migrator copies, on Linux with the fix that they need
    "heart": Config(_BASE, only=_HEART, seed="base"),
    # the same as it was published: large batches, whole folios
    "lab-heart": Config(_BASE, only=_HEART, edit="lab-heart.patch", seed="base"),
    # and ours with the feature compiled out
    "lab-without": Config((*_BASE, "without.config"), seed="base"),
    # the end of one series after the other (harness/series/ends.py), which picks its patches
    "series": Config(_BASE, only=(), seed="base"),
    # base and vanilla, for programs of Debian
    "programs": Config(_PROGRAMS, seed="base"),
    "programs-vanilla": Config(_PROGRAMS, only=(), seed="lab-vanilla"),
}

# Ends the name of a configuration whose objects are a copy, for a tree with one defect more.
MUTANT = "-mutant"

_OBJECTS = 1300  # of a whole build, about, but for Debian's configuration
# Free space without which a build is not begun; the debug kernel takes most of it.
_OBJECTS_GB = 2.0

_KERNEL_SOURCES = r"^(?!Documentation/|tools/(testing|mm)/)"

_RELEASE = "include/config/kernel.release"
# Of objects, what kbuild wants for a module outside the tree. It writes nothing there.
_FOR_MODULES = (
    ".config", "Module.symvers", "include/config/auto.conf", _RELEASE,
    "include/generated/**/*", "arch/*/include/generated/**/*", "scripts/**/*",
    "tools/objtool/objtool",
)  # fmt: skip
_FEW = "build"  # where they are
_LEFT_OUT = (".cmd", ".o", ".a")

_OBJECT_LINE = re.compile(r"^  (?:CC|AS|CC \[M\]|AS \[M\]) +(\S+)$")

# Anything that varies from run to run would make every rebuild relink and reinstall.
_SEED = ".seed"  # in a directory of objects: which ones they started from
_STAMPS = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "harness",
    "KBUILD_BUILD_HOST": "localhost",
    "KBUILD_BUILD_VERSION": "1",
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel; `key` names everything that it was built from, `tree` has its sources."""

    config: str
    release: str
    key: str
    tree: Path
    out: Path
    architecture: Architecture = X86_64

    @property
    def objects(self) -> Path:
        """The little of an object directory that modules need to be built."""
        return self.out / _FEW

    @property
    def image(self) -> Path:
        """The file that QEMU boots."""
        return self.out / Path(self.architecture.image).name

    @property
    def modules(self) -> Path:
        """The directory that holds lib/modules/<release>."""
        return self.out / "modules"


def jobs() -> int:
    """Return how many compile jobs to run: JOBS, or all processors that we may use."""
    wanted = os.environ.get("JOBS", "") or str(len(os.sched_getaffinity(0)))
    if not wanted.isdigit() or int(wanted) < 1:
        raise HarnessError(f"JOBS={wanted} is not a number of jobs")
    return int(wanted)


def make(
    tree: Path, objects: Path, *targets: str, architecture: Architecture = X86_64
) -> list[str]:
    """Return the command that builds targets of a kernel tree out of tree."""
    return ["make", "-C", str(tree), f"O={objects}", f"-j{jobs()}",
            *architecture.make_variables, *targets]  # fmt: skip


def tree(paths: Paths, config: str) -> Tree:
    """Return the patched tree that a configuration is built from."""
    known = _known(config)
    return patches.get(paths, source.get(paths), _tree_name(config), known.only, known.edit)


def _tree_name(config: str) -> str:
    return patches.ALL if _known(config).only is None else f"tree-{config}"


def _known(config: str) -> Config:
    plain = config.removesuffix(MUTANT)
    if plain not in CONFIGS:
        raise HarnessError(f"no configuration '{config}': there are {', '.join(CONFIGS)}")
    return CONFIGS[config] if plain == config else replace(CONFIGS[plain], seed=plain)


def architecture_of(config: str) -> Architecture:
    """Return what a configuration is built for."""
    return _known(config).architecture


def object_dir(tree: Tree, config: str) -> Path:
    """Return where the objects of a configuration live."""
    return tree.source.home / f"build-{config}"


def fragments(paths: Paths, config: str) -> str:
    """Return the text of a configuration's fragments, in the order in which they apply."""
    return "".join((paths.configs / name).read_text() for name in _known(config).fragments)


def run(
    paths: Paths, tree: Tree, config: str, *targets: str,
    on_line: Callable[[str], None] | None = None, env: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Build targets of a configuration, with a log that is named after the first.

    Return what make said.
    """
    known, objects = _known(config), object_dir(tree, config)
    words = (*known.variables, *targets)
    command = make(tree.path, objects, *words, architecture=known.architecture)
    log = paths.logs / f"{Path(targets[0]).name}-{config}.log"
    stamps = {**_STAMPS, **(env or {})}
    return process.run_logged(command, log, f"kernel {config}", env=stamps, on_line=on_line)


def configure(
    paths: Paths, tree: Tree, config: str, wishes: Mapping[str, str] = os.environ
) -> Path:
    """Write the object directory's .config, and fail if a requested option vanished.

    `wishes` may have KCONFIG and LSMOD, for a configuration that starts from a distribution's.
    """
    objects = object_dir(tree, config)
    text = fragments(paths, config)
    architecture = _known(config).architecture
    stamp, final = objects / ".config.key", objects / ".config"
    with ui.step(f"configure {config}") as step:
        start = _distribution(paths, wishes, step) if _known(config).debian else ()
        key = jsonio.digest(tree.subset_key(r"(^|/)Kconfig"), compiler(architecture), text, *start)
        reused = stamp.exists() and stamp.read_text() == key and final.exists()
        if not reused:
            stamp.unlink(missing_ok=True)
            objects.mkdir(parents=True, exist_ok=True)
            if start:
                _start(paths, tree, config, *start)
            else:
                run(paths, tree, config, "tinyconfig")
            with final.open("a") as stream:
                stream.write(text)  # of an option that is there twice the last line counts
            run(paths, tree, config, "olddefconfig")
            wanted = kconfig.parse(text)
            wanted = {name: value for name, value in wanted.items() if name not in tree.absent}
            kconfig.check(wanted, final, f"configuration {config}")
            jsonio.write_text(stamp, key)
        count = sum(value != "n" for value in kconfig.parse(final.read_text()).values())
        step.done(f"{count} options on", reused=reused)
    return objects


def _distribution(paths: Paths, wishes: Mapping[str, str], step: ui.Step) -> tuple[str, str]:
    """Return the configuration of Debian's kernel, and the modules to keep, or ''."""
    modules = wishes.get("LSMOD", "")
    try:
        listed = Path(modules).read_text() if modules else ""
    except (OSError, UnicodeError) as error:
        raise HarnessError(f"LSMOD={modules}: {error}") from error
    if modules and not listed.startswith("Module "):
        raise HarnessError(f"LSMOD={modules} is not what lsmod prints")
    return source.configuration(paths, wishes.get("KCONFIG", ""), step), listed


def _start(paths: Paths, tree: Tree, config: str, start: str, modules: str) -> None:
    """Write the .config that the fragments go on top of."""
    final = object_dir(tree, config) / ".config"
    final.write_text(start)
    run(paths, tree, config, "olddefconfig")  # localmodconfig would ask about what is new
    if modules:
        listing, lost, full = final.parent / "lsmod", final.parent / "left-out", final.read_text()
        listing.write_text(modules)
        run(paths, tree, config, "localmodconfig", env={"LSMOD": str(listing)})
        gone = set(re.findall(r".*=m\n", full)) - set(re.findall(r".*=m\n", final.read_text()))
        lost.write_text("".join(sorted(gone)))
        ui.say(f"LSMOD= leaves out {len(gone)} modules, all that were not loaded then: see {lost}")


def copy_objects(origin: Path, target: Path, moves: Mapping[Path, Path]) -> None:
    """Copy an object directory for use with another source tree.

    `moves` maps the directories that its commands name to those that take their place.
    """
    shutil.rmtree(target, ignore_errors=True)
    process.capture(["cp", "-a", str(origin), str(target)])
    edits = [
        f"s,{re.escape(str(old))}($|[^[:alnum:]_.+-]),{new}\\1,g"
        for old, new in {origin: target, **moves}.items()
    ]
    sed = ["sed", "-E", "-i", *(word for edit in edits for word in ("-e", edit))]
    process.capture(["find", str(target), "-name", ".*.cmd", "-exec", *sed, "{}", "+"])


def has_objects(tree: Tree, config: str) -> bool:
    """Tell whether a configuration has been compiled in this clone."""
    return (object_dir(tree, config) / "vmlinux.o").exists()


def forget(tree: Tree, config: str) -> None:
    """Throw away the objects of a configuration that starts from another one's."""
    (object_dir(tree, config) / _SEED).unlink(missing_ok=True)


def seed(tree: Tree, config: str) -> None:
    """Start from the objects of another configuration, if there are any.

    make goes by modification times: files that are not the same in both trees are rewritten,
    and the others get the same time. A link to a pristine file has not changed.
    """
    first = _known(config).seed
    if not first or not has_objects(tree, first):
        return
    origin = object_dir(tree, first)
    objects = object_dir(tree, config)
    stamp = objects / _SEED
    # A configuration that has changed reaches nearly every object: a copy is less work.
    key = jsonio.digest((origin / ".config").read_text())
    if stamp.exists() and stamp.read_text() == key:
        return
    with ui.step(f"objects of {config}") as step:
        built_from = tree.source.home / _tree_name(first)
        copies = ["find", str(built_from), "-type", "f", "-links", "1", "-printf", "%P\\n"]
        for name in {*process.capture(copies).splitlines(), *tree.files}:
            path, other = tree.path / name, built_from / name
            if path != other and path.exists():
                patches.replace(path, path)
                if other.exists() and path.read_bytes() == other.read_bytes():
                    shutil.copystat(other, path)
        ours = [objects / name for name in (".config", ".config.key")]
        texts = {path: path.read_text() for path in ours if path.exists()}
        copy_objects(origin, objects, {built_from: tree.path})
        for path, text in texts.items():
            path.write_text(text)
        jsonio.write_text(stamp, key)
        step.done(f"copied from {origin}")


def compiler(architecture: Architecture = X86_64) -> str:
    """Return the compiler's name and version."""
    return process.capture([architecture.compiler, "--version"]).splitlines()[0]


def get(paths: Paths, tree: Tree, config: str, *, objects: bool = False) -> Kernel:
    """Return the kernel of a configuration, built if anything that it depends on changed.

    With `objects` its object directory is whole, even if another clone has built the kernel.
    """
    final = configure(paths, tree, config) / ".config"
    out = paths.out / ("kernel" if config == "base" else f"kernel-{config}")
    known = _known(config)
    words = (compiler(known.architecture), *known.variables, final.read_text())
    key = jsonio.digest(tree.subset_key(_KERNEL_SOURCES), *words)[:16]
    # Scripts for modules are programs of the host.
    name = f"kernel-{config}-{key}-{debian.codename()}"
    with ui.step(f"kernel {config}") as step:
        compiled = None

        def compile_all() -> None:
            nonlocal compiled
            seed(tree, config)
            compiled = _compile(paths, tree, config, step)

        def fill(fresh: Path) -> None:
            compile_all()
            _install(paths, tree, config, fresh)

        if config.endswith(MUTANT):  # no other clone wants it
            store.renew(out, name, fill)
        else:
            store.copy(paths, name, out, fill)
        if objects and compiled is None:
            compile_all()
        release = (out / _FEW / _RELEASE).read_text().strip()
        counted = "" if compiled is None else f", {compiled} objects compiled"
        step.done(f"{release} in {out}{counted}", reused=compiled is None)
    return Kernel(config, release, key, tree.path, out, known.architecture)


def _compile(paths: Paths, tree: Tree, config: str, step: ui.Step) -> int:
    """Build the image and the modules; return how many objects were compiled."""
    objects = object_dir(tree, config)
    space.need(objects, _OBJECTS_GB, f"kernel {config}")
    of = "" if has_objects(tree, config) or _known(config).debian else f" of about {_OBJECTS}"
    compiled = 0

    def watch(line: str) -> None:
        nonlocal compiled
        if match := _OBJECT_LINE.match(line):
            compiled += 1
            step.progress(f"{compiled} objects{of}, {match[1]}")

    image = Path(_known(config).architecture.image).name
    run(paths, tree, config, image, "modules", on_line=watch)
    return compiled


def _install(paths: Paths, tree: Tree, config: str, fresh: Path) -> None:
    """Copy the results to an empty directory."""
    objects, image = object_dir(tree, config), _known(config).architecture.image
    run(paths, tree, config, "modules_install", f"INSTALL_MOD_PATH={fresh}/modules")
    for link in ("build", "source"):
        for path in (fresh / "modules/lib/modules").glob(f"*/{link}"):
            path.unlink()
    shutil.copyfile(objects / image, fresh / Path(image).name)
    shutil.copyfile(objects / "System.map", fresh / "System.map")
    shutil.copyfile(objects / ".config", fresh / "config")
    for pattern in _FOR_MODULES:
        for path in objects.glob(pattern):
            if path.is_file() and path.suffix not in _LEFT_OUT:
                copy = fresh / _FEW / path.relative_to(objects)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
