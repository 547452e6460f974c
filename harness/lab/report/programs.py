"""What programs pay for a GB that moves, and tables of what their clients get."""

from collections.abc import Sequence
from statistics import median

from harness.lab.report.plots import Cost, Interval
from harness.lab.results import WAY_NAMES, Counted, Program, State, Way, size_name
from harness.lab.workloads import REDIS, WORKLOADS

PANELS = ("requests lost per GB", "CPU-ms of the mover per GB", "worst stall, us")

_DEFAULTS: tuple[Way, ...] = ("off", "dcbm live")
"""As the kernel boots, and as a route to an engine is."""

_STATES: dict[State, str] = {"rest": "at rest", "busy": "CPU busy", "moving": "moving"}


def costs(programs: Sequence[Program]) -> dict[str, list[Cost]]:
    """Return what the picture shows, by size of pages: of redis, and its first case."""
    case = next(iter(REDIS.cases.values()))
    found: dict[str, dict[Way, list[tuple[float, ...]]]] = {}
    rest = {}
    for one in (one for one in programs if (one.workload, one.case) == (REDIS.name, case)):
        if one.state == "rest":
            rest[one.folio_kib, one.way] = one.per_s
        elif one.state == "moving":
            gb = REDIS.gb_a_move
            lost = (rest[one.folio_kib, one.way] - one.per_s) * one.move_ms / 1000 / gb
            size = found.setdefault(f"{case}, {size_name(one.folio_kib)} pages", {})
            figures = (lost, one.mover_ms / gb, one.longest_us)
            size.setdefault(one.way, []).append(figures)
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
    "promoted_per_s": "promoted a second", "huge": "large pages", "huge_missed": "missed",
    "stalls": "waits for compaction", "compactions": "compactions", "compactions_failed": "failed",
    "moved": "pages moved",
}  # fmt: skip


def table(programs: Sequence[Program]) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table, and its rows."""
    what = f"{WORKLOADS[programs[0].workload].what} a second"
    head = ["pages", "case", "copies by", "state", what, "p50, us", "p99", "p99.9", "longest"]
    counted = [name for name in _COUNTS if any(name in one.counts for one in programs)]
    if counted:
        head += ["CPU for one, us", *(_COUNTS[name] for name in counted), "threads' CPU, ms"]
    else:
        head += ["move, ms", "mover's CPU, ms"]

    def last(one: Program) -> list[str]:
        if not counted:
            shown = (one.move_ms, one.mover_ms)
            return [f"{value:,.1f}" if one.moves else "-" for value in shown]
        share = {name: one.counts[name] * (100 if name == "near" else 1) for name in one.counts}
        counts = [_figure(share[name]) if name in share else "-" for name in counted]
        used = f"{one.mover_ms:,.1f}" if one.state == "moving" else "-"
        return [f"{one.cpu_us:.3g}", *counts, used]

    rows = []
    for one in programs:
        times = map(_figure, (one.p50_us, one.p99_us, one.p999_us, one.longest_us))
        words = (size_name(one.folio_kib), one.case, WAY_NAMES[one.way], _STATES[one.state])
        rows.append([*words, f"{one.per_s:,.0f}", *times, *last(one)])
    return head, rows
