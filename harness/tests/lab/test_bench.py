"""From the benchmark's JSON to runs, in virtual time and on real hardware."""

from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.lab import bench as bench_module
from harness.lab.results import Inaccessible, Phases, convert


def offload(migrator: str = "dcbm", **changes: Any) -> dict[str, Any]:
    return {
        "enabled": True, "migrator": migrator,
        "parameters": {"segments": "Y", "merge": "Y", "channels": "0"}, "providers": ["idxd"],
        "channels": 8, **changes,
    }  # fmt: skip


def one_run(**changes: Any) -> dict[str, Any]:
    return {
        "folio_kib": 2048, "move": 1, "folios": 128, "gbps_mean": 2.5, "gbps_sd": 0.1,
        "gbps_min": 2.4, "ns_per_folio": 838860.8, "elapsed_ns": [107_000_000, 109_000_000],
        "cpu_ns": [63_000_000, 65_000_000], "folios_failed": 0, "folios_split": -1,
        "latency_lost": 2, "first_folio_ns": 900_000.5,
        "inaccessible_ns": {"p50": 800_000, "p99": 850_000, "max": 900_000, "count": 128},
        "phases_ns": {"unmap": 4000, "flush": 400, "copy": 80000, "move": 2000, "batches": 4},
        **changes,
    }  # fmt: skip


def bench(*runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "program": "migrate_bench", "kernel": "7.3.4",
        "machine": {"cpus": 32, "nodes": 2, "model": "A Real CPU"}, "from": 0, "to": 1,
        "mib": 256, "folios_per_call": 0, "offload": None, "runs": list(runs or (one_run(),)),
        **changes,
    }  # fmt: skip


def parse(document: dict[str, Any]) -> bench_module.Bench:
    return convert(document, bench_module.Bench, "b.json")


def test_virtual_time_is_divided_and_instructions_are_not() -> None:
    (run,) = bench_module.runs_of(
        parse(bench(offload=offload())), "b.json", 4.0, "ours", "zen3-ptdma", 2048
    )
    assert (run.kernel, run.design, run.engine) == ("ours", "segments", "zen3-ptdma")
    assert (run.channels, run.batch_pages) == (8, 2048)
    assert run.gbps == 10.0
    assert run.instructions_per_folio == 64_000_000 / 128
    assert run.first_folio_us == pytest.approx(225.000125)
    assert run.inaccessible_us == Inaccessible(p50=200.0, p99=212.5, max=225.0)
    assert run.phases_us == Phases(unmap=0.25, flush=0.025, copy=5.0, move=0.125)
    assert (run.total_mib, run.folios_per_call, run.folios_split) == (256.0, 128, -1)
    assert run.latency_lost == 2
    assert run.addresses == "heads"


def test_kinds_of_memory_and_bounds_are_workloads() -> None:
    document = bench(memory="shmem", offload=offload(max_inaccessible_us=2000))
    (run,) = bench_module.runs_of(parse(document), "b.json", 4.0)
    assert (run.memory, run.bound_us) == ("shmem", 500)
    assert run.name.endswith(", shmem, at most 500 us")
    off = bench(offload=offload(max_inaccessible_us=500, enabled=False))
    (run,) = bench_module.runs_of(parse(off), "b.json")
    assert (run.memory, run.bound_us) == ("anon", 500)


@pytest.mark.parametrize("twice", [None, 7])
def test_what_threads_met_is_in_the_time_of_the_machine(twice: int | None) -> None:
    met = {"reads_per_s": 20368, "writes_per_s": 204, "read_ns": 800, "write_ns": 10_000,
           "read_p999_ns": 491, "write_p999_ns": 5000, "read_faults": 5, "write_faults": 7,
           "readers": 6, "zipf": True, "ipis": 268, "copied_twice": twice}  # fmt: skip
    (run,) = bench_module.runs_of(parse(bench(one_run(touch=met))), "b", 4.90978)
    assert (run.writes_per_ms, run.readers, run.zipf) == (1, 6, True)
    assert run.touch
    assert (run.touch.read_p999, run.touch.write_p999) == pytest.approx((0.1, 1.0184), rel=1e-3)
    assert run.touch.faults == 12
    assert run.touch.ipis_per_gb == pytest.approx(998, rel=1e-3)
    assert (run.touch.read, run.touch.write) == pytest.approx((0.16294, 2.03675), rel=1e-4)
    assert run.touch.copied_twice == twice
    (run,) = bench_module.runs_of(parse(bench()), "b", 4.90978)
    assert (run.writes_per_ms, run.touch) == (0, None)


