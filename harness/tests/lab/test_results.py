"""results.json: what goes in comes out, and what cannot be is refused."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.lab import results as lab_results
from harness.lab.results import Results
from harness.tests.lab.sample import by_cpu, real_results, results, run


def document(whole: Results | None = None) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(lab_results.dump(whole or results()))
    return loaded


def refused(changed: dict[str, Any]) -> str:
    with pytest.raises(HarnessError) as caught:
        lab_results.parse(changed, "r.json")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("whole", [results(), real_results()])
def test_what_is_dumped_is_parsed_unchanged(whole: Results, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(lab_results.dump(whole))
    assert lab_results.load(path) == whole


def test_runs_have_the_names_that_outside_checks_read() -> None:
    assert set(document()) == {
        "calibration", "engine", "runs", "notes", "quick", "kernel_release", "qemu",
    }  # fmt: skip
    assert set(document()["runs"][0]) == {
        "kernel", "design", "engine", "channels", "folio_kib", "batch_pages", "move", "gbps",
        "first_folio_us", "inaccessible_us", "instructions_per_folio", "phases_us",
        "total_mib", "folios_per_call", "folios_failed", "folios_split",
    }  # fmt: skip


def test_every_name_is_needed_and_no_other_is_taken() -> None:
    whole = document()
    for holder, where in ((whole, "r.json"), (whole["runs"][0], "r.json: runs[0]"),
                          (whole["calibration"], "r.json: calibration"),
                          (whole["engine"], "r.json: engine")):  # fmt: skip
        for name in list(holder):
            value = holder.pop(name)
            assert refused(whole) == f"{where}: lacks {name}"
            holder[name] = value
        holder["colour"] = 1
        assert refused(whole) == f"{where}: has unknown colour"
        del holder["colour"]
    assert lab_results.parse(whole, "r.json") == results()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "theirs"}, "kernel: is 'theirs', not one of vanilla, ours, without"),
        ({"kernel": "vanilla"}, "design 'batch' on the kernel 'vanilla'"),
        ({"kernel": "without"}, "design 'batch' on the kernel 'without'"),
        ({"design": "cpu"}, "design 'cpu' with engine 'zen3-ptdma'"),
        ({"engine": None, "channels": 0}, "design 'batch' with engine None"),
        ({"engine": "other"}, "a run has engine 'other', the results 'zen3-ptdma'"),
        ({"channels": 0}, "an engine without channels"),
        ({"move": 3}, "move: is 3, not one of 1, 2"),
        ({"gbps": 0}, "gbps is not positive"),
        ({"folio_kib": 2}, "folio_kib is 2, less than 4"),
        ({"folios_failed": -1}, "folios_failed is -1, less than 0"),
        ({"first_folio_us": "fast"}, "first_folio_us: is 'fast', not a number"),
        ({"phases_us": {"copy": 1}}, "phases_us: lacks flush, move, unmap"),
        ({"inaccessible_us": {"p50": 1, "p99": 2, "max": -1}}, "a time is negative"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    whole = document()
    whole["runs"] = [{**json.loads(json.dumps(asdict(run()))), **changes}]
    assert message in refused(whole)


def test_the_same_run_twice_is_refused() -> None:
    whole = document()
    whole["runs"].append(whole["runs"][0])
    assert "there twice: vanilla/off, 4 KiB" in refused(whole)


def test_a_model_needs_a_calibration_and_hardware_has_none() -> None:
    assert "the engine is a model, but there is no" in refused(
        {**document(), "calibration": None}
    )
    real = {**document(real_results()), "calibration": document()["calibration"]}
    assert "the engine is real, but there is a calibration" in refused(real)


def test_an_error_must_be_that_of_its_figures() -> None:
    whole = document()
    whole["calibration"]["rows"][0]["error"] = 0.01
    assert "calibration.rows[0]: error 0.01 is not that of published and lab" in refused(whole)


def test_figures_that_json_does_not_have_are_not_written() -> None:
    with pytest.raises(HarnessError, match="results: "):
        lab_results.dump(results(runs=(run(gbps=float("inf")),)))


def test_virtual_time_becomes_the_machine_s() -> None:
    there = run().undilated(4.0)
    assert there.gbps == 240.0
    assert there.first_folio_us == 120.0
    assert there.phases_us is not None
    assert there.phases_us.copy == 112.5
    assert there.inaccessible_us is not None
    assert there.inaccessible_us.max == 127.5
    assert there.instructions_per_folio == run().instructions_per_folio
    bare = by_cpu("vanilla", "off", first_folio_us=None, phases_us=None, inaccessible_us=None)
    assert bare.undilated(4.0).first_folio_us is None
