"""Claims: each is judged, none disappears, and a loss of a fifth fails wherever it is."""

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from harness.guest.ktap import Status
from harness.lab import plan
from harness.lab.judge import claims, compare, goals, reproduced
from harness.lab.judge.claim import Claim, Measured, bounds, verdict
from harness.lab.judge.claims import claims_of, judge
from harness.lab.model.published import BASELINE, OFFLOAD, rows
from harness.lab.results import Inaccessible, Key, Results, Run, Touch
from harness.tests.lab.sample import FULL, MODEL, QUICK, by_cpu, run

BOTH = pytest.mark.parametrize("whole", [QUICK, FULL], ids=["quick", "full"])
LOSS = 0.2
# Threads would be seen in the latencies.
NOT_WITH_THREADS = ("first_folio_us", "inaccessible_us", "phases_us")


def failed(whole: Results) -> dict[str, str]:
    """Return the detail of each failed case by its name, without bound and goal."""
    return {
        case.name.rsplit(": ", 1)[0]: case.detail
        for case in judge(whole)
        if case.status is Status.FAILED
    }


def changed(whole: Results, old: Run, **fields: Any) -> Results:
    """Return results with one run changed."""
    new = structs.replace(old, **fields)
    return structs.replace(whole, runs=tuple(new if r is old else r for r in whole.runs))


def worsened(row: Run, figure: str) -> Run:
    """Return a run of which one figure is a fifth worse, or by more than is granted."""
    name, _, part = figure.partition(": ")
    value = getattr(row, name)
    factor = 1 - LOSS if figure == "gbps" else 1 + LOSS
    if part:
        worse = getattr(value, part) + max(getattr(value, part) * LOSS, 2 * compare.LONGEST_US)
        return structs.replace(row, **{name: structs.replace(value, **{part: worse})})
    worse = math.ceil(value * factor) if isinstance(value, int) else value * factor
    granted = compare.LEAST_FOLIOS if name == "folios_failed" else 0
    return structs.replace(row, **{name: worse + granted + (not value)})


@BOTH
def test_what_is_recorded_is_all_that_was_planned_and_keeps_its_bounds(whole: Results) -> None:
    assert {run.name for run in whole.runs} == {key.name for key in claims.planned(whole)}
    for row in whole.runs:
        figures = set(compare.figures(run()))
        probed = row.addresses == "heads" and row.memory != "hugetlb" and row.kernel != "heart"
        if row.touch or not probed:
            figures = {name for name in figures if not name.startswith(NOT_WITH_THREADS)}
        # Not all that moves memory is seen phase by phase, and few folios have no p99.
        assert set(compare.figures(row)) | {"inaccessible_us: p99"} >= figures, row.name
        assert bool(row.touch) == bool(row.writes_per_ms)
        assert row.latency_lost == 0
        assert not row.folios_failed or row.addresses in plan.BY_KERNEL
        assert (row.huge_pages_missing is None) == (row.addresses not in ("compaction", "contig"))
        assert row.folios_split >= 0
    assert not any(math.isnan(claim.value) for claim in claims_of(whole))
    assert failed(whole) == {}


def test_every_claim_is_there() -> None:
    counts = [Counter(claim.group for claim in claims_of(whole)) for whole in (QUICK, FULL)]
    groups = (reproduced.CALIBRATION, reproduced.BATCHES, reproduced.SIZES, goals.OFF,
              goals.GAIN, goals.WHOLE, goals.SEGMENTS, goals.KINDS, goals.CALLERS)  # fmt: skip
    assert [count[group] for count in counts for group in groups] == [
        17, 14, 0, 0, 12, 6, 7, 12, 24,
        45, 120, 36, 6, 19, 12, 10, 15, 44,
    ]  # fmt: skip


@BOTH
def test_what_misses_its_goal_is_a_known_miss_with_a_cause(whole: Results) -> None:
    judged = [(claim, case) for claim, case in claims.judged(whole) if case]
    known = [claim for claim, case in judged if case.status is Status.KNOWN]
    assert known
    assert [claim.name for claim in known if not claim.cause] == []
    for claim, case in judged:
        assert claim.met == (case.status is Status.PASSED)
        assert re.search(r": (at (least|most) |[\d.,]+ to )[\d.,]+", case.name)
        if math.isfinite(claim.low) or math.isfinite(claim.high):
            assert re.search(r" \((at (least|most)|published) [\d.,]+.*\)$", case.name)


