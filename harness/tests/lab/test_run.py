"""From what guests print to runs: nothing is invented, nothing that failed gets through."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.lab import plan
from harness.lab import run as lab
from harness.lab.model import preset
from harness.lab.plan import Boot, Measurement
from harness.lab.results import Results
from harness.tests.lab.sample import FULL, QUICK
from harness.tests.lab.test_bench import bench, offload, one_run

BOOT = Boot("b", plan.OURS, 16, (Measurement("batch", 16, (2048,), 64, 8192, moves=1),))


OFFLOAD = offload(parameters={"segments": "N", "merge": "N"}, providers=["ptdma"], channels=16)


def printed(told: dict[str, Any] | None = OFFLOAD, pages: int = 8192, **changes: Any) -> str:
    ns = {"p50": 2_400_000, "p99": 2_500_000, "max": 2_600_000}
    run = one_run(folios=32, gbps_mean=12.0, cpu_ns=[640_000], folios_split=0, latency_lost=0,
                  first_folio_ns=2_400_000.0, inaccessible_ns=ns)  # fmt: skip
    document = bench(run | changes, offload=told, mib=64)
    return f"noise\nresult: 0 {pages} {json.dumps(document)}\n"


def test_a_result_becomes_a_run_in_the_time_of_the_machine() -> None:
    (run,) = lab.runs_of(BOOT, printed(), "toy", 5.0)
    assert (run.gbps, run.first_folio_us, run.instructions_per_folio) == (60.0, 480.0, 20000.0)
    assert (run.engine, run.channels, run.batch_pages, run.kernel) == ("toy", 16, 8192, "ours")


def test_the_published_design_holds_all_channels() -> None:
    told = OFFLOAD | {"parameters": {"channels": "0"}, "providers": None, "channels": None}
    (run,) = lab.runs_of(replace(BOOT, config=plan.HEART), printed(told), "toy", 5.0)
    assert (run.engine, run.channels, run.kernel) == ("toy", 16, "heart")


@pytest.mark.parametrize(
    "told",
    [
        None,
        OFFLOAD | {"channels": 8},
        OFFLOAD | {"parameters": {"segments": "Y", "merge": "Y"}},
        OFFLOAD | {"migrator": "cpu"},
    ],
)
def test_what_the_benchmark_saw_must_be_what_was_planned(told: dict[str, Any] | None) -> None:
    with pytest.raises(HarnessError, match="lab: b: planned, not seen: ours"):
        lab.runs_of(BOOT, printed(told), "toy", 5.0)


def test_the_batch_must_be_what_was_planned() -> None:
    with pytest.raises(HarnessError, match="lab: b: planned, not seen: ours"):
        lab.runs_of(BOOT, printed(pages=512), "toy", 5.0)
    off = Boot("b", plan.VANILLA, 0, (Measurement("off", 0, (2048,), 64, moves=1),))
    assert lab.runs_of(off, printed(None, pages=0), "toy", 5.0)[0].batch_pages == 512


def test_a_missing_or_broken_result_is_an_error() -> None:
    for text in ("", "result: 0 0 {", "result: 1 0 {}"):
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


def test_what_another_quantum_changes_is_told() -> None:
    (boot,) = (boot for boot in plan.ours(True) if boot.name == "touched-16")
    halved, doubled = plan.other_quanta(boot)
    assert (boot.cpus, halved.quantum_ns, doubled.quantum_ns) == (4, 2500, 10000)
    used = [run for run in QUICK.runs if run.touch]
    first, *others = (structs.replace(used[0], gbps=gbps) for gbps in (10.0, 10.1, 9.7))
    told, same = lab.by_quantum([first, used[1]], others)
    assert told.touch and told.touch.by_quantum == pytest.approx(0.03)
    assert same == used[1]


def test_strips_are_traced_with_the_engine_where_one_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_quietly(_: Paths, kernel: str, *__: object, args: str, devices: object) -> Any:
        booted.append((kernel, args.partition(",")[0], bool(devices)))
        trace = "".join(f"{i}.0 unmapped {i}\n{i}.5 accessible {i}\n" for i in range(128))
        wanted = 128 if args.endswith("64,8") else 32
        output = "\n".join(trace.splitlines()[: 2 * wanted])
        done = SimpleNamespace(verdict=SimpleNamespace(status=0))
        return SimpleNamespace(finished=lambda _: done, results=output)

    booted: list[tuple[str, str, bool]] = []
    monkeypatch.setattr("harness.guest.suite.run_quietly", run_quietly)
    kernels: Any = {name: name for name in plan.KERNEL}
    made = lab.Lab(Paths(tmp_path, tmp_path, tmp_path), kernels, tmp_path)
    rows = list(lab._strips(made, preset.load(preset.DEFAULT), 5.0))
    assert [(row.way, len(row.folios)) for row in rows][:2] == [("vanilla", 32), ("vanilla", 128)]
    assert booted[::2] == [
        (plan.TRACED, "off", False), (plan.HEART, "batch", True),
        (plan.OURS, "cut", True), (plan.OURS, "live", True),
    ]  # fmt: skip


@pytest.mark.parametrize(("loss", "status"), [(1.0, 0), (0.8, 1)])
@pytest.mark.parametrize("whole", [QUICK, FULL], ids=["quick", "full"])
def test_a_failed_claim_is_the_exit_status(
    whole: Results, loss: float, status: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    last = whole.runs[-1]
    runs = (*whole.runs[:-1], structs.replace(last, gbps=last.gbps * loss))
    worse = structs.replace(whole, runs=runs)
    made = lab.Lab(Paths(tmp_path, tmp_path, tmp_path), {}, tmp_path)
    monkeypatch.setattr(lab, "prepare", lambda *_: made)
    monkeypatch.setattr(lab, "again", lambda _, first: first)
    monkeypatch.setattr(lab, "run", lambda *_: worse)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    assert lab.main(paths, "zen3-ptdma", whole.quick) == status
    printed = capsys.readouterr().out.splitlines()
    assert " known misses" in printed[-1]
    assert (f"failed: {last.name}" in "\n".join(printed)) == bool(status)
    assert " 0 failed" in printed[-1] or status


def test_a_guest_whose_output_is_known_does_not_boot(tmp_path: Path) -> None:
    known = {boot.name: boot.name for boot in plan.recorded()}
    assert set(plan.kernels(True)) == {plan.OURS, plan.VANILLA, plan.TRACED}
    assert plan.kernels(True, known) == [plan.OURS]
    made = lab.Lab(Paths(tmp_path, tmp_path, tmp_path), {}, tmp_path, known)
    assert lab.measure(made, "known", plan.recorded(), {}) == known


def test_what_is_recorded_does_not_depend_on_the_clock() -> None:
    """A plan is part of the key before vanilla's speeds tell the dilation."""
    boots = plan.recorded()
    assert [boot.plan(5.0) for boot in boots] == [boot.plan() for boot in boots]
    assert {boot.config for boot in boots} == {plan.VANILLA, plan.TRACED}


def test_output_is_as_recorded_within_the_limit() -> None:
    off = Boot("b", plan.VANILLA, 0, (Measurement("off", 0, (2048,), 64, moves=1),))
    known = printed(None, pages=0)
    assert lab.unlike(off, known, printed(None, pages=0, gbps_mean=12.2)) == []
    for speed in (12.3, 11.7):
        (line,) = lab.unlike(off, known, printed(None, pages=0, gbps_mean=speed))
        assert "gbps" in line
    (line,) = lab.unlike(off, known, printed(None, pages=0, first_folio_ns=None))
    assert "first_folio_us" in line
