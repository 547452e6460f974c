"""Kconfig fragments, and whether the final .config kept what they ask for."""

import re
from collections.abc import Iterable

_SET = re.compile(r"^(CONFIG_\w+)=(.*)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")


def parse(text: str) -> dict[str, str]:
    """Return the options of a fragment or .config; an option that is off has value 'n'."""
    options = {}
    for line in text.splitlines():
        if match := _SET.match(line.strip()):
            options[match[1]] = match[2]
        elif match := _UNSET.match(line.strip()):
            options[match[1]] = "n"
    return options


def merge(fragments: Iterable[str]) -> dict[str, str]:
    """Return what a list of fragments asks for; the last one that names an option wins."""
    wanted: dict[str, str] = {}
    for text in fragments:
        wanted.update(parse(text))
    return wanted


def vanished(wanted: dict[str, str], final: dict[str, str]) -> list[str]:
    """Describe every option of which the final configuration has another value."""
    return [
        f"{option}={value} (is {final.get(option, 'n')})"
        for option, value in wanted.items()
        if final.get(option, "n") != value
    ]
