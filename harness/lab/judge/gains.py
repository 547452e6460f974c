"""What migration itself gained over an unmodified kernel, with no engine and all switched off.

Everything is a ratio of two runs of the same workload in the same laboratory; what was promised
of each is here, and where less is held, why.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.lab.report.select import loop_copies
from harness.lab.results import Run

FIRST = {4: 1.1, 16: 1.3, 64: 1.5, 256: 1.6, 1024: 1.65}
"""Throughput of first moves over vanilla's, at least, by folio size in KiB."""

BACK = {16: 2.5, 64: 3.5, 256: 4.0, 1024: 4.3}
"""The same on the way back, where vanilla has split all that is less than a PMD."""

OUTSIDE = {64: 0.30, 1024: 0.12}
"""Instructions outside the copy over vanilla's, at most."""

# Bounds of what misses the promise: (what, folio size) and (bound, cause).
EXPLAINED: dict[tuple[str, int], tuple[float, str]] = {}


@dataclass(frozen=True)
class Gain:
    """Ours over vanilla for one folio size; None is what was not measured.

    `outside` are instructions of a first move without those of the copy, and `split` is how
    many folios of ours were split in both moves.
    """

    folio_kib: int
    first: float
    back: float | None
    outside: float | None
    split: int


@dataclass(frozen=True)
class Promise:
    """One promised ratio beside what was measured; `cause` is '' where all of it is kept."""

    what: str
    folio_kib: int
    measured: float
    promised: float
    bound: float
    at_most: bool
    cause: str

    @property
    def kept(self) -> bool:
        """Whether what was measured is within the bound."""
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


def gains_of(runs: Iterable[Run], dilation: float) -> list[Gain]:
    """Return the gains by folio size, where vanilla and ours had the same workload."""
    every = list(runs)
    off: dict[tuple[object, ...], Run] = {
        (run.kernel, run.folio_kib, run.move, run.total_mib, run.folios_per_call): run
        for run in every
        if run.design == "off"
    }
    copies = loop_copies(every, dilation)
    gains: dict[int, Gain] = {}
    for (kernel, _, move, *workload), theirs in off.items():
        size = theirs.folio_kib
        own = off.get(("ours", size, move, *workload))
        if kernel != "vanilla" or move != 1 or own is None:
            continue
        back, own_back = (off.get((name, size, 2, *workload)) for name in ("vanilla", "ours"))
        gains[size] = Gain(
            size,
            own.gbps / theirs.gbps,
            own_back.gbps / back.gbps if back and own_back else None,
            _outside(own, theirs, copies.get(size)),
            sum(max(run.folios_split, 0) for run in (own, own_back) if run),
        )
    return [gains[size] for size in sorted(gains)]


def _outside(own: Run, theirs: Run, copy: float | None) -> float | None:
    if copy is None or not own.instructions_per_folio or not theirs.instructions_per_folio:
        return None
    rest = theirs.instructions_per_folio - copy
    return (own.instructions_per_folio - copy) / rest if rest > 0 else None


def promises_of(gains: Iterable[Gain]) -> Iterator[Promise]:
    """Return everything that was promised of the sizes that were measured."""
    for gain in gains:
        for what, table, measured, at_most in (
            ("first move", FIRST, gain.first, False),
            ("moved back", BACK, gain.back, False),
            ("outside the copy", OUTSIDE, gain.outside, True),
        ):
            promised = table.get(gain.folio_kib)
            if promised is None or measured is None:
                continue
            bound, cause = EXPLAINED.get((what, gain.folio_kib), (promised, ""))
            yield Promise(what, gain.folio_kib, measured, promised, bound, at_most, cause)
