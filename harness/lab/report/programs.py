"""A picture and a table of programs whose memory moves."""

from collections.abc import Sequence

from harness.lab.report.plots import BLACK, BLUE, GREEN, GREY, PURPLE, RED, SKY, Bar, Look
from harness.lab.results import WAY_NAMES, Counted, Program, State, Way, size_name
from harness.lab.workloads import WORKLOADS

FIGURES = tuple(f"{name}.png" for name in WORKLOADS)

_LOOKS: dict[Way, Look] = {
    "vanilla": Look(BLACK, "H"),
    "off": Look(GREY, "<"),
    "dcbm": Look(BLUE, "s"),
    "dcbm 50us": Look(SKY, "v"),
    "dcbm live": Look(GREEN, "*"),
    "cpu live": Look(PURPLE, "D"),
}
_BUSY = Look(RED, "X")
_STATES: dict[State, str] = {"rest": "at rest", "busy": "CPU busy", "moving": "moving"}


def panels(programs: Sequence[Program]) -> dict[str, list[Bar]]:
    """Return what the picture shows, by case and size of pages."""
    found: dict[str, list[Bar]] = {}
    for one in programs:  # at rest comes first
        if one.state == "rest":
            rest = one
            continue
        title = f"{one.case}, {size_name(one.folio_kib)} pages"
        name, look = WAY_NAMES[one.way], _LOOKS[one.way]
        if one.state == "busy":
            name, look = "CPU busy", _BUSY
        bar = Bar(name, look, rest.p999_us, one.p999_us, one.per_s / rest.per_s)
        found.setdefault(title, []).append(bar)
    return found


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
    head = ["pages", "case", "copies by", "state", "a second", "p50", "p99", "p99.9", "longest"]
    counted = [name for name in _COUNTS if any(name in one.counts for one in programs)]
    if counted:
        head += ["CPU for one", *(_COUNTS[name] for name in counted), "threads' CPU"]
    else:
        head += ["move", "mover's CPU"]

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
