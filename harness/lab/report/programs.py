"""The cost of a GB that moves for programs, and tables of their clients' figures."""

from collections.abc import Sequence
from statistics import median

from harness.lab.report.plots import Cost, Interval
from harness.lab.results import QUANTUM_NS, WAY_NAMES, Counted, Program, State, Way, size_name
from harness.lab.workloads import REDIS, WORKLOADS

PANELS = ("requests lost per GB", "CPU-ms of the mover per GB", "worst stall, us")

_DEFAULTS: tuple[Way, ...] = ("off", "dcbm live")
"""As the kernel boots, and as a route to an engine is."""

_STATES: dict[State, str] = {"rest": "at rest", "moving": "moving"}


_GB = 0.66
"""Of a move of redis, in records whose mover had no rate: there lost requests are throughput."""


def _cost(one: Program, rest: Program) -> tuple[float, ...]:
    """Return figures for PANELS."""
    if one.gb:
        return one.late / one.all_gb, one.mover_ms / one.gb, one.longest_us
    lost = (rest.per_s - one.per_s) * one.move_ms / 1000 / _GB
    return lost, one.mover_ms / _GB, one.longest_us


def costs(programs: Sequence[Program]) -> dict[str, list[Cost]]:
    """Return what the picture shows, by size of pages: of redis, and its first case."""
    found: dict[str, dict[Way, list[tuple[float, ...]]]] = {}
    some = [one for one in programs
            if one.workload == REDIS.name and one.quantum_ns == QUANTUM_NS]  # fmt: skip
    for one in (one for one in some if one.case == some[0].case):
        if one.state == "rest":
            rest = one
        elif one.state == "moving":
            size = found.setdefault(f"{one.case}, {size_name(one.folio_kib)} pages", {})
            size.setdefault(one.way, []).append(_cost(one, rest))
    return {
        title: [
            Cost(way, WAY_NAMES[way] + " (default)" * (way in _DEFAULTS), way in _DEFAULTS,
                 [Interval(median(some), min(some), max(some))
                  for some in zip(*seeds, strict=True)])
            for way, seeds in ways.items()
        ]
        for title, ways in found.items()
    }  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


_COUNTS: dict[Counted, str] = {
    "near": "hot set near, %", "demoted_per_s": "demoted a second",
    "promoted_per_s": "promoted a second",
}  # fmt: skip


def _by_quantum(one: Program, programs: Sequence[Program]) -> str:
    """Return how much p99.9 changes with half and double the quantum, where that is over 2 %."""

    def key(one: Program) -> tuple[object, ...]:
        return (one.folio_kib, one.case, one.way, one.state, one.seed)

    others = [other.p999_us for other in programs if key(other) == key(one)]
    apart = max(abs(us / one.p999_us - 1) for us in others) if one.p999_us else 0
    return f"{apart:.0%} by quantum" if apart > 0.02 else "-"


def table(programs: Sequence[Program]) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table, and its rows: of other quanta only how far they are apart."""
    what = f"{WORKLOADS[programs[0].workload].what} a second"
    head = ["pages", "case", "copies by", "state", what, "p50, us", "p99", "p99.9", "longest"]
    counted = [name for name in _COUNTS if any(name in one.counts for one in programs)]
    due = any(one.gb for one in programs)
    if counted:
        head += ["CPU for one, us", *(_COUNTS[name] for name in counted), "threads' CPU, ms"]
    elif due:
        head += ["late per GB", "CPU-ms per GB", "IPIs per GB", "move, ms", "seed", "p99.9"]
    else:
        head += ["move, ms", "mover's CPU, ms"]

    def last(one: Program) -> list[str]:
        if counted:
            share = {name: one.counts[name] * (100 if name == "near" else 1) for name in one.counts}
            counts = [_figure(share[name]) if name in share else "-" for name in counted]
            used = f"{one.mover_ms:,.1f}" if one.state == "moving" else "-"
            return [f"{one.cpu_us:.3g}", *counts, used]
        all_gb = one.all_gb
        per_gb = (one.late / all_gb, one.mover_ms / one.gb, one.ipis / all_gb) if all_gb else ()
        shown = (*per_gb, one.move_ms) if due else (one.move_ms, one.mover_ms)
        cells = [f"{value:,.1f}" for value in shown] if one.moves else ["-"] * (4 if due else 2)
        return [*cells, str(one.seed), _by_quantum(one, programs)] if due else cells

    rows = []
    for one in (one for one in programs if one.quantum_ns == QUANTUM_NS):
        times = map(_figure, (one.p50_us, one.p99_us, one.p999_us, one.longest_us))
        words = (size_name(one.folio_kib), one.case, WAY_NAMES[one.way], _STATES[one.state])
        rows.append([*words, f"{one.per_s:,.0f}", *times, *last(one)])
    return head, rows
