"""`make bench-mt`: what a second thread brings to mtcopy on this machine, at native speed.

The benchmark (tools/mm/mt_bench.c) is built from the kernel's own assembly and from the
code by which mtcopy shares out work. It runs on two processors. What it claims holds for a
machine that does nothing else, so the verdict is left out where that is not so.
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

GOAL_IDLE = 1.15
"""Two threads are this much faster than one where the other processor is idle."""
LEAST_BUSY = 0.97
"""And this fast at least where it is not: no slower, but for what times scatter."""
IDLE_ENOUGH = 0.9
"""Of each processor's time, before and after: less, and others had the processors."""

_FORMAT = 1
_CPUS = 2
_ROUNDS = 63
_WATCHED = 1.0  # seconds
_WIDTH = 120  # of a table that does not go to a terminal
_IDLE_FIELDS = (3, 4)  # of a line of /proc/stat: idle, iowait
_TIME_FIELDS = 8  # guest time, behind them, is in user time already


@dataclass(frozen=True)
class Result:
    """One primitive, with the other processor idle or busy.

    Times are for one 2 MB folio, `ratio` is how many times faster two threads were.
    """

    other: Other
    primitive: str
    one_us: Quartiles
    two_us: Quartiles
    ratio: Quartiles
    helped_pages: int
    offers: int
    boosts: int


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


def best(bench: Bench) -> str:
    """Name the primitive that is the fastest with one thread: the one that is hard to beat."""
    idle = [one for one in bench.results if one.other == "idle"]
    return min(idle, key=lambda one: one.one_us.median).primitive


def missed(bench: Bench) -> list[str]:
    """Name every goal that was not reached, each with the fastest primitive."""
    goals: Mapping[Other, float] = {"idle": GOAL_IDLE, "busy": LEAST_BUSY}
    name = best(bench)
    return [
        f"other processor {one.other}, {name}: {one.ratio.median:.2f}, below {goals[one.other]}"
        for one in bench.results
        if one.primitive == name and one.ratio.median < goals[one.other]
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
    for heading in ("one, us", "two, us", "times faster", "by helper", "asked", "boosted"):
        shown.add_column(heading, justify="right")
    pages = bench.rounds * bench.folio_kib / 4
    for one in bench.results:
        shown.add_row(
            one.other,
            one.primitive,
            f"{one.one_us.median:.0f}",
            f"{one.two_us.median:.0f}",
            f"{one.ratio.median:.2f} ({one.ratio.lower:.2f} to {one.ratio.upper:.2f})",
            f"{one.helped_pages / pages:.0%}",
            f"{one.offers}/{bench.rounds}",
            str(one.boosts),
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
        "verdict": {
            "skipped": others,
            "primitive": best(bench),
            "missed": found,
            "goal_idle": GOAL_IDLE,
            "least_busy": LEAST_BUSY,
        },
    }
    ui.say(f"bench-mt: {native.keep(program, out, more)}")
    if others:
        ui.say(f"bench-mt: no verdict, since others use this machine: {'; '.join(others)}")
        return 0
    if found:
        raise HarnessError(f"bench-mt: {len(found)} goals are missed", "\n".join(found))
    ui.say(
        f"bench-mt: two threads are {GOAL_IDLE} times as fast as one and more, and no slower "
        f"(at least {LEAST_BUSY}) where the other processor is busy"
    )
    return 0
