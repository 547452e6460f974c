"""Kconfig fragments, and whether the final .config kept what they ask for."""

import re
from collections.abc import Mapping
from pathlib import Path

from harness.core.errors import HarnessError


def parse(text: str) -> dict[str, str]:
    """Return options and values of fragments or a .config: 'n' if off; the last line counts."""
    lines = re.findall(r"^# (CONFIG_\w+) is not set$|^(CONFIG_\w+)=(.*)$", text, re.MULTILINE)
    return {off or name: value or "n" for off, name, value in lines}


def check(wanted: Mapping[str, str], final: Path, what: str) -> None:
    """Refuse a .config in which an option has another value than is wanted."""
    have = parse(final.read_text())
    if missing := [
        f"{option}={value} (is {have.get(option, 'n')})"
        for option, value in wanted.items()
        if have.get(option, "n") != value
    ]:
        raise HarnessError(f"{what}: requested options vanished: {', '.join(missing)}")
