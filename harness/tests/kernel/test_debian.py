"""Debian's packages: what the apt of another architecture is told, and its failures."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian
from harness.kernel.arch import X86_64


def test_a_userland_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], Path]
) -> None:
    made = 'mkdir "$7" "$7/lib64"; echo "$@" >"$7/argv"; ln -s /lib/ld.so.2 "$7/lib64"'
    tool("mmdebstrap", f'{made}; exit "$MM_STATUS"')
    monkeypatch.setattr(debian, "mirrors", lambda _: ["mirror:/debian"])
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path / "out")
    paths.cache.mkdir()
    monkeypatch.setenv("MM_STATUS", "1")
    with pytest.raises(HarnessError, match="cannot fetch busybox-static"):
        debian.userland(paths, "arm64")
    monkeypatch.setenv("MM_STATUS", "0")
    root = debian.userland(paths, "arm64")
    assert str((root / "lib64/ld.so.2").readlink()) == "../lib/ld.so.2"
    argv = (root / "argv").read_text()
    assert "--architectures=arm64 --include=busybox-static,e2fsprogs" in argv
    assert argv.endswith(f".gpg] mirror:/debian {debian.codename()} main\n")
    argv = (debian.userland(paths, "amd64", ("a", "b"), "trixie") / "argv").read_text()
    assert "--architectures=amd64 --include=a,b trixie " in argv
    assert argv.endswith(".gpg] mirror:/debian trixie main\n")


def test_the_next_mirror_is_asked_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "mirrors", lambda _: ["bad", "good"])

    mirrors = []

    def fetch(mirror: str) -> None:
        mirrors.append(mirror)
        if mirror == "bad":
            raise HarnessError("no such package")

    with ui.step("test") as step:
        debian.from_any_mirror(fetch, step, "it")
        assert mirrors == ["bad", "good"]
        monkeypatch.setattr(debian, "mirrors", lambda _: ["bad", "bad"])
        with pytest.raises(HarnessError, match="cannot fetch it") as caught:
            debian.from_any_mirror(fetch, step, "it")
        assert caught.value.detail.splitlines() == [
            "mirror 1: no such package",
            "mirror 2: no such package",
        ]


def test_a_package_is_fetched_once_and_the_newest_file_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "mirrors", lambda _: ["bad", "good"])
    fetched: list[str] = []

    def apt(argv: list[str], *_: object, cwd: Path | None = None, **__: object) -> None:
        if cwd:
            fetched.append(argv[-1])
            assert not list(cwd.iterdir())
            (cwd / "rest").touch()
            if len(fetched) == 1:
                raise HarnessError("the line is dead")
            for version in ("7.3.4-1~bpo13+1", "7.3.12-1~bpo13+1", "7.3.9-2~bpo13+1"):
                (cwd / f"linux_{version}_all.deb").touch()

    monkeypatch.setattr(process, "run_logged", apt)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    with ui.step("test") as step:
        for _ in range(2):
            path = debian.download(paths, "linux", "backports", "linux_*.deb", step)
            assert "7.3.12" in path.name and path.is_relative_to(paths.shared)
        assert fetched == ["linux", "linux"]
        with pytest.raises(HarnessError, match="cannot fetch linux from backports"):
            debian.download(paths, "linux", "backports", "linux_*.dsc", step)


def test_on_another_release_only_the_kernel_s_tools_are_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    for name in ("gcc-12", "x86_64-linux-gnu-ld", "ld", "as"):
        tool = root / "usr/bin" / name
        tool.write_text('#!/bin/sh\necho "$0 $LD_LIBRARY_PATH ${PATH%%:*} $*"\n')
        tool.chmod(0o755)
    calls: list[tuple[str, tuple[str, ...], str]] = []

    def userland(_: Paths, *given: Any) -> Path:
        calls.append(given)
        return root

    monkeypatch.setattr(debian, "userland", userland)
    monkeypatch.setenv("PATH", before := os.environ["PATH"])
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path)

    monkeypatch.setattr(debian, "codename", lambda: debian.RELEASE)
    debian.pin(paths)
    assert (debian.home(paths), os.environ["PATH"], calls) == (Path("/"), before, [])

    monkeypatch.setattr(debian, "codename", lambda: "trixie")
    debian.pin(paths)
    debian.pin(paths)
    assert debian.home(paths) == root
    assert calls[0] == calls[1] == calls[2]
    architecture, packages, release = calls[0]
    assert (architecture, release) == ("amd64", debian.RELEASE)
    assert {"gcc-12", "libc6-dev", *debian.PACKAGES} <= set(packages)
    where = f"{root}/usr/lib/x86_64-linux-gnu {root}/usr/bin"
    output = process.capture([X86_64.compiler, "-c", "a b"])
    assert output == f"{root}/usr/bin/gcc-12 {where} --sysroot={root} -c a b\n"
    (prefix,) = (flag.partition("=")[2] for flag in X86_64.make_flags)
    assert process.capture([f"{prefix}ld", "-v"]) == (
        f"{root}/usr/bin/x86_64-linux-gnu-ld {where} -v\n"
    )
    # The host's own tools make programs of the host.
    assert {path.name for path in (paths.cache / "tools").iterdir()} == {"gcc-12", f"{prefix}ld"}
