"""Programs whose memory moves: each case in the time of the machine, and rightly compared."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from harness.core.errors import HarnessError
from harness.lab import programs, workloads
from harness.lab.judge import claims
from harness.lab.judge import programs as judge
from harness.lab.programs import Boot
from harness.lab.report import programs as report
from harness.lab.results import Program, Results
from harness.tests.lab.sample import FULL

TIMES = "times: 1000 1 2 3 4 5e-1\n"
REST = f"case: mixed rest\n{TIMES}late: 0\n"
MOVED = "moves: 4 2.0 100000 1000000 600\n"
MOVING = f"case: mixed moving\n{TIMES}late: 7\n{MOVED}"
REDIS = replace(workloads.REDIS, requests=7, rate=5_100)
OFF = Boot(REDIS, "off", 2048)


def test_every_way_boots_with_either_size_of_pages_and_defaults_with_seeds() -> None:
    boots = programs.boots(REDIS)
    assert len({boot.name for boot in boots}) == len(boots) == 12 + 6 * 4 + 8
    assert {boot.seed for boot in boots if boot.way == "vanilla"} == {1, 2, 3, 4, 5}
    assert [boot.folio_kib for boot in boots if boot.way == "dsa live"] == [2048]
    assert {boot.quantum_ns for boot in boots} == {2500, 5000, 10000}
    assert len(programs.boots(workloads.TIERING)) == 15 + 9 * 4 + 12
    assert Boot(REDIS, "dcbm live", 4).args(4.0) == "dcbm,1,400,4k,7,1275,800,2000000,mixed"
    assert Boot(REDIS, "dcbm 50us", 2048).args(4.0).startswith("dcbm,0,200,2m,7,1275,800,800000,")
    assert Boot(workloads.TIERING, "off", 64).args(4.0) == "off,0,400,64k,200,192500,80,800000,hot"
    assert Boot(workloads.MOVERS, "mtcopy", 2048).args(4.0) == "mtcopy,0,400,2m,250,1,2,4,8"


def test_what_the_load_generator_says_is_told_in_the_time_of_the_machine() -> None:
    boot = replace(OFF, seed=3, quantum_ns=2500)
    rest, moving = programs.cases_of(f"noise\n{REST}{MOVING}", boot, 5.0)
    assert (rest.case, rest.state) == ("nine GETs to a SET", "rest")
    assert (rest.moves, rest.per_s) == (0, 5000)
    assert (rest.p50_us, rest.p99_us, rest.p999_us, rest.longest_us) == (0.2, 0.4, 0.6, 0.8)
    assert (moving.moves, moving.move_ms, moving.mover_ms) == (4, 100, 20)
    assert (moving.late, moving.ipis, moving.gb) == pytest.approx((7, 600, 1.024))
    assert (moving.seed, moving.quantum_ns, moving.counts) == (3, 2500, {})


PGBENCH = """case: select rest
pgbench (17.12)
tps = 10000.5 (without initial connection time)
latency us: 400 2000 4000 5000
late: 3
"""


def test_pgbench_is_told_in_the_time_of_the_machine_too() -> None:
    boot = Boot(workloads.POSTGRES, "off", 4)
    text = f"{PGBENCH}{PGBENCH.replace('rest', 'moving')}{MOVED}"
    rows = list(programs.cases_of(text, boot, 5.0))
    for row in rows:
        assert (row.per_s, row.late) == (50_002.5, 3)
        assert (row.p50_us, row.p99_us, row.p999_us, row.longest_us) == (80, 400, 800, 1000)
    assert [(row.workload, row.state, row.moves) for row in rows] == [
        ("postgres", "rest", 0), ("postgres", "moving", 4),
    ]  # fmt: skip
    for word in ("tps", "latency", "late:"):
        with pytest.raises(HarnessError, match="select rest: no figures"):
            list(programs.cases_of(text.replace(word, "", 1), boot, 5.0))


@pytest.mark.parametrize(
    "text",
    [
        REST.replace("times:", "nothing") + MOVING,
        REST + MOVING.replace("moves:", "no moves:"),
        f"{REST}{MOVED}{MOVING}",
    ],
)
def test_a_case_without_its_figures_is_an_error(text: str) -> None:
    with pytest.raises(HarnessError, match=r"mixed (rest|moving): no figures"):
        list(programs.cases_of(text, OFF, 5.0))


def test_a_program_that_cannot_serve_its_rate_at_rest_is_an_error() -> None:
    with pytest.raises(HarnessError, match="mixed: too slow at rest for its rate"):
        list(programs.cases_of(REST.replace("1000", "900") + MOVING, OFF, 5.0))


@pytest.mark.parametrize("text", ["", REST, MOVING + REST, REST + MOVING + MOVING])
def test_all_cases_are_there_and_no_other(text: str) -> None:
    with pytest.raises(HarnessError, match="not the cases that were planned"):
        list(programs.cases_of(text, OFF, 5.0))


def program(per_s: float, p999: float, **changes: Any) -> Program:
    fields: dict[str, Any] = {
        "workload": "redis", "way": "vanilla", "folio_kib": 2048, "case": "mixed",
        "state": "moving", "moves": 2, "gb": 0.5, "mover_ms": 30, "late": 99, "ipis": 9,
        "per_s": per_s, "p50_us": 1, "p99_us": 2, "p999_us": p999,
        "longest_us": 2 * p999,
    }  # fmt: skip
    return Program(**{**fields, **changes})


def results(*rows: Program) -> Results:
    return structs.replace(FULL, runs=(), programs=rows)


CASE = "2 MB pages, mixed"
MEASURED = (
    *(program(60, us, seed=seed) for seed, us in ((1, 400), (2, 500))),
    program(60, 1, quantum_ns=2500),
    *(program(72, 480, way="off", seed=seed) for seed in (1, 2)),
    program(90, 80, way="dcbm", mover_ms=3, late=0, ipis=19),
)


def test_a_way_is_compared_with_vanilla_of_its_seed() -> None:
    promised = {claim.what: claim for claim in judge.claims_of(MEASURED)}
    assert {what: claim.value for what, claim in promised.items()} == pytest.approx({
        f"{CASE}, ours, off: 99.9th percentile, of vanilla's": (1.2 + 0.96) / 2,
        f"{CASE}, ours, off: late per GB, of vanilla's": 1,
        f"{CASE}, ours, off: CPU time per GB, of vanilla's": 1,
        f"{CASE}, ours, off: IPIs per GB, of vanilla's": 1,
        f"{CASE}, engine: 99.9th percentile, of vanilla's": 0.2,
        f"{CASE}, engine: late per GB, of vanilla's": 0.01,
        f"{CASE}, engine: CPU time per GB, of vanilla's": 0.1,
        f"{CASE}, engine: IPIs per GB, of vanilla's": 2,
    })  # fmt: skip
    name = f"{REDIS.group}: {CASE}, ours, off: 99.9th percentile, of vanilla's"
    assert judge.spread(MEASURED)[name] == pytest.approx(0.12 / 1.08)


def verdicts(*rows: Program) -> list[tuple[str, str]]:
    judged = claims.judged(results(*rows))
    cases = [case for claim, case in judged if case and claim.group == REDIS.group]
    return [(case.status.value, case.detail) for case in cases]


def test_a_workload_is_judged_by_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "recorded_programs", lambda: MEASURED)
    passed, known = "passed", "known misses"
    assert [status for status, _ in verdicts(*MEASURED)] == [known, *[passed] * 7]
    # Of a single seed a tenth more, and a third more of what is a single stall.
    more = structs.replace(MEASURED[-1], mover_ms=3.2, p999_us=105)
    assert {status for status, _ in verdicts(*MEASURED[:-1], more)[1:]} == {passed}
    more = structs.replace(MEASURED[-1], mover_ms=3.6, p999_us=120)
    assert [word for word, _ in verdicts(*MEASURED[:-1], more)].count("failed") == 2
    monkeypatch.setattr(claims, "recorded_programs", tuple)
    assert set(verdicts(*MEASURED)) == {("failed", "no figure is recorded")}


def test_a_row_is_the_median_of_its_seeds_and_says_what_the_quantum_changes() -> None:
    other = structs.replace(MEASURED[0], quantum_ns=10000, p999_us=1000)
    head, rows = report.table((*MEASURED, other))
    vanilla, off, engine = (dict(zip(head, row, strict=True)) for row in rows)
    assert (vanilla["p99.9"], off["p99.9"]) == ("450 (400 to 500)", "480")
    assert (vanilla["late per GB"], engine["late per GB"]) == ("99", "0")
    assert (vanilla["CPU-ms per GB"], vanilla["IPIs per GB"]) == ("60", "9")
    assert vanilla["with another quantum"] == "p99.9 150%, longest 100%"
    assert off["with another quantum"] == "not tried" and "hot set near, %" not in head
    assert report.answer(MEASURED) == "2 MB pages, late per GB: vanilla 99; ours, off 99"
    same = structs.replace(other, p999_us=MEASURED[0].p999_us)
    assert report.table((MEASURED[0], same))[1][0][-1] == "within 2 %"


NEAR = f"{TIMES}near: 0.25\n"
TIERS = "tiers: 10 20 1000 5 1.5 110 320 3000 9 3.5\n"


def test_what_the_kernel_moves_by_itself_is_counted_beside_times() -> None:
    tiering = Boot(replace(workloads.TIERING, rate=5_000), "vanilla", 4)
    text = f"case: hot rest\n{NEAR}case: hot moving\n{TIERS}{NEAR}"
    rest, moving = programs.cases_of(text, tiering, 5.0)
    assert (rest.per_s, rest.p999_us, rest.cpu_us) == (5000, 0.6, 0.1)
    assert rest.counts == {"near": 0.25}
    assert moving.counts == {"near": 0.25, "demoted_per_s": 250, "promoted_per_s": 750}
    assert (moving.mover_ms, moving.ipis) == (0.4, 4) and moving.per_gb(100 * 4096e-9) == 1
    for missing in (text.replace("tiers", "no tiers"), text.replace("times:", "times: 1")):
        with pytest.raises(HarnessError, match="no figures"):
            list(programs.cases_of(missing, tiering, 5.0))


def test_where_the_kernel_moves_memory_by_itself_every_way_is_compared_with_vanilla() -> None:
    counts = {"near": 0.5, "demoted_per_s": 10, "promoted_per_s": 20}
    tiers = program(9, 9, workload="tiering", counts=counts, mover_ms=30, moves=1)
    off = structs.replace(
        tiers, way="off", mover_ms=20,
        counts=counts | {"demoted_per_s": 5, "promoted_per_s": 30, "near": 0.25},
    )  # fmt: skip
    values = [claim.value for claim in judge.claims_of((tiers, off))]
    assert values == pytest.approx([1, 0.5, 1.5, 1, 2 / 3, 1])


def test_what_only_moves_has_no_requests_and_no_state_at_rest() -> None:
    text = "".join(f"case: {case} moving\ntimes: 4 0 0 0 0 0\n{MOVED}"
                   for case in workloads.MOVERS.cases)  # fmt: skip
    row, *_ = programs.cases_of(text, Boot(workloads.MOVERS, "vanilla", 4), 5.0)
    assert (row.per_s, row.moves, row.mover_ms, row.p999_us) == (20, 4, 20, 0)
    assert report.table([row])[0][4:-1] == [
        "moves of 128 MB a second", "CPU-ms per GB", "IPIs per GB", "move, ms",
    ]  # fmt: skip
    what = [claim.what for claim in judge.claims_of([row, structs.replace(row, way="off")])]
    assert [words.rpartition(", o")[0].partition("off: ")[2] for words in what] == [
        "moves a second", "CPU time per GB", "IPIs per GB",
    ]  # fmt: skip
