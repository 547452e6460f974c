"""From the benchmark's JSON to runs, in virtual time and on real hardware."""

from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.lab import bench as lab_benchmark
from harness.lab.bench import Setting
from harness.lab.results import Inaccessible, Phases

DCBM = {"enabled": True, "route": "dcbm"}


def one_run(**changes: Any) -> dict[str, Any]:
    return {
        "folio_kib": 2048,
        "move": 1,
        "folios": 128,
        "gbps_mean": 2.5,
        "gbps_sd": 0.1,
        "gbps_min": 2.4,
        "ns_per_folio": 838860.8,
        "elapsed_ns": [107_000_000, 109_000_000],
        "cpu_ns": [63_000_000, 65_000_000],
        "folios_failed": 0,
        "folios_split": -1,
        "first_folio_ns": 900_000.5,
        "inaccessible_ns": {"p50": 800_000, "p99": 850_000, "max": 900_000, "count": 128},
        "phases_ns": {"unmap": 4000, "flush": 400, "copy": 80000, "move": 2000, "batches": 4},
        **changes,
    }


def bench(*runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "program": "migrate_bench",
        "kernel": "7.3.4",
        "machine": {"cpus": 32, "nodes": 2, "model": "A Real CPU"},
        "from": 0,
        "to": 1,
        "mib": 256,
        "folios_per_call": 0,
        "engine_is_model": False,
        "offload": None,
        "runs": list(runs or (one_run(),)),
        **changes,
    }


def parse(document: dict[str, Any]) -> lab_benchmark.Bench:
    return lab_benchmark.parse(document, "b.json")


def test_virtual_time_is_divided_and_instructions_are_not() -> None:
    setting = Setting("ours", "batch", "zen3-ptdma", 16, 8192)
    (run,) = lab_benchmark.convert(parse(bench()), setting, "b.json", 4.0)
    assert all(getattr(run, name) == value for name, value in vars(setting).items())
    assert run.gbps == 10.0
    assert run.instructions_per_folio == 64_000_000 / 128
    assert run.first_folio_us == pytest.approx(225.000125)
    assert run.inaccessible_us == Inaccessible(200.0, 212.5, 225.0)
    assert run.phases_us == Phases(0.25, 0.025, 5.0, 0.125)
    assert (run.total_mib, run.folios_per_call, run.folios_split) == (256.0, 128, -1)


def test_what_was_not_measured_stays_unknown() -> None:
    bare = one_run(first_folio_ns=None, inaccessible_ns=None, phases_ns=None, cpu_ns=None)
    setting = Setting("vanilla", "off", None, 0, 512)
    (run,) = lab_benchmark.convert(parse(bench(bare, folios_per_call=8)), setting, "b", 4.0)
    assert [run.first_folio_us, run.inaccessible_us, run.phases_us] == [None] * 3
    assert run.instructions_per_folio is None
    assert run.folios_per_call == 8
    none = one_run(phases_ns={"unmap": 0, "flush": 0, "copy": 0, "move": 0, "batches": 0})
    (run,) = lab_benchmark.convert(parse(bench(none)), setting, "b", 4.0)
    assert run.phases_us is None


@pytest.mark.parametrize(
    ("offload", "expected"),
    [
        (None, ("vanilla", "off", None, 0)),
        ({"enabled": False, "route": "dcbm"}, ("ours", "off", None, 0)),
        ({"enabled": True, "route": "none"}, ("ours", "off", None, 0)),
        ({"enabled": True, "route": "cpu"}, ("ours", "cpu", None, 0)),
        (DCBM, ("ours", "batch", "dcbm", None)),
        ({**DCBM, "engine": "idxd", "channels": 8}, ("ours", "batch", "idxd", 8)),
    ],
)
def test_a_real_machine_says_what_it_ran(offload: Any, expected: tuple[Any, ...]) -> None:
    found = lab_benchmark.from_benchmarks([("b.json", parse(bench(offload=offload)))])
    (run,) = found.runs
    assert (run.kernel, run.design, run.engine, run.channels) == expected
    assert run.gbps == 2.5
    assert run.first_folio_us == pytest.approx(900.0005)
    assert run.instructions_per_folio is None
    assert found.calibration is None
    assert (found.engine is None) == (expected[2] is None)
    assert found.engine is None or not found.engine.is_model


def test_files_of_one_machine_make_one_result() -> None:
    files = [
        ("a.json", parse(bench(kernel="7.3.4"))),
        ("b.json", parse(bench(kernel="7.3.4-ours", offload=DCBM))),
    ]
    found = lab_benchmark.from_benchmarks(files)
    assert [run.design for run in found.runs] == ["off", "batch"]
    assert found.kernel_release == "7.3.4, 7.3.4-ours"


def test_files_that_do_not_go_together_are_refused() -> None:
    def refused(*documents: dict[str, Any]) -> str:
        files = [(f"{i}.json", parse(one)) for i, one in enumerate(documents)]
        with pytest.raises(HarnessError) as caught:
            lab_benchmark.from_benchmarks(files)
        return str(caught.value)

    assert "there twice: vanilla/off" in refused(bench(), bench())
    assert "of several machines: A Real CPU, unnamed machine" in refused(
        bench(), bench(machine={"model": None}, offload=DCBM)
    )
    assert "of several engines: dcbm, mtcopy" in refused(
        bench(offload=DCBM), bench(offload={"enabled": True, "route": "mtcopy"})
    )
    assert "0.json: a model's clock" in refused(bench(engine_is_model=True))
    assert "0.json: offload lacks route" in refused(bench(offload={"enabled": True}))
    assert "offload.channels: is 0" in refused(bench(offload={**DCBM, "channels": 0}))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (bench(program="dmatest"), "b.json: program is 'dmatest', not 'migrate_bench'"),
        (bench(one_run(gbps_mean="1")), "b.json: runs[0].gbps_mean: is '1', not a number"),
        ({"program": "migrate_bench"}, "b.json: lacks engine_is_model"),
    ],
)
def test_other_json_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessError) as caught:
        parse(document)
    assert str(caught.value).startswith(message)


def test_a_run_that_moved_nothing_is_refused() -> None:
    setting = Setting("vanilla", "off", None, 0, 512)
    with pytest.raises(HarnessError, match=r"b.json: runs\[0\]: gbps is not positive"):
        lab_benchmark.convert(parse(bench(one_run(gbps_mean=0))), setting, "b.json")