@BOTH
@pytest.mark.parametrize("figure", sorted(compare.figures(run())))
def test_a_figure_that_is_a_fifth_worse_fails_in_every_run(whole: Results, figure: str) -> None:
    runs = tuple(
        worsened(row, figure) if figure in compare.figures(row) else row for row in whole.runs
    )
    affected = [
        new.name
        for old, new in zip(whole.runs, runs, strict=True)
        if compare.figures(old).get(figure) != compare.figures(new).get(figure)
    ]
    failures = failed(structs.replace(whole, runs=runs))
    assert affected
    for name in affected:
        assert figure in failures.get(name, ""), name


@BOTH
def test_a_claim_that_is_a_fifth_worse_fails(whole: Results) -> None:
    judged = [claim for claim in claims_of(whole) if not claim.fitted]
    for claim in judged:
        worse = claim.value * (1 - LOSS if claim.more else 1 + LOSS) + (not claim.value)
        case = verdict(replace(claim, value=worse), claim.value)
        assert case.status is Status.FAILED, case.name


@BOTH
def test_a_figure_of_nothing_fails_where_a_published_one_is_reproduced(whole: Results) -> None:
    for claim in claims_of(whole):
        if claim.published and not claim.fitted:
            assert claim.value
            for wrong in (0.0, 10 * claim.published * max(claim.value / claim.published, 1)):
                case = verdict(replace(claim, value=wrong), claim.value)
                assert case.status is Status.FAILED, case.name


@BOTH
def test_no_claim_disappears_with_its_runs(whole: Results) -> None:
    before = len(judge(whole))
    for name, value in (("design", "segments"), ("kernel", "vanilla"), ("kernel", "without")):
        if whole.quick and value == "without":
            continue
        kept = tuple(row for row in whole.runs if getattr(row, name) != value)
        fewer = structs.replace(whole, runs=kept)
        assert len(judge(fewer)) == before
        gone = {row.name for row in whole.runs} - {row.name for row in kept}
        assert gone
        assert gone <= {key for key, detail in failed(fewer).items() if "nothing" in detail}
    statuses = [case.status for case in judge(structs.replace(whole, runs=()))]
    assert len(statuses) == before
    assert statuses.count(Status.FAILED) == len(statuses) - 1  # the dilation is there


def test_a_figure_that_is_not_there_fails() -> None:
    for name in ("first_folio_us", "inaccessible_us", "phases_us", "instructions_per_folio"):
        for row in (row for row in QUICK.runs if getattr(row, name) is not None):
            assert row.name in failed(changed(QUICK, row, **{name: None}))


def test_split_folios_and_such_as_cannot_be_seen_fail() -> None:
    wanted = ("ours", "off", "heads", 0)
    off = [row for row in QUICK.runs
           if (row.kernel, row.design, row.addresses, row.bound_us) == wanted]  # fmt: skip
    assert len(off) == 6
    for row in off:
        for count in (-1, 1):
            failures = failed(changed(QUICK, row, folios_split=count))
            assert row.name in failures
            assert [name for name in failures if name.startswith("stays whole")]


def test_what_is_measured_again_must_be_the_same() -> None:
    assert judge(QUICK, QUICK)[0].status is Status.PASSED
    part = structs.replace(QUICK, runs=QUICK.runs[:1])
    assert judge(QUICK, part)[0].status is Status.PASSED
    other = changed(part, *part.runs, gbps=QUICK.runs[0].gbps * 1.000001)
    assert judge(QUICK, other)[0].status is Status.FAILED


def test_the_processor_and_engines_are_measured_again() -> None:
    boots = plan.repeated(quick=True)
    keys = [key for boot in boots for key in boot.keys("preset")]
    assert {(key.design, key.channels) for key in keys} == {("off", 0), ("live", 16)}
    assert {boot.name for boot in boots} <= {boot.name for boot in plan.ours(quick=True)}


