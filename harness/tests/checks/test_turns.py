"""Turns: the groups of tests that one has to name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks import turns
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT


def test_continuous_integration_runs_the_turn_with_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], Path]
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".ci/turn").write_text("faults\n")
    tool("make", 'echo "$PWD $CACHE_DIR $*"')
    monkeypatch.setenv("CACHE_DIR", "/cache/of/others")
    output = process.capture([str(tmp_path / ".ci/run")], cwd=Path("/"))
    assert output == f"{tmp_path} {tmp_path}/.cache check TURN=faults\n"


def test_groups_that_turn_names() -> None:
    assert turns.parse("") == ()
    assert turns.parse("faults, arm64") == ("faults", "arm64")
    assert turns.parse("all") == (turns.ALL, *turns.GROUPS)
    with pytest.raises(HarnessError, match="TURN: no group 'arm': there are arm64, layouts"):
        turns.parse("faults,arm")


def test_continuous_integration_has_the_turn_of_a_group() -> None:
    assert turns.parse((ROOT / ".ci/turn").read_text()) in [(name,) for name in turns.GROUPS]
