"""The record of vanilla against what its guests print now."""

from types import SimpleNamespace

import pytest

from harness.checks import record
from harness.core.paths import default_paths
from harness.guest import recorded
from harness.guest.ktap import Status
from harness.guest.recorded import OUTSIDE, Entry
from harness.kernel import build, qemu, source
from harness.lab import plan
from harness.layouts import run as layouts

KEY = {"Linux": f"{source.PACKAGE}_7", "compiler": "gcc", "QEMU": "10", "suite": "a"}


def statuses(known: Entry | None, now: Entry) -> list[tuple[Status, str]]:
    told = {"g": lambda old, new: [f"{old} is {new}"] if old != new else []}
    cases = record.cases({"g": known} if known else {}, {"g": now}, told)
    return [(case.status, case.detail) for case in cases]


def test_other_output_than_what_is_recorded_fails() -> None:
    assert statuses(Entry(KEY, "1"), Entry(KEY, "1")) == [(Status.PASSED, "")]
    assert statuses(Entry(KEY, "1"), Entry(KEY, "2")) == [(Status.FAILED, "1 is 2")]


def test_a_record_of_another_machine_is_not_compared() -> None:
    ((status, why),) = statuses(Entry(KEY, "1"), Entry(KEY | {"compiler": "cc"}, "2"))
    assert (status, why) == (Status.SKIPPED, "the record is of compiler gcc, here is cc")
    for more in ({"compiler": "cc", "QEMU": "11"}, {"Linux": "mine 7"}):
        assert [status for status, _ in statuses(Entry(KEY, "1"), Entry(KEY | more, "2"))] == [
            Status.SKIPPED
        ]


def test_a_record_that_no_machine_can_have_fails() -> None:
    why = "the record is of QEMU 10, here is 11"
    assert list(statuses(Entry(KEY, "1"), Entry(KEY | {"QEMU": "11"}, "2"))) == [
        (Status.SKIPPED, why),
        (Status.FAILED, f"{why}: make record"),
    ]


def test_a_record_of_other_programs_fails() -> None:
    now = Entry(KEY | {"QEMU": "11", "suite": "b"}, "1")
    for known in (Entry(KEY, "1"), None):
        ((status, why),) = statuses(known, now)
        assert (status, why.endswith(": make record")) == (Status.FAILED, True)


def test_the_record_is_of_this_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = SimpleNamespace(package="Linux", home=default_paths().root, revision="")
    monkeypatch.setattr(source, "get", lambda _: origin)
    monkeypatch.setattr(build, "compiler", lambda: "gcc")
    monkeypatch.setattr(qemu, "version", lambda _: "QEMU")
    known = recorded.load(default_paths())
    for name, key in recorded.keys(default_paths(), [*plan.guests(), layouts.TWIN]).items():
        other = recorded.unlike(known.get(name), key).keys() - set(OUTSIDE)
        assert not other, f"{name}: make record, or each check builds vanilla"
