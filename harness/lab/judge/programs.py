"""What programs get while their memory moves: figures that lab/goals.toml has goals for."""

from collections.abc import Iterator

from harness.lab.judge.claim import Claim, promise
from harness.lab.results import WAY_NAMES, Program, Results, State, Way, size_name

_LIVE: tuple[Way, ...] = ("dcbm live", "cpu live")


def group(workload: str) -> str:
    """Return what the claims of a workload belong to."""
    return f"{workload} while its memory moves"


def claims_of(results: Results) -> Iterator[Claim]:
    """Yield what each way was to bring, over vanilla's way and over the program at rest.

    A way that was measured without what it is compared with has no claims.
    """
    found = {
        (one.workload, one.folio_kib, one.case, one.way, one.state): one
        for one in results.programs
    }

    def other(one: Program, way: Way, state: State) -> Program | None:
        return found.get((one.workload, one.folio_kib, one.case, way, state))

    for one in results.programs:
        if one.state != "moving":
            continue
        name = f"{size_name(one.folio_kib)} pages, {one.case}, {WAY_NAMES[one.way]}"
        whose = group(one.workload)
        if one.way != "vanilla" and (vanilla := other(one, "vanilla", "moving")):
            faster = one.per_s / vanilla.per_s
            yield from promise(whose, f"{name}: requests, over vanilla's", "times", faster)
            longer = one.latency_us.p999 / vanilla.latency_us.p999
            yield from promise(whose, f"{name}: 99.9th percentile, of vanilla's", "", longer)
        if one.way in _LIVE and (rest := other(one, one.way, "rest")):
            longer = one.latency_us.p999 / rest.latency_us.p999
            yield from promise(whose, f"{name}: 99.9th percentile, of that at rest", "", longer)
