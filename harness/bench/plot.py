"""The figure of `make bench-copy`: primitives against the per-page loop, by folio size."""

from pathlib import Path

from harness.bench.copy import PER_PAGE, STATES, Bench
from harness.lab.report import plots
from harness.lab.report.plots import BLUE, GREEN, GREY, RED, Look, Ratio, Ratios

_LOOKS = {
    "movsq": Look(BLUE, "o"),
    "movsb": Look(GREEN, "s"),
    "nontemporal": Look(RED, "^"),
    "per_page_mc": Look(GREY, "D", "--"),
}
_TITLES = {
    "cold": "cold: both in memory",
    "hot": "hot: both in cache, as far as they fit",
    "cold_read": "cold, then reading all of dst",
}


def panels(bench: Bench) -> dict[str, list[Ratios]]:
    """Return the curves of each state."""
    return {
        _TITLES[state]: [
            Ratios(
                name,
                look,
                [
                    Ratio(one.kib, one.ratio.lower, one.ratio.median, one.ratio.upper)
                    for one in bench.results
                    if (one.state, one.primitive) == (state, name) and name != PER_PAGE
                ],
            )
            for name, look in _LOOKS.items()
        ]
        for state in STATES
    }


def draw(bench: Bench, path: Path) -> None:
    """Draw it: a panel for each state of the caches, bars between the quartiles."""
    footer = f"{bench.cpu.model}, user space, medians and quartiles of {bench.rounds} rounds"
    plots.ratios(path, panels(bench), footer)
