"""Disk space is asked for before a big step."""

from pathlib import Path

import pytest

from harness.core import space
from harness.core.errors import HarnessError
from harness.core.paths import Paths


def test_a_step_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    space.need(tmp_path / "not/there/yet", 0.001, "a small step")
    with pytest.raises(HarnessError, match=r"^a step needs 1e\+09 GB, but /.* has .* GB left"):
        space.need(tmp_path / "not/there/yet", 1e9, "a step")


def test_the_full_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path / "out")
    monkeypatch.setattr(space, "_FULL_GB", 1e9)
    assert space.gone(paths).startswith("no space left on /")
    assert f"need {space.WHOLE_GB} GB in all" in space.gone(paths)
