"""Disk space is asked for before a big step."""

from pathlib import Path

import pytest

from harness.core import space
from harness.core.errors import HarnessError


def test_a_step_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    space.need(tmp_path / "not/there/yet", 0.001, "a small step")
    with pytest.raises(HarnessError, match=r"^a step needs 1e\+09 GB, but /.* has .* GB left"):
        space.need(tmp_path / "not/there/yet", 1e9, "a step")
