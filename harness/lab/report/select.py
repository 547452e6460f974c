"""Which runs of results.json a section of the report shows."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar, get_args

from harness.lab.judge.claim import size
from harness.lab.results import ENGINE_DESIGNS, Design, Run

# Kernel, design, channels.
Configuration = tuple[str, str, int | None]

Outer = TypeVar("Outer", bound=Hashable)
Inner = TypeVar("Inner", bound=Hashable)
Batches = dict[int, dict[Inner, Run]]
"""Runs by batch size (0 is unknown) and something else; of several the largest workload."""
Curves = dict[tuple[int, Configuration], list[Run]]
"""Runs by folio size and configuration, in order of batch size."""


def configuration(run: Run) -> Configuration:
    """Return what a curve or bar is drawn for."""
    return (run.kernel, run.design, run.channels)


def _order(key: Configuration) -> tuple[bool, int, int]:
    kernel, design, channels = key
    return (kernel != "vanilla", get_args(Design).index(design), channels or 0)


def _grouped(
    runs: Iterable[Run], outer: Callable[[Run], Outer], inner: Callable[[Run], Inner]
) -> dict[Outer, Batches[Inner]]:
    found: dict[Outer, Batches[Inner]] = {}
    for run in runs:
        batch = found.setdefault(outer(run), {}).setdefault(run.batch_pages or 0, {})
        batch[inner(run)] = max(batch.get(inner(run), run), run, key=size)
    return found


def _most(batches: Batches[Inner]) -> dict[Inner, Run]:
    """Return the runs of the batch that most were measured with, of several the largest."""
    return max(batches.items(), key=lambda item: (len(item[1]), item[0]))[1]


def compared(runs: Iterable[Run]) -> list[Run]:
    """Return what figures compare.

    Not what the feature costs where it is compiled out, nor memory that threads use, nor
    other callers than those that name a page of each folio.
    """
    return [
        run
        for run in runs
        if run.kernel != "without"
        and not run.writes_per_ms
        and run.addresses == "heads"
        and run.memory == "anon"
    ]


def _curves(runs: Iterable[Run]) -> Curves:
    timed = _grouped(runs, lambda run: (run.folio_kib, configuration(run)), lambda _: None)
    return {
        key: [timed[key][batch][None] for batch in sorted(timed[key])]
        for key in sorted(timed, key=lambda key: (key[0], _order(key[1])))
    }


def tradeoff_curves(runs: Iterable[Run]) -> Curves:
    """Return first moves with an engine.

    Of a curve with several batch sizes there is something to see; single points are left out
    unless there is nothing else.
    """
    engines = (r for r in runs if r.design in ENGINE_DESIGNS and r.move == 1)
    curves = _curves(run for run in engines if run.first_folio_us)
    return {key: curve for key, curve in curves.items() if len(curve) > 1} or curves


def waits(runs: Iterable[Run]) -> Curves:
    """Return first moves with inaccessible times.

    Of vanilla, and of engines with the most channels that any has.
    """
    some = [run for run in compared(runs) if run.inaccessible_us and run.move == 1]
    most = max((run.channels or 0 for run in some if run.engine), default=0)
    return _curves(
        r for r in some if r.kernel == "vanilla" or r.design == "live" or r.channels == most
    )


def by_size(runs: Iterable[Run]) -> dict[Configuration, dict[tuple[int, int], Run]]:
    """Return the runs of each configuration by folio size and move, vanilla first.

    All runs of a configuration have the same batch.
    """
    found = _grouped(compared(runs), configuration, lambda run: (run.folio_kib, int(run.move)))
    return {key: _most(found[key]) for key in sorted(found, key=_order)}


def phase_panels(runs: Iterable[Run]) -> dict[int, list[Run]]:
    """Return first moves with phase times by folio size, all of one size with one batch."""
    timed = [run for run in compared(runs) if run.phases_us and run.move == 1]
    found = _grouped(timed, lambda run: run.folio_kib, configuration)
    return {
        kib: sorted(_most(found[kib]).values(), key=lambda run: _order(configuration(run)))
        for kib in sorted(found)
    }
