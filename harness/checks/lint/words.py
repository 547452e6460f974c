"""Words that plain prose does without, in lines that are ours.

A sentence here names its actor, then the verb. "Nobody" and "somebody" hide the actor; so does
a clause that begins with "what" or "who" as its subject. Patches are mailed: their messages
have no word that only this project knows. Names in Python say what they hold.
"""

import ast
import re
from collections.abc import Iterator

from harness.checks.lint import added, names
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

_HOLLOW = re.compile(r"_*(?:one|said|found|asked)(?:_(?:by|in|of))?_*", re.IGNORECASE)


def refused(text: str, *, message: bool = False) -> list[str]:
    """Return the words in a text that plain prose does without, with what follows them."""
    plain = _LEADER.sub("", text)
    matches = list(_EVERYWHERE.finditer(plain))
    if message:
        matches += _MESSAGES.finditer(plain)
    for match in _SUBJECT.finditer(plain):
        end = _END.search(plain, match.end())
        if end and end[0] != "?":
            matches.append(match)
    return [" ".join(plain[match.start() : match.start() + 60].split()[:6]) for match in matches]


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


def hollow(source: str) -> list[str]:
    """Return the names that Python code binds and that say nothing, with their lines."""
    return [
        f"{node.lineno}: {name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.alias | ast.excepthandler)
        and isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
        for field in ("id", "attr", "arg", "asname", "name")
        if _HOLLOW.fullmatch(name := getattr(node, field, None) or "")
    ]


def check(paths: Paths) -> list[str]:
    """Return all such words in texts that are ours, each with its file."""
    python = {name: text for name, text in names.project_files(paths).items() if name[-3:] == ".py"}
    return [f"{name}:{bound}" for name, text in python.items() for bound in hollow(text)] + [
        f"{name}: {words}..."
        for name, text, message in texts(paths)
        for words in refused(text, message=message)
    ]
