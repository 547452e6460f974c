"""The command line: errors in one line, arguments handed over."""

import errno
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli, demo
from harness.core.errors import HarnessError
from harness.core.paths import ROOT


def commands() -> set[str]:
    (group,) = (action for action in cli.parser()._actions if action.dest == "command")
    return set(group.choices or ())


def test_an_error_is_one_line_after_its_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object, __: str) -> int:
        raise HarnessError("no kernel", "a detail")

    monkeypatch.setattr(demo, "main", broken)
    assert cli.main(["demo"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("a detail\n", "error: no kernel\n")


@pytest.mark.parametrize(
    ("argv", "function", "handed_over"),
    [
        (["series", "--build"], "series.export.main", (True, "")),
        (["series", "--test", "a,b"], "series.export.main", (False, "a,b")),
        (["edit", "--discard", "fixes/0001"], "series.edit.main_edit", ("fixes/0001", True)),
        (["guest", "--config", "debug", "--args", "a,b", "--machine", "ptdma", "faults"],
         "guest.suite.main", ("debug", "faults", "a,b", "ptdma", "")),
        (["check", "--only", "unit,base-*", "--turn", "all"], "checks.main.main",
         ("unit,base-*", "all")),
        (["demo"], "demo.main", ("dmasim",)),
        (["demo", "--engine", "zdma"], "demo.main", ("zdma",)),
    ],
)  # fmt: skip
def test_arguments_are_handed_over(
    argv: list[str], function: str, handed_over: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def record(_: object, *words: object) -> int:
        seen.extend(words)
        return 3

    monkeypatch.setattr(f"harness.{function}", record)
    assert cli.main(argv) == 3
    assert tuple(seen) == handed_over


def test_every_target_of_the_makefile_is_a_command() -> None:
    targets = re.findall(r"^([a-z -]+):$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = {name for line in targets for name in line.split()}
    assert names == commands() | {"clean", "help", "check-all"}  # bootstrap.sh does clean


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["demo", "--engine", "gpu"], "choose from dmasim, zdma"),
        (["kernel", "--config", "bas"], "choose from base, debug"),
        (["layouts", "--vcpus", "3"], "choose from 1, 2"),
        (["layouts", "--count", "x"], "invalid int value: x"),
        (["gest"], "choose from demo, check"),
        (["demo", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_wrong_value_is_told_in_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    # Python 3.13 quotes less.
    assert line.startswith("error: ") and message in line.replace("'", "")


def test_a_full_disk_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo, "main", full)
    assert cli.main(["demo"]) == 1
    assert re.fullmatch(
        r"error: no space left on /.*; .* and .* need \d+ GB in all\n", capsys.readouterr().err
    )


def test_files_are_taken_apart_as_a_shell_does(tmp_path: Path) -> None:
    names = ["a.json", "b.json", "a file.json"]
    for name in names:
        (tmp_path / name).touch()
    first, second, spaced = (tmp_path / name for name in names)
    assert cli.files([f"{first} {second}"]) == [first, second]
    assert cli.files([str(spaced)]) == [spaced]
    assert cli.files([f"'{spaced}' {first}"]) == [spaced, first]
    assert cli.files([f"{tmp_path}/?.json"]) == [first, second]
    assert cli.files([""]) == []
    assert cli.files(["none.json"]) == [Path("none.json")]


SECOND = """
import sys
from pathlib import Path
from harness import cli, demo
from harness.core.paths import Paths
cli.default_paths = lambda: Paths(*map(Path, sys.argv[1:]))
cli.pin = lambda _: None
demo.main = lambda *_: print("the demo runs", flush=True) or 0
sys.exit(cli.main(["demo"]))
"""


def test_a_second_run_in_a_checkout_waits_and_says_so(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SECOND, *[str(tmp_path)] * 3]
    first = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout
        line = second.stdout.readline()
        assert "waiting for another harness that is using" in line and str(tmp_path) in line
        os.close(first)
        assert second.stdout.read() == "the demo runs\n"
