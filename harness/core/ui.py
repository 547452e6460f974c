"""Lines for the user about long steps: their names, progress and time."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET_SECONDS = 20.0  # between two progress lines when the output is not a terminal
_REDRAW_SECONDS = 0.1
_WIDTH = 100
_started = time.monotonic()


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def say(line: str) -> None:
    """Print one line with the time since the start."""
    _erase()
    print(f"[{clock(time.monotonic() - _started):>5}] {line}", flush=True)


def plain(line: str) -> None:
    """Print one line as it is."""
    _erase()
    print(line, flush=True)


def _erase() -> None:
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")


class Step:
    """One step of the work, with live progress and a closing line."""

    def __init__(self, name: str) -> None:
        """Start the step's clock."""
        self._name = name
        self._began = self._drawn = time.monotonic()
        self.closing = ""

    @property
    def seconds(self) -> float:
        """Time since the step began."""
        return time.monotonic() - self._began

    def progress(self, text: str) -> None:
        """Show how far the step is; cheap enough to be called for every line of a log."""
        terminal = sys.stdout.isatty()
        now = time.monotonic()
        if now - self._drawn < (_REDRAW_SECONDS if terminal else _QUIET_SECONDS):
            return
        self._drawn = now
        line = f"{self._name}: {clock(self.seconds)} {text}"[:_WIDTH]
        if terminal:
            sys.stdout.write(f"\r\033[K        {line}")
            sys.stdout.flush()
        else:
            say(line)

    def done(self, text: str, *, reused: bool = False) -> None:
        """Set the closing line; `reused` if there was nothing to do."""
        seconds = "" if reused else f" ({self.seconds:.1f} s)"
        self.closing = f"{self._name}: {'reused, ' if reused else ''}{text}{seconds}"


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Run one step; one that raises has no closing line, since the error follows."""
    current = Step(name)
    try:
        yield current
    except BaseException:
        _erase()
        raise
    say(current.closing)
