"""Goals are found in the right runs, and a figure that is worse than its bound fails."""

from typing import Any

import pytest

from harness.guest.ktap import Status
from harness.lab.judge import claims, goals
from harness.lab.model import published
from harness.tests.lab import sample as lab_sample


def segments(**changes: Any) -> Any:
    fields = {"design": "segments", "batch_pages": 512, "folios_per_call": 32}
    return lab_sample.run(**{**fields, **changes})


def vanilla(folio_kib: int, per_call: int, instructions: float, first: float = 200.0) -> Any:
    return lab_sample.by_cpu(
        "vanilla", "off", folio_kib=folio_kib, folios_per_call=per_call,
        instructions_per_folio=instructions, first_folio_us=first,
    )  # fmt: skip


def results(**figures: float) -> Any:
    one = {"gbps": 60.0, "first": 39.0, "four": 26.0, "alone": 60.0, "huge": 40.0,
           "small": 75.0, "medium": 31.0, "large": 51.0, **figures}  # fmt: skip
    return lab_sample.results(
        runs=(
            vanilla(2048, 1, 1100.0),
            vanilla(2048, 32, 1000.0),
            vanilla(4, 4096, 100.0),
            segments(gbps=one["gbps"], first_folio_us=one["first"]),
            segments(channels=4, gbps=one["four"], first_folio_us=90.0),
            segments(folios_per_call=1, first_folio_us=one["alone"]),
            segments(batch_pages=16384, instructions_per_folio=one["huge"]),
            segments(batch_pages=16384, folio_kib=4, instructions_per_folio=one["small"]),
            segments(batch_pages=16384, folio_kib=64, gbps=one["medium"]),
            segments(batch_pages=16384, folio_kib=1024, gbps=one["large"]),
        )
    )


def test_every_goal_has_its_figure() -> None:
    values = [round(goal.value, 3) for goal in goals.goals_of(results())]
    assert values == [60.0, 39.0, 31.0, 51.0, round(26 / 29.7, 3), 90.0, 0.3, 0.04, 0.75]
    assert all(goal.met for goal in goals.goals_of(results()))


@pytest.mark.parametrize(
    ("figure", "bad"),
    [("gbps", 48.0), ("first", 60.0), ("four", 20.0), ("alone", 90.0), ("huge", 70.0),
     ("small", 99.0), ("medium", 20.0), ("large", 40.0)],
)  # fmt: skip
def test_every_goal_can_be_missed(figure: str, bad: float) -> None:
    missed = [goal for goal in goals.goals_of(results(**{figure: bad})) if not goal.kept]
    assert len(missed) == 1
    worse = results(**{figure: bad})
    cases = claims.judge(worse, worse, published.load())
    failed = [case for case in cases if case.status is Status.FAILED]
    assert f"goal: {missed[0].name}" in [case.name for case in failed]


def test_a_goal_that_is_missed_keeps_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "4 KB folios: instructions, of vanilla's"
    monkeypatch.setitem(goals.MISSED, name, (0.95, "a cause"))
    (goal,) = [goal for goal in goals.goals_of(results(small=90.0)) if goal.name == name]
    assert (goal.met, goal.kept, goal.cause) == (False, True, "a cause")
    (goal,) = [goal for goal in goals.goals_of(results(small=96.0)) if goal.name == name]
    assert not goal.kept


def test_the_ceiling_of_a_speed_is_the_slower_of_engine_and_processor() -> None:
    def ceiling(instructions: float) -> float | None:
        run = segments(batch_pages=16384, folio_kib=64, instructions_per_folio=instructions)
        (goal,) = goals.goals_of(lab_sample.results(runs=(run,)))
        return goal.ceiling

    dilation = lab_sample.DILATION
    assert ceiling(1000.0) == pytest.approx(71.7)
    assert ceiling(10000.0) == pytest.approx(65536 * dilation / 10000)
    assert ceiling(0.0) is None


def test_without_segments_there_are_no_goals() -> None:
    assert goals.goals_of(lab_sample.results(runs=tuple(lab_sample.sweep_runs()))) == []
