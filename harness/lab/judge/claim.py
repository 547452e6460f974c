"""A claim: one figure of the lab, the bound that it must keep, and the goal behind it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.guest.ktap import Case, Status
from harness.lab.results import Key, Run

SLACK = 0.03
"""How much worse than the recorded figure counts as the same, as a fraction of it."""


def size(key: Key) -> tuple[int, float, int]:
    """Return what makes one of several runs of a configuration the one to show."""
    return (key.batch_pages or 0, key.total_mib, key.folios_per_call)


class UnplannedError(Exception):
    """The lab was not to measure this."""


class Measured:
    """Runs by what they are; the plan says which there must be."""

    def __init__(self, planned: Sequence[Key], runs: Sequence[Run]) -> None:
        """Keep the plan, and the runs by their names."""
        self._planned = planned
        self._runs = {run.name: run for run in runs}

    def key(self, **wanted: object) -> Key:
        """Return the planned run with these fields, a first move unless `move` is among them.

        Of several, that with the most channels and the largest workload counts.
        UnplannedError if there is none.
        """
        found = self._planned_runs({"move": 1, **wanted})
        if not found:
            raise UnplannedError(str(wanted))
        return max(found, key=lambda key: (key.channels or 0, *size(key)))

    def plans(self, **wanted: object) -> bool:
        """Whether key() finds a planned run."""
        return bool(self._planned_runs({"move": 1, **wanted}))

    def _planned_runs(self, wanted: Mapping[str, object]) -> list[Key]:
        return [
            key
            for key in self._planned
            if all(getattr(key, name) == value for name, value in wanted.items())
        ]

    def run(self, **wanted: object) -> Run | None:
        """Return the run of key(), or None if the lab did not measure it."""
        return self._runs.get(self.key(**wanted).name)

    def figure(self, name: str, **wanted: object) -> float | None:
        """Return one figure of run(), or None if it was not measured."""
        figure: float | None = getattr(self.run(**wanted), name, None)
        return figure


def size_name(folio_kib: float) -> str:
    """Return a folio size for people."""
    return f"{folio_kib / 1024:g} MB" if folio_kib >= 1024 else f"{folio_kib:g} KB"


def number(value: float) -> str:
    """Return a figure with four digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio(over: float | None, under: float | None) -> float | None:
    """Return a quotient, or None where a figure was not measured."""
    return None if over is None or not under else over / under


@dataclass(frozen=True)
class Claim:
    """One figure and its goal, from `low` to `high`; `value` is None if it was not measured.

    `more` is true if more is better. `published` is the figure that the lab reproduces. What
    is `fitted` is shown and not judged. `cause` says why the recorded figure misses the goal.
    """

    group: str
    what: str
    unit: str
    value: float | None
    more: bool
    low: float = -math.inf
    high: float = math.inf
    published: float | None = None
    fitted: bool = False
    cause: str = ""

    @property
    def name(self) -> str:
        """What identifies this claim."""
        return f"{self.group}: {self.what}"

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value is not None and self.low <= self.value <= self.high

    @property
    def goal(self) -> str:
        """The goal as text, '' if there is none."""
        if self.published is not None:
            return f"published {number(self.published)}"
        return span(self.low, self.high, self.unit)


def span(low: float, high: float, unit: str) -> str:
    """Return an interval as text, '' if it has no end."""
    unit = f" {unit}" if unit else ""
    if math.isinf(low):
        return "" if math.isinf(high) else f"at most {number(high)}{unit}"
    return (
        f"at least {number(low)}{unit}"
        if math.isinf(high)
        else f"{number(low)} to {number(high)}{unit}"
    )


def bounds(claim: Claim, recorded: float) -> tuple[float, float]:
    """Return the least and the greatest value that is no failure.

    On the bad side that is the recorded figure with its slack; or the goal, if the recorded
    figure reached it and that is stricter. On the good side only a goal can be a bound:
    a model that is faster than the machine it models is wrong as well.
    """
    slack = abs(recorded) * SLACK
    if claim.more:
        low = recorded - slack
        if recorded >= claim.low:
            low = max(low, claim.low)
        return low, max(claim.high, recorded + slack)
    high = recorded + slack
    if recorded <= claim.high:
        high = min(high, claim.high)
    return min(claim.low, recorded - slack), high


def verdict(claim: Claim, recorded: float | None) -> Case:
    """Judge a claim by the figure that is recorded for it."""
    if recorded is None:
        return Case(claim.name, Status.FAILED, "no figure is recorded")
    low, high = bounds(claim, recorded)
    goal = f" ({claim.goal})" if claim.goal else ""
    name = f"{claim.name}: {span(low, high, claim.unit)}{goal}"
    if claim.value is None:
        return Case(name, Status.FAILED, "nothing was measured")
    if not low <= claim.value <= high:
        return Case(name, Status.FAILED, number(claim.value))
    if not claim.met:
        return Case(name, Status.KNOWN, f"{number(claim.value)}: {claim.cause}")
    return Case(name, Status.PASSED)