def claim(value: float, **fields: Any) -> Claim:
    return Claim(
        **{"group": "g", "what": "w", "unit": "GB/s", "value": value, "low": 50.0, **fields}
    )


def test_bounds_are_a_few_per_cent_on_the_bad_side_alone() -> None:
    assert bounds(claim(0), 60.0) == (58.2, math.inf)
    assert bounds(claim(0), 51.0) == (50.0, math.inf)  # it reached the goal, and must again
    assert bounds(claim(0), 40.0) == pytest.approx((38.8, math.inf))
    less = claim(0, unit="us", low=-math.inf, high=50.0)
    assert bounds(less, 40.0) == pytest.approx((-math.inf, 41.2))
    assert bounds(less, 49.0) == (-math.inf, 50.0)
    both = claim(0, low=50.0, high=70.0)
    assert bounds(both, 60.0) == (58.2, 70.0)
    assert bounds(both, 80.0) == pytest.approx((77.6, 82.4))


@pytest.mark.parametrize(
    ("value", "recorded", "status"),
    [
        (60.0, 60.0, Status.PASSED), (58.0, 60.0, Status.FAILED), (40.0, 40.0, Status.KNOWN),
        (45.0, 40.0, Status.KNOWN), (51.0, 40.0, Status.PASSED), (38.0, 40.0, Status.FAILED),
    ],
)  # fmt: skip
def test_a_miss_is_known_or_fails(value: float, recorded: float, status: Status) -> None:
    case = verdict(claim(value, what="instructions outside a counted copy"), recorded)
    assert case.status is status
    assert ("passes over PTEs" in case.detail) == (status is Status.KNOWN)
    assert case.name.endswith("GB/s (at least 50 GB/s)")
    assert verdict(claim(value), None).status is Status.FAILED


def test_a_row_of_the_published_design_is_met_by_either_end_of_the_preset() -> None:
    def met(other: float) -> bool:
        whole = structs.replace(FULL, other_end={"64 KB, 1 channels": other})
        named = {claim.what: claim for claim in claims_of(whole)}
        return named["64 KB, 1 channels: throughput"].met

    (row,) = (row for row in rows(OFFLOAD) if row.name == "64 KB, 1 channels")
    assert [met(row.gbps * factor) for factor in (1.0, 0.5, math.nan)] == [True, False, False]


def test_worse_than_nothing_turns_red() -> None:
    """Before pages that were written were copied again, such figures passed."""
    for engine, gbps, us in ((MODEL.preset, 14.5, 162.0), (None, 7.5, 162.0)):
        (row,) = (row for row in QUICK.runs if row.writes_per_ms and
                  (row.design, row.engine, row.folio_kib) == ("live", engine, 2048))  # fmt: skip
        worse = changed(QUICK, row, gbps=gbps, inaccessible_us=Inaccessible(us, us, us))
        group = [name for name in failed(worse) if name.startswith(goals.TOUCHED)]
        assert len(group) == (4 if engine else 3)


def test_writers_are_judged_by_themselves() -> None:
    keys = [key for boot in plan.writers() for key in boot.keys(MODEL.preset)]
    some = run(touch=Touch(read=1.0, write=2.0, copied_twice=3))
    more = {n: getattr(some, n) for n in set(Run.__struct_fields__) - set(Key.__struct_fields__)}
    runs = tuple(Run(**structs.asdict(key), **more) for key in keys)
    written = structs.replace(QUICK, runs=runs, quick=False)
    assert claims.planned(written) == keys
    judged = [claim for claim, _ in claims.judged(written) if claim.group == goals.TOUCHED]
    zipf = [claim for claim in judged if claim.what.startswith("Zipf, no engine, 2 MB, 50,000 ")]
    assert [claim.what.rsplit(", ")[-1] for claim in zipf if claim.more] == [
        "over switched off", "over vanilla",
    ]  # fmt: skip
    assert len(judged) == 6 * 2 * (4 + 5) + 4 * (4 + 3)


