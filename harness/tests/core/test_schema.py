"""Typed documents: everything that does not fit is told in one line with its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.core import schema
from harness.core.errors import HarnessError


@dataclass(frozen=True)
class Inner:
    """Something with a rule of its own."""

    speed: float

    def __post_init__(self) -> None:
        """Refuse the impossible."""
        if self.speed < 0:
            raise ValueError("is going backwards")


@dataclass(frozen=True)
class Outer:
    """A field of every kind."""

    count: int
    kind: Literal["a", 1]
    inner: Inner | None
    items: tuple[Inner, ...]
    table: Mapping[str, int]


GOOD: dict[str, Any] = {
    "count": 1, "kind": "a", "inner": None, "items": [{"speed": 2}], "table": {"x": 3},
}  # fmt: skip


def test_values_arrive_typed() -> None:
    made = schema.decode(Outer, GOOD, "f")
    assert made == Outer(1, "a", None, (Inner(2.0),), {"x": 3})
    assert isinstance(made.items[0].speed, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": True}, "f: count: is True, not a whole number"),
        ({"count": 1.5}, "f: count: is 1.5, not a whole number"),
        ({"count": None}, "f: count: is None, not a whole number"),
        ({"kind": "b"}, "f: kind: is 'b', not one of a, 1"),
        ({"kind": True}, "f: kind: is True, not one of a, 1"),
        ({"kind": 1.0}, "f: kind: is 1.0, not one of a, 1"),
        ({"kind": []}, "f: kind: is [], not one of a, 1"),
        ({"inner": {"speed": "fast"}}, "f: inner.speed: is 'fast', not a number"),
        ({"inner": {"speed": float("nan")}}, "f: inner.speed: is nan, not a finite number"),
        ({"inner": {"speed": 10**400}}, "not a finite number"),
        ({"inner": {"speed": -1}}, "f: inner: is going backwards"),
        ({"items": {}}, "f: items: is {}, not a list"),
        ({"items": [{"speed": 1}, 7]}, "f: items[1]: is 7, not an object"),
        ({"items": [{}]}, "f: items[0]: lacks speed"),
        ({"table": {"x": "3"}}, "f: table.x: is '3', not a whole number"),
        ({"colour": "red\nish"}, "f: has unknown colour"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessError) as caught:
        schema.decode(Outer, {**GOOD, **changes}, "f")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lenient_ignores_what_it_does_not_know_but_misses_nothing() -> None:
    more = {**GOOD, "colour": "red", "inner": {"speed": 1, "wheels": 4}}
    assert schema.decode(Outer, more, "f", lenient=True).inner == Inner(1.0)
    with pytest.raises(HarnessError, match="f: lacks count"):
        schema.decode(Outer, {k: v for k, v in more.items() if k != "count"}, "f", lenient=True)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    for content, message in (
        (b"{", "not JSON"), (b"\xff", "not JSON"), (b"[" * 100000, "not JSON"),
    ):  # fmt: skip
        broken.write_bytes(content)
        with pytest.raises(HarnessError, match=f"broken.json: {message}"):
            schema.load_json(broken)
    with pytest.raises(HarnessError, match=r"absent\.json: No such file"):
        schema.load_json(tmp_path / "absent.json")
    with pytest.raises(HarnessError, match="Is a directory"):
        schema.load_json(tmp_path)
