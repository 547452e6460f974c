"""`make bench-mt`: what a second thread brings on this machine, and what mtcopy makes of it.

The benchmark (tools/mm/mt_bench.c) is built from the kernel's own assembly and from the
code by which mtcopy shares out work and learns whether a helper pays. It runs on two
processors. Some machines have nothing to give to a second thread: then mtcopy must not be
slower than one. The verdict is left out where others use the machine.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from harness.bench import native
from harness.bench.native import NotEmpty, Quartiles
from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

Other = Literal["idle", "busy"]

LEAST = 0.97
"""As fast as one thread, but for what times scatter: mtcopy is never slower."""
WORTH = 1.15
"""Where two threads are this much faster than one, mtcopy brings half of that at least."""
IDLE_ENOUGH = 0.9
"""Of each processor's time, before and after: less, and others had the processors."""

_ROUNDS = 63
_WATCHED = 1.0  # seconds
_TIMES = re.compile(r"^cpu(\d+)((?: \d+){8})", re.MULTILINE)
"""A line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal."""


@dataclass(frozen=True)
class Way:
    """One way to copy a 2 MB folio; `ratio` is how many times faster than one thread it was."""

    us: Quartiles
    ratio: Quartiles
    offers: int


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
    """All that mt_bench prints, as far as it is used here."""

    program: Literal["mt_bench"]
    format: Literal[2]
    rounds: int
    folio_kib: int
    cpus: tuple[int, int]
    results: Annotated[tuple[Result, ...], NotEmpty]


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
    first, last = (
        {int(cpu): [int(word) for word in words.split()] for cpu, words in _TIMES.findall(stat)}
        for stat in (before, after)
    )
    shares = {}
    for cpu, old in first.items():
        spent = [new - was for new, was in zip(last[cpu], old, strict=True)]
        shares[cpu] = (spent[3] + spent[4]) / (sum(spent) or 1)
    return shares


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


def show(bench: Bench) -> None:
    """Print the table of results."""
    native.show(
        f"folios of {bench.folio_kib} KiB, cold: median of {bench.rounds} rounds",
        ["other processor", "primitive"],
        ["one, us", "two, times faster", "mtcopy, times faster", "asked"],
        [
            [
                one.other,
                one.primitive,
                f"{one.one.us.median:.0f}",
                *(
                    f"{ratio.median:.2f} ({ratio.lower:.2f} to {ratio.upper:.2f})"
                    for ratio in (one.two.ratio, one.mtcopy.ratio)
                ),
                f"{one.mtcopy.offers}/{bench.rounds}",
            ]
            for one in bench.results
        ],
    )


def main(paths: Paths) -> int:
    """Run `make bench-mt`; HarnessError if a goal is missed on a machine that is idle."""
    before = _watch()
    bench, document, results = native.run(
        paths, "bench-mt", "mt_bench", Bench, "--rounds", str(_ROUNDS)
    )
    after = _watch()
    show(bench)
    others = busy_cpus(bench.cpus, before, after)
    found = missed(bench)
    idle = {str(cpu): [before[cpu], after[cpu]] for cpu in bench.cpus}
    verdict = {"skipped": others, "missed": found, "least": LEAST, "worth": WORTH}
    jsonio.write(results, document | {"idle": idle, "verdict": verdict})
    ui.say(f"bench-mt: {results}")
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
