"""One constant that maps virtual time to the published machine, and how well it does."""

from collections.abc import Iterator, Sequence

from harness.lab.model.published import BASELINE, WORKLOAD, rows
from harness.lab.results import CalibrationRow, Quantity, Run

LIMIT = 0.15
"""Largest error, as a fraction of the published figure, that counts as reproduced."""

UNFITTED_KIB = 16
"""The folio size that the fit leaves out.

The published figures leave no room for what 7.3 does for each large folio; with 16 KB in the
fit, one constant would leave 16 KB and 2 MB off in opposite directions.
"""


def fit(sizes: Sequence[Run]) -> float:
    """Return the dilation: virtual ns for each ns of the published machine.

    `sizes` are vanilla runs whose speeds are still in virtual time, a first move for each
    folio size.

    The dilation minimises the largest relative error of throughput. With r = virtual /
    published, the error of a row is dilation * r - 1; the largest is least where the rows with
    the least and the greatest r err equally far to both sides.
    """
    speeds = {run.folio_kib: run.gbps for run in sizes if run.move == 1}
    ratios = [
        speeds[row.folio_kib] / row.gbps for row in rows(BASELINE) if row.folio_kib != UNFITTED_KIB
    ]
    return 2 / (min(ratios) + max(ratios))


def compare(sizes: Sequence[Run], calls: Sequence[Run]) -> Iterator[CalibrationRow]:
    """Yield each published row of both vanilla tables beside the run that there is for it.

    `sizes` and `calls` are vanilla runs in the published machine's time: by folio size, and
    by folio size and number of folios per call.
    """
    found = {(run.folio_kib, 0): run for run in sizes if run.move == 1}
    # A size may be the same measurement as a number of folios per call.
    every = (run for run in (*sizes, *calls) if run.move == 1)
    found |= {(run.folio_kib, run.folios_per_call): run for run in every}
    for row in (*rows(BASELINE), *rows(WORKLOAD)):
        if one := found.get((row.folio_kib, row.folios)):
            fitted = row.table == BASELINE and row.folio_kib != UNFITTED_KIB
            figures: dict[Quantity, tuple[float, float | None]] = {
                "gbps": (row.gbps, one.gbps),
                "first_folio_us": (row.first_us, one.first_folio_us),
            }
            for quantity, (published, lab) in figures.items():
                if published and lab:
                    yield CalibrationRow(
                        table=row.table, row=row.name, quantity=quantity, published=published,
                        lab=lab, error=lab / published - 1, fitted=fitted,
                    )  # fmt: skip
