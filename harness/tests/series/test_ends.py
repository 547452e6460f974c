"""Each series at its own end: its kernel, its tests, and the series that have passed already."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.guest import ktap, suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, stack
from harness.kernel import tree as patches
from harness.kernel.stack import Stack
from harness.series import ends, export
from harness.series.build import CONFIG
from harness.tests.kernel_project import Project

GOOD = Case("good", Status.PASSED)


def result(*cases: Case, status: int = 0) -> suite.SuiteResult:
    verdict = vm.Verdict(vm.Outcome.FINISHED, "the suite ended", status)
    return suite.SuiteResult(vm.Run(verdict, "", ""), cases, suite.describe(verdict, cases))


class Guests:
    """Stand in for guests; `built` has the files of each kernel, `ran` the suites."""

    def __init__(self) -> None:
        self.built: list[set[str]] = []
        self.ran: list[tuple[str, str, str]] = []
        self.says = result(GOOD)
        self.broken = ""

    def prepare(self, _: object, config: str, tree: patches.Tree, programs: patches.Tree) -> str:
        assert (config, tree.path.is_dir()) == (CONFIG, True)
        assert "mm/rmap.c" in programs.files
        if self.broken in tree.files:
            raise HarnessError("does not build", "mm/offload.c: error")
        self.built.append(set(tree.files))
        return "kernel"

    def run_suite(
        self, _: object, kernel: str, name: str, args: str, __: Path, machine: str
    ) -> suite.SuiteResult:
        self.ran.append((name, args, machine))
        return self.says


@pytest.fixture
def guests(project: Project, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """Give `fix` and `speed` tests, and `lab` none."""
    fake = Guests()
    monkeypatch.setattr(suite, "prepare", fake.prepare)
    monkeypatch.setattr(suite, "run_suite", fake.run_suite)
    monkeypatch.setattr(suite, "show_failure", lambda *_: None)
    monkeypatch.setattr(build, "CONFIGS", {CONFIG: build.Config(())})
    monkeypatch.setattr(build, "compiler", lambda: "gcc 12")
    for name in ("kunit", "one"):
        project.write(project.paths.guest / "suites" / name, "# check: base\n")
    project.write(project.patch("fix/tests"), "kunit\n")
    project.write(project.patch("speed/tests"), "kunit\none as-is move machine=pc\n")
    return fake


@pytest.fixture
def made(project: Project, guests: Guests) -> Iterator[Stack]:
    with stack.assemble(project.paths, project.source) as assembled:
        yield assembled


def states(cases: list[Case]) -> dict[str, str]:
    return {case.name: case.status.value for case in cases}


def test_each_series_is_built_with_only_its_needs_and_tested(
    project: Project, guests: Guests, made: Stack
) -> None:
    told = states(ends.run(project.paths, made))
    names = ["fix: builds", "fix: kunit", "lab: builds", "speed: builds", "speed: kunit",
             "speed: one as-is move machine=pc"]  # fmt: skip
    assert sorted(told) == names
    assert set(told.values()) == {"passed"}
    fix, speed, lab = {"mm/migrate.c"}, {"drivers/new/dcbm.c", "mm/offload.c"}, {"mm/rmap.c"}
    assert sorted(guests.built, key=len) == sorted([fix, lab, fix | speed], key=len)
    assert ("one", "as-is,move", "pc") in guests.ran


def test_what_has_passed_runs_again_only_if_something_changed_or_is_named(
    project: Project, guests: Guests, made: Stack
) -> None:
    ends.run(project.paths, made)
    guests.ran.clear()
    assert len(ends.run(project.paths, made)) == 3
    assert guests.ran == []
    ends.run(project.paths, made, ["fix"])
    assert guests.ran == [("kunit", "", "")]
    project.write(project.paths.guest / "lib.sh", "more\n")
    guests.says = result(GOOD, Case("bad", Status.FAILED), status=1)
    assert states(ends.run(project.paths, made)).get("fix: kunit") == "failed"
    guests.ran.clear()
    assert states(ends.run(project.paths, made)).get("fix: kunit") == "failed"
    assert len(guests.ran) == 3


def test_a_series_that_does_not_build_leaves_the_others(
    project: Project, guests: Guests, made: Stack
) -> None:
    guests.broken = "mm/offload.c"
    told = states(ends.run(project.paths, made))
    assert told["speed: builds"] == "failed"
    assert told["fix: kunit"] == told["lab: builds"] == "passed"
    assert not [name for name in told if name.startswith("speed: kunit")]


def test_an_unknown_series_or_suite_is_refused(
    project: Project, guests: Guests, made: Stack
) -> None:
    with pytest.raises(HarnessError, match="TEST: no series 'x': there are fix, speed, lab"):
        ends.run(project.paths, made, ["fix", "x"])
    (project.paths.guest / "suites/one").unlink()
    with pytest.raises(HarnessError, match="no suite 'one'"):
        ends.run(project.paths, made)
    assert guests.built == []


def test_a_test_must_run_and_skip_nothing() -> None:
    assert ends.problem(result(GOOD)) == ""
    skipped = Case("large", Status.SKIPPED, "no such folios")
    assert ends.problem(result(GOOD, skipped)) == "the guest skipped large"
    assert ends.problem(result()) == "the suite printed no test results"
    assert ends.problem(result(GOOD, status=1)) == "the suite failed: the suite ended"


def test_make_series_says_which_test_failed(project: Project, guests: Guests, made: Stack) -> None:
    tree = patches.get(project.paths, project.source)

    def run(**how: Any) -> None:
        export.run(project.paths, project.source, tree, **how)

    run(test="all")
    guests.ran.clear()
    run()
    assert guests.ran == []
    guests.says = result(Case("bad", Status.FAILED), status=1)
    with pytest.raises(HarnessError, match="series: 1 of 2 tests failed: fix: kunit"):
        run(test="fix")
    assert ktap.count(ends.run(project.paths, made, ["lab"]))[Status.PASSED] == 1
