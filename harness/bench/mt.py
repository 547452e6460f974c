"""`make bench-mt`: what a second thread brings on this machine, and what mtcopy makes of it.

The benchmark (tools/mm/mt_bench.c) is built from the kernel's own assembly and from the
code by which mtcopy shares out work and learns whether a helper pays. It runs on two
processors. Some machines have nothing to give to a second thread: then mtcopy must not be
slower than one. The verdict is left out where others use the machine.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from harness.bench import native
from harness.bench.native import Quartiles
from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

Other = Literal["idle", "busy"]

LEAST = 0.97
"""As fast as one thread, but for what times scatter: mtcopy is never slower."""
WORTH = 1.15
"""Where two threads are this much faster than one, mtcopy brings half of that at least."""
IDLE_ENOUGH = 0.9
"""Of each processor's time, before and after: less, and others had the processors."""

_FORMAT = 2
_CPUS = 2
_ROUNDS = 63
_WATCHED = 1.0  # seconds
_WIDTH = 120  # of a table that does not go to a terminal
_IDLE_FIELDS = (3, 4)  # of a line of /proc/stat: idle, iowait
_TIME_FIELDS = 8  # guest time, behind them, is in user time already


@dataclass(frozen=True)
class Way:
    """One way to copy a 2 MB folio; `ratio` is how many times faster than one thread it was."""

    us: Quartiles
    ratio: Quartiles
    helped_pages: int
    offers: int
    boosts: int


@dataclass(frozen=True)
class Result:
    """One primitive, with the other processor idle or busy.

    `two` asks the helper for every folio, `mtcopy` where it has learned that this pays.
    """

    other: Other
    primitive: str
    one: Way
    two: Way
    mtcopy: Way


@dataclass(frozen=True)
class Bench:
    """All that mt_bench prints."""

    program: Literal["mt_bench"]
    format: int
    rounds: int
    folio_kib: int
    huge_pages: bool
    cpus: tuple[int, ...]
    may_boost: bool
    results: tuple[Result, ...]

    def __post_init__(self) -> None:
        """Refuse results that say nothing, or twice."""
        if self.format != _FORMAT:
            raise ValueError(f"format {self.format} is not known")
        if len(self.cpus) != len(set(self.cpus)) or len(self.cpus) != _CPUS:
            raise ValueError("not two processors")
        keys = [(one.other, one.primitive) for one in self.results]
        if len(set(keys)) != len(keys):
            raise ValueError("the same result twice")
        if {other for other, _ in keys} != {"idle", "busy"}:
            raise ValueError("there are no results for an idle and for a busy processor")


def goal(one: Result) -> float:
    """Return how many times faster than one thread mtcopy must be, given what two bring."""
    two = one.two.ratio.median
    return 1 + (two - 1) / 2 if two >= WORTH else LEAST


def missed(bench: Bench) -> list[str]:
    """Name every goal that was not reached."""
    return [
        f"other processor {one.other}, {one.primitive}: {one.mtcopy.ratio.median:.2f} of one "
        f"thread, below {goal(one):.2f}"
        for one in bench.results
        if one.mtcopy.ratio.median < goal(one)
    ]


def idle_shares(before: str, after: str) -> dict[int, float]:
    """Return which part of its time each processor was idle between two /proc/stat."""
    first, last = _times(before), _times(after)
    shares = {}
    for cpu in first.keys() & last.keys():
        spent = [new - old for old, new in zip(first[cpu], last[cpu], strict=True)]
        total = sum(spent)
        shares[cpu] = sum(spent[i] for i in _IDLE_FIELDS) / total if total else 1.0
    return shares


def _times(stat: str) -> dict[int, list[int]]:
    lines = (line.split() for line in stat.splitlines())
    return {
        int(words[0].removeprefix("cpu")): [int(word) for word in words[1 : 1 + _TIME_FIELDS]]
        for words in lines
        if words and words[0].startswith("cpu") and words[0] != "cpu"
    }


def _watch() -> dict[int, float]:
    stat = Path("/proc/stat")
    before = stat.read_text()
    time.sleep(_WATCHED)
    return idle_shares(before, stat.read_text())


def busy_cpus(cpus: tuple[int, ...], *watched: Mapping[int, float]) -> list[str]:
    """Name each of the two processors that was not idle when nothing of ours ran."""
    idle = {cpu: min(shares[cpu] for shares in watched) for cpu in cpus}
    return [
        f"processor {cpu} was idle only {share:.0%} of the time"
        for cpu, share in idle.items()
        if share < IDLE_ENOUGH
    ]


def table(bench: Bench) -> Table:
    """Return the table of results."""
    shown = Table(
        title=f"folios of {bench.folio_kib} KiB, cold: median of {bench.rounds} rounds"
    )
    for heading in ("other processor", "primitive"):
        shown.add_column(heading)
    for heading in ("one, us", "two, times faster", "mtcopy, times faster", "asked"):
        shown.add_column(heading, justify="right")
    for one in bench.results:
        shown.add_row(
            one.other,
            one.primitive,
            f"{one.one.us.median:.0f}",
            *(
                f"{ratio.median:.2f} ({ratio.lower:.2f} to {ratio.upper:.2f})"
                for ratio in (one.two.ratio, one.mtcopy.ratio)
            ),
            f"{one.mtcopy.offers}/{bench.rounds}",
        )
    return shown


def main(paths: Paths) -> int:
    """Run `make bench-mt`; HarnessError if a goal is missed on a machine that is idle."""
    out = paths.out / "bench-mt"
    program = native.build(paths, "mt_bench", out)
    with ui.step("bench-mt") as step:
        load = os.getloadavg()[0]
        before = _watch()
        bench = native.measure(Bench, program, out, ["--rounds", str(_ROUNDS)])
        after = _watch()
        step.done(f"{len(bench.results)} results, load {load:.1f} before")
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table(bench))

    others = busy_cpus(bench.cpus, before, after)
    found = missed(bench)
    more = {
        "load_before": load,
        "idle": {str(cpu): [before[cpu], after[cpu]] for cpu in bench.cpus},
        "verdict": {"skipped": others, "missed": found, "least": LEAST, "worth": WORTH},
    }
    ui.say(f"bench-mt: {native.keep(program, out, more)}")
    if others:
        ui.say(f"bench-mt: no verdict, since others use this machine: {'; '.join(others)}")
        return 0
    if found:
        raise HarnessError(f"bench-mt: {len(found)} goals are missed", "\n".join(found))
    two = max(one.two.ratio.median for one in bench.results if one.other == "idle")
    ui.say(
        f"bench-mt: mtcopy is at least {LEAST} times as fast as one thread; a second thread "
        f"makes it at most {two:.2f} times as fast here"
    )
    return 0
