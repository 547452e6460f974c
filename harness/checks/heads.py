"""Heads of suites: on which kernels a check runs them, and which of their cases count.

`# check: base debug arm64:arm64` names kernels; `group:kernel` is a kernel for the turn of that
group alone, and `none` is for a suite that no check runs as such. `once` is for a suite that says
nothing by the wall: it judges speeds, or meets a defect of the emulator. `# count: <glob>...`
lists cases whose verdict is a count or a time (see unsteady.py); `?` stands for a space in a name.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError

_CHECK = re.compile(r"^# check:(.*)$", re.MULTILINE)
_COUNT = re.compile(r"^# count:(.*)$", re.MULTILINE)
_NONE, _ONCE = "none", "once"


@dataclass(frozen=True)
class Head:
    """Of a suite: the kernels, each with its group or '', and globs of cases that count."""

    kernels: dict[str, str]
    counts: tuple[str, ...] = ()
    once: bool = False


def parse(script: str, kernels: Collection[str], groups: Collection[str]) -> Head:
    """Read the head of a suite; ValueError says what is wrong."""
    named = " ".join(_CHECK.findall(script)).split()
    words = [word for word in named if word != _ONCE]
    if not words:
        raise ValueError("no line '# check: <kernel>...', or '# check: none'")
    group_of: dict[str, str] = {}
    for word in words if words != [_NONE] else []:
        group, _, kernel = word.rpartition(":")
        if kernel not in kernels:
            raise ValueError(f"check: no kernel '{kernel}': there are {', '.join(kernels)}")
        if group and group not in groups:
            raise ValueError(f"check: no group '{group}': there are {', '.join(groups)}")
        if kernel in group_of:
            raise ValueError(f"check: names {kernel} twice")
        group_of[kernel] = group
    return Head(group_of, tuple(" ".join(_COUNT.findall(script)).split()), _ONCE in named)


def read(suites: Path, kernels: Collection[str], groups: Collection[str]) -> dict[str, Head]:
    """Return the heads of all suites, by name; HarnessError names the suite that has none."""
    heads = {}
    for path in sorted(suites.iterdir()):
        try:
            heads[path.name] = parse(path.read_text(), kernels, groups)
        except ValueError as error:
            raise HarnessError(f"guest/suites/{path.name}: {error}") from error
    return heads
