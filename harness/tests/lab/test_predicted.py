"""Predictions: they are what is recorded, and a report of a real machine is beside them."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.lab.report import predicted, report
from harness.tests.lab.sample import FULL
from harness.tests.lab.test_bench import bench, offload


def test_predictions_are_what_is_recorded() -> None:
    known = json.loads((predicted.DIRECTORY / "zen3-ptdma.json").read_text())
    assert known == predicted.figures(FULL)
    assert known["live, 2 MB, 100 pages written a ms: longest write, us"] == 15.4516
    assert not predicted.rows(FULL)  # it is no real machine


def test_a_report_of_an_hour_is_beside_predictions(tmp_path: Path) -> None:
    def measured(round_: int, gbps: float) -> dict[str, object]:
        told = offload(parameters={"segments": "Y", "merge": "Y"}, providers=["ptdma"], live=True)
        document = bench(offload=told)
        document["runs"] = [{**document["runs"][0], "gbps_mean": gbps}]
        return {"way": "default", "round": round_, "bench": document}

    path = tmp_path / "r.json"
    benches = [measured(number, gbps) for number, gbps in enumerate((60.0, 10.0, 33.92), 1)]
    path.write_text(json.dumps({"program": "migrate_offload_report", "benches": benches}))
    results = report.load([path])
    (row,) = predicted.rows(results)
    assert row == ["live, 2 MB: GB/s", "67.84", "33.92", "0.50 times"]
    assert "Is the engine as predicted?" in report.html(results, tmp_path)
    other = structs.replace(results.engine, preset="ioat") if results.engine else None
    renamed = [structs.replace(run, engine="ioat") for run in results.runs]
    assert not predicted.rows(structs.replace(results, engine=other, runs=tuple(renamed)))
    path.write_text(json.dumps({"program": "migrate_offload_report", "benches": [{}]}))
    with pytest.raises(HarnessError, match="required field"):
        report.load([path])
