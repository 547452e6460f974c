"""docs/journey.md: its functions are in the files and in the patches that a row names."""

import functools
import re

import pytest

from harness.checks.lint import added
from harness.core.paths import ROOT, default_paths
from harness.kernel import topics

TEXT = (ROOT / "docs/journey.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("|") and "()`" in line]
FILE = "mm/migrate.c"  # of rows that name no other


@functools.cache
def hunks() -> dict[tuple[str, str], str]:
    """Return the hunks of each patch and file, with their context."""
    paths = default_paths()
    parts: dict[tuple[str, str], str] = {}
    for step in topics.all_steps(topics.read(paths)):
        for part in re.split(r"^(?=--- )", step.mail(paths.overlay), flags=re.M):
            for file in added.changes(part):
                key = step.name, file
                parts[key] = parts.get(key, "") + part
    return parts


@pytest.mark.parametrize("row", ROWS)
def test_functions_are_where_a_row_says(row: str) -> None:
    _, phase, where, series, *_ = row.split("|")
    functions = re.findall(r"`(\w+)\(\)`", phase + where)
    files = re.findall(r"`(\S+/\S+\.[ch])`", where) or [FILE]
    names = [name.replace("/", "/.*") for name in re.findall(r"`([a-z/-]+)`", series)]
    texts = {
        key: text
        for key, text in hunks().items()
        if key[1] in files and (any(re.match(name, key[0]) for name in names) or not names)
    }
    assert {file for _, file in texts} == set(files)
    lost = [
        name
        for name in functions
        if not any(re.search(rf"\b{name}\b", text) for text in texts.values())
    ]
    assert lost == []


def test_the_rows_are_found() -> None:
    assert len(ROWS) > 30
    assert f"Functions are in `{FILE}`" in " ".join(TEXT.split())
