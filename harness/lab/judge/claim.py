"""A claim: one figure of the lab, the bound that it must keep, and the goal behind it."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from harness.core.paths import ROOT
from harness.guest.ktap import Case, Status
from harness.lab.results import Key, Run

SLACK = 0.03
"""How much worse than the recorded figure counts as the same, as a fraction of it."""

GOALS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "lab" / "goals.toml").read_text())
"""Goals, and why figures miss them, by patterns of claims' names."""

Wanted = dict[str, object]
"""Fields that a run has."""
Promised = tuple[str, str, str, float | None]
"""Group, what, unit and value of a claim: None if it was not planned, NaN if not measured."""


def size(key: Key) -> tuple[int, float, int]:
    """Return what makes one of several runs of a configuration the one to show."""
    return (key.batch_pages or 0, key.total_mib, key.folios_per_call)


class Measured:
    """Runs by what they are; the plan says which there must be."""

    def __init__(self, planned: Sequence[Key], runs: Sequence[Run]) -> None:
        """Keep the plan, and the runs by their names."""
        self._planned = planned
        self._runs = {run.name: run for run in runs}

    def key(self, **wanted: object) -> Key | None:
        """Return the planned run with these fields, a first move unless `move` is among them.

        The memory is unused meanwhile, and callers name the first page of each folio, unless
        `writes_per_ms` and `addresses` are among them; it is anonymous, unless `memory` is; it has
        a reader, and each page as many accesses, unless `readers` and `zipf` are.
        Of several, that with the most channels, no bound, and the largest workload counts.
        """
        wanted = {"move": 1, "writes_per_ms": 0, "readers": 1, "zipf": False,
                  "addresses": "heads", "memory": "anon", **wanted}  # fmt: skip
        fields, values = attrgetter(*wanted), tuple(wanted.values())
        keys = [key for key in self._planned if fields(key) == values]
        return max(keys, key=lambda key: (key.channels or 0, -key.bound_us, *size(key)),
                   default=None)  # fmt: skip

    def run(self, key: Key) -> Run | None:
        """Return a planned run, or None if the lab did not measure it."""
        return self._runs.get(key.name)

    def figure(self, name: str, **wanted: object) -> float | None:
        """Return one figure of key()'s run: NaN if not measured, None if not planned."""
        key = self.key(**wanted)
        figure: float | None = getattr(self.run(key), name, None) if key else None
        return math.nan if key and figure is None else figure

    def inaccessible(self, part: str, **wanted: object) -> float | None:
        """Return a part of the inaccessible time of key()'s run, as figure() does."""
        times = self.figure("inaccessible_us", **wanted)
        return getattr(times, part, times)

    def waits(self, over: Wanted, under: Wanted) -> float | None:
        """Return the 99th percentile of the inaccessible time of one run over another's."""
        first, second = (self.inaccessible("p99", **wanted) for wanted in (over, under))
        return None if first is None or second is None else first / second

    def over(
        self, name: str, over: Wanted, under: Wanted, *, alike: bool = True, less: float = 0
    ) -> float | None:
        """Return a figure of one run over that of another, of the same workload.

        Unless both must be `alike`, another workload does if that was not planned. `less` is
        what to leave out of both. NaN if a run was not measured, None if not planned.
        """
        if key := self.key(**over):
            same = {"total_mib": key.total_mib, "folios_per_call": key.folios_per_call}
            if alike or self.key(**under | same):
                under = under | same
        first, second = self.figure(name, **over), self.figure(name, **under)
        if first is None or second is None:
            return None
        return (first - less) / (second - less) if second != less else math.nan


def number(value: float) -> str:
    """Return a figure with four digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True)
class Claim:
    """One figure and its goal, from `low` to `high`; `value` is NaN if it was not measured.

    `published` is the figure that the lab reproduces. A `fitted` one is shown and not judged.
    `other` is the figure at the other end of the model, NaN if that was not measured: the goal is
    met if either end does.
    """

    group: str
    what: str
    unit: str
    value: float
    low: float = -math.inf
    high: float = math.inf
    published: float = 0
    fitted: bool = False
    other: float = math.nan

    @property
    def name(self) -> str:
        """The name of this claim."""
        return f"{self.group}: {self.what}"

    @property
    def more(self) -> bool:
        """Whether more is better."""
        return self.unit in ("GB/s", "times")

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return any(self.low <= end <= self.high for end in (self.value, self.other))

    @property
    def goal(self) -> str:
        """The goal as text, '' if there is none."""
        if self.published:
            return f"published {number(self.published)}"
        return span(self.low, self.high, self.unit)

    @property
    def cause(self) -> str:
        """Why the recorded figure misses the goal, '' if that is not known."""
        causes = GOALS["cause"].items()
        return next((why for name, why in causes if re.search(name, self.name)), "")


def promises(promised: Iterable[Promised]) -> Iterator[Claim]:
    """Yield claims with their goals in lab/goals.toml; none of a value that was not planned."""
    for group, what, unit, value in promised:
        if value is not None:
            goals = (goal for name, goal in GOALS["goal"].items()
                     if re.fullmatch(name, f"{group}: {what}"))  # fmt: skip
            goal: dict[str, float] = next(goals, {})
            low, high = goal.get("least", -math.inf), goal.get("most", math.inf)
            yield Claim(group, what, unit, value, low, high)


def span(low: float, high: float, unit: str) -> str:
    """Return an interval as text, '' if it has no end."""
    unit = f" {unit}" if unit else ""
    if math.isinf(low):
        return "" if math.isinf(high) else f"at most {number(high)}{unit}"
    if math.isinf(high):
        return f"at least {number(low)}{unit}"
    return f"{number(low)} to {number(high)}{unit}"


def bounds(claim: Claim, recorded: float, slack: float = SLACK) -> tuple[float, float]:
    """Return the least and the greatest value that is no failure.

    On the bad side that is the recorded figure with its slack; or the goal, if the recorded
    figure reached it and that is stricter. On the good side only a goal can be a bound.
    """
    slack *= abs(recorded)
    if claim.more:
        low = recorded - slack
        if recorded >= claim.low:
            low = max(low, claim.low)
        return low, max(claim.high, recorded + slack)
    high = recorded + slack
    if recorded <= claim.high:
        high = min(high, claim.high)
    return min(claim.low, recorded - slack), high


def verdict(claim: Claim, recorded: float | None, slack: float = SLACK) -> Case:
    """Judge a claim by the figure that is recorded for it; `slack` is a fraction of that."""
    if recorded is None:
        return Case(claim.name, Status.FAILED, "no figure is recorded")
    low, high = bounds(claim, recorded, slack)
    goal = f" ({claim.goal})" if claim.goal else ""
    name = f"{claim.name}: {span(low, high, claim.unit)}{goal}"
    if math.isnan(claim.value):
        return Case(name, Status.FAILED, "nothing was measured")
    if not low <= claim.value <= high:
        return Case(name, Status.FAILED, number(claim.value))
    if not claim.met:
        return Case(name, Status.KNOWN, f"{number(claim.value)}: {claim.cause}")
    return Case(name, Status.PASSED)
