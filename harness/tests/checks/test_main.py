"""Totals of a check: nothing that failed may get lost."""

import json
import re
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from harness.checks import main
from harness.checks.main import Report, Stage
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status, count
from harness.lab.workloads import WORKLOADS

GOOD = Case("good", Status.PASSED)
BAD = Case("bad", Status.FAILED, "why")
SKIPPED = Case("skipped", Status.SKIPPED, "no huge pages")


def result(verdict: vm.Verdict, *cases: Case) -> suite.SuiteResult:
    run = vm.Run(verdict, console="", results="")
    return suite.SuiteResult(run, cases, suite.describe(verdict, cases))


def failures(verdict: vm.Verdict, *cases: Case) -> list[str]:
    found = main.suite_cases(result(verdict, *cases))
    return [case.name for case in found if case.status is Status.FAILED]


def finished(status: int) -> vm.Verdict:
    return vm.Verdict(vm.Outcome.FINISHED, f"the suite ended with status {status}", status)


def test_a_panic_or_hang_is_a_failure_beside_those_of_tests() -> None:
    for outcome in (vm.Outcome.PANICKED, vm.Outcome.HUNG, vm.Outcome.VANISHED):
        verdict = vm.Verdict(outcome, "words")
        assert failures(verdict, GOOD) == ["guest"]
        assert failures(verdict, GOOD, BAD) == ["bad", "guest"]


def test_a_panic_is_told_from_its_first_line_on() -> None:
    console = "booting\nBUG: KASAN: use-after-free in f\nCall Trace:\n"
    run = vm.Run(vm.Verdict(vm.Outcome.PANICKED, "the guest panicked"), console, "")
    case = main.suite_cases(suite.SuiteResult(run, (GOOD,), "the guest panicked"))[-1]
    assert case.detail.splitlines() == [
        "the guest panicked", "BUG: KASAN: use-after-free in f", "Call Trace:",
    ]  # fmt: skip


def test_a_suite_must_end_well_and_print_something() -> None:
    assert failures(finished(0), GOOD, SKIPPED) == []
    assert failures(finished(0), GOOD, BAD) == ["bad"]
    assert failures(finished(1), GOOD) == ["guest"]
    assert failures(finished(0)) == ["guest"]


def failing(error: Exception) -> Callable[[object], list[Case]]:
    def run(_: object) -> list[Case]:
        raise error

    return run


def test_an_error_in_a_stage_is_a_failure_and_ends_nothing(tmp_path: Path) -> None:
    report = Report(tmp_path)
    assert report.run(Stage("kernel", failing(HarnessError("no compiler", "details")))) is None
    assert report.run(Stage("odd", failing(KeyError("odd")))) is None
    report.run(Stage("unit", lambda _: [GOOD, SKIPPED]))
    report.add("mm", [Case(f"t{n}", Status.SKIPPED, "no swap") for n in range(8)])
    assert count(case for _, case in report.cases) == {
        Status.PASSED: 1,
        Status.FAILED: 2,
        Status.SKIPPED: 9,
    }
    ended = [report.suites[name][0].detail.splitlines()[-1] for name in ("kernel", "odd")]
    assert ended == ["no compiler", "a mistake in the harness: KeyError('odd')"]
    assert report.listed(Status.SKIPPED) == [
        "  unit: no huge pages: skipped",
        "  mm: no swap: t0, t1, t2, t3, t4 and 3 more",
    ]
    assert '<testsuite name="kernel"' in (tmp_path / "junit.xml").read_text()
    assert set(json.loads((tmp_path / "times.json").read_text())) == {"kernel", "odd", "unit"}


def test_a_stage_gets_what_it_needs_or_is_skipped(tmp_path: Path) -> None:
    report = Report(tmp_path)
    kernel: Future[object] = Future()
    kernel.set_result(report.run(Stage("kernel", lambda _: "a kernel")))
    stage = Stage("demo", lambda ready: [Case(ready, Status.PASSED)], "kernel")
    report.run(stage, kernel)
    assert report.suites == {"kernel": [], "demo": [Case("a kernel", Status.PASSED)]}
    nothing: Future[object] = Future()
    nothing.set_result(None)
    report.run(stage, nothing)
    assert report.listed(Status.SKIPPED) == ["  demo: there is no kernel: all"]


def test_the_slowest_stages_are_named(tmp_path: Path) -> None:
    report = Report(tmp_path, times={f"s{n}": 60.0 * n for n in range(7)})
    assert re.fullmatch(
        r"s6 6:00, s5 5:00, s4 4:00, s3 3:00, s2 2:00; processors \d+ % busy", report.slowest
    )


def test_a_whole_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "only_when_idle", lambda: None)  # it would last
    built = [
        Stage("kernel", lambda _: "a kernel"),
        Stage("broken", failing(HarnessError("no compiler"))),
        Stage("lint", lambda _: [GOOD]),
    ]
    tested = [
        Stage("unit", lambda _: [GOOD, SKIPPED]),
        Stage("demo", lambda ready: [Case(ready, Status.PASSED)], "kernel"),
        Stage("lab", lambda _: [GOOD], "broken"),
    ]
    monkeypatch.setattr(main, "builds", lambda *_: built)
    monkeypatch.setattr(main, "tests", lambda *_: tested)
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path / "out")
    assert main.main(paths) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed, 2 skipped"
    del built[1], tested[2]
    assert main.main(paths) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"
    assert (tmp_path / "out/check/times.json").exists()


def test_every_suite_is_run_on_a_kernel_that_is_built() -> None:
    paths = default_paths()
    built = main.builds(paths, paths.out)
    made = [stage.name for stage in built]
    for number, stage in enumerate(built):
        assert stage.needs in {"", *made[:number]}
    stages = main.tests(paths, paths.out)
    names = [*made, *(stage.name for stage in stages)]
    assert len(names) == len(set(names))
    assert {stage.needs for stage in stages} <= {"", *made}
    told = " ".join([*names, "lab"])
    suites = {path.name for path in (paths.guest / "suites").iterdir()}
    suites -= {"hello", "one", "shell", *WORKLOADS}  # workloads take too long
    assert {suite for suite in suites if not re.search(rf"\b{suite}\b", told)} == set()
