"""What the report shows of programs whose memory moves: a picture and a table for each."""

from collections.abc import Iterator

from harness.lab.report.plots import BLACK, BLUE, GREEN, GREY, PURPLE, RED, Bar, Look
from harness.lab.results import WAY_NAMES, Program, Results, Way, size_name

LOOKS: dict[Way, Look] = {
    "vanilla": Look(BLACK, "H"),
    "off": Look(GREY, "<"),
    "dcbm": Look(BLUE, "s"),
    "dcbm live": Look(GREEN, "*"),
    "cpu live": Look(PURPLE, "D"),
}

NEIGHBOUR = Look(RED, "X")

_STATES = {"rest": "at rest", "neighbour": "beside a busy program", "moving": "moving"}


Panels = dict[str, list[Bar]]
"""By page size and case."""


def workloads(results: Results) -> list[str]:
    """Return the workloads that were measured."""
    return list(dict.fromkeys(one.workload for one in results.programs))


def figure(workload: str) -> str:
    """Return the name of a workload's picture."""
    return f"{workload}.png"


def panels(results: Results, workload: str) -> Panels:
    """Return what a workload's picture shows."""
    found: Panels = {}
    rest: dict[tuple[Way, int, str], Program] = {}
    for one in results.programs:
        if one.workload != workload:
            continue
        key = (one.way, one.folio_kib, one.case)
        if one.state == "rest":
            rest[key] = one
            continue
        moving = one.state == "moving"
        bar = Bar(
            WAY_NAMES[one.way] if moving else "not moving, CPU busy",
            LOOKS[one.way] if moving else NEIGHBOUR,
            100 * one.per_s / rest[key].per_s,
            rest[key].latency_us.p999,
            one.latency_us.p999,
        )
        found.setdefault(f"{size_name(one.folio_kib)} pages: {one.case}", []).append(bar)
    return found


def rows(results: Results, workload: str) -> Iterator[list[str]]:
    """Yield the rows of a workload's table."""
    for one in results.programs:
        if one.workload == workload:
            latency, moves = one.latency_us, one.moves
            times = (latency.p50, latency.p99, latency.p999, latency.longest)
            yield [
                size_name(one.folio_kib), one.case, WAY_NAMES[one.way], _STATES[one.state],
                f"{one.per_s:,.0f}", *(f"{time:,.0f}" for time in times),
                *((f"{moves.ms:,.1f}", f"{moves.cpu_ms:,.1f}") if moves else ("-", "-")),
            ]  # fmt: skip
