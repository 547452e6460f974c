"""What the laboratory claims, as test cases.

It repeats, its clock fits, off costs nothing, and large folios migrate as fast as promised.
"""

from collections.abc import Iterator

from harness.guest.ktap import Case, Status
from harness.lab.judge import compare, goals
from harness.lab.judge import gains as lab_gains
from harness.lab.model import calibration
from harness.lab.model import published as lab_published
from harness.lab.model.published import Published
from harness.lab.report.plots import size_name
from harness.lab.report.select import (
    OFF_LIMIT,
    SWEEP_EXPLAINED,
    SWEEP_FASTER,
    costs_of,
    sweep_misses,
    sweep_pairs,
)
from harness.lab.results import Results


def judge(first: Results, second: Results, published: Published) -> list[Case]:
    """Judge two runs of the same laboratory: what each says, and that they say the same."""
    return [
        _repeats(first, second),
        *_fits(first, published),
        *_reproduces(first, published),
        *_costs(first),
        *_gains(first),
        *_goals(first),
    ]


def _case(name: str, wrong: str) -> Case:
    return Case(name, Status.FAILED if wrong else Status.PASSED, wrong)


def _repeats(first: Results, second: Results) -> Case:
    worst = compare.largest_difference(first, second)
    if worst is None:
        return _case("repeats", "there are no figures")
    return _case("repeats", str(worst) if worst.relative >= compare.LIMIT else "")


def _fits(results: Results, published: Published) -> Iterator[Case]:
    if results.calibration is None:
        yield _case("calibration", "there is none")
        return
    outside = calibration.unclaimed(published)
    for row in results.calibration.rows:
        if (row.table, row.row) not in outside:
            known = calibration.explanation(row)
            limit = known[0] if known else results.calibration.limit
            wrong = f"{100 * row.error:+.1f} % off" if abs(row.error) > limit else ""
            yield _case(f"calibration: {row.name} within {100 * limit:.0f} %", wrong)


def _reproduces(results: Results, published: Published) -> Iterator[Case]:
    pairs = sweep_pairs(results.runs, published)
    if not pairs:
        yield _case("batch sweep", "nothing was measured")
    for row, run in pairs:
        size = size_name(lab_published.order_kib(row.order))
        name = f"{size}, {row.batch_pages} pages, {row.channels} channels"
        small = row.order == 0
        misses = sweep_misses(
            row,
            run,
            SWEEP_EXPLAINED[0] if small else None,
            None if small else SWEEP_FASTER[0],
        )
        yield _case(f"batch sweep: {name}", "; ".join(misses))


def _goals(results: Results) -> Iterator[Case]:
    for goal in goals.goals_of(results):
        wrong = "" if goal.kept else f"{goal.value:.3g} {goal.unit}, not {goal.goal:g}"
        yield _case(f"goal: {goal.name}", wrong)


def _costs(results: Results) -> Iterator[Case]:
    costs = costs_of(results.runs)
    if not costs:
        yield _case("cost of being there", "nothing was measured")
    for cost in costs:
        wrong = f"{100 * cost.overhead:+.2f} %" if cost.overhead > OFF_LIMIT else ""
        yield _case(f"off costs nothing: {size_name(cost.folio_kib)}", wrong)


def _gains(results: Results) -> Iterator[Case]:
    dilation = results.calibration.dilation if results.calibration else 1.0
    gains = lab_gains.gains_of(results.runs, dilation)
    promises = list(lab_gains.promises_of(gains))
    if not promises:
        yield _case("gain over vanilla", "nothing was measured")
    for one in promises:
        limit = "at most" if one.at_most else "at least"
        name = f"{one.what}, {size_name(one.folio_kib)}: {limit} {one.bound:g} of vanilla"
        yield _case(f"gain over vanilla: {name}", "" if one.kept else f"{one.measured:.3f}")
    for gain in gains:
        wrong = f"{gain.split} folios were split" if gain.split else ""
        yield _case(f"stays whole: {size_name(gain.folio_kib)}", wrong)
