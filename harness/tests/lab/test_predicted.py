"""Predictions: they are what is recorded, and a report of a real machine is beside them."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.lab.report import predicted, report
from harness.tests.lab.sample import QUICK
from harness.tests.lab.test_bench import bench, offload


def test_predictions_are_what_is_recorded() -> None:
    told = (predicted.DIRECTORY / "zen3-ptdma.json").read_text()
    assert told == predicted.dump(QUICK)
    known = json.loads(told)
    ways = {name.partition(":")[0] for name in known if ":" in name}
    assert {"live, 4 KB", "not live, 4 KB", "live, demotion, 64 KB"} < ways
    assert "not live, 64 KB, 492 pages written a ms" in ways
    assert not predicted.rows(QUICK)  # it is no real machine
    for preset in predicted.PRESETS.values():
        named = set(json.loads((predicted.DIRECTORY / f"{preset}.json").read_text()))
        assert {"live, 2 MB: GB/s", "not live, 64 KB: CPU-ms a GB"} < named <= set(known)


def test_a_report_of_an_hour_is_beside_predictions(tmp_path: Path) -> None:
    def measured(round_: int, gbps: float) -> dict[str, object]:
        told = offload(parameters={"segments": "Y", "merge": "Y"}, providers=["ptdma"], live=1,
                       max_inaccessible_us=100)  # fmt: skip
        document = bench(offload=told)
        document["runs"] = [{**document["runs"][0], "gbps_mean": gbps}]
        return {"way": "default", "round": round_, "bench": document}

    path = tmp_path / "r.json"
    known = predicted.figures(QUICK)["live, 2 MB: GB/s"]
    benches = [measured(number, gbps) for number, gbps in enumerate((600, 10, known / 2), 1)]
    bare = [{"bytes": 4096, "channels": 1, "ns": 700}]
    inventory = {"cpu": "a processor", "iommu": "DMA-FQ"}
    hour = {"program": "migrate_offload_report", "benches": benches, "bare": bare}
    path.write_text(json.dumps({**hour, "inventory": inventory}))
    results = report.load([path])
    assert f"inventory: {inventory}" in results.notes
    copy, row, cpu = predicted.rows(results)
    assert copy == ["bare engine, 4 KB: ns a copy, 1 channels", "684.7", "700", "1.02 times"]
    assert (row[0], row[3]) == ("live, 2 MB: GB/s", "0.50 times")
    assert cpu[:1] + cpu[2:3] == ["live, 2 MB: CPU-ms a GB", "238.4"]
    assert "Is the engine as predicted?" in report.html(results, tmp_path)
    other = structs.replace(results.engine, preset="ioat") if results.engine else None
    renamed = [structs.replace(run, engine="ioat") for run in results.runs]
    assert not predicted.rows(structs.replace(results, engine=other, runs=tuple(renamed)))
    path.write_text(json.dumps({"program": "migrate_offload_report", "benches": [{}]}))
    with pytest.raises(HarnessError, match="required field"):
        report.load([path])
