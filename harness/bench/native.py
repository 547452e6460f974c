"""Benchmarks of tools/mm that run on this machine, at native speed.

They are built from the kernel's own assembly and from its own choice among primitives;
nothing of the kernel itself is built or booted. They run on x86-64.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.core import jsonio, process
from harness.core.errors import HarnessError
from harness.core.paths import Paths

Bench = TypeVar("Bench")


@dataclass(frozen=True)
class Quartiles:
    """First, second and third quartile over the rounds."""

    lower: float
    median: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse what is not in order."""
        if not 0 < self.lower <= self.median <= self.upper:
            raise ValueError("quartiles are not positive and in order")


_PRIMITIVES = ("mm/copy_pages_select.c", "arch/x86/lib/copy_pages_64.S")
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-Itools/mm/copy_pages")


def build(paths: Paths, name: str, directory: Path) -> Path:
    """Build tools/mm/<name>.c from the overlay, and return where the program is."""
    if platform.machine() != "x86_64":
        raise HarnessError(f"{name}: primitives are for x86-64, not {platform.machine()}")
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    argv = ["gcc", *_FLAGS, "-o", str(program), f"tools/mm/{name}.c", *_PRIMITIVES]
    process.run_logged(argv, directory / f"{name}.log", name, cwd=paths.overlay)
    return program


def measure(kind: type[Bench], program: Path, directory: Path, options: Sequence[str]) -> Bench:
    """Let a program verify what it copies, then measure, and return what it found."""
    log = directory / f"{program.name}.log"
    process.run_logged([str(program), "--verify"], log, f"{program.name} --verify")
    raw = _raw(program, directory)
    process.run_logged([str(program), *options, "--output", str(raw)], log, program.name)
    return jsonio.load(kind, raw)


def keep(program: Path, directory: Path, more: Mapping[str, object]) -> Path:
    """Write what a program measured, and more about it, as results.json; return that file."""
    raw, results = _raw(program, directory), directory / "results.json"
    jsonio.write(results, {**jsonio.load(dict[str, object], raw), **more})
    raw.unlink()
    return results


def _raw(program: Path, directory: Path) -> Path:
    return directory / f"{program.name}.json"
