"""Locks: one harness at a time may change a cache, and run in a checkout."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from harness.core import ui
from harness.core.paths import Paths

_held: set[Path] = set()  # nested sections of this process share a lock


@contextmanager
def _lock(path: Path, flags: int, busy: Path) -> Iterator[None]:
    if path in _held:
        yield
        return
    file = os.open(path, flags | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            ui.say(f"waiting for another harness that is using {busy}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _held.add(path)
        yield
    finally:
        _held.discard(path)
        os.close(file)


def cache(paths: Paths) -> AbstractContextManager[None]:
    """Keep other processes from changing the cache; wait for one that does."""
    paths.cache.mkdir(parents=True, exist_ok=True)
    return _lock(paths.cache / "lock", os.O_RDWR | os.O_CREAT, paths.cache)


def checkout(paths: Paths) -> AbstractContextManager[None]:
    """Keep other processes out of out/, from the first step of a command to its last.

    The lock is the checkout's directory itself: `make clean` cannot remove it.
    """
    return _lock(paths.root, os.O_RDONLY, paths.out)
