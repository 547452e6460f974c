"""What all tests share."""

from pathlib import Path

import pytest

from harness.core.paths import Paths


@pytest.fixture(autouse=True)
def paths_of_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give commands other directories: `make check`, which runs the tests, locks its own."""
    monkeypatch.setattr("harness.cli.default_paths", lambda: Paths(*[tmp_path] * 3))
    monkeypatch.setattr("harness.cli.pin", lambda _: None)  # what is in them
