"""results.json: what goes in comes out, and what cannot be is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.core import jsonio
from harness.core.errors import HarnessError
from harness.lab import results as lab_results
from harness.lab.judge import claims
from harness.lab.results import Results
from harness.tests.lab.sample import FULL, QUICK, real_results, run

WITH_PROGRAMS = msgspec.structs.replace(FULL, programs=claims.recorded_programs())


def document(whole: Results | None = None) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(lab_results.dump(whole or FULL))
    return loaded


def refused(changed: dict[str, Any]) -> str:
    with pytest.raises(HarnessError) as caught:
        lab_results.convert(changed, Results, "r.json")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("whole", [QUICK, WITH_PROGRAMS, real_results()])
def test_what_is_dumped_is_parsed_unchanged(whole: Results, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(lab_results.dump(whole))
    assert jsonio.load(Results, path) == whole


def test_runs_have_the_names_that_outside_checks_read() -> None:
    assert set(document()) - {"strips"} == {
        "calibration", "engine", "runs", "notes", "quick", "kernel_release", "qemu",
        "compiler",
    }  # fmt: skip
    assert set(document()["runs"][0]) == {
        "kernel", "design", "engine", "channels", "folio_kib", "batch_pages", "move", "gbps",
        "first_folio_us", "inaccessible_us", "instructions_per_folio", "phases_us",
        "total_mib", "folios_per_call", "folios_failed", "folios_split", "latency_lost",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "theirs"}, "Invalid enum value 'theirs' - at `$.runs[0].kernel`"),
        ({"kernel": "vanilla"}, "design 'batch' on the kernel 'vanilla'"),
        ({"design": "cpu"}, "design 'cpu' with engine 'zen3-ptdma'"),
        ({"engine": None, "channels": 0}, "design 'batch' with engine None"),
        ({"engine": "other"}, "a run has engine 'other', the results 'zen3-ptdma'"),
        ({"channels": 0}, "0 channels with engine 'zen3-ptdma'"),
        ({"move": 3}, "Invalid enum value 3 - at `$.runs[0].move`"),
        ({"folios_failed": -1}, "Expected `int` >= 0 - at `$.runs[0].folios_failed`"),
        ({"inaccessible_us": {"p50": 1, "p99": 2, "max": -1}}, "$.runs[0].inaccessible_us.max"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    whole = document()
    whole["runs"] = [{**msgspec.to_builtins(run()), **changes}]
    assert message in refused(whole)


def test_the_same_run_twice_is_refused() -> None:
    whole = document()
    whole["runs"].append(whole["runs"][0])
    assert "there twice: vanilla/off, 4 KiB" in refused(whole)


def test_a_model_needs_a_calibration_and_hardware_has_none() -> None:
    assert "a model needs a calibration" in refused({**document(), "calibration": None})
    real = {**document(real_results()), "calibration": document()["calibration"]}
    assert "and nothing else has one" in refused(real)
