"""From what guests print to runs: nothing is invented, nothing that failed gets through."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.guest.ktap import Status
from harness.lab import plan
from harness.lab import run as lab
from harness.lab.judge import claims
from harness.lab.model import published
from harness.lab.plan import Boot, Measurement
from harness.lab.results import Calibration, CalibrationRow, Engine, Results, Run

BOOT = Boot("b", plan.OURS, 16, (Measurement("batch", 16, (2048,), 64, 8192),))


def printed(**changes: Any) -> str:
    run = {
        "folio_kib": 2048,
        "move": 1,
        "folios": 32,
        "gbps_mean": 12.0,
        "elapsed_ns": [5_600_000],
        "cpu_ns": [640_000],
        "folios_failed": 0,
        "folios_split": 0,
        "first_folio_ns": 2_400_000.0,
        "inaccessible_ns": {"p50": 2_400_000, "p99": 2_500_000, "max": 2_600_000},
        "phases_ns": {"unmap": 1, "flush": 1, "copy": 1, "move": 1, "batches": 1},
        **changes,
    }
    bench = {
        "program": "migrate_bench",
        "kernel": "7.3.4",
        "machine": {},
        "mib": 64,
        "folios_per_call": 0,
        "engine_is_model": True,
        "offload": {"enabled": True, "route": "dcbm"},
        "runs": [run],
    }
    return f"noise\nresult: 0 {json.dumps(bench)}\n"


def test_a_result_becomes_a_run_in_the_time_of_the_machine() -> None:
    (run,) = lab.runs_of(BOOT, printed(), "toy", 5.0)
    assert (run.gbps, run.first_folio_us, run.instructions_per_folio) == (60.0, 480.0, 20000.0)
    assert (run.engine, run.channels, run.batch_pages, run.kernel) == ("toy", 16, 8192, "ours")


def test_a_run_says_which_kernel_it_was() -> None:
    off = (Measurement("off", 0, (2048,), 64),)
    found = {
        config: lab.runs_of(Boot("b", config, 0, off), printed(), "toy", 5.0)[0].kernel
        for config in plan.KERNEL
    }
    assert found == {
        "lab-vanilla": "vanilla",
        "lab-traced": "vanilla",
        "lab": "ours",
        "lab-without": "without",
    }


def test_a_missing_or_broken_result_is_an_error() -> None:
    for text in ("", "result: 0 {", "result: 1 {}"):
        with pytest.raises(HarnessError, match="lab: b"):
            lab.runs_of(BOOT, text, "toy", 5.0)
    with pytest.raises(HarnessError, match="3 folios did not arrive"):
        lab.runs_of(BOOT, printed(folios_failed=3), "toy", 5.0)


def test_latencies_come_from_the_double_with_the_instrument() -> None:
    traced = lab.runs_of(BOOT, printed(gbps_mean=1.0), "toy", 5.0)
    plain = lab.runs_of(
        BOOT, printed(first_folio_ns=None, inaccessible_ns=None, phases_ns=None), "toy", 5.0
    )
    (run,) = lab.with_latencies(plain, traced)
    assert (run.gbps, run.first_folio_us) == (60.0, 480.0)
    with pytest.raises(HarnessError, match="nothing measured the latencies"):
        lab.with_latencies(plain, [])


def vanilla_run(instructions: float, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "kernel": "vanilla", "design": "off", "engine": None, "channels": 0, "folio_kib": 4,
        "batch_pages": 512, "move": 1, "gbps": 3.0, "first_folio_us": 200.0,
        "inaccessible_us": None, "instructions_per_folio": instructions, "phases_us": None,
        "total_mib": 16.0, "folios_per_call": 4096, "folios_failed": 0, "folios_split": 0,
    }  # fmt: skip
    return Run(**{**fields, **changes})


def results(
    off: float, lab_gbps: float = 3.31, gbps: float = 11.65, gain: float = 1.15, split: int = 0
) -> Results:
    row = CalibrationRow(
        published.BASELINE, "4 KiB", "gbps", 3.31, lab_gbps, lab_gbps / 3.31 - 1
    )
    engine = {"kernel": "ours", "design": "batch", "engine": "toy", "channels": 16}
    return Results(
        Calibration(5.0, 0.15, (row,)),
        Engine("toy", True, "a test"),
        (
            vanilla_run(2000.0),
            vanilla_run(1000.0, kernel="without"),
            vanilla_run(off, kernel="ours", gbps=3.0 * gain, folios_split=split),
            vanilla_run(50.0, **engine, folio_kib=2048, gbps=gbps, first_folio_us=160.0),
        ),
        (),
        True,
        "7.3.4",
        "QEMU",
    )


def failed(first: Results, second: Results) -> list[str]:
    cases = claims.judge(first, second, published.load())
    assert len(cases) == 6
    return [case.name.split(":")[0] for case in cases if case.status is Status.FAILED]


def test_every_claim_can_fail() -> None:
    good = results(1002.0)
    assert failed(good, good) == []
    assert failed(good, results(1002.0, gbps=11.75)) == ["repeats"]
    costly = results(1004.0)
    assert failed(costly, costly) == ["off costs nothing"]
    slow = results(1002.0, lab_gbps=2.7)
    assert failed(slow, slow) == ["calibration"]
    fast = results(1002.0, gbps=15.0)
    assert failed(fast, fast) == ["batch sweep"]
    lame = results(1002.0, gain=1.09)
    assert failed(lame, lame) == ["gain over vanilla"]
    split = results(1002.0, split=1)
    assert failed(split, split) == ["stays whole"]


def test_what_off_costs_must_be_measured() -> None:
    good = results(1002.0)
    runs = tuple(run for run in good.runs if run.kernel != "without")
    bare = replace(good, runs=runs)
    assert failed(bare, bare) == ["cost of being there"]
