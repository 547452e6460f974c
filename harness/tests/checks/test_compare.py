"""The tree's own tests with the offload on, against themselves with it off."""

import pytest

from harness.checks import compare
from harness.guest.ktap import Case, Status

SWAPPED = "cow/R/O GUP pin ... with single PTE of swapped-out THP (64 kB)"


def test_mm_tests_are_compared_by_name() -> None:
    def statuses(off: Status | None, on: Status | None) -> list[Status]:
        before = [Case("t", off)] if off else []
        after = [Case("t", on)] if on else []
        return [case.status for case in compare.once(before, after)]

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


def test_only_failures_that_no_run_can_judge_are_repeated() -> None:
    cases = [
        Case(SWAPPED, Status.FAILED),
        Case(SWAPPED, Status.FAILED),
        Case("cow/R/O GUP pin ... with memfd hugetlb (2048 kB)", Status.SKIPPED),
        Case("cow/with base page", Status.FAILED),
        Case("gup_longterm/swapped out", Status.FAILED),
    ]
    assert compare.unreliable(cases) == [SWAPPED]


@pytest.mark.parametrize(
    ("off", "on", "status"),
    [
        (6, 6, Status.PASSED),
        (4, 2, Status.PASSED),  # as often as was seen: 58 % and 33 %
        (6, 2, Status.PASSED),
        (6, 1, Status.FAILED),
        (5, 0, Status.FAILED),
        (4, 0, Status.PASSED),
        (0, 0, Status.FAILED),
        (0, 1, Status.PASSED),
    ],
)
def test_rates_of_both_modes_are_compared(off: int, on: int, status: Status) -> None:
    def runs(passed: int) -> list[Case]:
        other = Case("cow/other", Status.PASSED)
        failed = [Case(SWAPPED, Status.FAILED), Case(SWAPPED, Status.SKIPPED)] * 3
        return [Case(SWAPPED, Status.PASSED)] * passed + failed[passed:] + [other]

    case = compare.rates(SWAPPED, runs(off), runs(on), rounds=6)
    assert case.status is status
    assert case.detail == f"passes {on} times of 6 with the offload on, {off} off"


def test_repeats_end_when_a_case_was_seen_both_ways() -> None:
    good, bad = Case(SWAPPED, Status.PASSED), Case(SWAPPED, Status.FAILED)
    assert compare.seen_both_ways([], [bad], [good], 1)
    assert compare.seen_both_ways([SWAPPED], [bad], [good], 1)
    assert not compare.seen_both_ways([SWAPPED], [good], [bad], 1)
    assert not compare.seen_both_ways([SWAPPED], [good, good], [bad, good], 2)
    assert not compare.seen_both_ways([SWAPPED, "cow/other"], [bad], [good], 1)


def test_only_programs_that_did_not_pass_run_without_the_offload() -> None:
    cases = [
        Case("rmap/a", Status.PASSED),
        Case("cow/a", Status.SKIPPED),
        Case("cow/b", Status.FAILED),
        Case("migration/a", Status.XFAIL),
        Case("hmm-tests", Status.FAILED),
    ]
    assert compare.programs(cases) == ["cow", "hmm-tests"]
    assert compare.programs(cases[:1]) == []


def test_the_mode_is_no_part_of_a_name() -> None:
    cases = [Case("on.cow/on.cow.with base page", Status.PASSED), Case("lon.x", Status.PASSED)]
    names = [case.name for case in compare.without_mode(cases, "on")]
    assert names == ["cow/cow.with base page", "lon.x"]
