"""Promises of the clock of several processors, and results that break each promise."""

import pytest

from harness.checks import clock
from harness.guest.ktap import Status

_PAGES = [2071] * 3 + [43] + [3] * 14 + [135] * 22
GOOD = "".join(f"accessed {turn} {pages}\n" for turn, pages in enumerate(_PAGES))
GOOD += """threads 1 60384940 60184940
threads 2 60382337 60079568 60082337
threads 4 60499236 60072326 60050668 60099236 60050663
pingpong 0 1498
pingpong 1 30
timer 0 3478 2544
timer 3 3493 2544
ipi 1 3758 61393027 61383027
ipi 2 7216 61403236 61393236 61366343
ipi 3 9772 61418345 61376973 61381308 61408345
guest: done rc=0
"""


def failed(results: str) -> list[str]:
    cases = clock.judge(clock.parse(results))
    assert len(cases) == 6
    return [case.name for case in cases if case.status is Status.FAILED]


def test_what_a_guest_measured_is_right() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        # -icount without a quantum
        (
            "60382337 60079568 60082337",
            "120382337 60079568 120165214",
            "threads_are_as_fast_as_one",
        ),
        ("60099236 ", "", "threads_are_as_fast_as_one"),
        (
            "ipi 3 9772 61418345",
            "ipi 3 9772 4418345",
            "an_idle_processor_wakes_at_the_time_of_its_event",
        ),
        ("pingpong 1 30", "pingpong 1 11", "a_store_is_seen_within_two_quanta"),
        ("timer 0 3478", "timer 0 2147483647", "a_timer_is_not_late_beside_busy_processors"),
        ("pingpong 0 1498", "pingpong 0 4200", "a_store_is_seen_within_two_quanta"),
        ("pingpong 1 30", "pingpong 1 1498", "a_store_is_seen_within_two_quanta"),
        ("timer 3 3493", "timer 3 3590", "a_timer_is_not_late_beside_busy_processors"),
        ("3493 2544", "3493 2650", "a_timer_is_not_late_beside_busy_processors"),
        ("3493 2544", "3493", "a_timer_is_not_late_beside_busy_processors"),
        # no charge, one for a single target, and none for a target
        ("ipi 3 9772", "ipi 3 1984", "an_interrupt_costs_its_sender_and_each_target"),
        ("ipi 2 7216", "ipi 2 4984", "an_interrupt_costs_its_sender_and_each_target"),
        ("61381308", "60181308", "an_interrupt_costs_its_sender_and_each_target"),
        ("61366343", "", "an_interrupt_costs_its_sender_and_each_target"),
        ("accessed 7 3\n", "accessed 7 132\n", "flushes_decide_how_large_a_tlb_is"),
        ("accessed 30 135\n", "accessed 30 3\n", "flushes_decide_how_large_a_tlb_is"),
    ],
)
def test_a_promise_that_is_broken_is_told(old: str, new: str, case: str) -> None:
    assert old in GOOD
    assert failed(GOOD.replace(old, new)) == [case]


def test_a_guest_that_says_nothing_keeps_no_promise() -> None:
    assert len(failed("guest: done rc=0\n")) == 6
