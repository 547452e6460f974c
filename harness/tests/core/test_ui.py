"""Steps: what they print when they are done, and when they fail."""

import re

import pytest

from harness.core import ui


def test_a_step_says_what_it_did_or_reused(capsys: pytest.CaptureFixture[str]) -> None:
    with ui.step("build") as step:
        step.progress("not shown so soon")
        step.done("7.3.4")
    with ui.step("image") as step:
        step.done("12 MB", reused=True)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[ *\d+:\d\d\] build: 7\.3\.4 \(\d+\.\d s\)", lines[0])
    assert re.fullmatch(r"\[ *\d+:\d\d\] image: reused, 12 MB", lines[1])
