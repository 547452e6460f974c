"""Which runs of results.json a section of the report shows, beside which published rows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness.lab.model import published as lab_published
from harness.lab.model.published import Published, Sweep
from harness.lab.results import ENGINE_DESIGNS, SHOWN_KERNELS, Run, relative_error

SWEEP_TARGET = {0: 0.30, 9: 0.15}
"""Largest error of a reproduced row of the batch sweep, by order."""

SWEEP_EXPLAINED = (
    1.0,
    "order 0, first folio: unmapping 512 pages takes 205 us in the lab, all instructions, "
    "where 253 us are published for unmap and copy together; and the lab's only processor pays "
    "1,600 instructions a descriptor (mapping, dcbm, completion and the model's own), where "
    "the published figures leave room for about 500",
)
"""Largest error of the first-folio latency of order 0, which misses the target, and why."""

SWEEP_FASTER = (
    0.25,
    "order 9, throughput: large folios are freed while the next batch is copied, which the "
    "published design does afterwards; that tells the more the smaller a batch is",
)
"""By how much order 9 may be faster than the published design, and why it is."""

OFF_LIMIT = 0.003
"""What the feature may cost when it is off: a fraction of the instructions without it."""

# Folio size in KiB, design, channels.
CurveKey = tuple[int, str, int | None]
# Kernel, design, channels.
Configuration = tuple[str, str, int | None]


def known(number: int | None) -> int:
    """Return a number to sort by, where None is the least."""
    return number or 0


def _size(run: Run) -> tuple[int, float, int]:
    """Return what makes one of several runs of a configuration the one to show."""
    return (known(run.batch_pages), run.total_mib, run.folios_per_call)


def batch_curves(runs: Iterable[Run]) -> dict[CurveKey, list[Run]]:
    """Return first moves with an engine by folio size, design and channels.

    Each list is in order of batch size, with the run of the largest workload for each.
    """
    curves: dict[CurveKey, dict[int, Run]] = {}
    for run in runs:
        if run.design in ENGINE_DESIGNS and run.move == 1:
            curve = curves.setdefault((run.folio_kib, run.design, run.channels), {})
            batch = known(run.batch_pages)
            curve[batch] = max(curve.get(batch, run), run, key=_size)
    return {key: [curve[batch] for batch in sorted(curve)] for key, curve in curves.items()}


def tradeoff_curves(runs: Iterable[Run]) -> dict[CurveKey, list[Run]]:
    """Return those curves of batch_curves() that have a first-folio latency.

    Of a curve with several batch sizes there is something to see; single points are left
    out unless there is nothing else.
    """
    timed = batch_curves(run for run in runs if run.first_folio_us)
    curves = {key: curve for key, curve in timed.items() if len(curve) > 1}
    return curves or timed


def sweep_pairs(runs: Iterable[Run], published: Published) -> list[tuple[Sweep, Run]]:
    """Return the rows of the published sweep that were measured, with their runs."""
    curves = batch_curves(runs)
    pairs = []
    for row in published.sweep:
        key = (lab_published.order_kib(row.order), "batch", row.channels)
        curve = curves.get(key, ())
        pairs += [(row, run) for run in curve if run.batch_pages == row.batch_pages]
    return pairs


def sweep_misses(
    row: Sweep, run: Run, first_target: float | None = None, faster: float | None = None
) -> list[str]:
    """Name what a run misses the target of a published row in, with the error.

    `first_target` replaces the target of the first-folio latency, `faster` that of a
    throughput that is higher than the published one.
    """
    target = SWEEP_TARGET[row.order]
    ahead = faster if faster and run.gbps > row.gbps else target
    figures = [("throughput", row.gbps, run.gbps, ahead)]
    if run.first_folio_us is not None:
        figures.append(
            ("first folio", row.first_us, run.first_folio_us, first_target or target)
        )
    misses = [
        f"{name} {100 * error:+.1f} %"
        for name, theirs, ours, limit in figures
        if abs(error := relative_error(theirs, ours)) > limit
    ]
    return misses if run.first_folio_us is not None else [*misses, "no first-folio latency"]


def by_size(runs: Iterable[Run]) -> dict[Configuration, dict[tuple[int, int], Run]]:
    """Return the runs of each configuration by folio size and move, vanilla first.

    All runs of a configuration have the same batch: the one that most were measured with,
    and of several such the largest. Of several workloads the largest counts.
    """
    found: dict[Configuration, dict[int, dict[tuple[int, int], Run]]] = {}
    for run in runs:
        if run.kernel not in SHOWN_KERNELS:
            continue
        batches = found.setdefault((run.kernel, run.design, run.channels), {})
        sizes = batches.setdefault(known(run.batch_pages), {})
        key = (run.folio_kib, run.move)
        sizes[key] = max(sizes.get(key, run), run, key=_size)
    designs = ("off", "cpu", "bulk", *ENGINE_DESIGNS)
    order = sorted(
        found, key=lambda key: (key[0] != "vanilla", designs.index(key[1]), known(key[2]))
    )
    return {
        key: max(found[key].items(), key=lambda item: (len(item[1]), item[0]))[1]
        for key in order
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
            batch[key] = max(batch.get(key, run), run, key=_size)
    panels = []
    for size, batches in sorted(groups.items()):
        pages = max(batches, key=lambda pages: (len(batches[pages]), known(pages)))
        panels.append((size, pages, list(_in_order(batches[pages]))))
    return panels


def _in_order(runs: Mapping[Configuration, Run]) -> Iterable[Run]:
    order = by_size(runs.values())
    return (run for sizes in order.values() for run in sizes.values())


@dataclass(frozen=True)
class Cost:
    """Instructions per folio of one size; `without` is our kernel, the feature compiled out."""

    folio_kib: int
    without: float
    off: float
    vanilla: float | None
    cpu: float | None
    engine: float | None

    @property
    def overhead(self) -> float:
        """By what fraction of the instructions without the feature off takes more."""
        return self.off / self.without - 1


def costs_of(runs: Iterable[Run]) -> list[Cost]:
    """Return instructions per folio where off and without the feature had the same workload.

    On vanilla, with the CPU and with an engine it is the same workload too; where there are
    several, the one with the most channels and the largest batch counts.
    """
    counted = [run for run in runs if run.move == 1 and run.instructions_per_folio]
    costs = {}
    for base in sorted(counted, key=_size):
        if base.kernel != "without" or base.instructions_per_folio is None:
            continue
        same = [
            run
            for run in counted
            if (run.folio_kib, run.total_mib, run.folios_per_call)
            == (base.folio_kib, base.total_mib, base.folios_per_call)
        ]
        ours = [run for run in same if run.kernel == "ours"]
        off = _instructions(ours, lambda design: design == "off")
        if off is not None:
            costs[base.folio_kib] = Cost(
                base.folio_kib,
                base.instructions_per_folio,
                off,
                _instructions(
                    (run for run in same if run.kernel == "vanilla"),
                    lambda design: design == "off",
                ),
                _instructions(ours, lambda design: design == "cpu"),
                _instructions(ours, ENGINE_DESIGNS.__contains__),
            )
    return [costs[size] for size in sorted(costs)]


@dataclass(frozen=True)
class Copy:
    """Instructions per folio of one size: of its copy alone, and of its whole migration."""

    folio_kib: int
    loop: float
    bulk: float
    migration_loop: float
    migration_bulk: float

    @property
    def fraction(self) -> float:
        """What is left of the copy's instructions, of 1."""
        return self.bulk / self.loop


