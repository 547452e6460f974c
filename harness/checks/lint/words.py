"""Words that plain prose does without, in lines that are ours.

A sentence here names its actor, then the verb. "Nobody" and "somebody" hide the actor; so does
a clause that begins with "what" or "who" as its subject. Patches are mailed: their messages
have no word that only this project knows.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.checks.lint import added, names
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import topics

ROOMS = ("README.md", "CONTRIBUTING.md", "docs/*", "deb/*", "*/README.md", "kernel/overlay/*")

_EVERYWHERE = re.compile(r"\b(?:nobody|somebody|so\s+(?:much|many)|shall)\b", re.IGNORECASE)
_MESSAGES = re.compile(r"\b(?:topics?|lanes?|laborator(?:y|ies)|doubles?)\b", re.IGNORECASE)
# The start of a sentence, or of a clause; "What:" is a field of Documentation/ABI.
_SUBJECT = re.compile(r"\b(?:What|Who)(?:ever)?\b(?!:)|(?<=[:;])\s+(?:what|who)(?:ever)?\s+[a-z]")
_END = re.compile(r"[.?!](?=[\s\"'`)|]|\Z)|\n\s*\n|\Z")
# The marks of comments, quotes and lists before a line of prose.
_LEADER = re.compile(r"^[ \t]*(?:/\*+|\*/?|//|#+|>|-)?[ \t]*", re.MULTILINE)


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files that are still to be rewritten, and how many of the words they may have at most."""

    paths: tuple[str, ...]
    at_most: int


def found_in(text: str, *, message: bool = False) -> list[str]:
    """Return the words in a text that plain prose does without, with what follows them."""
    plain = _LEADER.sub("", text)
    matches = list(_EVERYWHERE.finditer(plain))
    if message:
        matches += _MESSAGES.finditer(plain)
    for match in _SUBJECT.finditer(plain):
        end = _END.search(plain, match.end())
        if end and end[0] != "?":
            matches.append(match)
    return [" ".join(plain[one.start() : one.start() + 60].split()[:6]) for one in matches]


def texts(paths: Paths) -> Iterator[tuple[str, str, bool]]:
    """Yield each text that is ours: its file, itself, whether it is a message."""
    for name, text in names.project_files(paths).items():
        if added.matches(ROOMS, name):
            yield name, text, False
    for topic in topics.read(paths):
        home = f"kernel/patches/{topic.name}"
        yield f"{home}/{topics.COVER_LETTER}", topic.cover, True
        for step in topic.steps:
            name = f"{home}/{step.patch}"
            head, *_ = re.split(r"^(?:---$|diff --git )", step.text, maxsplit=1, flags=re.M)
            yield name, head, True
            for change in added.changes(step.text).values():
                yield name, "\n".join(change.added), False


def load(text: str) -> list[Allowed]:
    """Read the list `words` of limits.toml."""
    tables: list[dict[str, Any]] = tomllib.loads(text).get("words", [])
    try:
        return msgspec.convert(tables, list[Allowed])
    except ValueError as error:
        raise HarnessError(f"limits.toml: {error}") from error


def judge(found: Sequence[tuple[str, str]], allowed: Sequence[Allowed]) -> list[str]:
    """Return the words, each with its file, where files have more of them than they may."""
    homes = [
        next((place for place, one in enumerate(allowed) if added.matches(one.paths, name)), -1)
        for name, _ in found
    ]
    counts = Counter(homes)
    return [
        f"{name}: {words}..."
        for home, (name, words) in zip(homes, found, strict=True)
        if home < 0 or counts[home] > allowed[home].at_most
    ]


def search(paths: Paths) -> list[tuple[str, str]]:
    """Return all such words, each with its file."""
    return [
        (name, words)
        for name, text, message in texts(paths)
        for words in found_in(text, message=message)
    ]


def check(paths: Paths) -> list[str]:
    """Search all texts that are ours; limits.toml lists files that may still have some."""
    return judge(search(paths), load((paths.root / "limits.toml").read_text()))
