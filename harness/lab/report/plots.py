"""The lab's figures as PNG files, for white paper and for readers who confuse colours.

A curve's marker tells it apart as well as its colour. Importing matplotlib takes a while, so
this module is imported only where a report is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.lab.results import size_name

# Okabe and Ito's palette, without its yellow, which is too faint on white.
BLACK, GREY, BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    "#000000", "#7f7f7f", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip
PALETTE = (BLUE, RED, GREEN, PURPLE, SKY, ORANGE)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more, so that no pair comes twice soon

_STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False,
    "axes.spines.right": False, "axes.titlesize": 10, "xtick.labelsize": 8,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "lines.linewidth": 1.5,
    "lines.markersize": 5, "legend.frameon": False,
}  # fmt: skip

Points = Sequence[tuple[float, float]]


class Look(NamedTuple):
    """How a curve is drawn; the same thing looks the same in all figures."""

    colour: str
    marker: str
    line: str = "-"


class Bar(NamedTuple):
    """The service that a program's clients get while its memory moves some way.

    The time of the slowest in a thousand, at rest and then, and the share of requests.
    """

    name: str
    look: Look
    rest_us: float
    then_us: float
    share: float


class Curve(NamedTuple):
    """Measured points (joined), and published ones of the same thing (hollow, apart)."""

    name: str
    look: Look
    measured: Points
    published: Points


def _plain(value: float, _: object = None) -> str:
    """Return a number without an exponent."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


@contextmanager
def _figure(path: Path, size: tuple[float, float], footer: str) -> Iterator[Figure]:
    """Give a figure with a footer, and write it without anything that changes by itself."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.supxlabel(footer, fontsize=8, color="#555555", x=0.995, ha="right")
        yield figure
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})


def _logarithmic(axis: Axis, limits: tuple[float, float]) -> None:
    """Give a logarithmic axis as many plain numbers as there is room for."""
    span = limits[1] / limits[0]
    subs = (1, 2, 5) if span < 100 else (1, 3) if span < 5000 else (1,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_plain))


def _draw(axes: Axes, curves: Sequence[Curve]) -> None:
    hollow = {"linestyle": "none", "markerfacecolor": "white", "markersize": 8,
              "markeredgewidth": 1.2, "zorder": 1.5}  # fmt: skip
    for curve in curves:
        colour, marker, line = curve.look
        for points, options in (
            (curve.measured, {"linestyle": line, "label": curve.name}),
            (curve.published, hollow),
        ):
            x, y = ([point[i] for point in points] for i in (0, 1))
            axes.plot(x, y, color=colour, marker=marker, **options)


def _legend(figure: Figure, curves: Sequence[Curve], word: str, **where: Any) -> None:
    """Name each curve, and say what hollow markers are."""
    entries = dict(
        reversed(entry)
        for axes in figure.axes
        for entry in zip(*axes.get_legend_handles_labels(), strict=True)
    )
    if any(curve.published for curve in curves):
        entries[f"hollow: published; filled: {word}"] = Line2D(
            [], [], color=GREY, marker="o", linestyle="none", markerfacecolor="white",
            markersize=8,
        )  # fmt: skip
    figure.legend(list(entries.values()), list(entries), **where)


def tradeoff(
    path: Path, panels: Mapping[str, Sequence[Curve]], time: str, word: str, footer: str
) -> None:
    """Draw throughput (GB/s) against a time (us), a panel for each folio size."""
    columns, rows = min(len(panels), 3), -(-len(panels) // 3)
    with _figure(path, (max(4.9 * columns, 6.0), 3.9 * rows + 0.7), footer) as figure:
        for number, (title, curves) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, number + 1)
            axes.set_title(title)
            if number % columns == 0:
                axes.set_ylabel("throughput, GB/s")
            _draw(axes, curves)
            axes.set_xscale("log")
            _logarithmic(axes.xaxis, axes.get_xlim())
            axes.set_ylim(bottom=0)
            axes.set_xlabel(f"{time}, us (log)")
        _legend(figure, [curve for curves in panels.values() for curve in curves], word,
                loc="outside upper center", ncols=2 * columns)  # fmt: skip


def throughput(path: Path, curves: Sequence[Curve], word: str, footer: str) -> None:
    """Draw throughput (GB/s, log) by folio size (KiB)."""
    with _figure(path, (9.0, 5.0), footer) as figure:
        axes = figure.add_subplot()
        _draw(axes, curves)
        axes.set_xscale("log", base=2)
        sizes = sorted({x for curve in curves for x, _ in (*curve.measured, *curve.published)})
        axes.set_xticks(sizes, [size_name(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yscale("log")
        _logarithmic(axes.yaxis, axes.get_ylim())
        axes.set_xlabel("folio size")
        axes.set_ylabel("throughput, GB/s (log)")
        _legend(figure, curves, word, loc="outside right upper")


def programs(path: Path, panels: Mapping[str, Sequence[Bar]], footer: str) -> None:
    """Draw how long requests take at rest and while memory moves, and how many there are."""
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    with _figure(path, (3.2 * columns + 1, 2.4 * rows + 0.8), footer) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        # A panel may lack a bar that others have.
        names = dict.fromkeys(bar.name for bars in panels.values() for bar in bars)
        places = {name: -place for place, name in enumerate(names)}
        for axes, (title, bars) in zip(grid.flat, panels.items(), strict=True):
            axes.set_title(title)
            for bar in bars:
                colour, marker, _ = bar.look
                place = places[bar.name]
                axes.plot([bar.rest_us, bar.then_us], [place] * 2, color=colour)
                axes.plot(bar.rest_us, place, marker="o", color=colour, markerfacecolor="white")
                axes.plot(bar.then_us, place, marker=marker, color=colour, markersize=7)
                axes.annotate(f"{bar.share:.0%}", (max(bar.rest_us, bar.then_us), place),
                              (7, -3), textcoords="offset points", fontsize=8)  # fmt: skip
            axes.set_yticks(list(places.values()), list(places))
            axes.set_ylim(0.4 - len(places), 0.6)
            axes.set_xscale("log")
            axes.margins(x=0.15)
        _logarithmic(axes.xaxis, axes.get_xlim())
        marks = {
            "at rest": ("o", "white"),
            "while memory moves; how many a second, of those at rest": ("s", GREY),
        }
        lines = [
            Line2D([], [], color=GREY, marker=marker, linestyle="none", markerfacecolor=face)
            for marker, face in marks.values()
        ]
        figure.legend(lines, list(marks), loc="outside upper center", ncols=2,
                      title="99.9th percentile, us (log)")  # fmt: skip
