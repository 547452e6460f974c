"""Stages that pytest runs: what becomes of each, the totals, and what stays on disk."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.checks import stages
from harness.checks.stages import Run, Stage
from harness.core import process
from harness.core.errors import HarnessError
from harness.guest.ktap import Case, Status

GOOD = Case("good", Status.PASSED)
BAD = Case("bad", Status.FAILED, "first line\nsecond line")
SKIPPED = Case("skipped", Status.SKIPPED, "no huge pages")
COUNT = Case("few/times", Status.FAILED, "Expected moves (3) > 20 (20)")


def having(*cases: Case) -> Run:
    return lambda *_: list(cases)


def failing(error: Exception) -> Run:
    def run(*_: object) -> list[Case]:
        raise error

    return run


def in_turn(*runs: Sequence[Case]) -> Run:
    """Return a stage's function that finds something else in each run."""
    left = list(runs)
    return lambda *_: list(left.pop(0))


def kept(out: Path) -> dict[str, list[list[str]]]:
    lines = map(json.loads, (out / "stages.jsonl").read_text().splitlines())
    return {line["stage"]: line["cases"] for line in lines}


Check = Callable[..., tuple[int, str, list[str]]]
"""Runs stages; returns the status, the last line, and what was printed."""


@pytest.fixture
def check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    def run(*some: Stage) -> tuple[int, str, list[str]]:
        status = stages.run(tmp_path, some)
        lines = capfd.readouterr().out.splitlines()
        return status, lines[-1], lines

    return run


def test_counts_of_a_check(tmp_path: Path, check: Check) -> None:
    some = (
        Stage("unit", having(GOOD, GOOD, SKIPPED)),
        Stage("demo", lambda ready, _: [Case(ready, Status.PASSED)], "kernel"),
        Stage("kernel", lambda *_: "a kernel", background=True),
        Stage("lint", having(GOOD), background=True),
    )
    status, last, lines = check(*some)
    assert (status, last) == (0, "4 passed, 0 failed, 1 skipped")
    assert "SKIPPED [1] unit: no huge pages" in lines
    xml = (tmp_path / "junit.xml").read_text()
    assert xml.count('<testcase classname="unit" name="good"') == 2
    assert '<testcase classname="demo" name="a kernel"' in xml
    assert kept(tmp_path) == {
        "unit": [["good", "passed", ""]] * 2 + [["skipped", "skipped", "no huge pages"]],
        "demo": [["a kernel", "passed", ""]],
        "kernel": [],
        "lint": [["good", "passed", ""]],
    }


def test_a_failure_is_told_in_full_and_fails(tmp_path: Path, check: Check) -> None:
    status, last, lines = check(Stage("unit", having(GOOD, BAD)))
    assert (status, last) == (1, "1 passed, 1 failed, 0 skipped")
    assert {"first line", "second line", "FAILED unit::bad - first line"} <= set(lines)
    assert "second line" in (tmp_path / "junit.xml").read_text()


def test_nothing_that_passes_is_a_failure(check: Check) -> None:
    assert check(Stage("unit", having(SKIPPED)))[0] == 1
    assert check()[:2] == (1, "0 passed, 0 failed, 0 skipped")


def test_known_misses_are_counted_apart_and_listed(check: Check) -> None:
    known = Case("goal", Status.KNOWN, "3 % short")
    status, last, lines = check(Stage("lab", having(GOOD, known)))
    assert (status, last) == (0, "1 passed, 0 failed, 0 skipped, 1 known misses")
    assert "known misses: lab: 3 % short: goal" in lines


