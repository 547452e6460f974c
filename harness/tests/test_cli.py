"""The command line: errors in one line, arguments handed over."""

import re
from pathlib import Path

import pytest

from harness import cli, demo
from harness.core.errors import HarnessError
from harness.core.paths import ROOT


def test_an_error_is_one_line_after_its_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object, __: str) -> int:
        raise HarnessError("no kernel", "a detail")

    monkeypatch.setattr(demo, "main", broken)
    assert cli.main(["demo"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("a detail\n", "error: no kernel\n")


def test_series_parses_its_own_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CACHE_DIR", str(tmp_path))  # `make check` has the real one locked
    seen: list[list[str]] = []

    def record(rest: list[str]) -> int:
        seen.append(rest)
        return 3

    monkeypatch.setattr("harness.series.export.main", record)
    assert cli.main(["series", "--build"]) == 3
    assert seen == [["--build"]]


def test_guest_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def record(_: object, *rest: object) -> int:
        seen.extend(rest)
        return 0

    monkeypatch.setattr("harness.guest.suite.main", record)
    assert cli.main(["guest", "--config", "debug", "--args", "a,b", "faults"]) == 0
    assert seen == ["debug", "faults", "a,b"]


def test_the_demo_has_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def record(_: object, engine: str) -> int:
        seen.append(engine)
        return 0

    monkeypatch.setattr(demo, "main", record)
    assert [cli.main(["demo"]), cli.main(["demo", "--engine", "zdma"])] == [0, 0]
    assert seen == ["dmasim", "zdma"]
    with pytest.raises(SystemExit):
        cli.main(["demo", "--engine", "gpu"])


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", "--fast"])


def test_every_target_of_the_makefile_is_a_command() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z -]+):$", makefile, re.MULTILINE)
    names = {name for line in targets for name in line.split()}
    assert names >= {
        "demo",
        "check",
        "kernel",
        "series",
        "lint",
        "guest",
        "shell",
        "lab",
        "report",
        "clean",
        "help",
    }
    commands = cli.parser()._subparsers
    assert commands is not None
    choices = set(commands._group_actions[0].choices or ())
    assert names - {"clean", "help"} == choices
