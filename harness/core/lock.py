"""One harness at a time changes what the cache holds."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from harness.core import ui
from harness.core.paths import Paths

_held = 0  # nested sections of this process share the lock


@contextmanager
def cache(paths: Paths) -> Iterator[None]:
    """Keep other processes from changing the cache; waits for one that does."""
    global _held  # noqa: PLW0603 - the lock belongs to the process
    if _held:
        yield
        return
    paths.cache.mkdir(parents=True, exist_ok=True)
    with (paths.cache / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            ui.say(f"waiting for another harness that is using {paths.cache}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _held += 1
        try:
            yield
        finally:
            _held -= 1
