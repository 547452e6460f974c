"""Child processes: a clean environment, a log for each, errors told in one line."""

import os
import select
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError

starting = threading.Lock()
"""Held while a child is started; core/ending.py takes it for good."""

# Variables that would steer the kernel's make or its tools from outside.
_DROPPED = frozenset((
    "ALL", "ARCH", "ARGS", "CFLAGS", "CONFIG", "COUNT", "CPPFLAGS", "CROSS_COMPILE",
    "ENGINE", "EXTRA_CFLAGS", "FROM", "GNUMAKEFLAGS", "KCFLAGS", "KCONFIG",
    "KCONFIG_CONFIG", "LDFLAGS", "LLVM", "LSMOD", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES",
    "MFLAGS", "O", "ONLY", "OUTPUT", "PRESET", "QUICK", "SEED", "SHARED", "STEPS", "SUITE",
    "TO", "TURN", "V", "VCPUS", "W", "WORKLOAD",
))  # fmt: skip

_charged: ContextVar[list[float] | None] = ContextVar("charged", default=None)


@contextmanager
def charged() -> Iterator[list[float]]:
    """Collect the processor time, in seconds, of each child that is started here and ends."""
    seconds: list[float] = []
    token = _charged.set(seconds)
    try:
        yield seconds
    finally:
        _charged.reset(token)


class Threads(ThreadPoolExecutor):
    """Threads whose children are charged like those of the thread that gives them work."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Schedule a call, as ThreadPoolExecutor does; map() uses it too."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


class Child(subprocess.Popen[Any]):
    """A child, with descendants that it waited for, whose processor time is charged."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Start it."""
        self._account = _charged.get()
        super().__init__(*args, **options)

    def poll(self) -> int | None:
        """Return the exit status if the child has ended."""
        if self.returncode is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                if self._account is not None:
                    self._account.append(used.ru_utime + used.ru_stime)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the child has ended; TimeoutExpired if that takes too long."""
        if self.poll() is None:
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], None if timeout is None else max(timeout, 0))
            finally:
                os.close(ended)
            if self.poll() is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return int(self.returncode)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, fit for a child whose output is parsed."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and not name.startswith("GIT_")
    }
    # Python scripts of the kernel tree leave nothing in it.
    return env | {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


def tail(text: str, lines: int = 15) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-lines:])


def start(argv: Sequence[str | Path], **options: Any) -> Child:
    """Start a child as Popen() does, without any input, unless the harness is being ended."""
    with starting:
        try:
            return Child(argv, **{"stdin": subprocess.DEVNULL, **options})
        except FileNotFoundError as error:
            raise HarnessError(f"{argv[0]} is not installed") from error


def stop(child: subprocess.Popen[Any]) -> None:
    """End a child that we started, and wait for it."""
    with starting:  # never again if the harness is being ended: the child is not to blame then
        pass
    child.terminate()  # nothing if it has ended
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _reading(
    argv: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    errors: int = subprocess.STDOUT,
    stdin: int = subprocess.DEVNULL,
) -> Child:
    """Start a child whose output we read, with its errors in it or apart."""
    return start(
        argv, cwd=cwd, env=environment(env), stdin=stdin, stdout=subprocess.PIPE, stderr=errors,
        text=True, errors="replace",
    )  # fmt: skip


def run_logged(
    argv: Sequence[str], log: Path, what: str, *, cwd: Path | None = None,
    env: Mapping[str, str] | None = None, on_line: Callable[[str], None] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> str:  # fmt: skip
    """Run a command with its output in `log`, and return that output.

    A command that fails raises a HarnessError that begins with `what` and names the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    child = _reading(argv, cwd, env, stdin=stdin)
    assert child.stdout is not None
    try:
        with log.open("w") as out:
            out.write(f"$ {' '.join(argv)}\n")
            for line in child.stdout:
                out.write(line)
                lines.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
        status = child.wait()
    finally:
        stop(child)
    text = "".join(lines)
    if status:
        raise HarnessError(f"{what}: {first_error(text)} (log: {log})", detail=tail(text))
    return text


def attempt(
    argv: Sequence[str], cwd: Path, *, env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Run a command that may fail; return its status and all that it printed.

    HarnessError if it takes longer than `timeout` seconds.
    """
    child = _reading(argv, cwd, env)
    try:
        output, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{argv[0]}: not done in {timeout} s") from error
    finally:
        stop(child)
    return child.returncode, output


def capture(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """Return the output of a short command, which must not fail."""
    child = _reading(argv, cwd, errors=subprocess.PIPE)
    try:
        output, errors = child.communicate()
    finally:
        stop(child)
    if child.returncode:
        raise HarnessError(f"{' '.join(argv)}: {first_error(errors + output)}")
    return str(output)


def first_error(text: str) -> str:
    """Return the line of a failed command's output that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for marker in ("No space left on device", "error:", "Error:", "E: ", "fatal:", "***"):
        if first := next((line for line in lines if marker in line), ""):
            return first
    return lines[-1] if lines else "failed without a word"


def be_nice() -> None:
    """Take fewer turns than others: this thread, and all that it starts from now on.

    Each has a third of the time of one that is not nice (nice 5 weighs 335, nice 0 1024). With
    a lower priority it would starve beside a program that always runs.
    """
    os.setpriority(os.PRIO_PROCESS, 0, 5)  # 0: this thread
