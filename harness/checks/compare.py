"""The tree's own mm selftests with copy offload on, judged by what they do with it off."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from harness.guest.ktap import Case, Status

ROUNDS = 6  # the most of a program whose cases no single run can judge, in each mode
_CHANCE = 0.01  # that as many more failures with the offload on mean nothing

# Tests of `cow` that no single run can judge: with the offload off some of them failed in 5
# of 12 runs (on this project's plain kernel: ENOMEM when a swapped-out THP is pinned for
# long, EFAULT for a private mapping of a hugetlb memfd), with it on in 16 of 24. Whether a
# page gets swapped out at all is not certain either.
PROGRAM = "cow"
_UNRELIABLE = re.compile(rf"\b{PROGRAM}\b.*(swapped.out|memfd hugetlb)")


def without_mode(cases: Sequence[Case], mode: str) -> list[Case]:
    """Drop the mode that is part of every name, so that names can be compared."""
    prefix = re.compile(rf"(^|/){mode}\.")
    return [replace(case, name=prefix.sub(r"\1", case.name)) for case in cases]


def programs(cases: Sequence[Case]) -> list[str]:
    """Return the programs that did not pass in all of their cases."""
    good = (Status.PASSED, Status.XFAIL)
    names = (case.name for case in cases if case.status not in good)
    return list(dict.fromkeys(name.partition("/")[0] for name in names))


def unreliable(cases: Sequence[Case]) -> list[str]:
    """Return the names of cases that failed, and that no single run can judge."""
    names = (case.name for case in cases if case.status is Status.FAILED)
    return list(dict.fromkeys(name for name in names if _UNRELIABLE.search(name)))


def once(off: Sequence[Case], on: Sequence[Case]) -> list[Case]:
    """Judge a run with the offload on by one with it off."""
    before = {case.name: case for case in off}
    after = {case.name: case for case in on}
    cases = []
    for name, old in before.items():
        new = after.get(name)
        if new is None and old.status is Status.SKIPPED:
            # A skipped test has a number for a name: this one was run with the offload on.
            cases.append(old)
        elif new is None:
            cases.append(Case(name, Status.FAILED, "did not run with the offload on"))
        elif new.status is Status.FAILED:
            detail = f"{old.status.value} with the offload off, fails with it on\n{new.detail}"
            cases.append(Case(name, Status.FAILED, detail))
        elif new.status is Status.SKIPPED and old.status is Status.PASSED:
            detail = f"passes with the offload off, skipped with it on: {new.detail}"
            cases.append(Case(name, Status.FAILED, detail))
        else:
            cases.append(new)
    return cases + [case for name, case in after.items() if name not in before]


def _passed(name: str, cases: Sequence[Case]) -> int:
    return sum(case.name == name and case.status is Status.PASSED for case in cases)


def seen_both_ways(
    names: Sequence[str], off: Sequence[Case], on: Sequence[Case], rounds: int
) -> bool:
    """Tell whether each case passed once with the offload on, and did not once with it off."""
    return all(_passed(name, on) and _passed(name, off) < rounds for name in names)


def rates(name: str, off: Sequence[Case], on: Sequence[Case], rounds: int) -> Case:
    """Judge a case by how often it passed in `rounds` runs of each mode."""
    passed_off, passed_on = _passed(name, off), _passed(name, on)
    said = f"passes {passed_on} times of {rounds} with the offload on, {passed_off} off"
    if by_chance(passed_off, passed_on, rounds) < _CHANCE or not passed_off + passed_on:
        return Case(name, Status.FAILED, said)
    return Case(name, Status.PASSED, said)


def by_chance(passed_off: int, passed_on: int, rounds: int) -> float:
    """Return how likely it is that mere chance gives `on` so few of the passes, or fewer.

    This is Fisher's exact test for one side.
    """
    passed = passed_off + passed_on
    ways = (
        math.comb(rounds, on) * math.comb(rounds, passed - on) for on in range(passed_on + 1)
    )
    return sum(ways) / math.comb(2 * rounds, passed)
