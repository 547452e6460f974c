"""The benchmark of mtcopy's threads: what it builds, reads, claims and when it does not."""

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import mt, native
from harness.bench.mt import Bench, Other, Result, Way
from harness.bench.native import Quartiles
from harness.core import jsonio, process
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths

CPUS = len(os.sched_getaffinity(0))
NATIVE = pytest.mark.skipif(
    platform.machine() != "x86_64" or CPUS < 2, reason="x86-64 with two processors"
)


def same(value: float) -> Quartiles:
    return Quartiles(value, value, value)


def way(us: float, ratio: float) -> Way:
    return Way(same(us / ratio), same(ratio), 31)


def result(other: Other, primitive: str, two: float, mtcopy: float) -> Result:
    return Result(other, primitive, way(200, 1), way(200, two), way(200, mtcopy))


GOOD = Bench(
    "mt_bench", 2, 31, 2048, (0, 1),
    (
        result("idle", "movsb", 0.89, 0.97),
        result("idle", "nontemporal", 1.2, 1.11),
        result("busy", "movsb", 0.5, 0.98),
    ),
)  # fmt: skip


def with_mtcopy(number: int, ratio: float) -> Bench:
    results = list(GOOD.results)
    results[number] = replace(results[number], mtcopy=way(200, ratio))
    return replace(GOOD, results=tuple(results))


def test_each_goal_can_be_missed() -> None:
    assert mt.missed(GOOD) == []
    assert mt.missed(with_mtcopy(0, 0.96)) == [
        "other processor idle, movsb: 0.96 of one thread, below 0.97"
    ]
    assert mt.missed(with_mtcopy(1, 1.09)) == [
        "other processor idle, nontemporal: 1.09 of one thread, below 1.10"
    ]
    assert mt.missed(with_mtcopy(2, 0.96)) == [
        "other processor busy, movsb: 0.96 of one thread, below 0.97"
    ]


BEFORE = "cpu  10 0 10 100 0\ncpu0 5 0 5 50 0 0 0 0 0 0\ncpu1 5 0 5 50 0 0 0 0 0 0\n"
AFTER = "cpu  60 0 10 250 0\ncpu0 55 0 5 100 0 0 0 0 9 0\ncpu1 5 0 5 140 10 0 0 0 0 0\n"


def test_idle_time_is_read_per_processor() -> None:
    shares = mt.idle_shares(BEFORE + "intr 5 6\n", AFTER + "intr 7 8\n")
    assert shares == {0: 0.5, 1: 1.0}


def test_a_busy_machine_is_seen_before_and_after() -> None:
    idle, busy = {0: 1.0, 1: 0.95, 2: 0.0}, {0: 0.5, 1: 0.91, 2: 0.0}
    assert mt.busy_cpus((0, 1), idle, idle) == []
    told = ["processor 0 was idle only 50% of the time"]
    assert mt.busy_cpus((0, 1), idle, busy) == told
    assert mt.busy_cpus((0, 1), busy, idle) == told


def run_with(
    monkeypatch: pytest.MonkeyPatch, root: Path, bench: Bench, shares: dict[int, float]
) -> int:
    """Run the whole of it, with a recorded result instead of a program."""
    seen = (bench, {"program": "mt_bench"}, root / "results.json")
    monkeypatch.setattr(native, "run", lambda *_: seen)
    monkeypatch.setattr(mt, "_watch", lambda: shares)
    return mt.main(Paths(root, root / "cache", root / "out"))


def test_a_missed_goal_fails_on_an_idle_machine_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, idle, busy = with_mtcopy(1, 1.0), {0: 1.0, 1: 1.0}, {0: 1.0, 1: 0.2}
    assert run_with(monkeypatch, tmp_path, GOOD, idle) == 0
    assert "at most 1.20 times as fast here" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(HarnessError, match="1 goals are missed"):
        run_with(monkeypatch, tmp_path, bad, idle)
    capsys.readouterr()
    assert run_with(monkeypatch, tmp_path, bad, busy) == 0
    assert "no verdict, since others use this machine: processor 1" in capsys.readouterr().out
    verdict = json.loads((tmp_path / "results.json").read_text())["verdict"]
    assert verdict["skipped"] and verdict["missed"]


def decode(changes: dict[str, object]) -> Bench:
    document = {
        "program": "mt_bench", "format": 2, "rounds": 31, "folio_kib": 2048,
        "huge_pages": True, "cpus": [0, 1], "may_boost": True,
        "results": [
            {
                "other": other, "primitive": "movsb",
                **{
                    name: {
                        "us": {"lower": 1.0, "median": 1.0, "upper": 1.0},
                        "ratio": {"lower": 1.0, "median": 1.0, "upper": 1.0},
                        "helped_pages": 1, "offers": 1, "boosts": 0,
                    }
                    for name in ("one", "two", "mtcopy")
                },
            }
            for other in ("idle", "busy")
        ],
    }  # fmt: skip
    return jsonio.decode(Bench, json.dumps(document | changes), "a file")


def test_a_result_must_say_something() -> None:
    assert len(decode({}).results) == 2
    bad: list[dict[str, object]] = [
        {"format": 1}, {"results": []}, {"program": "copy_bench"}, {"cpus": [0]},
    ]  # fmt: skip
    for changes in bad:
        with pytest.raises(HarnessError):
            decode(changes)


@NATIVE
def test_the_program_builds_verifies_and_measures(tmp_path: Path) -> None:
    program = native.build(default_paths(), "mt_bench", tmp_path)
    text = subprocess.run(
        [program, "--verify"], check=True, capture_output=True, text=True
    ).stdout
    assert "batches: correct" in text
    raw = tmp_path / "raw.json"
    process.run_logged([str(program), "-r", "5", "-o", str(raw)], tmp_path / "log", "mt_bench")
    bench = jsonio.load(Bench, raw)
    assert {one.primitive for one in bench.results} == {"movsq", "movsb", "nontemporal"}
    assert bench.rounds == 5


@NATIVE
@pytest.mark.parametrize("argument", ["-r4", "-r64", "-rx", "surplus"])
def test_the_program_refuses_nonsense(tmp_path: Path, argument: str) -> None:
    program = native.build(default_paths(), "mt_bench", tmp_path)
    ran = subprocess.run([program, argument], check=False, capture_output=True)
    assert ran.returncode == 2
