"""The tree's own mm selftests with copy offload on, judged by what they do with it off."""

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.guest.ktap import Case, Status


def without_mode(cases: Sequence[Case], mode: str) -> list[Case]:
    """Drop the mode that is part of every name, so that names can be compared."""
    prefix = re.compile(rf"(^|/){mode}\.")
    return [replace(case, name=prefix.sub(r"\1", case.name)) for case in cases]


def programs(cases: Sequence[Case]) -> list[str]:
    """Return the programs that did not pass in all of their cases."""
    good = (Status.PASSED, Status.XFAIL)
    names = (case.name for case in cases if case.status not in good)
    return list(dict.fromkeys(name.partition("/")[0] for name in names))


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
            cases.append(replace(new, detail=detail))
        elif new.status is Status.SKIPPED and old.status is Status.PASSED:
            detail = f"passes with the offload off, skipped with it on: {new.detail}"
            cases.append(Case(name, Status.FAILED, detail))
        else:
            cases.append(new)
    return cases + [case for name, case in after.items() if name not in before]
