"""Repeatability: every figure counts, and so does one that is not there."""

import math
from typing import Any

import pytest
from msgspec import structs

from harness.lab.judge import compare
from harness.lab.results import Results
from harness.tests.lab.sample import results, run


def two(**changes: Any) -> tuple[Results, Results]:
    """Return results, and the same with one run changed."""
    first = results(run(), run(move=2))
    return first, results(structs.replace(run(), **changes), run(move=2))


def worst(first: Results, second: Results) -> compare.Difference:
    return compare.differences(compare.all_figures(first), compare.all_figures(second))[0]


@pytest.mark.parametrize(
    ("name", "first", "second", "worse"),
    [
        ("phases_us: unmap", 0.379, 0.391, False), ("phases_us: unmap", 0.379, 0.44, True),
        ("phases_us: unmap", 20.0, 20.7, True), ("first_folio_us", 0.379, 0.391, True),
        ("inaccessible_us: max", 14.9, 19.4, False), ("inaccessible_us: max", 14.9, 30.0, True),
        ("inaccessible_us: max", 100.0, 116.0, True), ("folios_failed", 3, 5, False),
        ("folios_failed", 3, 6, True), ("folios_failed", 100, 104, True),
        ("inaccessible_us: p99", 14.9, 16.3, True),
    ],
)  # fmt: skip
def test_what_may_grow_by_how_much(name: str, first: float, second: float, worse: bool) -> None:
    assert compare.Difference(name, first, second).is_worse(0.03) is worse


def test_a_figure_on_one_side_only_is_a_difference() -> None:
    gap = worst(*two(first_folio_us=None))
    assert math.isinf(gap.relative)
    assert str(gap) == f"{run().name}: first_folio_us: 480 against none"


def test_the_calibration_is_compared() -> None:
    first = results(run())
    assert first.calibration is not None
    slower = structs.replace(first.calibration, dilation=first.calibration.dilation * 1.25)
    gap = worst(first, structs.replace(first, calibration=slower))
    assert str(gap).startswith("calibration: dilation: ")
    assert str(gap).endswith("(20.000 %)")
