"""Turns: the groups that a commit has to run, by name and by the files that changed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks import turns
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT

GROUPS = """\
# A comment: not a group
arm64: arch/arm64 :(glob)**/*arm64*
engines: qemu/*dma.c guest/suites/doctor*
faults: guest/suites/faults
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout without history."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".ci/groups").write_text(GROUPS)
    (tmp_path / ".ci/turn").write_text("faults\n")
    return tmp_path


def git(root: Path, *words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *named, *words], cwd=root, check=True, env=process.environment())


def commit(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")


def land(root: Path, group: str) -> None:
    commit(root, _dot_ci__turn=f"{group}\n")


def printed(root: Path) -> str:
    return process.capture([str(root / ".ci/turns")], cwd=Path("/")).strip()


def test_without_history_there_is_only_the_turn(root: Path) -> None:
    assert printed(root) == "faults"
    git(root, "init", "-q")
    commit(root)
    assert printed(root) == "faults"


def test_one_other_group_runs_if_its_files_changed_since_the_last_landing(root: Path) -> None:
    git(root, "init", "-q")
    commit(root, qemu__pdma_dot_c="1", docs__a="1", x__an_arm64_x="1")
    land(root, "arm64")
    assert printed(root) == "arm64"
    commit(root, docs__a="2")
    commit(root, qemu__pdma_dot_c="2")
    land(root, "faults")
    assert printed(root) == "faults,engines"
    commit(root, x__an_arm64_x="2", guest__suites__faults="1")
    land(root, "engines")
    assert printed(root) == "engines,arm64"  # faults wait for their turn
    land(root, "arm64")
    assert printed(root) == "arm64"


def test_what_is_not_committed_has_changed_too(root: Path) -> None:
    git(root, "init", "-q")
    commit(root, guest__suites__doctor="1")
    land(root, "arm64")
    (root / "guest/suites/doctor").write_text("2")
    assert printed(root) == "arm64,engines"


def test_continuous_integration_runs_the_turn_with_a_cache_of_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], Path]
) -> None:
    tool("make", 'echo "$PWD $CACHE_DIR $*"')
    monkeypatch.setenv("CACHE_DIR", "/cache/of/others")
    output = process.capture([str(root / ".ci/run")], cwd=Path("/"))
    assert output == f"{root} {root}/.cache check TURN=faults\n"


def test_groups_that_turn_names(root: Path) -> None:
    assert turns.groups(root) == ("arm64", "engines", "faults")
    assert turns.parse(root, "") == ()
    assert turns.parse(root, "faults, arm64") == ("faults", "arm64")
    assert turns.parse(root, "all") == (turns.ALL, "arm64", "engines", "faults")
    with pytest.raises(HarnessError, match="TURN: no group 'arm': there are arm64, engines"):
        turns.parse(root, "faults,arm")


def test_every_file_of_a_group_exists_and_the_turn_is_a_group() -> None:
    for line in (ROOT / ".ci/groups").read_text().splitlines():
        if not line.startswith("#"):
            for spec in line.partition(":")[2].split():
                assert process.capture(["git", "ls-files", "--", spec], cwd=ROOT), spec
    assert turns.parse(ROOT, (ROOT / ".ci/turn").read_text())
