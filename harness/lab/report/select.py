"""Which runs of results.json a section of the report shows."""

from collections.abc import Iterable

from harness.lab.judge.claim import size
from harness.lab.results import (
    CPU_DESIGNS,
    ENGINE_DESIGNS,
    SHOWN_KERNELS,
    Run,
)

# Folio size in KiB, design, channels.
CurveKey = tuple[int, str, int | None]
# Kernel, design, channels.
Configuration = tuple[str, str, int | None]


def known(number: int | None) -> int:
    """Return a number to sort by, where None is the least."""
    return number or 0


def batch_curves(runs: Iterable[Run]) -> dict[CurveKey, list[Run]]:
    """Return first moves with an engine by folio size, design and channels.

    Each list is in order of batch size, with the run of the largest workload for each.
    """
    curves: dict[CurveKey, dict[int, Run]] = {}
    for run in runs:
        if run.design in ENGINE_DESIGNS and run.move == 1:
            curve = curves.setdefault((run.folio_kib, run.design, run.channels), {})
            batch = known(run.batch_pages)
            curve[batch] = max(curve.get(batch, run), run, key=size)
    return {
        key: [curves[key][batch] for batch in sorted(curves[key])]
        for key in sorted(curves, key=lambda key: (*key[:2], known(key[2])))
    }


def tradeoff_curves(runs: Iterable[Run]) -> dict[CurveKey, list[Run]]:
    """Return those curves of batch_curves() that have a first-folio latency.

    Of a curve with several batch sizes there is something to see; single points are left
    out unless there is nothing else.
    """
    timed = batch_curves(run for run in runs if run.first_folio_us)
    curves = {key: curve for key, curve in timed.items() if len(curve) > 1}
    return curves or timed


def by_size(runs: Iterable[Run]) -> dict[Configuration, dict[tuple[int, int], Run]]:
    """Return the runs of each configuration by folio size and move, vanilla first.

    All runs of a configuration have the same batch: the one that most were measured with,
    and of several such the largest. Of several workloads the largest counts.
    """
    found: dict[Configuration, dict[int, dict[tuple[int, int], Run]]] = {}
    for run in runs:
        if run.kernel in SHOWN_KERNELS:
            batches = found.setdefault((run.kernel, run.design, run.channels), {})
            sizes = batches.setdefault(known(run.batch_pages), {})
            key = (run.folio_kib, run.move)
            sizes[key] = max(sizes.get(key, run), run, key=size)
    return {
        key: max(found[key].items(), key=lambda item: (len(item[1]), item[0]))[1]
        for key in sorted(found, key=_configuration_order)
    }


def phase_panels(runs: Iterable[Run]) -> list[tuple[int, int | None, list[Run]]]:
    """Return folio size, batch and comparable first moves with phase times, by size.

    Of each size only one batch is shown, the one that most configurations were measured
    with; of several such, the largest.
    """
    groups: dict[int, dict[int | None, dict[Configuration, Run]]] = {}
    for run in runs:
        if run.phases_us and run.move == 1 and run.kernel in SHOWN_KERNELS:
            batch = groups.setdefault(run.folio_kib, {}).setdefault(run.batch_pages, {})
            key = (run.kernel, run.design, run.channels)
            batch[key] = max(batch.get(key, run), run, key=size)
    panels = []
    for kib, batches in sorted(groups.items()):
        pages = max(batches, key=lambda pages: (len(batches[pages]), known(pages)))
        shown = [
            batches[pages][key] for key in sorted(batches[pages], key=_configuration_order)
        ]
        panels.append((kib, pages, shown))
    return panels


def _configuration_order(key: Configuration) -> tuple[bool, int, int]:
    kernel, design, channels = key
    designs: tuple[str, ...] = (*CPU_DESIGNS, *ENGINE_DESIGNS)
    return (kernel != "vanilla", designs.index(design), known(channels))
