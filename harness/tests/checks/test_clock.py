"""Promises of the clock of several processors, and results that break each promise."""

import pytest

from harness.checks import clock
from harness.guest.ktap import Status

_PAGES = [2071] * 3 + [43] + [3] * 14 + [135] * 22
GOOD = """threads 1 60238978 60175919
threads 2 61257848 60119405 60078656
threads 4 61299510 60087328 60076776 60042675 60043741
pingpong 0 1496
pingpong 1 31
timer 0 3478 2551
timer 3 3493 2559
ipi 1 3767 61406437 61394206
ipi 2 7225 61410145 61390221 61363919
ipi 3 9785 61406595 61384568 61392622 61369501
guest: done rc=0
""" + "".join(f"accessed {turn} {pages}\n" for turn, pages in enumerate(_PAGES))


def failed(results: str) -> list[str]:
    cases = clock.judge(clock.parse(results))
    assert len(cases) == 6
    return [case.name for case in cases if case.status is Status.FAILED]


def test_what_a_guest_measured_is_right() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        ("60078656", "61178656", "threads_are_as_fast_as_one"),
        ("60042675 ", "", "threads_are_as_fast_as_one"),
        ("61406595", "4406595", "an_idle_processor_wakes_in_time"),
        ("pingpong 0 1496", "pingpong 0 4200", "a_store_is_seen_within_two_quanta"),
        ("pingpong 1 31", "pingpong 1 1496", "a_store_is_seen_within_two_quanta"),
        ("pingpong 1 31", "pingpong 1 11", "a_store_is_seen_within_two_quanta"),
        ("timer 0 3478", "timer 0 9999999", "a_timer_is_not_late_beside_busy_processors"),
        ("timer 3 3493", "timer 3 3590", "a_timer_is_not_late_beside_busy_processors"),
        ("3493 2559", "3493 2659", "a_timer_is_not_late_beside_busy_processors"),
        ("3493 2559", "3493", "a_timer_is_not_late_beside_busy_processors"),
        ("ipi 3 9785", "ipi 3 1984", "an_interrupt_costs_its_sender_and_each_target"),
        ("ipi 2 7225", "ipi 2 4984", "an_interrupt_costs_its_sender_and_each_target"),
        ("61392622", "60192622", "an_interrupt_costs_its_sender_and_each_target"),
        ("61363919", "", "an_interrupt_costs_its_sender_and_each_target"),
        ("accessed 7 3\n", "accessed 7 132\n", "flushes_decide_how_large_a_tlb_is"),
        ("accessed 30 135\n", "accessed 30 3\n", "flushes_decide_how_large_a_tlb_is"),
    ],
)
def test_a_promise_that_is_broken_is_told(old: str, new: str, case: str) -> None:
    assert old in GOOD and failed(GOOD.replace(old, new)) == [case]


def test_a_guest_that_says_nothing_keeps_no_promise() -> None:
    assert len(failed("guest: done rc=0\n")) == 6
