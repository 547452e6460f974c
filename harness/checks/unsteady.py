"""Cases whose verdict is a count or a time, in suites that run on several processors at once.

Only a suite that does not run in virtual time may list such cases, `# count: <glob>...` in its
head. If one of them misses, the suite runs alone twice more. A case that passes in both of
these runs is unsteady: it is printed and counts as passed, and more than one in a check fails
the check. Wrong contents, a panic or a complaint of the kernel, and any other case fail at
first sight.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.guest.ktap import Case, Status

RUNS = 2
"""How often a suite runs again."""

_MOST = 1  # unsteady cases in a check

# What a case says that misses more than a count or a time: words for contents, and what was
# expected to be exact, such as the number of complaints of the kernel.
_MORE = re.compile(
    r"wrong|corrupt|lost|leak|stale|differ|mismatch|contents?\b|memcmp|undumped|soft-dirty"
    r"|kernel log|Expected .* == ",
    re.IGNORECASE,
)


def doubtful(cases: Sequence[Case], counts: Sequence[str]) -> list[Case]:
    """Return the failed cases if each is listed, and misses no more than a count or a time."""
    failed = [case for case in cases if case.status is Status.FAILED]
    if all(_is_count(case, counts) for case in failed):
        return failed
    return []


def _is_count(case: Case, counts: Sequence[str]) -> bool:
    listed = any(fnmatchcase(case.name, glob) for glob in counts)
    return listed and not _MORE.search(case.detail)


def decide(
    doubtful: Sequence[Case], runs: Sequence[Sequence[Case]]
) -> tuple[list[Case], list[str]]:
    """Judge doubtful cases by runs alone: return what to count, and names of unsteady ones."""
    names = {case.name for case in doubtful}
    passed = [{case.name for case in run if case.status is Status.PASSED} for run in runs]
    cases = {
        case.name: Case(case.name, Status.PASSED)
        if all(case.name in run for run in passed)
        else case
        for case in doubtful
    }
    passing = [name for name, case in cases.items() if case.status is Status.PASSED]
    for run in runs:
        for case in run:
            if case.status is Status.FAILED and case.name not in names:
                cases[case.name] = Case(
                    case.name, Status.FAILED, f"when it ran alone: {case.detail}"
                )
    return list(cases.values()), passing


def too_many(unsteady: Sequence[str]) -> bool:
    """Tell whether unsteady cases are too many for the check to pass."""
    return len(unsteady) > _MOST
