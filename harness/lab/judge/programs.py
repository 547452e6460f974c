"""Figures of programs while their memory moves that lab/goals.toml has goals for."""

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from harness.lab.judge.claim import Claim, Promised, promises
from harness.lab.results import WAY_NAMES, Program, size_name
from harness.lab.workloads import WORKLOADS

SLACK = 0.1
"""As in claim.py: any change of code moves when the one processor is whose."""

RARE_SLACK = 0.33
"""The same of a 99.9th percentile, which is a single stall."""

RARE = "99.9th percentile"


def _over(first: float, second: float) -> float:
    """Return a quotient, or what counts as not measured."""
    return first / second if second else math.nan


_COUNTED: dict[str, tuple[tuple[str, str, Callable[[Program], float]], ...]] = {
    "redis": (),
    "postgres": (),
    "tiering": (
        ("share of a hot set on the fast node, over vanilla's", "times",
         lambda one: one.counts["near"]),
        ("pages promoted a second, over vanilla's", "times",
         lambda one: one.counts["promoted_per_s"]),
        ("CPU time for a page demoted, of vanilla's", "",  # but for the time
         lambda one: _over(one.mover_ms, one.counts["demoted_per_s"])),
    ),
    "compaction": (
        ("large pages that it got, over vanilla's", "times",
         lambda one: _over(one.counts["huge"], one.counts["huge"] + one.counts["huge_missed"])),
        ("CPU time, of vanilla's", "", lambda one: one.cpu_us),
    ),
}  # fmt: skip
"""Further figures that are compared where the kernel moves memory by itself."""


_COMPARED = ("off", "dcbm", "dcbm 50us")
"""Compared with vanilla where migratepages(8) moves memory; live ways with rest."""


def claims_of(programs: Sequence[Program]) -> Iterator[Claim]:
    """Yield what ways bring over vanilla, and live copies over the program at rest."""
    return promises(_promised(programs))


def _promised(programs: Sequence[Program]) -> Iterator[Promised]:
    def key(one: Program) -> tuple[object, ...]:
        return (one.workload, one.folio_kib, one.case, one.way, one.state)

    found = {key(one): one for one in programs}
    for one in (one for one in programs if one.state == "moving"):
        workload = WORKLOADS[one.workload]
        group = workload.group
        said = f"{size_name(one.folio_kib)} pages, {one.case}, {WAY_NAMES[one.way]}"
        # Where the kernel moves memory by itself, how much depends on how fast it is.
        if one.way in _COMPARED or (one.counts and one.way != "vanilla"):
            vanilla = found[key(structs.replace(one, way="vanilla"))]
            name = f"{said}: {workload.what}, over vanilla's"
            yield group, name, "times", one.per_s / vanilla.per_s
            yield group, f"{said}: {RARE}, of vanilla's", "", one.p999_us / vanilla.p999_us
            for name, unit, figure in _COUNTED[one.workload]:
                yield group, f"{said}: {name}", unit, _over(figure(one), figure(vanilla))
        elif "live" in one.way:
            rest = found[key(structs.replace(one, state="rest"))]
            yield group, f"{said}: {RARE}, of that at rest", "", one.p999_us / rest.p999_us
