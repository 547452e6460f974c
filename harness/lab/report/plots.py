"""The lab's figures as PNG files, for white paper and for readers who confuse colours.

What a curve is shows in its marker as well as in its colour. Importing matplotlib takes a
while, so this module is imported only where a report is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.lab.judge.claim import size_name
from harness.lab.results import Phases

# Okabe and Ito's palette, without its yellow, which is too faint on white.
BLACK, GREY, BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    "#000000", "#7f7f7f", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip
PALETTE = (BLUE, RED, GREEN, PURPLE, SKY, ORANGE)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more, so that no pair comes twice soon
_PHASE_COLOURS = {"unmap": BLUE, "flush": ORANGE, "copy": GREY, "move": GREEN}
_PHASE_HATCHES = {"unmap": "", "flush": "..", "copy": "//", "move": "\\\\"}

_DPI = 150
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "xtick.labelsize": 8,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
}


Line = Literal["-", "--", "-.", ":"]


@dataclass(frozen=True)
class Look:
    """How a curve is drawn; the same thing looks the same in all figures."""

    colour: str
    marker: str
    line: Line = "-"


@dataclass(frozen=True)
class Curve:
    """Measured points (joined), and published ones of the same thing (hollow, apart)."""

    name: str
    look: Look
    measured: Sequence[tuple[float, float]] = ()
    published: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Bars:
    """Stacked bars: the phases of a batch for each configuration, in microseconds."""

    title: str
    phases: Mapping[str, Phases] = field(default_factory=dict)


def plain(value: float) -> str:
    """Return a number without an exponent."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


@contextmanager
def _figure(path: Path, width: float, height: float, footer: str) -> Iterator[Figure]:
    """Give a figure with a footer, and write it without anything that changes by itself."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.supxlabel(footer, fontsize=8, color="#555555", x=0.995, ha="right")
        yield figure
        figure.savefig(path, dpi=_DPI, facecolor="white", metadata={"Software": None})


def _log_axis(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with as many plain numbers as there is room for."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    span = high / low
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if span < 100 else (1, 3) if span < 5000 else (1,))
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def _draw(axes: Axes, curve: Curve) -> None:
    look = curve.look
    if curve.measured:
        x, y = zip(*curve.measured, strict=True)
        axes.plot(x, y, color=look.colour, marker=look.marker, linestyle=look.line)
    if curve.published:
        x, y = zip(*curve.published, strict=True)
        axes.plot(
            x, y, color=look.colour, marker=look.marker, linestyle="none",
            markerfacecolor="white", markersize=8, markeredgewidth=1.2, zorder=1.5,
        )  # fmt: skip


def _legend(curves: Sequence[Curve], word: str) -> list[Line2D]:
    """Return one entry for each name, and one that says what hollow markers are."""
    looks = {curve.name: curve.look for curve in curves}
    entries = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.line, label=name)
        for name, look in looks.items()
    ]
    if any(curve.published for curve in curves):
        entries.append(
            Line2D([], [], color=GREY, marker="o", linestyle="none", markerfacecolor="white",
                   markersize=8, label=f"hollow: published; filled: {word}")
        )  # fmt: skip
    return entries


def tradeoff(path: Path, panels: Mapping[str, Sequence[Curve]], word: str, footer: str) -> None:
    """Draw throughput (GB/s) against first-folio latency (us), a panel for each folio size."""
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with _figure(path, max(4.9 * columns, 6.0), 3.9 * rows + 0.7, footer) as figure:
        every = [curve for curves in panels.values() for curve in curves]
        for number, (title, curves) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, number + 1)
            for curve in curves:
                _draw(axes, curve)
            _log_axis(axes, "x")
            axes.set_ylim(bottom=0)
            axes.set_title(title)
            axes.set_xlabel("first-folio latency, us (log)")
            if number % columns == 0:
                axes.set_ylabel("throughput, GB/s")
        figure.legend(handles=_legend(every, word), loc="outside upper center",
                      ncols=2 * columns)  # fmt: skip


def throughput(path: Path, curves: Sequence[Curve], word: str, footer: str) -> None:
    """Draw throughput (GB/s, log) by folio size (KiB)."""
    with _figure(path, 9.0, 5.0, footer) as figure:
        axes = figure.add_subplot()
        for curve in curves:
            _draw(axes, curve)
        axes.set_xscale("log", base=2)
        sizes = {x for curve in curves for x, _ in (*curve.measured, *curve.published)}
        axes.set_xticks(sorted(sizes), [size_name(size) for size in sorted(sizes)])
        axes.xaxis.set_minor_locator(NullLocator())
        _log_axis(axes, "y")
        axes.set_xlabel("folio size")
        axes.set_ylabel("throughput, GB/s (log)")
        figure.legend(handles=_legend(curves, word), loc="outside right upper")


def phases(path: Path, panels: Sequence[Bars], footer: str) -> None:
    """Draw the phases of a batch, a panel for each folio size."""
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with _figure(path, max(3.4 * columns, 5.0), 2.9 * rows + 0.6, footer) as figure:
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            names = list(panel.phases)
            bottom = [0.0] * len(names)
            for phase, colour in _PHASE_COLOURS.items():
                heights = [getattr(one, phase) for one in panel.phases.values()]
                axes.bar(
                    names, heights, bottom=bottom, color=colour, width=0.7, label=phase,
                    hatch=_PHASE_HATCHES[phase], edgecolor="white", linewidth=0.5,
                )  # fmt: skip
                bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
            axes.grid(visible=False, axis="x")
            axes.set_title(panel.title)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
            if len(names) > 4:
                axes.set_xticks(range(len(names)), names, rotation=45, ha="right",
                                rotation_mode="anchor")  # fmt: skip
            if number % columns == 0:
                axes.set_ylabel("us per batch")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
