"""The initramfs: a cpio that cpio(1) reads, and the libraries that ldd names."""

import stat
import subprocess
from pathlib import Path

from harness import image
from harness.image import Entry

DATA = Path(__file__).parent / "data"


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
