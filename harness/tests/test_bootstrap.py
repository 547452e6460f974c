"""harness/bootstrap.sh: what it refuses, what it removes, and how a signal ends it."""

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core import ending
from harness.core.paths import ROOT
from harness.tests.core.test_ending import HEEDING

TAG = "CACHEDIR.TAG"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the files that bootstrapping needs."""
    root = tmp_path / "checkout"
    (root / "harness").mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "harness/bootstrap.sh", "harness/__init__.py"):
        shutil.copy2(ROOT / name, root / name)
    shutil.copytree(ROOT / "harness/core", root / "harness/core")
    return root


def make(root: Path, *words: str, cache: Path | str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "CACHE_DIR": str(cache), "LC_ALL": "C"}
    env.pop("MAKEFLAGS", None)
    argv = ["make", "--no-print-directory", "-C", str(root), *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def no_host(tool: Callable[[str, str], Path]) -> None:
    """Let the host have no packages, and refuse to install any."""
    for name in ("dpkg-query", "apt-get", "sudo"):
        tool(name, "exit 1")


def environment_in(root: Path, shared: Path, program: str) -> Path:
    """Put a Python environment where the harness looks for it; return its directory."""
    version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, check=True)
    pins = (root / "requirements.txt").read_bytes()
    made = shared / f"venv-{hashlib.sha256(version.stdout + pins).hexdigest()[:12]}"
    (made / "bin").mkdir(parents=True)
    (made / "bin/python").write_text(f"#!/bin/sh\n{program}\n")
    (made / "bin/python").chmod(0o755)
    mark(shared)
    return made


def mark(cache: Path) -> None:
    cache.mkdir(exist_ok=True)
    (cache / TAG).write_text("# made by the harness of migrate copy offload\n")


def the_error(done: "subprocess.CompletedProcess[str]") -> str:
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    return errors[0]


def test_a_path_with_a_space_is_refused(checkout: Path, tmp_path: Path) -> None:
    spaced = checkout.rename(tmp_path / "a checkout")
    for done in (
        make(spaced, "demo", cache=tmp_path / "cache"),
        make(spaced, "clean", cache=tmp_path / "cache"),
    ):
        line = the_error(done)
        assert "a space or a colon" in line and str(spaced) in line
        assert done.returncode
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("no_host")
def test_a_directory_of_others_is_no_cache(checkout: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "letter").touch()
    line = the_error(make(checkout, "demo", cache=theirs))
    assert "is not empty, and not a cache of this harness" in line
    assert os.listdir(theirs) == ["letter"]  # noqa: PTH208


def test_clean_removes_only_a_cache_of_ours(checkout: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "letter").touch()
    (checkout / "out").mkdir()
    line = the_error(make(checkout, "clean", "ALL=1", cache=cache))
    assert "was not made by this harness" in line
    assert not (checkout / "out").exists() and (cache / "letter").exists()

    # other programs mark their caches in the same way
    (cache / TAG).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# by another\n")
    assert the_error(make(checkout, "clean", "ALL=1", cache=cache))
    (cache / TAG).write_text("# made by the harness of migrate copy offload\n")
    assert make(checkout, "clean", cache=cache).returncode == 0
    assert (cache / "letter").exists()
    assert make(checkout, "clean", "ALL=1", cache=cache).returncode == 0
    assert not cache.exists()
    assert make(checkout, "clean", "ALL=1", cache=cache).returncode == 0


def test_clean_leaves_what_another_harness_uses(checkout: Path, tmp_path: Path) -> None:
    (checkout / "out").mkdir()
    held = os.open(checkout, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    line = the_error(make(checkout, "clean", cache=tmp_path / "cache"))
    os.close(held)
    assert "another harness is running" in line
    assert (checkout / "out").exists()


def test_an_environment_that_another_harness_makes_is_waited_for(
    checkout: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    mark(cache)
    shared = cache / "shared"
    made = environment_in(checkout, shared, "echo the harness ran")
    with (shared / "venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = subprocess.Popen(
            [checkout / "harness/bootstrap.sh", "demo"], text=True, stdout=subprocess.PIPE,
            env={**os.environ, "CACHE_DIR": str(cache)},
        )  # fmt: skip
        assert child.stdout and "waiting for another harness" in child.stdout.readline()
        (made / "complete").touch()
    output, _ = child.communicate(timeout=20)
    assert output == "the harness ran\n" and child.returncode == 0


def test_clones_share_what_never_changes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    shared = tmp_path / "xdg/migrate-offload"
    try_it = 'flock -n -x "${0%/bin/python}" true && echo free || echo in use'
    made = environment_in(checkout, shared, try_it)
    (made / "complete").touch()
    for name in ("used", "free"):
        (shared / name).mkdir()
    done = make(checkout, "demo", cache="")
    assert done.stdout.splitlines()[-1] == "in use"
    cache = checkout / ".cache"
    assert (cache / "shared").resolve() == shared
    assert (cache / "venv").resolve() == made

    assert make(checkout, "clean", "ALL=1", cache="").returncode == 0
    assert not cache.exists() and (shared / "free").exists()
    held = os.open(shared / "used", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    done = make(checkout, "clean", "SHARED=1", cache="")
    assert done.stdout.splitlines()[-1] == f"another harness is using {shared}/used"
    os.close(held)
    assert [path.name for path in shared.iterdir() if path.is_dir()] == ["used"]


@pytest.mark.usefixtures("no_host")
def test_a_cache_that_the_user_names_has_everything(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache = checkout / ".cache"
    mark(cache)
    (cache / "shared").symlink_to(tmp_path / "xdg/migrate-offload")  # of a run without
    assert the_error(make(checkout, "demo", cache=cache))  # there is no host, but a place
    assert not (cache / "shared").is_symlink() and (cache / "shared" / TAG).exists()
    assert not (tmp_path / "xdg").exists()

    (cache / "shared/kernel").mkdir()
    held = os.open(cache / "shared/kernel", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    line = the_error(make(checkout, "clean", "ALL=1", cache=cache))
    assert line == f"error: another harness is using {cache}/shared/kernel"
    os.close(held)
    assert make(checkout, "clean", "ALL=1", cache=cache).returncode == 0
    assert not cache.exists()


def test_a_package_with_another_hash_is_refused(checkout: Path, tmp_path: Path) -> None:
    text = (checkout / "requirements.txt").read_text()
    (checkout / "requirements.txt").write_text("colorama==0.4.6\n")
    done = make(checkout, "demo", cache=tmp_path / "cache")
    line = the_error(done)
    assert "no Python environment" in line and "hash" in line.lower()
    assert not list((tmp_path / "cache").glob("shared/venv-*/complete"))
    pinned = [line for line in text.splitlines() if "==" in line]
    assert text.count("--hash=sha256:") >= len(pinned) > 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_pip_too(checkout: Path, tmp_path: Path, number: signal.Signals) -> None:
    cache = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        index = f"http://{host}:{port}/simple"
        env = {**os.environ, "CACHE_DIR": str(cache), "PIP_INDEX_URL": index,
               "PIP_CONFIG_FILE": os.devnull}  # fmt: skip
        child = subprocess.Popen(
            [*HEEDING, checkout / "harness/bootstrap.sh", "demo"], env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        silent.settimeout(60)
        silent.accept()
        below = ending.descendants(child.pid)
        child.send_signal(number)
        _, output = child.communicate(timeout=20)
    assert output.splitlines()[-1] == f"error: stopped by {number.name}"
    assert child.returncode == 128 + number
    deadline = time.monotonic() + 5
    while alive := {pid for pid in below if running(pid)}:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)
    assert below and not list(cache.glob("shared/venv-*/complete"))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.usefixtures("no_host")
def test_what_few_commands_need_is_installed_for_them_only(checkout: Path, tmp_path: Path) -> None:
    rare = {"debhelper", "lintian"}
    for target, wanted in (("demo", set()), ("deb", {"debhelper"}), ("check-debian", rare)):
        done = make(checkout, target, cache=tmp_path / "cache")
        assert "apt-get update failed" in the_error(done)
        assert rare & set(done.stdout.split()) == wanted
