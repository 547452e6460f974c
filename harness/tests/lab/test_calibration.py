"""The one constant, and which published rows it reproduces."""

from pathlib import Path

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.lab.model import calibration, published
from harness.lab.results import Run
from harness.tests.lab.sample import PUBLISHED, by_cpu

OFF_BY = 1.05


def sizes(slower: float = 1.0) -> list[Run]:
    return [
        by_cpu("vanilla", "off", folio_kib=row.folio_kib, gbps=row.gbps / slower)
        for row in PUBLISHED.baseline
    ]


CALLS = [
    by_cpu("vanilla", "off", folio_kib=published.order_kib(row.order),
           folios_per_call=row.folios, gbps=row.gbps * OFF_BY,
           first_folio_us=row.first_us * OFF_BY)
    for row in PUBLISHED.workload
]  # fmt: skip


def test_a_known_constant_is_found() -> None:
    assert calibration.fit(sizes(slower=4.75), PUBLISHED) == pytest.approx(4.75)


def test_the_largest_error_is_as_large_to_both_sides() -> None:
    runs = sizes()
    runs[0] = structs.replace(runs[0], gbps=runs[0].gbps * 1.2)
    runs[1] = structs.replace(runs[1], gbps=runs[1].gbps * 9)  # 16 KB is left out
    dilation = calibration.fit(runs, PUBLISHED)
    errors = [
        dilation * run.gbps / row.gbps - 1
        for run, row in zip(runs, PUBLISHED.baseline, strict=True)
        if row.folio_kib != 16
    ]
    assert max(errors) == pytest.approx(-min(errors))


def test_a_fit_needs_one_run_for_each_row() -> None:
    with pytest.raises(HarnessError, match="no vanilla run for 4 KiB"):
        calibration.fit(sizes()[1:], PUBLISHED)
    with pytest.raises(HarnessError, match="2 vanilla runs for 4 KiB"):
        calibration.fit([*sizes(), sizes()[0]], PUBLISHED)


def test_every_published_row_is_beside_the_lab_and_says_if_it_is_fitted() -> None:
    rows = calibration.rows(sizes(1 / OFF_BY), CALLS, PUBLISHED)
    assert len(rows) == len(PUBLISHED.baseline) + 2 * len(PUBLISHED.workload)
    assert all(row.error == pytest.approx(OFF_BY - 1) for row in rows)
    assert [row.row for row in rows if row.fitted] == [
        row.name for row in PUBLISHED.baseline if row.folio_kib != 16
    ]
    bare = structs.replace(CALLS[0], first_folio_us=None)
    assert [row.quantity for row in calibration.rows([], [bare], PUBLISHED)] == ["gbps"]


def test_the_published_tables_are_whole() -> None:
    counts = (len(PUBLISHED.baseline), len(PUBLISHED.workload), len(PUBLISHED.sweep),
              len(PUBLISHED.offload))  # fmt: skip
    assert counts == (6, 19, 60, 36)
    assert PUBLISHED.sweep[0] == published.Sweep(
        order=0, batch_pages=512, channels=1, gbps=2.13, first_us=639.0
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folio_kib,gbps\n4,3\n", "csv:2: Object missing required field `sd`"),
        ("folio_kib,gbps,sd\n4,fast,0\n", "csv:2: Expected `float`, got `str`"),
        ("folio_kib,gbps,sd\n4,3\n", "csv:2: "),
        ("folio_kib,gbps,sd\n4,3,0,1\n", "csv:2: Object contains unknown field"),
        ("folio_kib,gbps,sd\n", "csv: has no rows"),
        ("", "csv: has no rows"),
    ],
)
def test_a_broken_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HarnessError, match=r"baseline-move-pages.csv: No such file"):
        published.load(tmp_path)
    (tmp_path / f"{published.BASELINE}.csv").write_text(text)
    with pytest.raises(HarnessError, match=message):
        published.load(tmp_path)
