"""The initramfs: busybox, the guest directory, modules and test programs in one cpio.

Uncompressed, since unpacking a compressed one under TCG takes longer than loading it. The
kernel's own initramfs, which is unpacked first, brings /dev/console.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian
from harness.kernel.build import Kernel

Members = dict[str, tuple[int, bytes]]
"""Of an archive, by name: the mode, and a file's content or a link's target."""

_DIRECTORY = stat.S_IFDIR | 0o755
_DIRECTORIES = ("dev", "proc", "sys", "tmp", "run", "mnt", "root", "etc")
_PROGRAMS = ("usr/sbin", "sbin", "usr/bin", "bin", "")
_UNWINDER = "libgcc_s.so.1"  # named by no program: pthread_cancel() and pthread_exit() load it
_OF_KMOD = re.compile(r"modules\.(.*\.bin|weakdep)")  # busybox reads none, and hosts' differ
_NEEDED = re.compile(r"(?:program interpreter: |\(NEEDED\) .*\[)(\S+)\]")


def newc(members: Members) -> bytes:
    """Return a cpio archive in the format `newc`, with all directories above its members."""
    above = {str(parent) for name in members for parent in PurePosixPath(name).parents[:-1]}
    members = dict.fromkeys(above, (_DIRECTORY, b"")) | members
    archive = bytearray()
    entries = [*sorted(members.items()), ("TRAILER!!!", (0, b""))]
    for inode, (name, (mode, data)) in enumerate(entries, 1):
        path = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, two devices of two numbers, name, checksum
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + path, data):
            archive += part + b"\0" * (-len(part) % 4)
    return bytes(archive)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a cpio archive of files, programs or not, which an image can be followed by."""
    return newc({name: (stat.S_IFREG | 0o755, data) for name, data in files.items()})


def _first(root: Path, directories: Iterable[str], name: str, what: str) -> Path:
    for directory in directories:
        if (path := root / directory / name).exists():
            return path
    raise HarnessError(f"{root} has no {what} {name}")


def program(root: Path, name: str) -> Path:
    """Return the file of a program below `root`, by its name or with its directory."""
    return _first(root, _PROGRAMS, name, "program")


def libraries(root: Path, tools: str, programs: Iterable[Path]) -> dict[str, Path]:
    """Return every library and loader that programs need, by its path in the guest.

    They are below `root`; `tools` is the prefix of the architecture's binary utilities.
    """
    triple = tools.removesuffix("-") or "x86_64-linux-gnu"
    homes = (f"lib/{triple}", f"usr/lib/{triple}")
    by_name: dict[str, Path] = {}
    fresh, names = list(programs), [_UNWINDER]
    while fresh:
        output = process.capture([f"{tools}readelf", "-dlW", *map(str, fresh)])
        names += _NEEDED.findall(output)
        missing = [name for name in names if name not in by_name]
        new = {name: _first(root, homes, Path(name).name, "library") for name in missing}
        by_name |= new
        fresh, names = list(new.values()), []
    # The loader is looked for where the program says, a library in two places.
    return {str(PurePosixPath("/lib") / name): path for name, path in by_name.items()}


def programs(
    root: Path, names: Iterable[str], below: str, others: Iterable[str] = ()
) -> dict[str, bytes]:
    """Return programs of a tree of Debian's, with their own libraries, in a directory.

    `others` are patterns of other files that they need.
    """
    binaries = [program(root, name) for name in names]
    files = [path for pattern in others for path in root.glob(pattern) if path.is_file()]
    by_path = {f"/{path.relative_to(root)}": path for path in (*binaries, *files)}
    by_path |= libraries(root, "", binaries)
    return {f"{below}{name}": path.read_bytes() for name, path in by_path.items()}


def path(kernel: Kernel) -> Path:
    """Return where the initramfs of a kernel is."""
    return kernel.out / "initramfs.cpio"


def build(paths: Paths, kernel: Kernel, programs: Mapping[str, Path]) -> None:
    """Write the initramfs of a kernel, with programs of Debian's for its architecture."""
    architecture = kernel.architecture
    if architecture.native:
        host = root = debian.home(paths)
    else:
        host, root = Path("/"), debian.userland(paths, architecture.debian)
    members: Members = dict.fromkeys(_DIRECTORIES, (_DIRECTORY, b""))

    def link(name: str, target: str) -> None:
        members[name] = (stat.S_IFLNK | 0o777, target.encode())

    def add(name: str, origin: Path) -> None:
        mode = 0o755 if os.access(origin, os.X_OK) else 0o644
        members[name] = (stat.S_IFREG | mode, origin.read_bytes())

    with ui.step(f"image {kernel.config}") as step:
        # A release has the same applets on every architecture.
        busybox = program(host, "busybox")
        for applet in process.capture([str(busybox), "--list-full"]).split():
            link(applet, "/bin/busybox")
        link("bin/sh", "/bin/busybox")
        link("sbin/fsck.ext4", "/sbin/e2fsck")
        add("bin/busybox", program(root, "busybox"))
        add("sbin/e2fsck", program(root, "e2fsck.static"))
        add("sbin/mkfs.ext4", mkfs := program(root, "mkfs.ext4"))
        add("usr/sbin/migrate-offload-report", paths.root / "deb/migrate-offload-report")
        dynamic = [mkfs]
        trees = [("", paths.guest), ("", kernel.modules), *programs.items()]
        for name, directory in trees:
            for origin in filter(Path.is_file, directory.rglob("*")):
                if _OF_KMOD.fullmatch(origin.name):
                    continue
                add(target := f"{name}/{origin.relative_to(directory)}".lstrip("/"), origin)
                if name and members[target][1].startswith(b"\x7fELF"):
                    dynamic.append(origin)
        for name, origin in libraries(root, architecture.tools, dynamic).items():
            add(name.lstrip("/"), origin)
        data = newc(members)
        fresh = path(kernel).with_suffix(".new")
        fresh.write_bytes(data)
        fresh.replace(path(kernel))  # a guest may be reading the one before
        step.done(f"{path(kernel)}, {len(data) / 1e6:.0f} MB")
