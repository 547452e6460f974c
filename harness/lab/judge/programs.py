"""Figures of programs while their memory moves that lab/goals.toml has goals for."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import structs

from harness.lab.judge.claim import SLACK as LEAST
from harness.lab.judge.claim import Claim, promises
from harness.lab.results import QUANTUM_NS, WAY_NAMES, Program, size_name
from harness.lab.workloads import WORKLOADS

SLACK = 0.1
"""As in claim.py, of a single seed: any change of code moves when a processor is whose."""

RARE_SLACK = 0.33
"""The same of a 99.9th percentile, which is a single stall."""

RARE = "99.9th percentile"


def _over(first: float, second: float) -> float:
    """Return a quotient, or what counts as not measured."""
    return first / second if second else math.nan


_DUE: tuple[tuple[str, str, Callable[[Program], float]], ...] = (
    ("late per GB, of vanilla's", "", lambda row: 1 + row.per_gb(row.late)),  # there may be none
    ("CPU time per GB, of vanilla's", "", lambda row: _over(row.mover_ms, row.gb)),
    ("IPIs per GB, of vanilla's", "", lambda row: 1 + row.per_gb(row.ipis)),
)
"""Figures that are compared where requests and moves are due at fixed rates."""

_COUNTED: dict[str, tuple[tuple[str, str, Callable[[Program], float]], ...]] = {
    "tiering": (
        ("share of a hot set on the fast node, over vanilla's", "times",
         lambda row: row.counts["near"]),
        ("pages promoted a second, over vanilla's", "times",
         lambda row: row.counts["promoted_per_s"]),
    ),
    "movers": (("moves a second, over vanilla's", "times", lambda row: row.per_s),),
}  # fmt: skip
"""Others, by workload."""


def claims_of(programs: Sequence[Program]) -> Iterator[Claim]:
    """Yield what ways bring over vanilla, each the median of its seeds."""
    return promises((*name, median(values)) for name, values in _seeds(programs).items())


def spread(programs: Sequence[Program]) -> dict[str, float]:
    """Return half of the interval of each claim of several seeds, as a fraction of the median."""
    return {
        f"{group}: {what}": max(LEAST, (max(values) - min(values)) / 2 / abs(median(values)))
        for (group, what, _), values in _seeds(programs).items()
        if len(values) > 1 and median(values)
    }


def _seeds(programs: Sequence[Program]) -> dict[tuple[str, str, str], list[float]]:
    """Return what is compared, of each seed."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for *name, value in _promised(programs):
        group, what, unit = name
        values.setdefault((group, what, unit), []).append(value)
    return values


def _promised(programs: Sequence[Program]) -> Iterator[tuple[str, str, str, float]]:
    """Compare with vanilla; of programs that share a processor, only how slow the slowest are."""

    def key(row: Program) -> tuple[object, ...]:
        return (row.workload, row.folio_kib, row.case, row.way, row.state, row.seed)

    some = [row for row in programs if row.quantum_ns == QUANTUM_NS]
    by_key = {key(row): row for row in some}
    for row in (row for row in some if (row.state, row.way != "vanilla") == ("moving", True)):
        workload = WORKLOADS[row.workload]
        group = workload.group
        label = f"{size_name(row.folio_kib)} pages, {row.case}, {WAY_NAMES[row.way]}"
        vanilla = by_key.get(key(structs.replace(row, way="vanilla")))
        if not vanilla:  # an IOMMU costs only an engine
            continue
        if workload.rate:
            yield group, f"{label}: {RARE}, of vanilla's", "", row.p999_us / vanilla.p999_us
        for name, unit, figure in (*_COUNTED.get(row.workload, ()), *(_DUE if row.gb else ())):
            if workload.rate or not name.startswith("late"):
                yield group, f"{label}: {name}", unit, _over(figure(row), figure(vanilla))
