"""The QEMU of our guests: Debian 13's source package, cut down to what they use, with qemu/.

It is the same on Debian 12 and 13. Source and objects stay in <cache>/qemu/<key>, and a change
in qemu/ compiles what changed; all clones share the programs, and out/qemu has copies of them.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from harness.core import jsonio, process, space, store, ui
from harness.core.paths import Paths
from harness.kernel import build, debian, topics
from harness.kernel.arch import PC, X86_64

SERIES = "10.0"
SUITE = "trixie"

ARCHITECTURES = ("x86_64", "aarch64")
PROGRAMS = tuple(f"qemu-system-{architecture}" for architecture in ARCHITECTURES)

_OPTIONS = (
    "--without-default-features", "--without-default-devices", "--disable-download",
    "--target-list=" + ",".join(f"{name}-softmmu" for name in ARCHITECTURES),
    *(f"--with-devices-{name}=migrate" for name in ARCHITECTURES),
    "--enable-system", "--enable-tcg", "--enable-pixman", "--enable-fdt=system",
    "--disable-install-blobs", "--disable-debug-info", "--disable-werror",
)  # fmt: skip
# Of Debian, the same release on all hosts: a PC's firmware, and what loads a kernel. Figures of
# the laboratory depend on the tick at which it starts.
_ROMS = ("seabios/bios-256k.bin", "qemu/kvmvapic.bin", "qemu/linuxboot_dma.bin")
_GB = 1.5

_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")


def programs(paths: Paths) -> Path:
    """Return where get() puts QEMU's programs."""
    return paths.out / "qemu/bin"


def version(paths: Paths) -> str:
    """Return what the emulator of guests says that it is."""
    return process.capture([str(programs(paths) / PC.qemu), "--version"]).splitlines()[0]


def get(paths: Paths, wanted: Iterable[str] = PROGRAMS) -> Path:
    """Build some of QEMU's programs, if anything that they depend on changed.

    Return where they are. Guests may be running with those that need not be built.
    """
    ours = paths.root / "qemu"
    fixed = [ours / f"{name}.mak" for name in ARCHITECTURES]
    devices = sorted({*ours.glob("*.[ch]"), ours / "meson.build"})
    patches = sorted(ours.glob("*.patch"))
    out = paths.out / "qemu"
    record = out / "build.json"
    with ui.step("qemu") as step:
        tarball = debian.download(
            paths, "qemu", SUITE, f"qemu_{SERIES}.*.orig.tar.xz", step, source=True
        )
        version = tarball.name.removeprefix("qemu_").removesuffix(".orig.tar.xz")
        words = [version, build.compiler(), *_OPTIONS]
        home = paths.cache / "qemu" / f"{version}-{_key(fixed, words)}"
        key = _key([*patches, *devices], [home.name])
        text = f"QEMU {version} in {out}"
        built = jsonio.recall(dict[str, str], record) or {}
        there = {program for program in PROGRAMS if built.get(program) == key}
        missing = sorted(set(wanted) - there)
        if not missing:
            step.done(text, reused=True)
            return programs(paths)

        def watch(line: str) -> None:
            if match := _STEP.match(line):
                step.progress(f"{match[1]} of {match[2]} steps, {match[3]}")

        def fill(program: str, fresh: Path) -> None:
            if not (home / "source").exists():
                _unpack(paths, tarball, home, ours)
            _patch(paths, home, patches)
            migrate = f"{home}/source/hw/misc/migrate/"
            process.capture(["rsync", "-rc", "--delete", *map(str, devices), migrate])
            objects = home / "objects"
            if not (objects / "build.ninja").exists():
                step.progress("configure")
                shutil.rmtree(objects, ignore_errors=True)
                objects.mkdir()
                # The compiler is the host's, as its libraries are.
                compiler = (f"--python={sys.executable}", f"--cc=/usr/bin/{X86_64.compiler}")
                configure = [str(home / "source/configure"), *compiler, *_OPTIONS]
                log = paths.logs / "qemu-configure.log"
                process.run_logged(configure, log, "configuring QEMU", cwd=objects)
            ninja, log = ["ninja", f"-j{build.jobs()}", program], paths.logs / "qemu-build.log"
            process.run_logged(ninja, log, "building QEMU", cwd=objects, on_line=watch)
            shutil.copy2(objects / program, fresh)

        # They are linked with libraries of the host.
        names = {program: f"{program}-{key}-{debian.codename()}" for program in missing}
        known = all(store.find(paths, name) for name in names.values())
        binaries = [
            store.get(paths, name, partial(fill, program)) / program
            for program, name in names.items()
        ]
        if not there:
            shutil.rmtree(out, ignore_errors=True)
            for directory in ("bin", "share/qemu"):  # programs look for roms in ../share/qemu
                (out / directory).mkdir(parents=True)
            for rom in map((debian.home(paths) / "usr/share").joinpath, _ROMS):
                shutil.copy2(rom, out / "share/qemu")
        for program in binaries:
            shutil.copy2(program, out / "bin")
        jsonio.write(record, dict.fromkeys((*there, *missing), key))
        step.done(text, reused=known)
    return programs(paths)


def _key(files: list[Path], words: list[str]) -> str:
    parts = [*words, *(f"{path.name}\0{path.read_text()}" for path in files)]
    return jsonio.digest(*parts)[:12]


def _unpack(paths: Paths, tarball: Path, home: Path, ours: Path) -> None:
    """Unpack the source, which appears only when it is whole."""
    space.need(home, _GB, "building QEMU")
    fresh = home / "source.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    tar = ["tar", "-xJf", str(tarball), "-C", str(fresh), "--strip-components=1"]
    process.run_logged(tar, paths.logs / "qemu-source.log", f"cannot unpack {tarball}")
    for name in ARCHITECTURES:
        devices = fresh / f"configs/devices/{name}-softmmu/migrate.mak"
        shutil.copyfile(ours / f"{name}.mak", devices)
    fresh.rename(home / "source")


def _patch(paths: Paths, home: Path, patches: list[Path]) -> None:
    """Patch the source; a file whose content is right keeps its time, for ninja."""
    source, pristine, record = home / "source", home / "pristine", home / "patched.json"
    before = set(jsonio.recall(list[str], record) or [])
    touched = {name for patch in patches for name in topics.touched_paths(patch.read_text())}
    for name in touched - before:
        _copy(source / name, pristine / name)
    jsonio.write(record, sorted(before | touched))  # until all are what the patches say
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        fresh = Path(scratch)
        for name in before | touched:
            _copy(pristine / name, fresh / name)
        for patch in patches:
            command, log = ["patch", "-p1", "-F0", "-i", str(patch)], paths.logs / "qemu-source.log"
            what = f"qemu/{patch.name} does not apply to {home.name}"
            process.run_logged(command, log, what, cwd=fresh)
        process.capture(["rsync", "-rc", f"{fresh}/", f"{source}/"])
        for name in before | touched:
            if not (fresh / name).exists():
                (source / name).unlink(missing_ok=True)
    jsonio.write(record, sorted(touched))


def _copy(origin: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if origin.exists():
        shutil.copy(origin, target)
