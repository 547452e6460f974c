"""Heads of suites: the kernels that a check runs them on, and the cases that count."""

from pathlib import Path

import pytest

from harness.checks import heads
from harness.checks.heads import Head
from harness.core.errors import HarnessError

KERNELS = ("base", "debug", "arm64")
GROUPS = ("arm64", "ptdma")


def parse(*lines: str) -> Head:
    return heads.parse("#!/bin/sh\n" + "\n".join(lines), KERNELS, GROUPS)


def test_kernels_groups_and_counts() -> None:
    assert parse("# check: base debug") == Head({"base": "", "debug": ""})
    assert parse("# check: base arm64:arm64").kernels == {"base": "", "arm64": "arm64"}
    assert parse("# check: none") == Head({})
    assert parse("# check: base once") == Head({"base": ""}, once=True)
    assert parse("# check: base", "# count: a/* b?c").counts == ("a/*", "b?c")
    assert parse("# check: base", "# qemu: cpus=1", "# check: debug").kernels.keys() == {
        "base",
        "debug",
    }


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("# checks: base", "no line"),
        ("# check:", "no line"),
        ("# check: once", "no line"),
        ("# check: base debgu", "no kernel 'debgu': there are base, debug, arm64"),
        ("# check: none base", "no kernel 'none'"),
        ("# check: turn:base", "no group 'turn': there are arm64, ptdma"),
        ("# check: base ptdma:base", "names base twice"),
    ],
)
def test_a_head_that_is_not_understood_is_refused(line: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse(line)


def test_a_suite_without_a_head_is_named(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("# check: base\n")
    assert heads.read(tmp_path, KERNELS, GROUPS) == {"live": Head({"base": ""})}
    (tmp_path / "new").write_text("#!/bin/sh\n")
    with pytest.raises(HarnessError, match="guest/suites/new: no line '# check:"):
        heads.read(tmp_path, KERNELS, GROUPS)