def test_an_error_in_a_stage_fails_and_ends_nothing(tmp_path: Path, check: Check) -> None:
    some = (
        Stage("demo", having(GOOD), "kernel"),
        Stage("odd", failing(KeyError("odd"))),
        Stage("unit", having(GOOD)),
        Stage("kernel", failing(HarnessError("no compiler", "details")), background=True),
    )
    status, last, lines = check(*some)
    assert (status, last) == (1, "1 passed, 2 failed, 1 skipped")
    assert {"details", "no compiler", "SKIPPED [1] demo: there is no kernel"} <= set(lines)
    assert kept(tmp_path)["odd"][0][2].endswith("a mistake in the harness: KeyError('odd')")


def test_results_are_kept_before_the_next_stage_begins(tmp_path: Path, check: Check) -> None:
    seen: list[str] = []

    def look(*_: object) -> list[Case]:
        seen.extend(kept(tmp_path))
        return [GOOD]

    check(Stage("first", having(BAD)), Stage("second", look))
    assert seen == ["first"]


def test_an_unsteady_case_is_printed_and_passes(tmp_path: Path, check: Check) -> None:
    passed = Case(COUNT.name, Status.PASSED)
    stage = Stage("churn", in_turn([GOOD, COUNT], [GOOD, passed], [passed]), counts=("few/*",))
    status, last, lines = check(stage)
    assert (status, last) == (0, "2 passed, 0 failed, 0 skipped")
    assert "unsteady: churn: few/times" in lines
    assert {"churn", "churn-again-1", "churn-again-2"} == set(kept(tmp_path))


def test_two_unsteady_cases_fail_a_check(check: Check) -> None:
    passed = Case(COUNT.name, Status.PASSED)
    some = [
        Stage(name, in_turn([COUNT], [passed], [passed]), counts=("few/*",))
        for name in ("churn", "keys")
    ]
    status, last, _ = check(*some)
    assert (status, last) == (1, "2 passed, 1 failed, 0 skipped")


def test_suites_run_again_when_nothing_runs_beside_them(tmp_path: Path, check: Check) -> None:
    runs = in_turn([COUNT], [COUNT], [COUNT])
    beside: list[bool] = []

    def run(*_: object) -> list[Case]:
        beside.append("lint" not in kept(tmp_path) if beside else True)
        return list(runs(None, tmp_path))

    def slow(*_: object) -> list[Case]:
        time.sleep(0.3)
        return [GOOD]

    check(Stage("churn", run, counts=("few/*",)), Stage("lint", slow, background=True))
    assert beside == [True, False, False]


def test_two_stages_in_virtual_time_run_beside_builds_and_one_of_the_foreground(
    check: Check,
) -> None:
    all_at_once = threading.Barrier(4)

    def meet(*_: object) -> list[Case]:
        all_at_once.wait(timeout=60)
        return [GOOD]

    _, last, _ = check(
        Stage("churn", meet),
        Stage("kernel", meet, background=True),
        *(Stage(name, meet, virtual=True) for name in ("faults", "rules")),
    )
    assert last == "4 passed, 0 failed, 0 skipped"


def test_the_time_goes_to_the_stage_that_took_it(tmp_path: Path, check: Check) -> None:
    def burn(seconds: float) -> Run:
        script = f"import time\nwhile time.process_time() < {seconds}: pass"

        def task(_: object) -> None:
            process.attempt([sys.executable, "-c", script], tmp_path)

        def run(*_: object) -> list[Case]:
            with process.Threads(2) as pool:
                list(pool.map(task, range(2)))
            return [GOOD]

        return run

    some = (Stage("short", burn(0.2)), Stage("long", burn(0.8), background=True))
    _, _, lines = check(*some)
    times = {
        line["stage"]: line["seconds"]["busy"]
        for line in map(json.loads, (tmp_path / "stages.jsonl").read_text().splitlines())
    }
    assert 0.4 <= times["short"] < 1.2
    assert times["long"] >= 1.6
    at = next(n for n, line in enumerate(lines) if "core-minutes by stage" in line)
    assert re.fullmatch(r"  long 0\.0 \(0\.\d\)", lines[at + 1])
    assert lines[at + 2].startswith("  short ")
