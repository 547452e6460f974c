"""Programs whose memory moves: each case in the time of the machine, and rightly compared."""

import math
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.lab import programs, workloads
from harness.lab.judge import claims
from harness.lab.judge import programs as judge
from harness.lab.programs import Boot
from harness.lab.results import Program, Results
from harness.tests.lab.sample import FULL

SAID = """Latency by percentile distribution:
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
REDIS = replace(workloads.REDIS, cases={"GET-16": "GET, 16 at once"}, requests=7)
OFF = Boot(REDIS, "off", 2048)


def test_every_way_boots_with_either_size_of_pages() -> None:
    boots = programs.boots(REDIS)
    assert len({boot.name for boot in boots}) == len(boots) == 11
    assert len(programs.boots(workloads.POSTGRES)) == 10
    assert Boot(REDIS, "dcbm live", 4).args(4.0) == "dcbm,1,2000,4k,7,GET-16"
    assert Boot(REDIS, "dcbm 50us", 2048).args(4.0) == "dcbm,0,200,2m,7,GET-16"
    assert Boot(REDIS, "vanilla", 2048).args(4.0) == "off,0,2000,2m,7,GET-16"


def test_what_the_load_generator_says_is_told_in_the_time_of_the_machine() -> None:
    rest, moving = programs.cases_of(f"noise\n{REST}{MOVING}", OFF, 5.0)
    assert (rest.case, rest.state, rest.moves, rest.per_s) == (
        "GET, 16 at once", "rest", 0, 250_000,
    )  # fmt: skip
    assert (rest.p50_us, rest.p99_us, rest.p999_us, rest.longest_us) == (80, 400, 800, 1000)
    assert (moving.moves, moving.move_ms, moving.mover_ms) == (4, 100, 20)


PGBENCH = """case: select rest
pgbench (17.12)
tps = 10000.5 (without initial connection time)
latency us: 400 2000 4000 5000
"""


def test_pgbench_is_told_in_the_time_of_the_machine_too() -> None:
    workload = replace(workloads.POSTGRES, cases={"select": "select-only"})
    moving = PGBENCH.replace("rest", "moving")
    text = f"{PGBENCH}{moving}moves: 4 2.0 100000\n"
    found = list(programs.cases_of(text, Boot(workload, "off", 4), 5.0))
    for one in found:
        assert one.per_s == 50_002.5
        assert (one.p50_us, one.p99_us, one.p999_us, one.longest_us) == (80, 400, 800, 1000)
    assert [(one.workload, one.state, one.moves) for one in found] == [
        ("postgres", "rest", 0), ("postgres", "moving", 4),
    ]  # fmt: skip
    for word in ("tps", "latency"):
        with pytest.raises(HarnessError, match="off-4k: select rest: no figures"):
            list(programs.cases_of(text.replace(word, "", 1), Boot(workload, "off", 4), 5.0))


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
    with pytest.raises(HarnessError, match=r"off-2048k: GET-16 (rest|moving): no figures"):
        list(programs.cases_of(text, OFF, 5.0))


@pytest.mark.parametrize("text", ["", REST, MOVING + REST, REST + MOVING + MOVING])
def test_all_cases_are_there_and_no_other(text: str) -> None:
    with pytest.raises(HarnessError, match="off-2048k: not the cases that were planned"):
        list(programs.cases_of(text, OFF, 5.0))


def program(per_s: float, p999: float, **changes: Any) -> Program:
    fields: dict[str, Any] = {
        "workload": "redis",
        "way": "vanilla",
        "folio_kib": 2048,
        "case": "GET, pipeline of 1",
        "state": "moving",
        "per_s": per_s,
        "p50_us": 1,
        "p99_us": 2,
        "p999_us": p999,
        "longest_us": 2 * p999,
    }
    return Program(**{**fields, **changes})


def results(*found: Program) -> Results:
    assert FULL.calibration
    bare = structs.replace(FULL.calibration, rows=())
    return structs.replace(FULL, calibration=bare, runs=(), programs=found)


FOUND = (
    program(100, 50, state="rest"),
    program(60, 400),
    program(72, 480, way="off"),
    program(90, 80, way="dcbm"),
    program(96, 40, way="dcbm 50us"),
    program(110, 40, way="dcbm live", state="rest"),
    program(90, 80, way="dcbm live"),
)
CASE = "2 MB pages, GET, pipeline of 1"
NAME = f"{CASE}, engine"


def test_a_way_is_compared_with_vanilla_and_with_itself_at_rest() -> None:
    found = {claim.what: claim for claim in judge.claims_of(FOUND)}
    assert {what: claim.value for what, claim in found.items()} == {
        f"{CASE}, ours, off: requests, over vanilla's": 1.2,
        f"{CASE}, ours, off: 99.9th percentile, of vanilla's": 1.2,
        f"{NAME}: requests, over vanilla's": 1.5,
        f"{NAME}: 99.9th percentile, of vanilla's": 0.2,
        f"{NAME}, at most 50 us: requests, over vanilla's": 1.6,
        f"{NAME}, at most 50 us: 99.9th percentile, of vanilla's": 0.1,
        f"{NAME}, live: 99.9th percentile, of that at rest": 2.0,
    }
    assert [(claim.low, claim.high) for claim in found.values()] == [
        (1, math.inf), (-math.inf, 1), (1.3, math.inf), (-math.inf, 0.5),
        (1.3, math.inf), (-math.inf, 0.5), (-math.inf, 1.5),
    ]  # fmt: skip


def verdicts(*found: Program) -> list[tuple[str, str]]:
    judged = claims.judged(results(*found))
    cases = [case for claim, case in judged if case and claim.group == REDIS.group]
    return [(case.status.value, case.detail) for case in cases]


def test_a_workload_is_judged_by_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "recorded_programs", lambda: FOUND)
    passed, known = "passed", "known misses"
    assert [status for status, _ in verdicts(*FOUND)] == [
        passed, known, passed, passed, passed, passed, known,
    ]  # fmt: skip
    before, after = FOUND[:2], FOUND[3:]
    # A tenth less, but a third more of what is a single stall.
    slower = structs.replace(FOUND[2], per_s=66, p999_us=600)
    judged = verdicts(*before, slower, *after)[:2]
    assert [status for status, _ in judged] == [passed, known]
    slower = structs.replace(FOUND[2], per_s=64, p999_us=680)
    judged = verdicts(*before, slower, *after)[:2]
    assert judged == [("failed", "1.067"), ("failed", "1.7")]
    monkeypatch.setattr(claims, "recorded_programs", tuple)
    assert set(verdicts(*FOUND)) == {("failed", "no figure is recorded")}


TIMES = "times: 1000 1 2 3 4 5e-1\nnear: 0.25\n"
TIERS = "tiers: 10 20 1000 1.5 110 320 3000 3.5\n"
HUGE = "huge: 30 2 32 2 30 9000 5000\n"


def test_what_the_kernel_moves_by_itself_is_counted_beside_times() -> None:
    tiering = Boot(workloads.TIERING, "vanilla", 4)
    text = f"case: hot rest\n{TIMES}case: hot moving\n{TIERS}{TIMES}"
    rest, moving = programs.cases_of(text, tiering, 5.0)
    assert (rest.per_s, rest.p999_us, rest.cpu_us) == (5000, 0.6, 0.1)
    assert rest.counts == {"near": 0.25}
    assert moving.counts == {"near": 0.25, "demoted_per_s": 250, "promoted_per_s": 750}
    assert (moving.moves, moving.mover_ms) == (0, 0.4)
    for missing in (text.replace("tiers", "no tiers"), text.replace("times:", "times: 1")):
        with pytest.raises(HarnessError, match="no figures"):
            list(programs.cases_of(missing, tiering, 5.0))

    heap = Boot(workloads.COMPACTION, "off", 2048)
    redis = f"{SAID}cpu us: 1.5\n"
    text = f"case: grow rest\n{TIMES}case: grow moving\n{HUGE}{TIMES}"
    text += f"case: redis rest\n{redis}case: redis moving\n{HUGE}{redis}"
    _, moving, _, filled = programs.cases_of(text, heap, 5.0)
    assert tuple(moving.counts.values()) == (0.25, 30, 2, 32, 2, 30, 9000)
    assert moving.mover_ms == 1
    assert tuple(filled.counts.values()) == (30, 2, 32, 2, 30, 9000)
    assert (filled.cpu_us, filled.p999_us) == pytest.approx((0.3, 800))
    with pytest.raises(HarnessError, match="redis rest: no figures"):
        list(programs.cases_of(text.replace("cpu us", "us"), heap, 5.0))
    with pytest.raises(HarnessError, match="grow rest: no figures"):
        list(programs.cases_of(text.replace("rest\n", f"rest\n{HUGE}"), heap, 5.0))


def heaps(**changes: Any) -> tuple[Program, ...]:
    """Return what vanilla and another way make of a heap in memory in pieces."""
    fields: dict[str, Any] = {"workload": "compaction", "case": "first writes", "cpu_us": 4}
    counts = {"huge": 24, "huge_missed": 8, "stalls": 32, "moved": 9000}
    vanilla = program(100, 400, counts=counts, **fields)
    other = {"way": "cpu live", "cpu_us": 8, "counts": counts | {"huge": 32, "huge_missed": 0}}
    return vanilla, structs.replace(vanilla, **other, **changes)


def test_where_the_kernel_moves_memory_by_itself_every_way_is_compared_with_vanilla() -> None:
    found = {claim.what: claim.value for claim in judge.claims_of(heaps(per_s=50))}
    name = "2 MB pages, first writes, no engine, live"
    assert found == {
        f"{name}: writes, over vanilla's": 0.5,
        f"{name}: 99.9th percentile, of vanilla's": 1,
        f"{name}: large pages that it got, over vanilla's": pytest.approx(4 / 3),
        f"{name}: CPU time, of vanilla's": 2,
    }
    counts = {"near": 0.5, "demoted_per_s": 10, "promoted_per_s": 20}
    tiers = program(9, 9, workload="tiering", counts=counts, mover_ms=30)
    off = structs.replace(
        tiers, way="off", mover_ms=20,
        counts=counts | {"demoted_per_s": 5, "promoted_per_s": 30, "near": 0.25},
    )  # fmt: skip
    values = [claim.value for claim in judge.claims_of((tiers, off))]
    assert values == pytest.approx([1, 1, 0.5, 1.5, 4 / 3])
