"""The lines that the patches add to the kernel, by file: limits and words count them."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.core.errors import HarnessError

_FILE = re.compile(r"(?:\+\+\+ b/|--- a/)(\S+)")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass
class Change:
    """The change of one file by one patch."""

    added: list[str] = field(default_factory=list)
    removed: int = 0


def changes(mail: str) -> Mapping[str, Change]:
    """Return the changes of a patch by file, without its message and its context."""
    by_file: dict[str, Change] = {}
    file = ""
    old = new = 0  # lines of the hunk that are still to come
    for line in mail.splitlines():
        if old or new:
            sign = line[:1] or " "
            if sign == "+":
                by_file[file].added.append(line[1:])
            elif sign == "-":
                by_file[file].removed += 1
            old -= sign not in "+\\"
            new -= sign not in "-\\"
        elif match := _FILE.match(line):
            file = match[1]
        elif match := _HUNK.match(line):
            old, new = (int(match[side] or 1) for side in (1, 2))
            by_file.setdefault(file, Change())
    if old or new:
        raise HarnessError(f"the last hunk of {file} is cut off")
    return by_file


def matches(patterns: Iterable[str], name: str) -> bool:
    """Tell whether patterns choose a name: the last that fits decides, `!` excludes."""
    chosen = False
    for pattern in patterns:
        if fnmatch.fnmatch(name, pattern.removeprefix("!")):
            chosen = not pattern.startswith("!")
    return chosen
