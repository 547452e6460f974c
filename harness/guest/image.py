"""The initramfs: busybox, the guest directory, modules and test programs in one cpio.

Uncompressed, since unpacking a compressed one under TCG takes longer than loading it.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian
from harness.kernel.arch import Architecture
from harness.kernel.build import Kernel
from harness.kernel.programs import Programs

_DIRECTORIES = ("dev", "proc", "sys", "tmp", "run", "mnt", "root", "etc")
_NODES = (("dev/console", 5, 1),)  # for init's own output; it mounts a devtmpfs first
_SEARCHED = ("usr/sbin", "sbin", "usr/bin", "bin")
_NEEDED = re.compile(r"\(NEEDED\) .*\[(\S+)\]")
_INTERPRETER = re.compile(r"Requesting program interpreter: (\S+)\]")
_LDD_PATH = re.compile(r"(?:=> )?(/\S+) \(0x")


@dataclass(frozen=True)
class Entry:
    """One member of the archive: a file's content, a link's target, or a device."""

    name: str
    mode: int
    data: bytes = b""
    major: int = 0
    minor: int = 0


def newc(entries: list[Entry]) -> bytes:
    """Return a cpio archive in the format `newc`, the same bytes for the same entries."""
    chunks = []
    for number, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], 1):
        name = entry.name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device, special device, name, checksum
        fields = (number, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, entry.major,
                  entry.minor, len(name), 0)  # fmt: skip
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        chunks.append(_padded(header + name))
        chunks.append(_padded(entry.data))
    return b"".join(chunks)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a cpio archive of plain files, which an image can be followed by."""
    return newc([Entry(name, stat.S_IFREG | 0o644, data) for name, data in files.items()])


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def libraries(ldd: str) -> list[str]:
    """Return the files that a program needs, from the output of ldd."""
    return _LDD_PATH.findall(ldd)


class _Archive:
    """Collects entries by name, with the directories above them."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def directory(self, name: str) -> None:
        for parent in [*reversed(PurePosixPath(name).parents), PurePosixPath(name)]:
            if str(parent) != ".":
                self._entries.setdefault(str(parent), Entry(str(parent), stat.S_IFDIR | 0o755))

    def add(self, entry: Entry) -> None:
        self.directory(str(PurePosixPath(entry.name).parent))
        self._entries[entry.name] = entry

    def file(self, name: str, origin: Path) -> None:
        mode = 0o755 if os.access(origin, os.X_OK) else 0o644
        self.add(Entry(name, stat.S_IFREG | mode, origin.read_bytes()))

    def link(self, name: str, target: str) -> None:
        if name not in self._entries:
            self.add(Entry(name, stat.S_IFLNK | 0o777, target.encode()))

    def bytes(self) -> bytes:
        return newc([self._entries[name] for name in sorted(self._entries)])


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(directory)), path


def _host_program(name: str) -> Path:
    found = shutil.which(
        name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"
    )
    if not found:
        raise HarnessError(f"{name} is not installed")
    return Path(found)


@dataclass(frozen=True)
class Userland:
    """Where a guest's programs come from that are not ours, and what they need to run.

    `root` is a directory of unpacked packages for another architecture, or None: the host.
    `readelf` is the program that understands its files.
    """

    root: Path | None = None
    readelf: str = "readelf"

    def program(self, name: str) -> Path:
        """Return the file of a program."""
        if self.root is None:
            return _host_program(name)
        for directory in _SEARCHED:
            path = self.root / directory / name
            if path.exists():
                return path
        raise HarnessError(f"{self.root} has no program {name}")

    def libraries(self, programs: list[Path]) -> dict[str, Path]:
        """Return every library and loader that the programs name, by its path in the guest."""
        if self.root is None:
            return {library: Path(library) for library in _closure(programs)}
        found: dict[str, Path] = {}
        waiting = list(programs)
        while waiting:
            for name in needed(process.capture([self.readelf, "-dlW", str(waiting.pop())])):
                path = self._library(Path(name).name)
                # The loader is looked for where the program says, a library in two places.
                where = name if name.startswith("/") else f"/lib/{name}"
                if where not in found:
                    found[where] = path
                    waiting.append(path)
        return found

    def _library(self, name: str) -> Path:
        assert self.root is not None
        for directory in ("lib", "usr/lib"):
            for path in sorted((self.root / directory).glob(f"*-linux-gnu/{name}")):
                return path
        raise HarnessError(f"{self.root} has no library {name}")


def needed(readelf: str) -> list[str]:
    """Return the loader and the libraries that a file names, from the output of readelf."""
    return [*_INTERPRETER.findall(readelf), *_NEEDED.findall(readelf)]


def _is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _userland(paths: Paths, architecture: Architecture) -> Userland:
    if architecture.native:
        return Userland()
    root = debian.userland(paths, architecture.debian)
    return Userland(root, f"{architecture.tools}readelf")


def build(paths: Paths, kernel: Kernel, programs: Programs) -> Path:
    """Write the initramfs of a kernel, and return its path."""
    target = kernel.out / "initramfs.cpio"
    userland = _userland(paths, kernel.architecture)
    with ui.step(f"image {kernel.config}") as step:
        contents = _Archive()
        for name in _DIRECTORIES:
            contents.directory(name)
        for name, major, minor in _NODES:
            contents.add(Entry(name, stat.S_IFCHR | 0o600, major=major, minor=minor))

        contents.file("bin/busybox", userland.program("busybox"))
        # A release has the same applets on every architecture.
        for applet in process.capture([str(_host_program("busybox")), "--list-full"]).split():
            contents.link(applet, "/bin/busybox")
        contents.link("bin/sh", "/bin/busybox")

        dynamic = [userland.program("mkfs.ext4")]
        contents.file("sbin/mkfs.ext4", dynamic[0])
        contents.file("sbin/e2fsck", userland.program("e2fsck.static"))
        contents.link("sbin/fsck.ext4", "/sbin/e2fsck")
        for name, path in _files(paths.guest):
            contents.file(name, path)
        for name, path in _files(kernel.modules):
            contents.file(name, path)
        for name, directory in programs.directories.items():
            for relative, path in _files(directory):
                contents.file(f"{name}/{relative}", path)
                if _is_elf(path):
                    dynamic.append(path)
        for name, path in userland.libraries(dynamic).items():
            contents.file(name.lstrip("/"), path)

        data = contents.bytes()
        text = f"{target}, {len(data) / 1e6:.0f} MB"
        if target.exists() and target.read_bytes() == data:
            step.reused(text)
        else:
            target.write_bytes(data)
            step.done(text)
    return target


def _closure(programs: list[Path]) -> list[str]:
    """Return every library and loader that the programs name; ldd follows them itself."""
    found: set[str] = set()
    for program in programs:
        if b"/ld-linux" in program.read_bytes()[:4096]:  # its interpreter: not static
            found.update(libraries(process.capture(["ldd", str(program)])))
    # No program names it: pthread_cancel() and pthread_exit() load it when they are called.
    unwinder = Path(process.capture(["gcc", "-print-file-name=libgcc_s.so.1"]).strip())
    if not unwinder.is_absolute():
        raise HarnessError("gcc does not know where libgcc_s.so.1 is")
    found.add(str(unwinder.resolve()))
    return sorted(found)
