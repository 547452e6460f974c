"""A signal ends the harness with its children, theirs, and those that hide."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.core import ending

# A background job of a shell, such as this test, may ignore signals: a child should not.
HEEDING = ("env", "--default-signal=HUP,INT,TERM")
MARK = "TEST_ENDING"
DESCENDANTS = 8

# Two threads with a child each; one of these has a child that ignores SIGTERM in a session
# of its own, and one that has lost its parent.
PROGRAM = """
import sys, threading, pathlib
from harness.core import ending, process
ending.GRACE = 0.5
ending.install()
here = pathlib.Path(sys.argv[1])
deaf = "trap '' TERM; echo >{0}; while :; do sleep 600; done"
shell = f'(sleep 600 &) ; setsid sh -c "{deaf}" & wait'
def run(name):
    process.run_logged(["sh", "-c", shell.format(here / name)], here / f"{name}.log", name)
threading.Thread(target=run, args=("one",)).start()
run("two")
"""


@pytest.fixture(autouse=True)
def nothing_outlives_a_test(tmp_path: Path) -> Iterator[None]:
    """End what the code under test left, which inherits a variable of the test."""
    yield
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={tmp_path}".encode() in file.read_bytes():
                os.kill(int(file.parent.name), signal.SIGKILL)


def started(tmp_path: Path, ignored: str = "") -> subprocess.Popen[str]:
    """Start the program, and return when its grandchildren run."""
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    if ignored:
        argv = ["sh", "-c", f'trap "" {ignored}; exec "$@"', "sh", *argv]
    env = os.environ | {MARK: str(tmp_path)}
    child = subprocess.Popen([*HEEDING, *argv], env=env, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    # A shell that no longer heeds SIGTERM has made its file, but not yet its child.
    while not all((tmp_path / name).exists() for name in ("one", "two")) or (
        len(ending.descendants(child.pid)) < DESCENDANTS
    ):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    child = started(tmp_path)
    below = ending.descendants(child.pid)
    child.send_signal(number)
    _, errors = child.communicate(timeout=20)
    left = {pid for pid in below if Path(f"/proc/{pid}").exists()}
    assert errors == f"error: stopped by {number.name}\n"
    assert child.returncode == 128 + number
    assert not left


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    child = started(tmp_path, ignored="HUP")
    child.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=20) == 128 + signal.SIGTERM
    assert os.getpid() not in ending.descendants(os.getpid())
