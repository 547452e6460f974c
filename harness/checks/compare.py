"""The tree's own mm selftests with copy offload on, judged by what they do with it off."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.guest.ktap import Case, Status

ROUNDS = 10
"""How often a case that no single run can judge may run until it passes."""

# Tests of `cow` that no single run can judge: with the offload off some of them failed in 5
# of 12 runs (on this project's plain kernel: ENOMEM when a swapped-out THP is pinned for
# long). Whether a page gets swapped out at all is not certain either.
PROGRAM = "cow"
_UNRELIABLE = re.compile(rf"\b{PROGRAM}\b.*swapped.out")
_SKIPPED_NOW = "passes with the offload off, skipped with it on: "
_MISSING = "did not run with the offload on"  # or was skipped: then a number is its name
# Such a failure says that a call failed. Contents that are wrong are no matter of chance.
_BY_CHANCE = re.compile(rf"^(\S+ failed\b|{_SKIPPED_NOW}|{_MISSING})", re.MULTILINE)


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
    failed = (case for case in cases if case.status is Status.FAILED)
    found = [
        case.name
        for case in failed
        if _UNRELIABLE.search(case.name) and _BY_CHANCE.search(case.detail)
    ]
    return list(dict.fromkeys(found))


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
            cases.append(Case(name, Status.FAILED, _MISSING))
        elif new.status is Status.FAILED:
            detail = f"{old.status.value} with the offload off, fails with it on\n{new.detail}"
            cases.append(replace(new, detail=detail))
        elif new.status is Status.SKIPPED and old.status is Status.PASSED:
            cases.append(Case(name, Status.FAILED, f"{_SKIPPED_NOW}{new.detail}"))
        else:
            cases.append(new)
    return cases + [case for name, case in after.items() if name not in before]


def repeat(cases: Sequence[Case], run: Callable[[int], Sequence[Case]]) -> list[Case]:
    """Run a program again until each case that no single run can judge has passed once.

    `run` gets the number of the run, and has the offload on. A case that never passes fails,
    and so does any other that fails in one of the runs.
    """
    doubtful = left = unreliable(cases)
    found = {case.name: case for case in cases if case.name not in doubtful}
    for number in range(2, ROUNDS + 1):
        if not left:
            break
        again = run(number)
        passed = {case.name for case in again if case.status is Status.PASSED}
        left = [name for name in left if name not in passed]
        bad = [case for case in again if case.status is Status.FAILED]
        chance = unreliable(bad)
        found |= {case.name: case for case in bad if case.name not in chance}
    found |= {name: Case(name, Status.PASSED) for name in doubtful if name not in found}
    said = f"passes in none of {ROUNDS} runs with the offload on"
    found |= {name: Case(name, Status.FAILED, said) for name in left}
    return list(found.values())
