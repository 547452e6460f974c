"""The two pictures of the report as PNG files, for white paper and for readers who confuse colours.

Red is memory that cannot be touched, yellow is memory that can only be read, and each way to move
memory has its own colour. Importing matplotlib takes a while: only reports import this module.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.lab.results import Strip, size_name

RED, YELLOW = "#C8102E", "#F0E442"

# Okabe and Ito's palette without what is near those two, and two of Paul Tol's.
COLOURS = {
    "vanilla": "#000", "off": "#7f7f7f", "batch": "#E69F00", "dcbm": "#0072B2", "mtcopy": "#882255",
    "dcbm 50us": "#56B4E9", "dcbm live": "#009E73", "cpu live": "#CC79A7", "dsa live": "#332288",
}  # fmt: skip

_STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlesize": 10, "xtick.labelsize": 8, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "legend.frameon": False,
}  # fmt: skip


class Interval(NamedTuple):
    """A figure's median, and the least and the greatest of its seeds."""

    median: float
    low: float
    high: float


class Cost(NamedTuple):
    """The cost of a way to move memory for a program, a figure for each panel of the picture."""

    way: str
    name: str
    default: bool
    figures: Sequence[Interval]


def amount(value: float) -> str:
    """Return a figure for people, without more digits than it deserves."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


@contextmanager
def _figure(path: Path, size: tuple[float, float], footer: str) -> Iterator[Figure]:
    """Give a figure with a footer, and write it without anything that changes by itself."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.supxlabel(footer, fontsize=8, color="#555555", x=0.995, ha="right")
        yield figure
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})


def strip(path: Path, rows: Sequence[tuple[str, Sequence[Strip]]], footer: str) -> None:
    """Draw which pages cannot be used over time: a row for each way, a column for each size.

    All strips of a size have the same axes.
    """
    latest: dict[int, float] = {}
    for trace in (trace for _, some in rows for trace in some):
        latest[trace.folio_kib] = max(trace.lasts_us[0], latest.get(trace.folio_kib, 0))
    with _figure(path, (10, 1.25 * len(rows) + 0.9), footer) as figure:
        grid = figure.subplots(len(rows), len(latest), sharex="col", sharey="col", squeeze=False)
        for (name, some), line in zip(rows, grid, strict=True):
            line[0].set_ylabel(name, rotation=0, ha="right", va="center",
                               color=COLOURS[some[0].way])  # fmt: skip
            for trace in some:
                axes = line[list(latest).index(trace.folio_kib)]
                mib = trace.folio_kib / 1024
                high = len(trace.folios) * mib
                axes.set_ylim(high, 0)
                axes.set_yticks([0, high], ["0", f"{high:g} MB"])
                # A line is as thick as a folio, but not too thin to be seen.
                width = max(0.9 * 52 / len(trace.folios), 0.5)
                for colour, since, until in ((YELLOW, 0, 1), (RED, 1, 2)):
                    spans = [((times[since], (row + 0.5) * mib), (times[until], (row + 0.5) * mib))
                             for row, times in enumerate(trace.folios)]  # fmt: skip
                    lines = LineCollection(spans, colors=colour, linewidths=width,
                                           capstyle="butt")  # fmt: skip
                    axes.add_collection(lines)
                end, read_only, inaccessible = trace.lasts_us
                axes.axvline(end, color=COLOURS[trace.way], linewidth=1)
                side, right = ("right", -4) if end > latest[trace.folio_kib] / 2 else ("left", 4)
                words = f"each: {amount(inaccessible)} us inaccessible"
                words += f", {amount(read_only)} read-only" if read_only else ""
                for text, colour, down in ((f"all have moved after {amount(end)} us", "#000000", 9),
                                           (words, RED, 21)):  # fmt: skip
                    axes.annotate(text, (end, 0), (right, -down), textcoords="offset points",
                                  fontsize=8, color=colour, ha=side)  # fmt: skip
        for axes, kib in zip(grid[0], latest, strict=True):
            axes.set_title(f"folios of {size_name(kib)}")
            axes.set_xlim(0, 1.03 * latest[kib])
        for axes in grid[-1]:
            axes.set_xlabel("us since the move began")
        figure.legend([Patch(color=RED), Patch(color=YELLOW)], ["inaccessible", "read-only"],
                      loc="outside upper right", ncols=2)  # fmt: skip


def cost(
    path: Path, panels: Sequence[str], rows: Mapping[str, Sequence[Cost]], footer: str
) -> None:
    """Draw what moves cost: a panel for each figure, and a row of them for each size of pages."""
    most = max(len(costs) for costs in rows.values())
    footer = f"less is better; bold is the default; {footer}"
    with _figure(path, (10, (0.26 * most + 0.5) * len(rows) + 0.4), footer) as figure:
        grid = figure.subplots(len(rows), len(panels), sharex="col", squeeze=False)
        for (title, costs), line in zip(rows.items(), grid, strict=True):
            places = range(0, -len(costs), -1)
            for number, axes in enumerate(line):
                axes.grid(axis="x")
                axes.tick_params(axis="y", length=0)
                axes.set_yticks(places, [bar.name for bar in costs] if not number else [])
                for bar, place in zip(costs, places, strict=True):
                    median, low, high = bar.figures[number]
                    axes.barh(place, median, 0.7, color=COLOURS[bar.way])
                    lines = (("#ffffff", 4, ""), ("#000000", 1, "|")) if low < high else ()
                    for colour, wide, ends in lines:
                        axes.plot([low, high], [place] * 2, color=colour, lw=wide, marker=ends)
                    axes.annotate(amount(median), (max(high, 0), place), (5, -3),
                                  textcoords="offset points", fontsize=8)  # fmt: skip
                axes.margins(x=0.18)
            for label, bar in zip(line[0].get_yticklabels(), costs, strict=True):
                label.set_fontweight("bold" if bar.default else "normal")
            line[0].set_title(title, loc="left", fontweight="bold")
        for number, panel in enumerate(panels):
            grid[-1][number].set_xlabel(panel)