def test_fitted_rows_are_not_judged_and_what_was_held_out_is() -> None:
    judged = claims.judged(FULL)
    fitted = {claim.what for claim, _ in judged if claim.fitted}
    assert all((case is None) == claim.fitted for claim, case in judged)
    held_out = [claim for claim, case in judged if claim.group == reproduced.SIZES and case]
    for row in rows(OFFLOAD):
        what = f"{row.name}: throughput"
        if 16 <= row.folio_kib <= 1024:
            assert [claim.published for claim in held_out if claim.what == what] == [row.gbps]
        if row.folio_kib == 2048:
            assert what in fitted
    assert {what for what in fitted if "baseline" in what} == {
        f"{BASELINE}, {kib} KiB: throughput" for kib in (4, 64, 256, 1024, 2048)
    }
    assert not judge(structs.replace(QUICK, engine=structs.replace(MODEL, preset="x"), runs=()))


SIZE = {"folio_kib": 64, "total_mib": 16.0, "folios_per_call": 256}


def of(*runs: Run) -> dict[str, float]:
    """Return promises by what they say."""
    measured = Measured(
        [Key(**{n: getattr(r, n) for n in Key.__struct_fields__}) for r in runs], runs
    )
    return {claim.what: claim.value for claim in goals.claims_of(measured)}


def test_the_copy_is_counted() -> None:
    values = of(
        by_cpu("ours", "off", instructions_per_folio=30_000.0, gbps=9.0, **SIZE),
        by_cpu("vanilla", "off", instructions_per_folio=50_000.0, gbps=6.0, **SIZE),
    )
    counted = 1553 * 16
    assert values["64 KB: instructions outside a counted copy, of vanilla's"] == pytest.approx(
        (30_000 - counted) / (50_000 - counted)
    )
    assert values["64 KB: first move"] == pytest.approx(1.5)
    assert "64 KB: moved back" not in values


def test_gains_compare_the_same_workload() -> None:
    ours = by_cpu("ours", "off", gbps=9.0, **SIZE)
    other = by_cpu("vanilla", "off", gbps=6.0, **{**SIZE, "total_mib": 32.0})
    assert "64 KB: first move" not in of(ours, other)


def test_goals_are_found_in_the_right_runs() -> None:
    cut = {"design": "segments", "batch_pages": 512, "folios_per_call": 32, "total_mib": 64}
    values = of(
        by_cpu("vanilla", "off", folios_per_call=1, first_folio_us=200.0),
        by_cpu("vanilla", "off", folios_per_call=32, instructions_per_folio=1000.0),
        run(**cut, gbps=55.0, first_folio_us=39.0),
        run(**{**cut, "folios_per_call": 1}, first_folio_us=60.0),
        run(**{**cut, "channels": 4}, gbps=26.0, first_folio_us=90.0),
        run(**{**cut, "batch_pages": 16384}, instructions_per_folio=40.0),
        run(**{**cut, "batch_pages": 16384, "folio_kib": 64}, gbps=31.0),
    )
    assert values == {
        "16 channels, 2 MB, 512 pages: speed": 55.0,
        "16 channels, 2 MB, 512 pages: first folio": 39.0,
        "4 channels, 2 MB, 512 pages: speed": 26.0,
        "4 channels, 2 MB, 512 pages: first folio": 90.0,
        "16 channels, 64 KB: speed": 31.0,
        "one 2 MB folio: latency, of vanilla's": pytest.approx(0.3),
        "2 MB: instructions, of vanilla's": pytest.approx(0.04),
    }


def test_runs_with_threads_stand_for_no_others_and_what_they_met_is_no_figure() -> None:
    met = Touch(read=1.0, write=2.0, copied_twice=3)
    plain = run(design="segments", total_mib=256)
    used = run(design="segments", total_mib=512, writes_per_ms=1, touch=met, gbps=1.0)
    measured = Measured([plain, used], [plain, used])
    assert measured.figure("gbps", design="segments") == plain.gbps
    assert measured.figure("gbps", design="segments", writes_per_ms=1) == 1.0
    assert compare.figures(plain).keys() - compare.figures(used) == {"inaccessible_us: p99"}
