"""Which failed cases may run again, and what becomes of them."""

import pytest

from harness.checks import unsteady
from harness.guest.ktap import Case, Status

COUNT = Case("churn/moves", Status.FAILED, "churn.c:90:churn:Expected moves (3) > 20 (20)")
GOOD = Case("churn/moves", Status.PASSED)
GLOBS = ("churn/*",)


def test_a_listed_count_is_doubtful() -> None:
    assert unsteady.doubtful([COUNT, Case("x", Status.SKIPPED)], GLOBS) == [COUNT]
    assert unsteady.doubtful([COUNT], ()) == []
    assert unsteady.doubtful([COUNT], ("churn",)) == []
    assert unsteady.doubtful([GOOD], GLOBS) == []


@pytest.mark.parametrize(
    "detail",
    [
        "Expected 0 (0) != area_wrong(&self->area) (7)",
        "Expected engine_test_end(&self->test) (1) == 0 (0)",
        "# page 3 (part 1): wrote 0x1, found 0x2: writer->lost",
        "kernel log: BUG: sleeping function", "Expected memcmp(a, b, n) (1) == 0 (0)",
        "new suspected memory leaks",
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "BUG: KASAN: use-after-free in f", "INFO: task churn:90 blocked: hung",
        "killed by signal 11", "moves: Test terminated unexpectedly by signal 11",
        "moves: Test terminated by timeout", "",
    ],
)  # fmt: skip
def test_what_is_more_than_a_count_fails_at_first_sight(detail: str) -> None:
    for text in (detail, f"{COUNT.detail}\n{detail}" if detail else ""):
        for globs in (GLOBS, ("*",), ("churn/*", "*")):
            assert unsteady.doubtful([Case(COUNT.name, Status.FAILED, text)], globs) == []


@pytest.mark.parametrize("name", ["guest", "error", "plan", "live_stress/plan"])
def test_no_glob_makes_an_end_of_a_guest_doubtful(name: str) -> None:
    other = Case(name, Status.FAILED, COUNT.detail)
    assert unsteady.doubtful([other], ("*", "live_stress/*")) == []
    assert unsteady.doubtful([COUNT, other], ("*",)) == []


def test_counts_are_doubtful_as_suites_print_them() -> None:
    told = """RUN           live_stress.cpu_4k.no_write_is_lost ...
live_stress.c:649:no_write_is_lost:store: 20 written, 0 refused
live_stress.c:668:no_write_is_lost:Expected 0 (0) != enough() (0)
no_write_is_lost: Test failed
FAIL  live_stress.cpu_4k.no_write_is_lost"""
    name = "live_stress/live_stress.cpu_4k.no_write_is_lost"
    stress = Case(name, Status.FAILED, told)
    lost = Case(name, Status.FAILED, told.replace("enough", "lost"))
    for glob in ("live_stress/*", "*"):
        assert unsteady.doubtful([stress], (glob,)) == [stress]
        assert unsteady.doubtful([lost], (glob,)) == []
    churn = Case("churn/churn.enough_of_everything", Status.FAILED, "3 moves of areas")
    assert unsteady.doubtful([churn], ("churn*/*.enough_of_everything",)) == [churn]
    assert unsteady.doubtful([churn], ("*",)) == []


def test_a_failure_of_another_case_leaves_no_doubt() -> None:
    for other in ("guest", "engines/reload"):
        assert unsteady.doubtful([COUNT, Case(other, Status.FAILED, "why")], GLOBS) == []


def test_a_case_is_unsteady_if_it_passes_in_both_runs_alone() -> None:
    assert unsteady.RUNS == 2
    assert unsteady.decide([COUNT], [[GOOD], [GOOD]]) == ([GOOD], [GOOD.name])
    assert unsteady.decide([COUNT], [[GOOD], [COUNT]]) == ([COUNT], [])
    assert unsteady.decide([COUNT], [[COUNT], [GOOD]]) == ([COUNT], [])
    assert unsteady.decide([COUNT], [[GOOD], []]) == ([COUNT], [])


def test_what_fails_only_alone_fails_too() -> None:
    panic = Case("guest", Status.FAILED, "the guest panicked")
    cases, names = unsteady.decide([COUNT], [[GOOD], [GOOD, panic]])
    assert [case.status for case in cases] == [Status.PASSED, Status.FAILED]
    assert (cases[1].name, cases[1].detail) == ("guest", "when it ran alone: the guest panicked")
    assert names == [GOOD.name]
