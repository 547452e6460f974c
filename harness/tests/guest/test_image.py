"""The initramfs: a cpio that cpio(1) reads, and the libraries that programs name."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.guest import image


def test_cpio_reads_what_we_write(tmp_path: Path) -> None:
    archive = image.newc({
        "usr/bin/tool": (stat.S_IFREG | 0o755, b"#!/bin/sh\n"),
        "usr/bin/sh": (stat.S_IFLNK | 0o777, b"tool"),
        "empty": (stat.S_IFREG | 0o644, b""),
    })  # fmt: skip
    subprocess.run(
        ["cpio", "--quiet", "-i"], cwd=tmp_path, input=archive, check=True, capture_output=True
    )
    assert (tmp_path / "usr/bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "usr/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr/bin/sh").readlink() == Path("tool")
    assert (tmp_path / "empty").read_bytes() == b""


def test_libraries_are_followed_and_found_in_either_layout(
    tmp_path: Path, tool: Callable[[str, str], Path]
) -> None:
    library, older = tmp_path / "usr/lib/aarch64-linux-gnu", tmp_path / "lib/aarch64-linux-gnu"
    for directory in (library, older, tmp_path / "sbin"):
        directory.mkdir(parents=True)
    loader = "[Requesting program interpreter: /lib/ld-linux-aarch64.so.1]"
    (tmp_path / "sbin/tool").write_text(f"{loader}\n 0x1 (NEEDED)  Shared library: [liba.so.1]")
    (library / "liba.so.1").write_text("0x1 (NEEDED)  Shared library: [libb.so.2]")
    (library / "libb.so.2").write_text("0xe (SONAME)  Library soname: [libx.so.1]")
    for name in ("ld-linux-aarch64.so.1", "libgcc_s.so.1"):
        (older / name).touch()
    tool("aarch64-linux-gnu-readelf", 'shift; cat "$@"')
    program = image.program(tmp_path, "tool")
    assert image.libraries(tmp_path, "aarch64-linux-gnu-", [program]) == {
        "/lib/libgcc_s.so.1": older / "libgcc_s.so.1",
        "/lib/ld-linux-aarch64.so.1": older / "ld-linux-aarch64.so.1",
        "/lib/liba.so.1": library / "liba.so.1",
        "/lib/libb.so.2": library / "libb.so.2",
    }
    with pytest.raises(HarnessError, match="has no program fsck"):
        image.program(tmp_path, "fsck")
    (library / "libb.so.2").unlink()
    with pytest.raises(HarnessError, match=r"has no library libb\.so\.2"):
        image.libraries(tmp_path, "aarch64-linux-gnu-", [program])


def test_programs_of_debian_bring_their_own_libraries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    tool, library = tmp_path / "usr/bin/tool", tmp_path / "libx.so"
    tool.write_text("program")
    library.write_text("library")
    monkeypatch.setattr(image, "libraries", lambda *_: {"/lib64/libx.so": library})
    files = image.programs(tmp_path, ["tool"], "debian")
    assert files == {"debian/usr/bin/tool": b"program", "debian/lib64/libx.so": b"library"}
    (tmp_path / "usr/lib/own/share").mkdir(parents=True)
    for name in ("own", "share/file"):
        (tmp_path / "usr/lib/own" / name).write_text(name)
    more = image.programs(tmp_path, ["usr/lib/own/own"], "debian", ["usr/lib/own/*/f*"])
    assert more == {
        "debian/usr/lib/own/own": b"own",
        "debian/usr/lib/own/share/file": b"share/file",
        "debian/lib64/libx.so": b"library",
    }
    (tmp_path / "cpio").write_bytes(image.archive(files))
    subprocess.run(["cpio", "--quiet", "-id", "-F", "cpio"], cwd=tmp_path, check=True)
    assert os.access(tmp_path / "debian/usr/bin/tool", os.X_OK)
    with pytest.raises(HarnessError, match="has no program other"):
        image.programs(tmp_path, ["other"], "debian")
