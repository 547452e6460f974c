"""Groups of tests that `make check` leaves out, and that continuous integration runs in turn.

.ci/groups names them, each with its files; .ci/turns says which groups a commit has to run.
"""

from pathlib import Path

from harness.core.errors import HarnessError

ALL = "all"


def groups(root: Path) -> tuple[str, ...]:
    """Return the names of all groups."""
    lines = (root / ".ci/groups").read_text().splitlines()
    return tuple(line.split(":")[0] for line in lines if line and not line.startswith("#"))


def parse(root: Path, words: str) -> tuple[str, ...]:
    """Return the groups that TURN names, in its order; HarnessError if there is none of that name.

    The word `all` gives ALL, which brings more (see main.tests()), and each group.
    """
    known = groups(root)
    named = words.replace(",", " ").split()
    if unknown := set(named) - {*known, ALL}:
        names = ", ".join((*known, ALL))
        raise HarnessError(f"TURN: no group '{min(unknown)}': there are {names}")
    return (ALL, *known) if ALL in named else tuple(dict.fromkeys(named))
