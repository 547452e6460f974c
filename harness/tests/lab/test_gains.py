"""Tests of what the lab says migration gained over vanilla."""

from pathlib import Path

import pytest

from harness.lab.judge import gains
from harness.lab.judge.gains import gains_of, promises_of
from harness.lab.report import report
from harness.lab.results import Phases, Run
from harness.tests.lab.sample import DILATION, by_cpu, results

# A copy of 64 KB takes 20,000 instructions: 32 folios of 64 KB are a batch of 512 pages.
COPIED = Phases(20.0, 2.0, 20.0 * 32 / DILATION, 15.0)
SIZE = {"folio_kib": 64, "total_mib": 16.0, "folios_per_call": 256}


def runs(gain: float = 1.6, back: float = 4.0, ours: float = 28000.0) -> list[Run]:
    """Return what is needed for one size."""
    return [
        by_cpu("vanilla", "off", gbps=6.0, instructions_per_folio=50000.0, **SIZE),
        by_cpu("vanilla", "off", gbps=2.5, move=2, folios_split=256, **SIZE),
        by_cpu("ours", "off", gbps=6.0 * gain, instructions_per_folio=ours, **SIZE),
        by_cpu("ours", "off", gbps=2.5 * back, move=2, **SIZE),
        by_cpu("ours", "cpu", instructions_per_folio=29000.0, phases_us=COPIED, **SIZE),
    ]


def test_gains_are_ratios_of_the_same_workload() -> None:
    (gain,) = gains_of(runs(), DILATION)
    assert (gain.folio_kib, gain.split) == (64, 0)
    assert (gain.first, gain.back) == pytest.approx((1.6, 4.0))
    assert gain.outside == pytest.approx(8000 / 30000)
    other = [by_cpu("ours", "off", **{**SIZE, "total_mib": 32.0}), *runs()[:2]]
    assert gains_of(other, DILATION) == []
    (alone,) = gains_of([runs()[0], runs()[2]], DILATION)
    assert (alone.back, alone.outside) == (None, None)


def test_a_promise_is_kept_or_not() -> None:
    kept = {one.what: one.kept for one in promises_of(gains_of(runs(), DILATION))}
    assert kept == {"first move": True, "moved back": True, "outside the copy": True}
    for bad, what in (
        (runs(gain=1.49), "first move"),
        (runs(back=3.49), "moved back"),
        (runs(ours=29100.0), "outside the copy"),
    ):
        broken = [one.what for one in promises_of(gains_of(bad, DILATION)) if not one.kept]
        assert broken == [what]


def test_what_is_explained_is_judged_by_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gains.EXPLAINED, ("first move", 64), (1.4, "a cause"))
    first = next(promises_of(gains_of(runs(gain=1.45), DILATION)))
    assert (first.kept, first.promised, first.cause) == (True, 1.5, "a cause")


def test_the_report_shows_goals_and_what_is_missed(tmp_path: Path) -> None:
    report.write(results(runs=tuple(runs(gain=1.45))), tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| 64 KB | 1.450 | 1.5 | 4.000 | 3.5 | 0.267 | 0.3 | 0 |" in text
    assert "**Less than the goal**: first move, 64 KB: not explained." in text
