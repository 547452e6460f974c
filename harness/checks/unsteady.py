"""Cases whose verdict is a count or a time, in suites that run on several processors at once.

Only a suite that does not run in virtual time may list such cases, `# count: <glob>...` in its
head. If one of them misses, the suite runs alone twice more. A case that passes in both of these
runs is unsteady: it is printed and counts as passed, and more than one in a check fails the check.
Wrong contents, a panic or a complaint of the kernel, and any other case fail at first sight.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.guest.ktap import Case, Status

RUNS = 2
"""How often a suite runs again."""

MOST = 1
"""Unsteady cases in a check with which it passes."""

# Names of what fails beside the cases of a suite: the guest, a stage, a plan.
_NEVER = ("guest", "error", "plan")

# What a case says that misses a count or a time: kselftest compares two numbers.
_COUNT = re.compile(r"Expected .*\(-?\d+\) (?:[<>]=?|!=) .*\(-?\d+\)$", re.MULTILINE)

# What one says that misses more: words for contents and ends, and what was expected to be exact,
# such as the number of complaints of the kernel.
_MORE = re.compile(
    r"wrong|corrupt|lost|leak|stale|differ|mismatch|contents?\b|memcmp|undumped|soft-dirty"
    r"|kernel log|Expected .* == |bug:|warning:|kasan|kfence|ubsan|oops|panic|call trace|null "
    r"|dereference|hung|lockup|stall|crash|signal|killed|terminated|by timeout",
    re.IGNORECASE,
)


def _counts(case: Case, globs: Sequence[str]) -> bool:
    """Tell whether a case is listed, and misses no more than a count or a time.

    A glob that ends in `*` lists what compares numbers, another one names a count.
    """
    listed = [glob for glob in globs if fnmatchcase(case.name, glob)]
    *_, name = re.split(r"[./]", case.name)
    detail = case.detail.replace(name, "")  # such as no_write_is_lost
    return (
        name not in _NEVER
        and any(not glob.endswith("*") or _COUNT.search(detail) for glob in listed)
        and not _MORE.search(detail)
    )


def doubtful(cases: Sequence[Case], counts: Sequence[str]) -> list[Case]:
    """Return the failed cases if each is listed, and misses no more than a count or a time."""
    failed = [case for case in cases if case.status is Status.FAILED]
    return failed if all(_counts(case, counts) for case in failed) else []


def decide(
    doubtful: Sequence[Case], runs: Sequence[Sequence[Case]]
) -> tuple[list[Case], list[str]]:
    """Judge doubtful cases by runs alone: return what to count, and names of unsteady ones."""
    names = [case.name for case in doubtful]
    passed = [{case.name for case in run if case.status is Status.PASSED} for run in runs]
    passing = [name for name in names if all(name in run for run in passed)]
    cases = {
        case.name: Case(case.name, Status.PASSED) if case.name in passing else case
        for case in doubtful
    }
    for case in (case for run in runs for case in run):
        if case.status is Status.FAILED and case.name not in names:
            detail = f"when it ran alone: {case.detail}"
            cases[case.name] = Case(case.name, Status.FAILED, detail)
    return list(cases.values()), passing
