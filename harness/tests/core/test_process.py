"""Child processes: logs, errors in one line, a clean environment."""

import sys
from pathlib import Path

import pytest

from harness.core import process
from harness.core.errors import HarnessError


def test_output_goes_to_the_log_and_to_the_watcher(tmp_path: Path) -> None:
    seen: list[str] = []
    log = tmp_path / "logs/a.log"
    text = process.run_logged(["printf", "a\\nb\\n"], log, "test", on_line=seen.append)
    assert (text, seen) == ("a\nb\n", ["a", "b"])
    assert log.read_text() == "$ printf a\\nb\\n\na\nb\n"


def test_a_failure_is_told_by_its_first_error_and_names_the_log(tmp_path: Path) -> None:
    script = "print('CC x.o'); print('x.c:3:1: error: no semicolon'); print('make: ***'); exit(2)"
    log = tmp_path / "a.log"
    with pytest.raises(HarnessError) as caught:
        process.run_logged([sys.executable, "-c", script], log, "kernel base")
    assert str(caught.value) == f"kernel base: x.c:3:1: error: no semicolon (log: {log})"
    assert "make: ***" in caught.value.detail


def test_make_variables_do_not_reach_children(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAKEFLAGS", "CONFIG", "O", "ARCH", "KCFLAGS"):
        monkeypatch.setenv(name, "x")
    env = process.environment({"EXTRA": "1"})
    assert not {"MAKEFLAGS", "CONFIG", "O", "ARCH", "KCFLAGS"} & set(env)
    assert (env["EXTRA"], env["LC_ALL"]) == ("1", "C.UTF-8")
