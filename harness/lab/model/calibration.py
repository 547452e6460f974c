"""One constant that maps virtual time to the published machine."""

from collections.abc import Sequence

from harness.lab.model.published import BASELINE, rows
from harness.lab.results import Run

LIMIT = 0.15
"""Largest error, as a fraction of the published figure, that counts as reproduced."""

UNFITTED_KIB = 16
"""The folio size that the fit leaves out: 7.3 does more for each large folio than was published."""


def fit(sizes: Sequence[Run]) -> float:
    """Return the dilation: virtual ns for each ns of the published machine.

    `sizes` are vanilla runs whose speeds are still in virtual time, a first move for each
    folio size.

    It minimises the largest relative error of throughput: the rows with the least and the greatest
    quotient of virtual and published speed err equally far to both sides.
    """
    speeds = {run.folio_kib: run.gbps for run in sizes if run.move == 1}
    ratios = [
        speeds[row.folio_kib] / row.gbps for row in rows(BASELINE) if row.folio_kib != UNFITTED_KIB
    ]
    return 2 / (min(ratios) + max(ratios))
