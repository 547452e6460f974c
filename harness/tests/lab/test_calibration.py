"""The one constant, and which published rows it reproduces."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.lab.model import calibration as lab_calibration
from harness.lab.model import published
from harness.lab.model.calibration import FitRow
from harness.lab.results import Calibration, CalibrationRow, Quantity, relative_error
from harness.tests.lab.sample import OFF_BY, PUBLISHED, by_cpu, vanilla_runs

BASELINE = vanilla_runs()[: len(PUBLISHED.baseline)]
WORKLOAD = vanilla_runs()[len(PUBLISHED.baseline) :]


def test_a_known_constant_is_found() -> None:
    speeds = (3.31, 5.61, 11.02)
    rows = [FitRow(speed, speed / 4.75) for speed in speeds]
    assert lab_calibration.fit(rows) == pytest.approx(4.75)


def test_no_other_constant_has_a_smaller_largest_error() -> None:
    rows = [FitRow(3.31, 0.653), FitRow(5.61, 1.095), FitRow(11.02, 2.505)]

    def largest(dilation: float) -> float:
        return max(abs(relative_error(r.published, dilation * r.virtual)) for r in rows)

    found = lab_calibration.fit(rows)
    others = (found * (1 + step / 1000) for step in range(-300, 301) if step)
    assert largest(found) < min(largest(other) for other in others)


@pytest.mark.parametrize("rows", [[], [FitRow(1.0, 0.0)], [FitRow(-1.0, 1.0)]])
def test_what_cannot_be_fitted_is_refused(rows: list[FitRow]) -> None:
    with pytest.raises(HarnessError, match="calibration: "):
        lab_calibration.fit(rows)


def test_runs_in_virtual_time_fit_to_the_constant_they_were_slowed_by() -> None:
    virtual = [run.undilated(1 / 4.75) for run in BASELINE]
    fitted = lab_calibration.fit(lab_calibration.baseline_fit_rows(virtual, PUBLISHED))
    assert fitted == pytest.approx(4.75 / OFF_BY)


def test_a_fit_needs_one_run_for_each_row() -> None:
    with pytest.raises(HarnessError, match="no vanilla run for 4 KiB"):
        lab_calibration.baseline_fit_rows(BASELINE[1:], PUBLISHED)
    with pytest.raises(HarnessError, match="2 vanilla runs for 4 KiB"):
        lab_calibration.baseline_fit_rows([*BASELINE, BASELINE[0]], PUBLISHED)
    others = [
        by_cpu("ours", "off", folio_kib=4),
        by_cpu("without", "off", folio_kib=4),
        replace(BASELINE[0], move=2),
    ]
    assert lab_calibration.baseline_fit_rows([*BASELINE, *others], PUBLISHED)


def test_every_published_row_is_beside_the_lab() -> None:
    rows = lab_calibration.baseline_rows(BASELINE, PUBLISHED)
    assert [row.row for row in rows] == [row.name for row in PUBLISHED.baseline]
    rows += lab_calibration.workload_rows(WORKLOAD, PUBLISHED)
    assert len(rows) == len(PUBLISHED.baseline) + 2 * len(PUBLISHED.workload)
    assert all(row.error == pytest.approx(OFF_BY - 1) for row in rows)


def test_a_row_without_latency_has_a_throughput_only() -> None:
    run = replace(WORKLOAD[0], first_folio_us=None)
    (row,) = lab_calibration.workload_rows([run], PUBLISHED)
    assert row.quantity == "gbps"


def test_rows_over_the_limit_are_named_and_small_workloads_are_not_claimed() -> None:
    small = [run for run in WORKLOAD if (run.folio_kib, run.folios_per_call) == (4, 512)]
    large = [run for run in WORKLOAD if (run.folio_kib, run.folios_per_call) == (2048, 256)]
    wrong = [replace(run, gbps=run.gbps * 2) for run in (*small, *large, BASELINE[2])]
    kept = [run for run in (*BASELINE, *WORKLOAD) if run not in (*small, *large, BASELINE[2])]
    runs = [*kept, *wrong]
    baseline = [run for run in runs if run.total_mib == BASELINE[0].total_mib]
    workload = [run for run in runs if run.total_mib != BASELINE[0].total_mib]
    rows = lab_calibration.baseline_rows(baseline, PUBLISHED)
    rows += lab_calibration.workload_rows(workload, PUBLISHED)
    calibration = Calibration(4.75, lab_calibration.LIMIT, tuple(rows))
    assert [row.name for row in lab_calibration.over_limit(calibration, PUBLISHED)] == [
        "baseline-move-pages, 64 KiB, gbps",
        "vanilla-workload-sweep, order 9, 256 folios, gbps",
    ]


def test_the_published_tables_are_whole() -> None:
    counts = (len(PUBLISHED.baseline), len(PUBLISHED.workload), len(PUBLISHED.sweep),
              len(PUBLISHED.offload), len(PUBLISHED.prep))  # fmt: skip
    assert counts == (6, 19, 60, 36, 8)
    assert PUBLISHED.sweep[0] == published.Sweep(0, 512, 1, 2.13, 639.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folio_kib,gbps\n4,3\n", "its columns are not folio_kib, gbps, sd"),
        ("folio_kib,gbps,sd\n4,fast,0\n", "csv:2: could not convert"),
        ("folio_kib,gbps,sd\n4,3\n", "csv:2: "),
        ("folio_kib,gbps,sd\n4,3,0,1\n", "csv:2: has too many columns"),
        ("", "its columns are not"),
    ],
)
def test_a_broken_table_is_refused(tmp_path: Path, text: str, message: str) -> None:

    with pytest.raises(HarnessError, match=r"baseline-move-pages.csv: No such file"):
        published.load(tmp_path)
    (tmp_path / f"{published.BASELINE}.csv").write_text(text)
    with pytest.raises(HarnessError, match=message):
        published.load(tmp_path)


def test_what_is_known_not_to_fit_has_a_bound_and_a_cause() -> None:
    def figure(table: str, name: str, quantity: Quantity) -> CalibrationRow:
        return CalibrationRow(table, name, quantity, 1.0, 1.0, 0.0)

    known = lab_calibration.explanation(figure(published.BASELINE, "16 KiB", "gbps"))
    assert known and known[0] == 0.25 and "deferred split" in known[1]
    assert not lab_calibration.explanation(figure(published.BASELINE, "64 KiB", "gbps"))
    assert not lab_calibration.explanation(
        figure(published.WORKLOAD, "order 0, 2048 folios", "first_folio_us")
    )
    names = {row.name for row in PUBLISHED.baseline} | {row.name for row in PUBLISHED.workload}
    for _, pattern, _, bound, _ in lab_calibration.EXPLAINED:
        assert any(re.fullmatch(pattern, name) for name in names)
        assert bound > lab_calibration.LIMIT
