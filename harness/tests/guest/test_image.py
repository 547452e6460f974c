"""The initramfs: a cpio that cpio(1) reads, and the libraries that ldd names."""

import stat
import subprocess
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.guest import image
from harness.guest.image import Entry

READELF = """\
  INTERP         0x0238 0x0238 0x0238 0x01b 0x01b R   0x1
      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libext2fs.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000e (SONAME)             Library soname: [libx.so.1]
"""
DATA = Path(__file__).parent.parent / "data"


def test_cpio_reads_what_we_write(tmp_path: Path) -> None:
    archive = image.newc([
        Entry("bin", stat.S_IFDIR | 0o755),
        Entry("bin/tool", stat.S_IFREG | 0o755, b"#!/bin/sh\n"),
        Entry("bin/sh", stat.S_IFLNK | 0o777, b"tool"),
        Entry("empty", stat.S_IFREG | 0o644),
    ])  # fmt: skip
    subprocess.run(
        ["cpio", "--quiet", "-id"], cwd=tmp_path, input=archive, check=True, capture_output=True
    )
    assert (tmp_path / "bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "bin/sh").readlink() == Path("tool")
    assert (tmp_path / "empty").read_bytes() == b""


def test_the_same_entries_give_the_same_bytes() -> None:
    entries = [Entry("dev/null", stat.S_IFCHR | 0o666, major=1, minor=3)]
    assert image.newc(entries) == image.newc(entries)
    assert image.newc(entries) != image.newc([])


def test_libraries_are_files_and_not_the_vdso() -> None:
    assert image.libraries((DATA / "ldd.txt").read_text()) == [
        "/lib/x86_64-linux-gnu/libnuma.so.1",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ]


def test_a_foreign_program_names_its_loader_and_its_libraries() -> None:
    assert image.needed(READELF) == [
        "/lib/ld-linux-aarch64.so.1",
        "libext2fs.so.2",
        "libc.so.6",
    ]


def test_foreign_libraries_are_followed_and_found_in_either_layout(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/aarch64-linux-gnu"
    library.mkdir(parents=True)
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/tool").write_text("(NEEDED) Shared library: [liba.so.1]")
    (library / "liba.so.1").write_text("(NEEDED) Shared library: [libb.so.2]")
    (library / "libb.so.2").write_text("nothing")
    readelf = tmp_path / "readelf"
    readelf.write_text('#!/bin/sh\ncat "$2"\n')
    readelf.chmod(0o755)
    userland = image.Userland(tmp_path, str(readelf))
    assert userland.libraries([userland.program("tool")]) == {
        "/lib/liba.so.1": library / "liba.so.1",
        "/lib/libb.so.2": library / "libb.so.2",
    }
    with pytest.raises(HarnessError, match="has no program fsck"):
        userland.program("fsck")
    (library / "libb.so.2").unlink()
    with pytest.raises(HarnessError, match=r"has no library libb\.so\.2"):
        userland.libraries([userland.program("tool")])
