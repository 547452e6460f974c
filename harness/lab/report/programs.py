"""The cost of a GB that moves for programs, and tables of their clients' figures."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from harness.lab.report.plots import Cost, Interval, amount
from harness.lab.results import QUANTUM_NS, WAY_NAMES, Program, State, Way, size_name
from harness.lab.workloads import WORKLOADS

PANELS = ("requests late per GB", "CPU-ms of the machine per GB", "worst stall, us")

_DEFAULTS: tuple[Way, ...] = ("off", "dcbm live")
"""As the kernel boots, and as a route to an engine is."""

_STATES: dict[State, str] = {"rest": "at rest", "moving": "moving"}

_ALIKE = 0.02
"""By how much another quantum may change a figure that is quoted."""


def _interval(values: Sequence[float]) -> Interval:
    return Interval(median(values), min(values), max(values))


def costs(programs: Sequence[Program]) -> dict[str, list[Cost]]:
    """Return what the picture shows, by size of pages: of the first workload's first case."""
    sizes: dict[str, dict[Way, list[tuple[float, ...]]]] = {}
    some = [row for row in programs if row.quantum_ns == QUANTUM_NS and row.longest_us and row.gb]
    for row in some:
        if (row.workload, row.case) == (some[0].workload, some[0].case):
            figures = row.per_gb(row.late), row.mover_ms / row.gb, row.longest_us
            title = f"{row.workload}, {row.case}, {size_name(row.folio_kib)} pages"
            sizes.setdefault(title, {}).setdefault(row.way, []).append(figures)
    return {
        title: [
            Cost(way, WAY_NAMES[way] + " (default)" * (way in _DEFAULTS), way in _DEFAULTS,
                 [_interval(some) for some in zip(*seeds, strict=True)])
            for way, seeds in ways.items()
        ]
        for title, ways in sizes.items()
    }  # fmt: skip


_COLUMNS: dict[str, Callable[[Program], float]] = {
    "{} a second": lambda row: row.per_s,
    "p50, us": lambda row: row.p50_us,
    "p99": lambda row: row.p99_us,
    "p99.9": lambda row: row.p999_us,
    "longest": lambda row: row.longest_us,
    "late per GB": lambda row: row.per_gb(row.late),
    "CPU-ms per GB": lambda row: row.per_gb(row.mover_ms * row.moves),
    "IPIs per GB": lambda row: row.per_gb(row.ipis),
    "move, ms": lambda row: row.move_ms if row.moves else math.nan,
    "hot set near, %": lambda row: 100 * row.counts.get("near", math.nan),
    "demoted a second": lambda row: row.counts.get("demoted_per_s", math.nan),
    "promoted a second": lambda row: row.counts.get("promoted_per_s", math.nan),
}  # fmt: skip
"""Figures of a table, which leaves out those that no row has."""


def _cell(values: Sequence[float]) -> str:
    """Return the median of all seeds, and what they lie between."""
    middle, low, high = ("-" if math.isnan(value) else amount(value) for value in _interval(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def _by_quantum(name: str, first: float, others: Sequence[float]) -> Iterator[str]:
    """Yield what half or double the quantum changes by more than _ALIKE."""
    if first and (apart := max(abs(other / first - 1) for other in others)) > _ALIKE:
        yield f"{name} {apart:.0%}"
    elif not first and any(others):
        yield f"{name} {amount(max(others))} instead of none"


def _alike(programs: Sequence[Program]) -> dict[tuple[str, ...], list[Program]]:
    """Return rows that differ by seed and quantum, by the words that they have in common."""
    alike: dict[tuple[str, ...], list[Program]] = {}
    for row in programs:
        words = (size_name(row.folio_kib), row.case, WAY_NAMES[row.way], _STATES[row.state])
        alike.setdefault(words, []).append(row)
    return alike


def table(programs: Sequence[Program]) -> tuple[list[str], list[list[str]]]:
    """Return the head of a table, and its rows: of other quanta only what they change."""
    what = WORKLOADS[programs[0].workload].what
    columns = {name.format(what): of for name, of in _COLUMNS.items()
               if any(of(row) > 0 for row in programs)}  # fmt: skip
    rows = []
    for words, some in _alike(programs).items():
        seeds = [row for row in some if row.quantum_ns == QUANTUM_NS]
        others = [row for row in some if row.quantum_ns != QUANTUM_NS]
        apart = [text for name, of in columns.items() if others
                 for text in _by_quantum(name, of(seeds[0]), list(map(of, others)))]  # fmt: skip
        told = ", ".join(apart) or "within 2 %" if others else "not tried"
        rows.append([*words, *(_cell(list(map(of, seeds))) for of in columns.values()), told])
    return ["pages", "case", "copies by", "state", *columns, "with another quantum"], rows


def answer(programs: Sequence[Program]) -> str:
    """Return a cost of moves with vanilla and with the defaults, of the first case."""
    some = [row for row in programs if row.state == "moving" and row.quantum_ns == QUANTUM_NS]
    some = [row for row in some if (row.case, row.folio_kib) == (some[0].case, some[0].folio_kib)]
    for name in ("late per GB", "CPU-ms per GB", "p99.9"):
        by_way = {way: [_COLUMNS[name](row) for row in some if row.way == way] for way in WAY_NAMES}
        told = [f"{WAY_NAMES[way]} {_cell(by_way[way])}"
                for way in ("vanilla", *_DEFAULTS) if by_way[way]]  # fmt: skip
        if any(value > 0 for values in by_way.values() for value in values):
            return f"{size_name(some[0].folio_kib)} pages, {name}: {'; '.join(told)}"
    return ""
