"""One constant that maps virtual time to the published machine, and how well it does."""

from collections.abc import Iterable, Sequence

from harness.core.errors import HarnessError
from harness.lab.model import published as lab_published
from harness.lab.model.published import Published
from harness.lab.results import CalibrationRow, Quantity, Run

LIMIT = 0.15
"""Largest error, as a fraction of the published figure, that counts as reproduced."""

UNFITTED_KIB = frozenset({16})
"""Folio sizes that the fit leaves out.

The published figures leave no room for what 7.3 does for each large folio; with 16 KB in the
fit, one constant would leave 16 KB and 2 MB off in opposite directions.
"""


def fit(runs: Sequence[Run], published: Published) -> float:
    """Return the dilation: virtual ns for each ns of the published machine.

    `runs` are vanilla ones whose speeds are still in virtual time, one for each folio size;
    HarnessError names the row of the published baseline that has none or several.

    The dilation minimises the largest relative error of throughput. With r = virtual /
    published, the error of a row is dilation * r - 1; the largest is least where the rows with
    the least and the greatest r err equally far to both sides.
    """
    ratios = []
    for row in published.baseline:
        if row.folio_kib not in UNFITTED_KIB:
            run = _the_run(runs, row.name, row.folio_kib, None)
            if run is None:
                raise HarnessError(f"calibration: no vanilla run for {row.name}")
            ratios.append(run.gbps / row.gbps)
    return 2 / (min(ratios) + max(ratios))


def rows(
    sizes: Iterable[Run], calls: Iterable[Run], published: Published
) -> list[CalibrationRow]:
    """Return each published row of both vanilla tables beside the run that there is for it.

    `sizes` and `calls` are vanilla runs in the published machine's time: one for each folio
    size, and one for each folio size and number of folios per call.
    """
    found = []
    sizes = list(sizes)
    # A size may be the same measurement as a number of folios per call.
    calls = {run.name: run for run in (*sizes, *calls)}.values()
    for base in published.baseline:
        if run := _the_run(sizes, base.name, base.folio_kib, None):
            fitted = base.folio_kib not in UNFITTED_KIB
            found.append(
                _row(lab_published.BASELINE, base.name, "gbps", base.gbps, run.gbps, fitted)
            )
    for row in published.workload:
        kib = lab_published.order_kib(row.order)
        if run := _the_run(calls, row.name, kib, row.folios):
            table = lab_published.WORKLOAD
            found.append(_row(table, row.name, "gbps", row.gbps, run.gbps))
            if run.first_folio_us:
                found.append(
                    _row(table, row.name, "first_folio_us", row.first_us, run.first_folio_us)
                )
    return found


def _the_run(
    runs: Iterable[Run], name: str, folio_kib: int, folios_per_call: int | None
) -> Run | None:
    found = [
        run
        for run in runs
        if (run.kernel, run.move, run.folio_kib) == ("vanilla", 1, folio_kib)
        and folios_per_call in (None, run.folios_per_call)
    ]
    if len(found) > 1:
        raise HarnessError(f"calibration: {len(found)} vanilla runs for {name}")
    return found[0] if found else None


def _row(
    table: str, row: str, quantity: Quantity, published: float, lab: float, fitted: bool = False
) -> CalibrationRow:
    return CalibrationRow(
        table=table, row=row, quantity=quantity, published=published, lab=lab,
        error=lab / published - 1, fitted=fitted,
    )  # fmt: skip
