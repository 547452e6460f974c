"""Child processes: a clean environment, a log for each, errors told in one line."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.core.errors import HarnessError

_TAIL_LINES = 15

# Variables that would steer the kernel's make or its tools from outside.
_DROPPED = frozenset((
    "ARCH", "ARGS", "CFLAGS", "CONFIG", "CPPFLAGS", "CROSS_COMPILE", "EXTRA_CFLAGS",
    "GNUMAKEFLAGS", "KCFLAGS", "KCONFIG_CONFIG", "LDFLAGS", "LLVM", "MAKEFLAGS",
    "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "O", "OUTPUT", "SUITE", "V", "W",
))  # fmt: skip


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, fit for a child whose output is parsed."""
    env = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    env["LC_ALL"] = "C.UTF-8"
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # scripts of the kernel tree leave nothing in it
    env.update(extra or {})
    return env


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-lines:])


def stop(child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a child that we started, and wait for it."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def run_logged(
    argv: Sequence[str],
    log: Path,
    what: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a command with its output in `log`, and return that output.

    A command that fails raises a HarnessError that begins with `what` and names the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    try:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{what}: {argv[0]} is not installed") from error
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


def attempt(argv: Sequence[str], cwd: Path) -> tuple[int, str]:
    """Run a command that may fail; return its status and all that it printed."""
    try:
        done = subprocess.run(
            list(argv),
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{argv[0]} is not installed") from error
    return done.returncode, done.stdout


def first_error(text: str) -> str:
    """Return the line of a failed command's output that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for marker in ("error:", "Error:", "E: ", "fatal:", "***"):
        for line in lines:
            if marker in line:
                return line
    return lines[-1] if lines else "failed without a word"


def capture(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """Return the output of a short command, which must not fail."""
    try:
        done = subprocess.run(
            list(argv),
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{argv[0]} is not installed") from error
    if done.returncode:
        raise HarnessError(f"{' '.join(argv)}: {first_error(done.stderr + done.stdout)}")
    return done.stdout