def copies_of(runs: Iterable[Run], dilation: float) -> list[Copy]:
    """Return what a copy by the CPU takes, page by page and by the calibrated primitive.

    A virtual nanosecond is an instruction: the copy's are those of the copy phase.
    """
    every = list(runs)
    loop, bulk = (_copies(every, design, dilation) for design in ("cpu", "bulk"))
    return [
        Copy(size, loop[size][0], bulk[size][0], loop[size][1], bulk[size][1])
        for size in sorted(loop.keys() & bulk.keys())
    ]


def loop_copies(runs: Iterable[Run], dilation: float) -> dict[int, float]:
    """Return what a copy page by page takes by folio size, in instructions."""
    return {size: copy for size, (copy, _) in _copies(runs, "cpu", dilation).items()}


def _copies(
    runs: Iterable[Run], design: str, dilation: float
) -> dict[int, tuple[float, float]]:
    """Return instructions per folio of copy and of migration, by folio size."""
    found = {}
    for run in runs:
        if run.design != design or run.move != 1 or not run.batch_pages:
            continue
        if run.phases_us and run.instructions_per_folio:
            folios = run.batch_pages * lab_published.PAGE_KIB / run.folio_kib
            copy = run.phases_us.copy * 1000 * dilation / folios
            found[run.folio_kib] = (copy, run.instructions_per_folio)
    return found


def _instructions(runs: Iterable[Run], wanted: Callable[[str], bool]) -> float | None:
    found = [run for run in runs if wanted(run.design)]
    if not found:
        return None
    return max(found, key=lambda run: (known(run.channels), _size(run))).instructions_per_folio
