"""`make bench-copy`: the kernel's routines for ranges of pages, at this machine's native speed.

The benchmark is harness/bench/copy_bench.c. It includes headers of the kernel, of which nothing
is built or booted, and runs on x86-64, as any user.
"""

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from rich.console import Console
from rich.table import Table

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

Positive = Annotated[float, msgspec.Meta(gt=0)]
State = Literal["cold", "hot", "cold_read"]
Routine = Literal["movsq", "movsb", "nontemporal", "per_page", "per_page_mc"]

STATES: tuple[State, ...] = ("cold", "hot", "cold_read")
"""Both in memory; both in cache, as far as they fit; cold, then reading all of dst."""
CHOICES: dict[Routine, tuple[State, ...]] = {
    "movsq": ("cold", "hot", "cold_read"),
    "nontemporal": ("cold",),
}
"""The values of copy_pages=, and in which states: the kernel keeps the latter to far copies."""

LEAST = 0.97
"""In a quarter of the rounds at least, a copy by default is as fast as vanilla's loop."""
FROM_KIB = 16
"""The least folio of several pages, and the least range that bypasses the cache."""

_NAME = "copy_bench"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
_WIDTH = 200  # of a table that does not go to a terminal


@dataclass(frozen=True)
class Quartiles:
    """First, second and third quartile over the rounds."""

    lower: Positive
    median: Positive
    upper: Positive


@dataclass(frozen=True)
class Result:
    """One way to copy, folio size and state of the caches.

    `ratio` is how many times faster than `rep movsq` page by page it was, and `ratio_mc` the
    same for `rep movsb`.
    """

    kib: int
    state: State
    routine: Routine
    ratio: Quartiles
    ratio_mc: Quartiles


@dataclass(frozen=True)
class Bench:
    """All that copy_bench prints, as far as it is used here."""

    program: Literal["copy_bench"]
    format: Literal[2]
    rounds: int
    results: Annotated[tuple[Result, ...], msgspec.Meta(min_length=1)]


def slower(bench: Bench) -> list[str]:
    """Name each copy by default (`rep movsb`) that is slower than vanilla's loop."""
    return [
        f"{row.kib} KiB, {row.state}: {row.ratio_mc.upper:.2f}, below {LEAST}"
        for row in bench.results
        if row.routine == "movsb" and row.kib >= FROM_KIB and row.ratio_mc.upper < LEAST
    ]


def gains(bench: Bench, routine: Routine) -> list[float]:
    """Return how many times faster than by default a routine is where the kernel uses it."""
    default = {(row.kib, row.state): row for row in bench.results if row.routine == "movsb"}
    return [
        row.ratio_mc.median / default[row.kib, row.state].ratio_mc.median
        for row in bench.results
        if row.routine == routine and row.kib >= FROM_KIB and row.state in CHOICES[routine]
    ]


def build(paths: Paths, directory: Path) -> Path:
    """Build the benchmark with headers of the overlay, and return where the program is."""
    if platform.machine() != "x86_64":
        raise HarnessError(f"{_NAME}: routines are for x86-64, not {platform.machine()}")
    directory.mkdir(parents=True, exist_ok=True)
    home, program = Path(__file__).parent, directory / _NAME
    argv = ["gcc", *_FLAGS, f"-I{paths.overlay}", f"-I{home}", "-o", str(program),
            str(home / f"{_NAME}.c")]  # fmt: skip
    process.run_logged(argv, directory / f"{_NAME}.log", _NAME)
    return program


def processor() -> str:
    """Return the name of this machine's processor."""
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.machine()


def show(bench: Bench, processor: str) -> None:
    """Print the ratios to the per-page loop."""
    names = [name for name in dict.fromkeys(row.routine for row in bench.results)
             if name != "per_page"]  # fmt: skip
    columns = [(state, name) for state in STATES for name in names]
    table = {(row.kib, row.state, row.routine): row.ratio.median for row in bench.results}
    title = f"times faster than copying page by page (rep movsq), {processor}: "
    shown = Table(title=f"{title}median of {bench.rounds} rounds")
    for heading in ("folio, KiB", *(f"{state}\n{name}" for state, name in columns)):
        shown.add_column(heading, justify="right", no_wrap=True)
    for kib in dict.fromkeys(row.kib for row in bench.results):
        shown.add_row(str(kib), *(f"{table[kib, *column]:.2f}" for column in columns))
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(shown)


def main(paths: Paths) -> int:
    """Run `make bench-copy`; HarnessError if a copy by default is slower than vanilla's."""
    out = paths.out / "bench-copy"
    log, results = out / f"{_NAME}.log", out / "results.json"
    program = str(build(paths, out))
    with ui.step("bench-copy") as step:
        load = os.getloadavg()[0]
        process.run_logged([program, "--verify"], log, f"{_NAME} --verify")
        process.run_logged([program, "--output", str(results)], log, _NAME)
        step.done(f"load {load:.1f} before")
    bench, document = jsonio.load(Bench, results), jsonio.load(dict[str, Any], results)
    model, lost = processor(), slower(bench)
    show(bench, model)
    more = {"load_before": load, "cpu": model, "slower": lost, "least": LEAST}
    jsonio.write(results, document | more)
    ui.say(f"bench-copy: {results}")
    for routine in CHOICES:
        ratios = gains(bench, routine)
        ui.say(
            f"bench-copy: copy_pages={routine}: {min(ratios):.2f} to {max(ratios):.2f} times as "
            "fast as by default (rep movsb) where the kernel uses it"
        )
    if lost:
        raise HarnessError(
            f"bench-copy: {len(lost)} copies by default are slower than page by page; was this "
            "machine busy?",
            "\n".join(lost),
        )
    ui.say(f"bench-copy: no copy by default is below {LEAST} of the loop")
    return 0
