"""Benchmarks that run on this machine, at native speed.

They include headers of the kernel, of which nothing is built or booted. They run on x86-64, as
any user.
"""

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

Bench = TypeVar("Bench")
Positive = Annotated[float, msgspec.Meta(gt=0)]
NotEmpty = msgspec.Meta(min_length=1)

_PROGRAMS = Path(__file__).parent
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
_MODEL = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)
_WIDTH = 200  # of a table that does not go to a terminal


@dataclass(frozen=True)
class Quartiles:
    """First, second and third quartile over the rounds."""

    lower: Positive
    median: Positive
    upper: Positive


def build(paths: Paths, name: str, directory: Path) -> Path:
    """Build a benchmark with headers of the overlay, and return where the program is."""
    if platform.machine() != "x86_64":
        raise HarnessError(f"{name}: routines are for x86-64, not {platform.machine()}")
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    source = str(_PROGRAMS / f"{name}.c")
    argv = ["gcc", *_FLAGS, f"-I{paths.overlay}", f"-I{_PROGRAMS}", "-o", str(program), source]
    process.run_logged(argv, directory / f"{name}.log", name)
    return program


def processor() -> str:
    """Return the name of this machine's processor."""
    found = _MODEL.search(Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def run(
    paths: Paths, what: str, name: str, kind: type[Bench]
) -> tuple[Bench, dict[str, Any], Path]:
    """Build a program, let it verify what it copies, then measure.

    Return what it found, the same as JSON with this machine's load before, and a file to
    keep that in.
    """
    directory = paths.out / what
    log, results = directory / f"{name}.log", directory / "results.json"
    program = str(build(paths, name, directory))
    with ui.step(what) as step:
        load = os.getloadavg()[0]
        process.run_logged([program, "--verify"], log, f"{name} --verify")
        process.run_logged([program, "--output", str(results)], log, name)
        step.done(f"load {load:.1f} before")
    document = jsonio.load(dict[str, Any], results)
    return jsonio.load(kind, results), {**document, "load_before": load}, results


def show(title: str, headings: list[str], rows: list[list[str]]) -> None:
    """Print a table of numbers."""
    shown = Table(title=title)
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(shown)
