"""The one constant, and which published rows it reproduces."""

import pytest
from msgspec import structs

from harness.lab.model import calibration
from harness.lab.model.published import BASELINE, OFFLOAD, SWEEP, WORKLOAD, Row, rows
from harness.lab.results import Run
from harness.tests.lab.sample import by_cpu


def sizes(slower: float = 1.0) -> list[Run]:
    return [
        by_cpu("vanilla", "off", folio_kib=row.folio_kib, gbps=row.gbps / slower)
        for row in rows(BASELINE)
    ]


def test_a_known_constant_is_found() -> None:
    assert calibration.fit(sizes(slower=4.75)) == pytest.approx(4.75)


def test_the_largest_error_is_as_large_to_both_sides() -> None:
    runs = sizes()
    runs[0] = structs.replace(runs[0], gbps=runs[0].gbps * 1.2)
    runs[1] = structs.replace(runs[1], gbps=runs[1].gbps * 9)  # 16 KB is left out
    back = structs.replace(runs[2], gbps=runs[2].gbps * 9, move=2)  # and so is the way back
    dilation = calibration.fit([*runs, back])
    errors = [
        dilation * run.gbps / row.gbps - 1
        for run, row in zip(runs, rows(BASELINE), strict=True)
        if row.folio_kib != 16
    ]
    assert max(errors) == pytest.approx(-min(errors))


def test_the_published_tables_are_whole() -> None:
    assert [len(rows(t)) for t in (BASELINE, WORKLOAD, SWEEP, OFFLOAD)] == [6, 19, 60, 36]
    first = Row(SWEEP, gbps=2.13, folio_kib=4, first_us=639, batch_pages=512, channels=1)
    assert rows(SWEEP)[0] == first
    assert (first.name, rows(WORKLOAD)[-1].name) == (
        "4 KB, 512 pages, 1 channels", "order 9, 512 folios",
    )  # fmt: skip
