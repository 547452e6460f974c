"""The figure of `make bench-copy`: primitives against the per-page loop, by folio size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from harness.bench.native import Quartiles

Curves = Mapping[str, Mapping[int, Quartiles]]
"""By primitive and folio size, in KiB: how many times faster it is."""

# Of Okabe and Ito's palette: colour, marker and line of each primitive.
_LOOKS = {
    "movsq": ("#0072B2", "o", "-"),
    "movsb": ("#009E73", "s", "-"),
    "nontemporal": ("#D55E00", "^", "-"),
    "per_page_mc": ("#7f7f7f", "D", "--"),
}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


def draw(path: Path, panels: Mapping[str, Curves], footer: str) -> None:
    """Draw a panel for each title, with bars between the quartiles."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.4 * len(panels), 4.4), layout="constrained")
        figure.supxlabel(footer, fontsize=8, color="#555555", x=0.995, ha="right")
        first = None
        for number, (title, curves) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(1, len(panels), number, sharey=first)
            axes.axhline(1, color="black", linewidth=0.8)
            for name, (colour, marker, line) in _LOOKS.items():
                points = curves[name]
                axes.errorbar(
                    list(points),
                    [one.median for one in points.values()],
                    yerr=(
                        [one.median - one.lower for one in points.values()],
                        [one.upper - one.median for one in points.values()],
                    ),
                    color=colour, marker=marker, linestyle=line, elinewidth=0.8, capsize=2,
                    label=None if first else name,
                )  # fmt: skip
            sizes = sorted({kib for points in curves.values() for kib in points})
            names = [f"{kib / 1024:g} MB" if kib >= 1024 else f"{kib} KB" for kib in sizes]
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, names, rotation=45)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_ylim(bottom=0)
            axes.set_title(title)
            if first is None:
                axes.set_ylabel("times as fast as page by page")
            first = axes
        figure.legend(loc="outside upper center", ncols=len(_LOOKS))
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})
