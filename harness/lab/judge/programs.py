"""Figures of programs while their memory moves that lab/goals.toml has goals for."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import structs

from harness.lab.judge.claim import Claim, promises
from harness.lab.results import QUANTUM_NS, WAY_NAMES, Program, size_name
from harness.lab.workloads import WORKLOADS

SLACK = 0.1
"""As in claim.py: any change of code moves when a processor is whose."""

RARE_SLACK = 0.33
"""The same of a 99.9th percentile, which is a single stall."""

RARE = "99.9th percentile"


def _over(first: float, second: float) -> float:
    """Return a quotient, or what counts as not measured."""
    return first / second if second else math.nan


def _per_gb(figure: float, one: Program) -> float:
    """Return a figure of all moves for each GB."""
    return _over(figure, one.all_gb)


_DUE: tuple[tuple[str, str, Callable[[Program], float]], ...] = (
    ("late per GB, of vanilla's", "", lambda one: 1 + _per_gb(one.late, one)),  # there may be none
    ("CPU time per GB, of vanilla's", "", lambda one: _over(one.mover_ms, one.gb)),
    ("IPIs per GB, of vanilla's", "", lambda one: 1 + _per_gb(one.ipis, one)),
)
"""Figures that are compared where requests and moves are due at fixed rates."""

_COUNTED: dict[str, tuple[tuple[str, str, Callable[[Program], float]], ...]] = {
    "tiering": (
        ("share of a hot set on the fast node, over vanilla's", "times",
         lambda one: one.counts["near"]),
        ("pages promoted a second, over vanilla's", "times",
         lambda one: one.counts["promoted_per_s"]),
        ("CPU time for a page demoted, of vanilla's", "",  # but for the time
         lambda one: _over(one.mover_ms, one.counts["demoted_per_s"])),
    ),
}  # fmt: skip
"""The same where the kernel moves memory by itself."""


def claims_of(programs: Sequence[Program]) -> Iterator[Claim]:
    """Yield what ways bring over vanilla, each the median of its seeds."""
    return promises((*name, median(values)) for name, values in _seeds(programs).items())


def spread(programs: Sequence[Program]) -> dict[str, float]:
    """Return half of the interval of each claim's seeds, as a fraction of the median."""
    return {
        f"{group}: {what}": (max(values) - min(values)) / 2 / abs(median(values))
        for (group, what, _), values in _seeds(programs).items()
        if median(values)
    }


def _seeds(programs: Sequence[Program]) -> dict[tuple[str, str, str], list[float]]:
    """Return what is compared, of each seed."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for *name, value in _promised(programs):
        group, what, unit = name
        found.setdefault((group, what, unit), []).append(value)
    return found


def _promised(programs: Sequence[Program]) -> Iterator[tuple[str, str, str, float]]:
    """Compare with vanilla; of programs that share a processor, only how slow the slowest are."""

    def key(one: Program) -> tuple[object, ...]:
        return (one.workload, one.folio_kib, one.case, one.way, one.state, one.seed)

    some = [one for one in programs if one.quantum_ns == QUANTUM_NS]
    found = {key(one): one for one in some}
    for one in (one for one in some if (one.state, one.way != "vanilla") == ("moving", True)):
        workload = WORKLOADS[one.workload]
        group = workload.group
        said = f"{size_name(one.folio_kib)} pages, {one.case}, {WAY_NAMES[one.way]}"
        vanilla = found[key(structs.replace(one, way="vanilla"))]
        if one.counts:
            name = f"{said}: {workload.what}, over vanilla's"
            yield group, name, "times", one.per_s / vanilla.per_s
        yield group, f"{said}: {RARE}, of vanilla's", "", one.p999_us / vanilla.p999_us
        for name, unit, figure in _COUNTED.get(one.workload, _DUE if one.gb else ()):
            yield group, f"{said}: {name}", unit, _over(figure(one), figure(vanilla))
