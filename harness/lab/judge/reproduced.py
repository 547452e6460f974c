"""How well the lab reproduces other people's figures: vanilla, the batch sweep, folio sizes.

Each figure has a target on both sides: a model that is faster than its machine is wrong too.
"""

import math
from collections.abc import Iterator

from harness.lab import plan
from harness.lab.judge.claim import Claim, Measured
from harness.lab.model.calibration import LIMIT, UNFITTED_KIB
from harness.lab.model.published import BASELINE, OFFLOAD, PAGE_KIB, SWEEP, WORKLOAD, Row, rows
from harness.lab.results import Results

CALIBRATION, BATCHES, SIZES = "calibration", "batch sweep", "published design"
_GROUPS = {BASELINE: CALIBRATION, WORKLOAD: CALIBRATION, SWEEP: BATCHES, OFFLOAD: SIZES}

_SWEEP_TARGET, _TARGET = 0.30, 0.15
"""Largest error of 4 KB in the batch sweep, and of others, or their standard deviation if more."""


def claims_of(results: Results, measured: Measured) -> Iterator[Claim]:
    """Yield every published figure that was to be reproduced."""
    calibration = results.calibration
    if calibration is None:
        return
    yield Claim(
        CALIBRATION, "virtual time for a ns of the published machine", "ns",
        calibration.dilation,
    )  # fmt: skip
    mib = plan.QUICK_MIB if results.quick else plan.MIB
    for row in (row for table in _GROUPS for row in rows(table)):
        group, target = _GROUPS[row.table], max(_TARGET, row.sd / row.gbps)
        if group == CALIBRATION:
            target = LIMIT
        elif group == BATCHES and row.folio_kib == PAGE_KIB:
            target = _SWEEP_TARGET
        for quantity, word, unit, published in (
            ("gbps", "throughput", "GB/s", row.gbps),
            ("first_folio_us", "first folio", "us", row.first_us),
        ):
            value = measured.figure(quantity, **_wanted(row, mib))
            if value is None or not published:
                continue
            fitted = quantity == "gbps" and _is_fitted(row)
            what = row.name if group != CALIBRATION else f"{row.table}, {row.name}"
            yield Claim(
                group, f"{what}: {word}", unit, value, published * (1 - target),
                published * (1 + target), published, fitted,
                results.other_end.get(row.name, math.nan) if group == SIZES else math.nan,
            )  # fmt: skip


def _wanted(row: Row, mib: int) -> dict[str, object]:
    """Return fields of the runs that reproduce a row; by folio size, each moves `mib`."""
    if _GROUPS[row.table] == CALIBRATION:
        folios = row.folios or mib * 1024 // row.folio_kib
        size = {} if row.folios else {"total_mib": mib}
        return {"kernel": "vanilla", "folio_kib": row.folio_kib, "folios_per_call": folios, **size}
    kernel = "heart" if row.table == OFFLOAD else "ours"
    return {"kernel": kernel, "design": "batch", "channels": row.channels,
            "folio_kib": row.folio_kib,
            "batch_pages": row.batch_pages or plan.SIZE_BATCH_PAGES}  # fmt: skip


def _is_fitted(row: Row) -> bool:
    """Whether the clock or the preset was fitted to the throughput of this row, or of its double.

    The preset has its bandwidth from 2 MB folios, and a descriptor from 4 KB on one channel.
    """
    if _GROUPS[row.table] == CALIBRATION:
        return row.table == BASELINE and row.folio_kib != UNFITTED_KIB
    if row.table == SWEEP:
        large = row.folio_kib > PAGE_KIB and row.batch_pages >= plan.SIZE_BATCH_PAGES
        return row.channels == 1 or large
    return row.folio_kib == 2048 or (row.folio_kib, row.channels) == (PAGE_KIB, 1)
