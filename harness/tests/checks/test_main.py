"""Totals of a check: nothing that failed may get lost."""

from pathlib import Path

from harness import demo
from harness.checks import main
from harness.checks.main import Report
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status

GOOD = Case("good", Status.PASSED)
BAD = Case("bad", Status.FAILED, "why")
SKIPPED = Case("skipped", Status.SKIPPED, "no huge pages")


def result(verdict: vm.Verdict, *cases: Case) -> suite.SuiteResult:
    run = vm.Run(verdict, seconds=1, console="", results="")
    return suite.SuiteResult("suite", run, cases, suite.describe(verdict, cases))


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
    run = vm.Run(vm.Verdict(vm.Outcome.PANICKED, "the guest panicked"), 1, console, "")
    case = main.suite_cases(suite.SuiteResult("suite", run, (GOOD,), "the guest panicked"))[-1]
    assert case.detail.splitlines() == [
        "the guest panicked", "BUG: KASAN: use-after-free in f", "Call Trace:",
    ]  # fmt: skip


def test_a_suite_must_end_well_and_print_something() -> None:
    assert failures(finished(0), GOOD, SKIPPED) == []
    assert failures(finished(0), GOOD, BAD) == ["bad"]
    assert failures(finished(1), GOOD) == ["guest"]
    assert failures(finished(0)) == ["guest"]


def test_mm_tests_are_compared_by_name() -> None:
    def statuses(off: Status | None, on: Status | None) -> list[Status]:
        before = [Case("t", off)] if off else []
        after = [Case("t", on)] if on else []
        return [case.status for case in main.compare(before, after)]

    passed, failed, skipped = Status.PASSED, Status.FAILED, Status.SKIPPED
    assert statuses(passed, passed) == [passed]
    assert statuses(passed, failed) == [failed]
    assert statuses(skipped, failed) == [failed]
    assert statuses(failed, failed) == [failed]
    assert statuses(failed, passed) == [passed]
    assert statuses(passed, skipped) == [failed]
    assert statuses(skipped, skipped) == [skipped]
    assert statuses(passed, None) == [failed]
    assert statuses(skipped, None) == [skipped]
    assert statuses(None, failed) == [failed]


def test_a_test_that_no_run_can_judge_is_skipped_if_it_fails() -> None:
    name = "cow/R/O GUP pin ... with single PTE of swapped-out THP (64 kB)"
    off, on = [Case(name, Status.PASSED)], [Case(name, Status.FAILED)]
    assert [case.status for case in main.compare(off, on)] == [Status.SKIPPED]
    assert [case.status for case in main.compare(off, off)] == [Status.PASSED]
    assert [case.status for case in main.compare(off, [])] == [Status.SKIPPED]
    off, on = (
        [Case("cow/with base page", status)] for status in (Status.PASSED, Status.FAILED)
    )
    assert [case.status for case in main.compare(off, on)] == [Status.FAILED]


def test_the_mode_is_no_part_of_a_name() -> None:
    cases = [Case("on.cow/on.cow.with base page", Status.PASSED), Case("lon.x", Status.PASSED)]
    names = [case.name for case in main.without_mode(cases, "on")]
    assert names == ["cow/cow.with base page", "lon.x"]


def test_an_error_in_a_stage_is_a_failure_and_ends_nothing(tmp_path: Path) -> None:
    report = Report(tmp_path)

    def broken() -> list[Case]:
        raise HarnessError("no compiler", "details")

    assert not report.attempt("kernel", broken)
    assert not report.attempt("odd", lambda: [Case("x", Status("odd"))])
    assert report.attempt("unit", lambda: [GOOD, SKIPPED])
    report.skip("demo", "there is no kernel")
    assert report.counts == {Status.PASSED: 1, Status.FAILED: 2, Status.SKIPPED: 2}
    assert report.listed(Status.SKIPPED) == [
        "  unit: no huge pages: skipped",
        "  demo: there is no kernel: all",
    ]
    report.add("mm", [Case(f"t{n}", Status.SKIPPED, "no swap") for n in range(8)])
    assert (
        report.listed(Status.SKIPPED)[-1] == "  mm: no swap: t0, t1, t2, t3, t4, t5 and 2 more"
    )
    assert '<testsuite name="kernel"' in (tmp_path / "junit.xml").read_text()


def test_a_demo_without_its_kernel_is_skipped(tmp_path: Path) -> None:
    report = Report(tmp_path)
    paths = Paths(tmp_path, tmp_path, tmp_path / "out")
    for engine in demo.ENGINES.values():
        main._demo(paths, None, report, engine)
    assert report.listed(Status.SKIPPED) == [
        "  demo: there is no base kernel: all",
        "  demo-zdma: there is no arm64 kernel: all",
    ]


def test_junit_of_pytest_is_read() -> None:
    text = (
        '<testsuites><testsuite><testcase classname="t" name="a"/>'
        '<testcase classname="t" name="b"><failure message="assert 1 == 2"/></testcase>'
        '<testcase classname="t" name="c"><error message="boom"/></testcase>'
        '<testcase classname="t" name="d"><skipped message="later"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert main.parse_junit(text) == [
        Case("t.a", Status.PASSED),
        Case("t.b", Status.FAILED, "assert 1 == 2"),
        Case("t.c", Status.FAILED, "boom"),
        Case("t.d", Status.SKIPPED, "later"),
    ]
