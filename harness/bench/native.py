"""Benchmarks of tools/mm that run on this machine, at native speed.

They are built from the kernel's own assembly and from its own choice among primitives;
nothing of the kernel itself is built or booted. They run on x86-64, as any user.
"""

import os
import platform
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

_PRIMITIVES = ("mm/copy_pages_select.c", "arch/x86/lib/copy_pages_64.S")
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-Itools/mm/copy_pages")
_WIDTH = 200  # of a table that does not go to a terminal


@dataclass(frozen=True)
class Quartiles:
    """First, second and third quartile over the rounds."""

    lower: Positive
    median: Positive
    upper: Positive


def build(paths: Paths, name: str, directory: Path) -> Path:
    """Build tools/mm/<name>.c from the overlay, and return where the program is."""
    if platform.machine() != "x86_64":
        raise HarnessError(f"{name}: primitives are for x86-64, not {platform.machine()}")
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    argv = ["gcc", *_FLAGS, "-o", str(program), f"tools/mm/{name}.c", *_PRIMITIVES]
    process.run_logged(argv, directory / f"{name}.log", name, cwd=paths.overlay)
    return program


def run(
    paths: Paths, what: str, name: str, kind: type[Bench], *options: str
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
        process.run_logged([program, *options, "--output", str(results)], log, name)
        step.done(f"load {load:.1f} before")
    document = jsonio.load(dict[str, Any], results)
    return jsonio.load(kind, results), {**document, "load_before": load}, results


def show(title: str, labels: list[str], numbers: list[str], rows: list[list[str]]) -> None:
    """Print a table whose first columns are labels."""
    shown = Table(title=title)
    for heading in labels:
        shown.add_column(heading)
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(shown)
