"""How the harness ends early: a signal ends it with all that it started.

Children of children are found in /proc. None can escape, since this process is their
subreaper: what loses its parent becomes a child of the harness.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from harness.core import process

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PR_SET_CHILD_SUBREAPER = 36
GRACE = 5.0
"""Seconds in which a child may obey a signal."""
_DEATH_SECONDS = 20.0  # a busy machine needs some to end what is killed
_POLL_SECONDS = 0.05


def install() -> None:
    """Let a signal end this process with its descendants; an ignored signal stays ignored.

    A thread of its own does it, whatever the others are doing.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # the wake-up is enough
    threading.Thread(target=_wait, args=(reader,), daemon=True).start()


def _wait(reader: int) -> None:
    number = signal.Signals(os.read(reader, 1)[0])
    process.starting.acquire()  # for good: from now on nothing starts
    for request, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, _DEATH_SECONDS)):
        deadline = time.monotonic() + seconds
        while (alive := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, request)
            time.sleep(_POLL_SECONDS)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    with suppress(OSError):  # the terminal may be gone
        if sys.stdout.isatty():
            os.write(1, b"\r\033[K")
        os.write(2, f"error: stopped by {number.name}\n".encode())
    os._exit(128 + number)


def descendants(root: int) -> set[int]:
    """Return the processes below `root`, also those that have not been waited for."""
    children: dict[int, set[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), set()).add(int(stat.parent.name))
    pids: set[int] = set()
    waiting = {root}
    while waiting:
        below = children.get(waiting.pop(), set()) - pids
        pids |= below
        waiting |= below
    return pids
