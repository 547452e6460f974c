"""How far two results are apart: the lab's repeatability, and what got worse."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from harness.lab.results import Key, Results, Run

LIMIT = 0.005
"""Two runs of the lab differ by less than this in every figure."""


@dataclass(frozen=True)
class Difference:
    """One figure of two results; None where a side has none.

    `relative` is the distance as a fraction of the larger one, and infinite where there is
    only one.
    """

    where: str
    first: float | None
    second: float | None

    @property
    def relative(self) -> float:
        """Distance as a fraction of the larger figure; symmetric."""
        if self.first is None or self.second is None:
            return math.inf
        if self.first == self.second:
            return 0.0
        return abs(self.first - self.second) / max(abs(self.first), abs(self.second))

    def __str__(self) -> str:
        """Return a line that names the figure."""
        shown = ["none" if x is None else f"{x:.6g}" for x in (self.first, self.second)]
        size = f" ({100 * self.relative:.3f} %)" if math.isfinite(self.relative) else ""
        return f"{self.where}: {shown[0]} against {shown[1]}{size}"


def differences(first: Mapping[str, float], second: Mapping[str, float]) -> list[Difference]:
    """Return every figure of either side, the furthest apart first.

    A figure that only one side has is an infinite difference.
    """
    found = [
        Difference(name, first.get(name), second.get(name))
        for name in dict.fromkeys((*first, *second))
    ]
    return sorted(found, key=lambda one: -one.relative)


def largest_difference(first: Results, second: Results) -> Difference | None:
    """Return the figure that is furthest apart, or None if there are no figures."""
    found = differences(all_figures(first), all_figures(second))
    return found[0] if found else None


def all_figures(results: Results) -> dict[str, float]:
    """Return every figure; what identifies a run is in the name."""
    found = {
        f"{run.name}: {name}": value
        for run in results.runs
        for name, value in figures(run).items()
    }
    if results.calibration:
        found["calibration: dilation"] = results.calibration.dilation
        for row in results.calibration.rows:
            found[f"{row.table}, {row.row}, {row.quantity}: lab"] = row.lab
    return found


def figures(run: Run) -> dict[str, float]:
    """Return what was measured, by name."""
    fields = msgspec.to_builtins(run)
    return dict(
        _numbers({name: fields[name] for name in fields if name not in Key.__struct_fields__})
    )


def _numbers(fields: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{name}: ")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value


def worse(run: Run, recorded: Run, slack: float) -> list[Difference]:
    """Return the figures of a run that are worse than the recorded ones, or not there.

    Of GB/s more is better, and less of all else. A number of split folios below 0 could not
    be seen, and is always worse.
    """
    return [
        one
        for one in differences(figures(recorded), figures(run))
        if _is_worse(one.where, one.first, one.second, slack)
    ]


def _is_worse(name: str, recorded: float | None, value: float | None, slack: float) -> bool:
    if recorded is None:
        return False  # more was measured than is recorded
    if value is None or value < 0:
        return True
    if name == "gbps":
        return value < recorded * (1 - slack)
    return value > recorded * (1 + slack)
