"""Figures of programs while their memory moves that lab/goals.toml has goals for."""

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from harness.lab.judge.claim import Claim, promise
from harness.lab.results import WAY_NAMES, Program, size_name
from harness.lab.workloads import WORKLOADS

SLACK = 0.1
"""As in claim.py: any change of code moves when the one processor is whose."""

RARE_SLACK = 0.33
"""The same of a 99.9th percentile, which is a single stall."""

_RARE = "99.9th percentile"


def slack_of(claim: Claim) -> float:
    """Return how much worse than the recorded figure counts as the same."""
    return RARE_SLACK if _RARE in claim.what else SLACK


def _over(first: float, second: float) -> float:
    """Return a quotient, or what counts as not measured."""
    return first / second if second else math.nan


def _mover_us(one: Program) -> float:
    """Return what the demoting thread took of the processor for a page, but for the time."""
    return _over(one.mover_ms, one.counts["demoted_per_s"])


def _got(one: Program) -> float:
    return _over(one.counts["huge"], one.counts["huge"] + one.counts["huge_missed"])


_COUNTED: dict[str, tuple[tuple[str, str, Callable[[Program], float]], ...]] = {
    "redis": (),
    "postgres": (),
    "tiering": (
        ("share of a hot set on the fast node, over vanilla's", "times",
         lambda one: one.counts["near"]),
        ("pages promoted a second, over vanilla's", "times",
         lambda one: one.counts["promoted_per_s"]),
        ("CPU time for a page demoted, of vanilla's", "", _mover_us),
    ),
    "compaction": (
        ("large pages that it got, over vanilla's", "times", _got),
        ("CPU time, of vanilla's", "", lambda one: one.cpu_us),
    ),
}  # fmt: skip
"""Further figures that are compared where the kernel moves memory by itself."""


_COMPARED = ("off", "dcbm", "dcbm 50us")
"""Compared with vanilla where migratepages(8) moves memory; live ways with rest."""


def claims_of(programs: Sequence[Program]) -> Iterator[Claim]:
    """Yield what ways bring over vanilla, and live copies over the program at rest."""

    def key(one: Program) -> tuple[object, ...]:
        return (one.workload, one.folio_kib, one.case, one.way, one.state)

    found = {key(one): one for one in programs}
    for one in programs:
        if one.state != "moving":
            continue
        workload = WORKLOADS[one.workload]
        said = f"{size_name(one.folio_kib)} pages, {one.case}, {WAY_NAMES[one.way]}"
        # Where the kernel moves memory by itself, how much depends on how fast it is.
        if one.way in _COMPARED or (one.counts and one.way != "vanilla"):
            vanilla = found[key(structs.replace(one, way="vanilla"))]
            value = one.per_s / vanilla.per_s
            name = f"{said}: {workload.what}, over vanilla's"
            yield from promise(workload.group, name, "times", value)
            value = one.p999_us / vanilla.p999_us
            name = f"{said}: {_RARE}, of vanilla's"
            yield from promise(workload.group, name, "", value)
            for name, unit, figure in _COUNTED[one.workload]:
                value = _over(figure(one), figure(vanilla))
                yield from promise(workload.group, f"{said}: {name}", unit, value)
        elif "live" in one.way:
            rest = found[key(structs.replace(one, state="rest"))]
            value = one.p999_us / rest.p999_us
            name = f"{said}: {_RARE}, of that at rest"
            yield from promise(workload.group, name, "", value)
