"""KTAP: results, plans, nesting, junk, totals."""

from pathlib import Path

import pytest

from harness.guest import ktap
from harness.guest.ktap import Case, Status

DATA = Path(__file__).parent.parent / "data"


def parse(name: str) -> dict[str, Case]:
    return {case.name: case for case in ktap.parse((DATA / name).read_text())}


def failed(text: str) -> list[str]:
    return [case.name for case in ktap.parse(text) if case.status is Status.FAILED]


def test_leaves_count_and_parents_do_not() -> None:
    cases = parse("good.ktap")
    assert list(cases) == [
        "environment", "off.migrate_contents/off.migrate_contents.anonymous",
        "off.migrate_contents/off.migrate_contents.hugetlb",
        "off.migrate_contents/off.migrate_contents.shmem", "migrate_sysfs",
    ]  # fmt: skip
    assert ktap.count(list(cases.values())) == {
        Status.PASSED: 3, Status.FAILED: 1, Status.SKIPPED: 1,
    }  # fmt: skip


def test_a_skip_keeps_its_reason() -> None:
    case = parse("good.ktap")["off.migrate_contents/off.migrate_contents.hugetlb"]
    assert (case.status, case.detail) == (Status.SKIPPED, "no 2048 KiB pages")


def test_kunit_nests_three_deep() -> None:
    cases = parse("kunit.ktap")
    assert cases["migrate_offload/eligibility/buffer_heads"].status is Status.PASSED
    bad = cases["migrate_offload/marker_life_cycle"]
    assert bad.status is Status.FAILED
    assert "EXPECTATION FAILED at mm/tests/migrate_offload_kunit.c:181" in bad.detail
    assert "dcbm/scatter_list" in cases
    assert str(ktap.count(list(cases.values()))) == "4 passed, 1 failed, 0 skipped"


def test_a_truncated_report_fails_its_plans() -> None:
    cases = ktap.parse((DATA / "truncated.ktap").read_text())
    details = [case.detail for case in cases if case.status is Status.FAILED]
    assert details == ["planned 9 tests, saw 2", "planned 4 tests, saw 1"]


def test_kselftest_directives_and_junk() -> None:
    cases = parse("mm.ktap")
    skip = cases["Split to order 3: pagemap not readable"]
    assert (skip.status, skip.detail) == (Status.SKIPPED, "pagemap says no")
    assert cases["PMD split with pins"].status is Status.XFAIL
    assert cases["[FAIL] gup_longterm"].status is Status.FAILED
    assert cases["dashes # and a comment"].status is Status.PASSED
    assert cases["migration.private_anon"].detail.startswith("TIMEOUT")
    assert "run second program" in cases


def test_a_second_document_has_its_own_plan() -> None:
    text = "TAP version 13\n1..1\nok 1 a\nTAP version 13\n1..2\nok 1 b\nok 2 c\n"
    assert not failed(text)
    assert failed("1..1\nok 1 a\n1..2\nok 1 b\n") == ["plan"]


def test_a_missing_test_of_a_nested_plan_fails() -> None:
    assert failed("1..1\n  1..2\n  ok 1 a\nok 1 parent\n") == ["parent/plan"]


def test_a_parent_that_fails_alone_is_a_failure() -> None:
    text = "1..1\n  1..1\n  ok 1 a\n# a: exit status 139\nnot ok 1 parent\n"
    assert failed(text) == ["parent"]


def test_control_characters_do_not_hide_a_result() -> None:
    assert failed("1..1\r\n\x1b[?2004lnot ok 1 a\x00\r\n")
    assert failed("1..1\r\nnot ok 1 a\x00\r\n") == ["a"]


@pytest.mark.parametrize("word", ["ok", "not ok"])
def test_directives_outrank_the_result(word: str) -> None:
    text = f"1..4\n{word} 1 a # SKIP no node\n{word} 2 b # XFAIL known\n"
    text += f"{word} 3 # XFAIL c\n{word} 4 d # TIMEOUT 45 seconds\n"
    cases = ktap.parse(text)
    assert [(case.name, case.status) for case in cases] == [
        ("a", Status.SKIPPED), ("b", Status.XFAIL), ("c", Status.XFAIL), ("d", Status.FAILED),
    ]  # fmt: skip


def test_an_unexpected_pass_and_an_error_keep_their_names() -> None:
    cases = ktap.parse("1..2\nok 1 # XPASS a\nnot ok 2 # error b\n")
    assert [(case.name, case.status) for case in cases] == [
        ("a", Status.PASSED),
        ("b", Status.FAILED),
    ]


def test_what_is_rare_is_counted_apart() -> None:
    def counts(*statuses: Status) -> str:
        return str(ktap.count([Case("t", status) for status in statuses]))

    assert counts(Status.PASSED, Status.PASSED) == "2 passed, 0 failed, 0 skipped"
    assert counts(*Status, Status.KNOWN) == (
        "1 passed, 1 failed, 1 skipped, 2 known misses, 1 expected failures"
    )


def test_junit_of_pytest_is_read() -> None:
    text = (
        '<testsuites><testsuite><testcase classname="t" name="a"/>'
        '<testcase classname="t" name="b"><failure message="assert 1 == 2"/></testcase>'
        '<testcase classname="t" name="c"><error message="boom"/></testcase>'
        '<testcase classname="t" name="d"><skipped message="later"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert ktap.parse_junit(text) == [
        Case("t.a", Status.PASSED), Case("t.b", Status.FAILED, "assert 1 == 2"),
        Case("t.c", Status.FAILED, "boom"), Case("t.d", Status.SKIPPED, "later"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("not ok 1 a", True), ("    not ok 2 - a.b", True),
        ("not ok 3 a # TIMEOUT 45 seconds", True), ("ok 1 a", False),
        ("not ok 1 a # SKIP no engine", False), ("not ok # SKIP no engine", False),
        ("not ok 1 a # XFAIL known", False), ("  not ok 1 a # TODO later", False),
        ("# not ok 1 a", False), ("1..5", False), ("KTAP version 1", False),
        ("it is not ok 1", False),
    ],
)  # fmt: skip
def test_one_line_says_that_a_test_failed(line: str, failed: bool) -> None:
    assert ktap.is_failure(line) is failed


def test_a_long_detail_has_what_failed_first() -> None:
    first = "# a.c:1:case:Expected 1 (1) == 2 (2)"
    words = ["# a.c:1:case:20 written"] * 9
    lines = [*words, first, *("# more" for _ in range(30)), "not ok 1 a"]
    [case] = ktap.parse("\n".join(lines))
    assert case.detail.splitlines()[0] == first.removeprefix("# ")
    assert len(case.detail.splitlines()) == 25
