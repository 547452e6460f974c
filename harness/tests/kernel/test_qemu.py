"""The emulators: built from a patched source once, and again when a device changes."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import ROOT, Paths
from harness.kernel import debian, qemu

CONFIGURE = """#!/bin/sh
echo configured >>../log
touch build.ninja
"""
NINJA = """\
shift
echo "$*" | sed "s/qemu-system-//g" >>../log
grep -q bad ../source/hw/misc/migrate/*.c && echo "ninja: error: bad device" && exit 1
echo "[1/2] Compiling C object"
for program; do
	cat ../source/hw/misc/migrate/*.c >$program
done"""


@pytest.fixture
def paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], Path]
) -> Paths:
    """Return a checkout with a device, a source that was fetched, and a fast compiler."""
    made = Paths(tmp_path / "root", tmp_path / "cache", tmp_path / "out")
    ours = made.root / "qemu"
    ours.mkdir(parents=True)
    (ours / "source.patch").write_text("--- a/one\n+++ b/one\n@@ -1 +1 @@\n-old\n+new\n")
    for name in ("x86_64.mak", "aarch64.mak", "meson.build"):
        (ours / name).touch()
    (ours / "device.c").write_text("first\n")
    tarball = pack(made, "old\n")
    monkeypatch.setattr(debian, "download", lambda *_, **__: tarball)
    tool("ninja", NINJA)
    monkeypatch.setattr(qemu, "_ROMS", (ours / "meson.build",))
    return made


def pack(paths: Paths, content: str) -> Path:
    source = paths.root / "source"
    for name in ("hw/misc", "configs/devices/x86_64-softmmu", "configs/devices/aarch64-softmmu"):
        (source / name).mkdir(parents=True, exist_ok=True)
    (source / "one").write_text(content)
    (source / "configure").write_text(CONFIGURE)
    (source / "configure").chmod(0o755)
    tarball = paths.root / "qemu_10.0.9+ds.orig.tar.xz"
    subprocess.run(["tar", "-cJf", tarball, "-C", paths.root, "source"], check=True)
    return tarball


def log(paths: Paths) -> list[str]:
    (path,) = (paths.cache / "qemu").glob("*/log")
    return path.read_text().split()


def test_qemu_is_built_once_and_a_changed_device_is_compiled(paths: Paths) -> None:
    qemu.get(paths)
    programs = qemu.programs(paths)
    assert (programs / "qemu-system-x86_64").read_text() == "first\n"
    assert (programs.parent / "share/qemu/meson.build").exists()
    (source,) = (paths.cache / "qemu").glob("*/source")
    assert (source / "one").read_text() == "new\n"
    qemu.get(paths)
    other = replace(paths, out=paths.out.with_name("other"))
    qemu.get(other)
    assert (qemu.programs(other) / "qemu-system-x86_64").read_text() == "first\n"
    assert log(paths) == ["configured", "aarch64", "x86_64"]
    (paths.root / "qemu/device.c").write_text("second\n")
    qemu.get(paths)
    assert (programs / "qemu-system-aarch64").read_text() == "second\n"
    assert log(paths) == ["configured", *["aarch64", "x86_64"] * 2]


def test_only_what_is_wanted_is_built(paths: Paths) -> None:
    arm, x86 = (qemu.programs(paths) / f"qemu-system-{name}" for name in ("aarch64", "x86_64"))
    assert qemu.get(paths, [x86.name]) == qemu.programs(paths)
    assert log(paths) == ["configured", "x86_64"] and not arm.exists()
    guest = x86.stat().st_ino  # one that runs keeps its emulator
    qemu.get(paths, [arm.name])
    qemu.get(paths, [x86.name])
    assert log(paths) == ["configured", "x86_64", "aarch64"]
    assert arm.exists() and x86.stat().st_ino == guest
    (paths.root / "qemu/device.c").write_text("second\n")
    qemu.get(paths, [arm.name])
    assert arm.read_text() == "second\n" and not x86.exists()


def test_a_device_that_does_not_compile_is_an_error_each_time(paths: Paths) -> None:
    (paths.root / "qemu/device.c").write_text("bad\n")
    for _ in range(2):
        with pytest.raises(HarnessError, match="building QEMU: ninja: error: bad device"):
            qemu.get(paths)


def test_a_source_that_the_patch_does_not_fit_is_refused(paths: Paths) -> None:
    pack(paths, "other\n")
    for _ in range(2):
        with pytest.raises(HarnessError, match=r"qemu/source.patch does not apply to 10.0.9"):
            qemu.get(paths)
    assert not list((paths.cache / "qemu").glob("*/log"))


def test_a_patch_that_changes_is_applied_to_the_source_that_is_there(paths: Paths) -> None:
    patch, added = paths.root / "qemu/source.patch", paths.root / "qemu/added.patch"
    added.write_text("--- /dev/null\n+++ b/two\n@@ -0,0 +1 @@\n+added\n")
    qemu.get(paths)
    (source,) = (paths.cache / "qemu").glob("*/source")
    edited, brought = source / "one", source / "two"
    assert (edited.read_text(), brought.read_text()) == ("new\n", "added\n")
    time = edited.stat().st_mtime_ns
    added.unlink()
    qemu.get(paths)
    assert edited.stat().st_mtime_ns == time and not brought.exists()
    patch.write_text(patch.read_text().replace("new", "newer"))
    qemu.get(paths)
    assert edited.read_text() == "newer\n"
    patch.unlink()
    qemu.get(paths)
    assert edited.read_text() == "old\n"
    assert log(paths) == ["configured", *["aarch64", "x86_64"] * 4]


def test_every_device_of_ours_is_compiled() -> None:
    listed = (ROOT / "qemu/meson.build").read_text()
    assert all(f"'{path.name}'" in listed for path in (ROOT / "qemu").glob("*.c"))
