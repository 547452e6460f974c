"""The figure of `make bench-copy`: routines against the per-page loop, by folio size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

# Of Okabe and Ito's palette: colour, marker and line of each routine.
_LOOKS = {
    "movsq": ("#0072B2", "o", "-"),
    "movsb": ("#009E73", "s", "-"),
    "nontemporal": ("#D55E00", "^", "-"),
    "per_page_mc": ("#7f7f7f", "D", "--"),
}
_STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.grid": True, "grid.color": "#dddddd", "legend.frameon": False,
}  # fmt: skip

Points = Sequence[tuple[str, int, tuple[float, ...]]]
"""A routine, KiB, and the quartiles of how many times faster it is."""


def draw(path: Path, panels: Mapping[str, Points], footer: str) -> None:
    """Draw a panel for each title."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.4 * len(panels), 4.4), layout="constrained")
        figure.supxlabel(footer, fontsize=8, color="#555555", x=0.995, ha="right")
        grid = figure.subplots(1, len(panels), sharey=True)
        for axes, (title, points) in zip(grid, panels.items(), strict=True):
            axes.axhline(1, color="black", linewidth=0.8)
            for name, (colour, marker, line) in _LOOKS.items():
                ratios = {kib: ratio for routine, kib, ratio in points if routine == name}
                below = [median - lower for lower, median, _ in ratios.values()]
                above = [upper - median for _, median, upper in ratios.values()]
                axes.errorbar(
                    list(ratios), [median for _, median, _ in ratios.values()],
                    yerr=(below, above), color=colour, marker=marker, linestyle=line,
                    elinewidth=0.8, capsize=2, label=name,
                )  # fmt: skip
            sizes = sorted({kib for _, kib, _ in points})
            names = [f"{kib / 1024:g} MB" if kib >= 1024 else f"{kib} KB" for kib in sizes]
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, names, rotation=45)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_title(title)
        grid[0].set_ylim(bottom=0)
        grid[0].set_ylabel("times as fast as page by page")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(_LOOKS))
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})
