"""docs/journey.md: the patches that a row names have the functions that it names."""

import re

import pytest

from harness.core.paths import ROOT, default_paths
from harness.kernel import topics

ROWS = [
    line
    for line in (ROOT / "docs/journey.md").read_text().splitlines()
    if line.startswith("|") and "`" in line
]


def patches_of(row: str) -> list[str]:
    """Return the patches in a row: `live/0001, 0003` are two."""
    found, topic = [], ""
    for name, number in re.findall(r"(?:([a-z-]+)/)?(\d{4})", row):
        topic = name or topic
        found.append(f"{topic}/{number}")
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_function_is_in_a_patch_of_its_row(row: str) -> None:
    paths = default_paths()
    steps = topics.all_steps(topics.read(paths))
    rows = [topics.find(steps, name) for name in patches_of(row)]
    text = "".join(step.mail(paths.overlay) for step in rows)
    functions = re.findall(r"`(\w+)\(\)`", row)
    assert rows
    assert [name for name in functions if not re.search(rf"\b{name}\b", text)] == []


def test_the_rows_are_found() -> None:
    assert len(ROWS) > 30
    assert patches_of("| live/0001, 0003 | bounds/0002 |") == [
        "live/0001", "live/0003", "bounds/0002",
    ]  # fmt: skip
