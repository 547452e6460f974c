"""How far two results are apart: the lab's repeatability, in every figure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from harness.lab.results import Results

LIMIT = 0.005
"""Two runs of the lab differ by less than this in every figure."""

_IDENTITY = frozenset(
    ("kernel", "design", "engine", "channels", "folio_kib", "batch_pages", "move",
     "total_mib", "folios_per_call")
)  # fmt: skip


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


def differences(first: Results, second: Results) -> list[Difference]:
    """Return every figure of either result, the furthest apart first.

    Runs are matched by what identifies them; a run, a calibration row or a figure that only
    one side has is an infinite difference. Two results without any figure have none.
    """
    left, right = dict(_figures(first)), dict(_figures(second))
    found = [Difference(name, left.get(name), right.get(name)) for name in left | right]
    return sorted(found, key=lambda one: -one.relative)


def largest_difference(first: Results, second: Results) -> Difference | None:
    """Return the figure that is furthest apart, or None if there are no figures."""
    found = differences(first, second)
    return found[0] if found else None


def _figures(results: Results) -> Iterator[tuple[str, float]]:
    """Yield name and value of every figure; what identifies a run is in the name."""
    if results.calibration:
        yield "calibration: dilation", results.calibration.dilation
        for row in results.calibration.rows:
            yield f"{row.name}: lab", row.lab
    for run in results.runs:
        yield from _numbers(asdict(run), run.name)


def _numbers(fields: Mapping[str, object], where: str) -> Iterator[tuple[str, float]]:
    for key, value in fields.items():
        if key in _IDENTITY or value is None:
            continue
        if isinstance(value, dict):
            yield from _numbers(value, f"{where}: {key}")
        elif isinstance(value, (int, float)):
            yield f"{where}: {key}", value
