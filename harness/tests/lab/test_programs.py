"""Programs whose memory moves: each case in the time of the machine, and rightly compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.kernel import build
from harness.lab import programs
from harness.lab.judge import claims
from harness.lab.judge import programs as judge
from harness.lab.report import report
from harness.lab.results import Latency, Moves, Program, Results, dump
from harness.tests.lab.sample import FULL

SAID = """  20000 requests completed in 0.25 seconds
Latency by percentile distribution:
0.000% <= 0.120 milliseconds (cumulative count 1)
50.000% <= 0.400 milliseconds (cumulative count 10119)
99.805% <= 3.000 milliseconds (cumulative count 19961)
99.902% <= 4.000 milliseconds (cumulative count 19982)
100.000% <= 5.000 milliseconds (cumulative count 20000)

Summary:
  throughput summary: 50000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.380     0.112     0.400     0.543     2.000     5.000
"""
REST = f"case: GET-16 rest\n{SAID}"
MOVING = f"case: GET-16 moving\n{SAID}moves: 4 2.0 100000\n"

REDIS = replace(programs.WORKLOADS["redis"], requests=7, cases={"GET-16": "GET, 16 at once"})
BOOT = programs.boots()[1]


@pytest.fixture(autouse=True)
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(programs.WORKLOADS, "redis", REDIS)


def test_every_way_boots_with_either_size_of_pages() -> None:
    boots = programs.boots()
    assert len({boot.name for boot in boots}) == len(boots) == 10
    assert {boot.config for boot in boots} <= build.CONFIGS.keys()
    live = next(boot for boot in boots if boot.name == "dcbm-live-4k")
    assert live.args(REDIS, 4.0) == "dcbm,1,2000,4k,7,GET-16"
    assert BOOT.args(REDIS, 4.0) == "off,0,2000,2m,7,GET-16"
    assert (len(boots[0].states()), len(BOOT.states())) == (3, 2)


def test_what_the_load_generator_says_is_told_in_the_time_of_the_machine() -> None:
    rest, moving = programs.redis_cases(f"noise\n{REST}{MOVING}", BOOT, 5.0, "here")
    assert (rest.case, rest.state, rest.moves) == ("GET, 16 at once", "rest", None)
    assert rest.per_s == 250_000
    assert rest.latency_us == Latency(p50=80, p99=400, p999=800, longest=1000)
    assert moving.moves == Moves(count=4, ms=100, cpu_ms=20)


@pytest.mark.parametrize(
    "text",
    [
        REST.replace("throughput summary", "nothing") + MOVING,
        REST.replace("99.902% <= 4.000", "").replace("100.000% <= 5.000", "") + MOVING,
        REST + MOVING.replace("moves:", "no moves:"),
        f"{REST}moves: 4 2.0 100000\n{MOVING}",
    ],
)
def test_a_case_without_its_figures_is_an_error(text: str) -> None:
    with pytest.raises(HarnessError, match=r"here: GET-16 (rest|moving): no figures"):
        list(programs.redis_cases(text, BOOT, 5.0, "here"))


@pytest.mark.parametrize("text", ["", REST, MOVING + REST, REST + MOVING + MOVING])
def test_all_cases_are_there_and_no_other(text: str) -> None:
    with pytest.raises(HarnessError, match="here: not the cases that were planned"):
        list(programs.redis_cases(text, BOOT, 5.0, "here"))


def program(per_s: float, p999: float, **changes: Any) -> Program:
    moving = changes.get("state", "moving") == "moving"
    fields: dict[str, Any] = {
        "workload": "redis",
        "way": "vanilla",
        "folio_kib": 2048,
        "case": "GET, pipeline of 1",
        "state": "moving",
        "per_s": per_s,
        "latency_us": Latency(p50=1, p99=2, p999=p999, longest=2 * p999),
        "moves": Moves(count=1, ms=3, cpu_ms=2) if moving else None,
    }
    return Program(**{**fields, **changes})


def results(*found: Program) -> Results:
    assert FULL.calibration
    bare = structs.replace(FULL.calibration, rows=())
    return structs.replace(FULL, calibration=bare, runs=(), programs=found)


FOUND = (
    program(100, 50, state="rest"),
    program(60, 400),
    program(110, 40, way="dcbm live", state="rest"),
    program(90, 80, way="dcbm live"),
)


def test_a_way_is_compared_with_vanilla_and_with_itself_at_rest() -> None:
    found = {claim.what: claim for claim in judge.claims_of(results(*FOUND))}
    name = "2 MB pages, GET, pipeline of 1, engine, live"
    assert {what: claim.value for what, claim in found.items()} == {
        f"{name}: requests, over vanilla's": 1.5,
        f"{name}: 99.9th percentile, of vanilla's": 0.2,
        f"{name}: 99.9th percentile, of that at rest": 2.0,
    }
    assert found[f"{name}: 99.9th percentile, of that at rest"].high == 1.5
    other = structs.replace(FOUND[3], folio_kib=4)
    assert not list(judge.claims_of(results(*FOUND[:3], other)))


def test_a_workload_alone_is_judged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = results(*FOUND)
    monkeypatch.setattr(claims, "recorded_programs", lambda: whole)
    cases = claims.judge_programs(whole, "redis")
    assert len(cases) == 3
    assert {case.status.value for case in cases} == {"passed", "known misses"}
    slower = results(*FOUND[:3], structs.replace(FOUND[3], per_s=60))
    assert "failed" in {case.status.value for case in claims.judge_programs(slower, "redis")}


def test_the_report_shows_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = results(*FOUND)
    monkeypatch.setattr(claims, "recorded_programs", lambda: whole)
    path = tmp_path / "results.json"
    path.write_text(dump(whole))
    again = report.load([path])
    assert again.programs == whole.programs
    report.write(again, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<h2>redis while its memory moves</h2>" in page
    assert "What virtual time hides" in page
    assert (tmp_path / "redis.png").stat().st_size > 10_000


def test_what_nobody_has_recorded_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "recorded_programs", results)
    cases = claims.judge_programs(results(*FOUND), "redis")
    assert {(case.status.value, case.detail) for case in cases} == {
        ("failed", "no figure is recorded")
    }