def test_compaction_counts_what_moved_and_the_huge_pages_that_are_missing() -> None:
    compacted = one_run(folios_failed=64, huge_pages={"wanted": 16, "got": 15})
    (run,) = bench_module.runs_of(parse(bench(compacted, addresses="compaction")), "b", 4.0)
    assert run.instructions_per_folio == 64_000_000 / 64
    assert (run.huge_pages_missing, run.folios_failed) == (1, 64)
    (run,) = bench_module.runs_of(parse(bench(one_run(folios_failed=64))), "b", 4.0)
    assert (run.huge_pages_missing, run.instructions_per_folio) == (None, 64_000_000 / 128)


def test_what_was_not_measured_stays_unknown() -> None:
    bare = one_run(first_folio_ns=None, inaccessible_ns=None, phases_ns=None, cpu_ns=None)
    (run,) = bench_module.runs_of(parse(bench(bare, folios_per_call=8)), "b", 4.0, "without")
    assert [run.first_folio_us, run.inaccessible_us, run.phases_us] == [None] * 3
    assert run.instructions_per_folio is None
    assert (run.folios_per_call, run.kernel, run.engine) == (8, "without", None)
    none = one_run(phases_ns={"unmap": 0, "flush": 0, "copy": 0, "move": 0, "batches": 0})
    (run,) = bench_module.runs_of(parse(bench(none)), "b", 4.0)
    assert run.phases_us is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, ("vanilla", "off", None, 0, 512)),
        (offload(enabled=False), ("ours", "off", None, 0, 512)),
        (offload("none"), ("ours", "off", None, 0, 512)),
        (offload("cpu"), ("ours", "cpu", None, 0, 512)),
        (offload("cpu", live=1), ("ours", "cpu", None, 0, 512)),
        (offload("cpu", live=2), ("ours", "live", None, 0, None)),
        (offload(live=1), ("ours", "live", "idxd", 8, None)),
        (offload("mtcopy", parameters={"threads": "6"}), ("ours", "threads", None, 6, 512)),
        (offload("sample", parameters=None), ("ours", "other", "sample", None, None)),
        (offload(), ("ours", "segments", "idxd", 8, 512)),
        (offload(channels=4), ("ours", "segments", "idxd", 4, 512)),
        (offload(providers=["idxd", "ptdma"]), ("ours", "segments", "idxd+ptdma", 8, 512)),
        (offload(providers=None, channels=None), ("ours", "segments", "dcbm", None, 512)),
        (offload(parameters={"segments": "N", "merge": "N"}), ("ours", "batch", "idxd", 8, 512)),
    ],
)
def test_a_real_machine_says_what_it_ran(told: Any, expected: tuple[Any, ...]) -> None:
    results = bench_module.from_benchmarks([("b.json", parse(bench(offload=told)))])
    (run,) = results.runs
    assert (run.kernel, run.design, run.engine, run.channels, run.batch_pages) == expected
    assert run.gbps == 2.5
    assert run.first_folio_us == pytest.approx(900.0005)
    assert run.instructions_per_folio is None
    assert results.calibration is None
    assert (results.engine is None) == (expected[2] is None)
    assert results.engine is None or not results.engine.is_model


def test_files_of_one_machine_go_together_and_say_their_parameters() -> None:
    def dcbm(channels: int) -> Any:
        parameters = {"segments": "Y", "merge": "Y"}
        return parse(bench(offload=offload(channels=channels, parameters=parameters)))

    files = [
        ("a.json", parse(bench(kernel="7.3.4"))),
        ("m.json", parse(bench(offload=offload("mtcopy", parameters={"threads": "4"})))),
        *((f"{channels}.json", dcbm(channels)) for channels in (4, 8)),
    ]
    results = bench_module.from_benchmarks(files)
    assert [run.design for run in results.runs] == ["off", "threads", *["segments"] * 2]
    assert [run.channels for run in results.runs] == [0, 4, 4, 8]
    assert results.label == "engine: real hardware, 'idxd'"
    assert "4.json: migrator dcbm segments=Y merge=Y" in results.notes


def test_files_that_do_not_go_together_are_refused() -> None:
    def refused(*documents: dict[str, Any]) -> str:
        files = [(f"{i}.json", parse(document)) for i, document in enumerate(documents)]
        with pytest.raises(HarnessError) as caught:
            bench_module.from_benchmarks(files)
        return str(caught.value)

    assert "there twice: vanilla/off" in refused(bench(), bench())
    assert "of several machines: A Real CPU, unnamed machine" in refused(
        bench(), bench(machine={"model": None}, offload=offload())
    )
    assert "of several engines: idxd, ptdma" in refused(
        bench(offload=offload()), bench(offload=offload(providers=["ptdma"]))
    )
    assert "0.json: runs[0]: 0 channels with engine 'idxd'" in refused(
        bench(offload=offload(channels=0))
    )
