"""Groups of tests that `make check` leaves out. Continuous integration runs one: see .ci/turn."""

from harness.core.errors import HarnessError

GROUPS = ("arm64", "layouts", "faults", "doctors", "ptdma", "ae4dma", "ioat", "dsa")
"""All groups, in the order of their turns."""

ALL = "all"


def parse(words: str) -> tuple[str, ...]:
    """Return the groups that TURN names, in its order; HarnessError if there is none of that name.

    The word `all` gives ALL, which brings more (see main.tests()), and each group.
    """
    named = words.replace(",", " ").split()
    if unknown := set(named) - {*GROUPS, ALL}:
        names = ", ".join((*GROUPS, ALL))
        raise HarnessError(f"TURN: no group '{min(unknown)}': there are {names}")
    return (ALL, *GROUPS) if ALL in named else tuple(dict.fromkeys(named))
