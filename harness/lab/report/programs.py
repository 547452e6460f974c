"""The cost of a GB that moves for programs, and tables of their clients' figures."""

from collections.abc import Sequence
from statistics import median

from harness.lab.report.plots import Cost, Interval
from harness.lab.results import QUANTUM_NS, WAY_NAMES, Counted, Program, State, Way, size_name
from harness.lab.workloads import REDIS, WORKLOADS

PANELS = ("requests lost per GB", "CPU-ms of the machine per GB", "worst stall, us")

_DEFAULTS: tuple[Way, ...] = ("off", "dcbm live")
"""As the kernel boots, and as a route to an engine is."""

_STATES: dict[State, str] = {"rest": "at rest", "moving": "moving"}


_GB = 0.66
"""Of a move of redis, in records whose mover had no rate: there lost requests are throughput."""


def _cost(row: Program, rest: Program) -> tuple[float, ...]:
    """Return figures for PANELS."""
    if row.gb:
        return row.late / row.all_gb, row.mover_ms / row.gb, row.longest_us
    lost = (rest.per_s - row.per_s) * row.move_ms / 1000 / _GB
    return lost, row.mover_ms / _GB, row.longest_us


def costs(programs: Sequence[Program]) -> dict[str, list[Cost]]:
    """Return what the picture shows, by size of pages: of redis, and its first case."""
    sizes: dict[str, dict[Way, list[tuple[float, ...]]]] = {}
    some = [row for row in programs
            if row.workload == REDIS.name and row.quantum_ns == QUANTUM_NS]  # fmt: skip
    for row in (row for row in some if row.case == some[0].case):
        if row.state == "rest":
            rest = row
        elif row.state == "moving":
            size = sizes.setdefault(f"{row.case}, {size_name(row.folio_kib)} pages", {})
            size.setdefault(row.way, []).append(_cost(row, rest))
    return {
        title: [
            Cost(way, WAY_NAMES[way] + " (default)" * (way in _DEFAULTS), way in _DEFAULTS,
                 [Interval(median(some), min(some), max(some))
                  for some in zip(*seeds, strict=True)])
            for way, seeds in ways.items()
        ]
        for title, ways in sizes.items()
    }  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


_COUNTS: dict[Counted, str] = {
    "near": "hot set near, %", "demoted_per_s": "demoted a second",
    "promoted_per_s": "promoted a second",
}  # fmt: skip


def _by_quantum(row: Program, programs: Sequence[Program]) -> str:
    """Return how much p99.9 changes with half and double the quantum, where that is known."""

    def key(row: Program) -> tuple[object, ...]:
        return (row.folio_kib, row.case, row.way, row.state, row.seed)

    others = [other.p999_us for other in programs
              if key(other) == key(row) and other.quantum_ns != row.quantum_ns]  # fmt: skip
    if not (others and row.p999_us):
        return "-"
    return f"{max(abs(us / row.p999_us - 1) for us in others):.0%} by quantum"


def table(programs: Sequence[Program]) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table, and its rows: of other quanta only how far they are apart."""
    what = f"{WORKLOADS[programs[0].workload].what} a second"
    head = ["pages", "case", "copies by", "state", what, "p50, us", "p99", "p99.9", "longest"]
    counted = [name for name in _COUNTS if any(name in row.counts for row in programs)]
    due = any(row.gb for row in programs)
    if counted:
        head += ["CPU for one, us", *(_COUNTS[name] for name in counted), "threads' CPU, ms"]
    elif due:
        head += ["late per GB", "CPU-ms per GB", "IPIs per GB", "move, ms", "seed", "p99.9"]
    else:
        head += ["move, ms", "mover's CPU, ms"]

    def last(row: Program) -> list[str]:
        if counted:
            share = {name: row.counts[name] * (100 if name == "near" else 1) for name in row.counts}
            counts = [_figure(share[name]) if name in share else "-" for name in counted]
            used = f"{row.mover_ms:,.1f}" if row.state == "moving" else "-"
            return [f"{row.cpu_us:.3g}", *counts, used]
        all_gb = row.all_gb
        per_gb = (row.late / all_gb, row.mover_ms / row.gb, row.ipis / all_gb) if all_gb else ()
        shown = (*per_gb, row.move_ms) if due else (row.move_ms, row.mover_ms)
        cells = [f"{value:,.1f}" for value in shown] if row.moves else ["-"] * (4 if due else 2)
        return [*cells, str(row.seed), _by_quantum(row, programs)] if due else cells

    rows = []
    for row in (row for row in programs if row.quantum_ns == QUANTUM_NS):
        times = map(_figure, (row.p50_us, row.p99_us, row.p999_us, row.longest_us))
        words = (size_name(row.folio_kib), row.case, WAY_NAMES[row.way], _STATES[row.state])
        rows.append([*words, f"{row.per_s:,.0f}", *times, *last(row)])
    return head, rows
