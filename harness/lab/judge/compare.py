"""How far two results are apart: the lab's repeatability, and what got worse."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import Struct, structs

from harness.lab.results import Key, Results, Run, Touch

LIMIT = 0.02  # of vanilla: the initramfs moves ticks of the guest's timer; seen: 1.3 %

LEAST_US = 0.05  # of a phase of a folio: which of two chunks ends first moved 0.379 us by 0.013

LONGEST_SLACK, LONGEST_US = 0.15, 15.0
"""The longest time of a single folio is worse if it grows by more than both.

A tick of the guest's timer may fall into it. Seen: 26.9 and 36.5 us where no other figure moved.
"""

LEAST_FOLIOS = 2  # more that reclaim leaves where they are: the kernel chooses


@dataclass(frozen=True)
class Difference:
    """One figure of two results; None where a side has none."""

    where: str
    first: float | None
    second: float | None

    @property
    def relative(self) -> float:
        """Distance as a fraction of the larger figure, infinite where there is only one."""
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

    def is_worse(self, slack: float) -> bool:
        """Whether the second figure of a run is worse than the first, or not there.

        Of GB/s more is better, and less of all else; LEAST_US, LONGEST_US and LEAST_FOLIOS are
        granted. A number of split folios below 0 could not be seen, and is always worse.
        """
        if self.first is None:
            return False  # more was measured than is recorded
        if self.second is None or self.second < 0:
            return True
        if self.where == "gbps":
            return self.second < self.first * (1 - slack)
        least = 0.0
        if self.where.startswith("phases_us"):
            least = LEAST_US
        elif self.where.endswith(": max"):
            slack, least = LONGEST_SLACK, LONGEST_US
        elif self.where == "folios_failed":
            least = LEAST_FOLIOS
        return self.second > max(self.first * (1 + slack), self.first + least)


def differences(first: Mapping[str, float], second: Mapping[str, float]) -> list[Difference]:
    """Return every figure of either side, the furthest apart first."""
    names = dict.fromkeys((*first, *second))
    gaps = [Difference(name, first.get(name), second.get(name)) for name in names]
    return sorted(gaps, key=lambda gap: -gap.relative)


def apart(first: Mapping[str, float], second: Mapping[str, float]) -> list[Difference]:
    """Return the figures of a run of which one side's is worse than the other's by LIMIT."""
    both = ((gap, replace(gap, first=gap.second, second=gap.first)) for gap in
            differences(first, second) if gap.relative)  # fmt: skip
    return [gap for gap, back in both if gap.is_worse(LIMIT) or back.is_worse(LIMIT)]


def all_figures(results: Results) -> dict[str, float]:
    """Return every figure; its name begins with the run's."""
    values = {
        f"{run.name}: {name}": value for run in results.runs for name, value in figures(run).items()
    }
    if results.calibration:
        values["calibration: dilation"] = results.calibration.dilation
    return values


def figures(run: Run) -> dict[str, float]:
    """Return what was measured, by name.

    Not what threads met that used the memory: a change that shifts all by a microsecond lets
    them hit other folios.
    """
    values: dict[str, float] = {}
    for name in Run.__struct_fields__[len(Key.__struct_fields__) :]:
        value = getattr(run, name)
        if isinstance(value, Touch):
            continue
        if isinstance(value, Struct):
            parts = structs.asdict(value)
            if run.touch or run.total_mib * 1024 / run.folio_kib < 100:
                parts.pop("p99", None)  # it is the longest, or of the few that were written
            values |= {f"{name}: {part}": figure for part, figure in parts.items()}
        elif value is not None:
            values[name] = value
    return values
