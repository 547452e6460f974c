"""The tree's own tests with the offload on, against themselves with it off."""

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


CHANCE = "# PIN_LONGTERM_TEST_START failed: Cannot allocate memory (12)".removeprefix("# ")
MISSED = Case(SWAPPED, Status.FAILED, f"passed with the offload off\n{CHANCE}")
PASSED = Case(SWAPPED, Status.PASSED)


def test_only_failures_that_no_run_can_judge_are_repeated() -> None:
    wrong = "failed with the offload off, fails with it on\nLongterm R/O pin is not reliable"
    cases = [
        MISSED,
        MISSED,
        Case("cow/R/O GUP pin ... with memfd hugetlb (2048 kB)", Status.FAILED, CHANCE),
        Case("cow/with base page", Status.FAILED, CHANCE),
        Case("gup_longterm/swapped out", Status.FAILED, CHANCE),
        Case("cow/... with swapped-out THP (64 kB)", Status.FAILED, wrong),
    ]
    assert compare.unreliable(cases) == [SWAPPED]


def test_a_case_that_was_not_swapped_out_is_repeated() -> None:
    cases = compare.once([PASSED], [Case(SWAPPED, Status.SKIPPED, "did not work")])
    assert compare.unreliable(cases) == [SWAPPED]
    assert compare.unreliable(compare.once([PASSED], [])) == [SWAPPED]


def test_a_case_that_no_run_can_judge_must_pass_once() -> None:
    runs = [[MISSED], [Case(SWAPPED, Status.SKIPPED)], [PASSED]]
    asked: list[int] = []

    def run(number: int) -> list[Case]:
        asked.append(number)
        return runs[number - 2]

    other = Case("cow/other", Status.PASSED)
    assert compare.repeat([other, MISSED], run) == [other, PASSED]
    assert asked == [2, 3, 4]


def test_a_case_that_never_passes_fails() -> None:
    asked: list[int] = []

    def run(number: int) -> list[Case]:
        asked.append(number)
        return [MISSED]

    (case,) = compare.repeat([MISSED], run)
    assert case.status is Status.FAILED
    assert asked == list(range(2, compare.ROUNDS + 1))


def test_another_failure_in_a_repeat_counts() -> None:
    bad = Case("cow/with base page", Status.FAILED, CHANCE)
    wrong = Case(SWAPPED, Status.FAILED, "Leak from parent into child")
    assert compare.repeat([MISSED], lambda _: [PASSED, bad]) == [bad, PASSED]
    assert compare.repeat([MISSED], lambda number: [wrong if number == 2 else PASSED]) == [wrong]


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
