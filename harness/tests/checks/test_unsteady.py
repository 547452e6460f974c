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
        "kernel log: BUG: sleeping function",
        "Expected memcmp(a, b, n) (1) == 0 (0)",
        "new suspected memory leaks",
    ],
)
def test_what_is_more_than_a_count_fails_at_first_sight(detail: str) -> None:
    assert unsteady.doubtful([Case(COUNT.name, Status.FAILED, detail)], GLOBS) == []


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
