"""The tree's own tests with the offload on, against themselves with it off."""

from harness.checks import compare
from harness.guest.ktap import Case, Status


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


def test_only_programs_that_did_not_pass_run_without_the_offload() -> None:
    cases = [
        Case("rmap/a", Status.PASSED), Case("cow/a", Status.SKIPPED), Case("cow/b", Status.FAILED),
        Case("migration/a", Status.XFAIL), Case("hmm-tests", Status.FAILED),
    ]  # fmt: skip
    assert compare.programs(cases) == ["cow", "hmm-tests"]
    assert compare.programs(cases[:1]) == []


def test_the_mode_is_no_part_of_a_name() -> None:
    cases = [Case("on.cow/on.cow.with base page", Status.PASSED), Case("lon.x", Status.PASSED)]
    names = [case.name for case in compare.without_mode(cases, "on")]
    assert names == ["cow/cow.with base page", "lon.x"]
