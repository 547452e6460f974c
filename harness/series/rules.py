"""The rules that a patch and a cover letter keep to be mailed."""

import email.header
import email.parser
import email.utils
import re
from collections.abc import Iterable, Sequence

from harness.core.errors import HarnessError
from harness.kernel.topics import COVER_LETTER, Topic, touched_paths

MAX_COLUMNS = 75

_SUBJECT = re.compile(r"(?:[A-Za-z0-9_.,/+-]+(?: [A-Za-z0-9_.,/+-]+)?: )+\S")
_NEW_FILE = re.compile(r"^diff --git a/\S+ b/(\S+)\nnew file mode", re.MULTILINE)
_SIGN_OFF = re.compile(r"^\s*signed-off-by:", re.IGNORECASE | re.MULTILINE)
_UNWRAPPED = re.compile(r"^(Fixes|Link|Closes): |^\S*https?://\S+$")


def header(text: str, name: str) -> str:
    """Return a header of a mail, decoded and in one line; a subject without its [PATCH]."""
    folded = email.parser.HeaderParser().parsestr(text).get(name, "")
    parts = email.header.decode_header(re.sub(r"\n\s*", " ", folded))
    return re.sub(r"^\[[^]]*\]\s*", "", str(email.header.make_header(parts)).strip())


def message_problems(text: str) -> list[str]:
    """Return what is wrong with the commit message of a patch."""
    subject = header(text, "Subject")
    _, _, rest = text.partition("\n\n")
    body = re.split(r"^(?:---|diff --git .*)$", rest, flags=re.MULTILINE)[0].strip("\n")
    name, address = email.utils.parseaddr(header(text, "From"))
    problems = {
        "no author (From: Name <address>)": not name or "@" not in address,
        "no date (Date:)": not header(text, "Date"),
        f"subject is not 'subsystem: summary': '{subject}'": not _SUBJECT.match(subject),
        "subject ends with a full stop": subject.endswith("."),
        f"subject has {len(subject)} columns, {MAX_COLUMNS} allowed": len(subject) > MAX_COLUMNS,
        "no message body": not body.strip(),
    }
    broken = [problem for problem, wrong in problems.items() if wrong]
    return broken + _text_problems(body.splitlines())


def cover_problems(text: str) -> list[str]:
    """Return what is wrong with a cover letter."""
    subject, _, rest = text.partition("\n")
    body = rest.strip("\n").splitlines()
    problems = []
    if not subject.strip() or len(subject) > MAX_COLUMNS:
        problems.append(f"first line is not a subject of at most {MAX_COLUMNS} columns")
    if not rest.startswith("\n") or not body:
        problems.append("no blank line and body after the subject")
    return problems + _text_problems(body)


def patch_problems(text: str, overlay: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a patch that brings `overlay` files."""
    problems = message_problems(text)
    problems += [
        f"creates {name}: new files belong in the overlay" for name in _NEW_FILE.findall(text)
    ]
    if not touched_paths(text) and not overlay:
        problems.append("changes nothing")
    return problems


def check(topics: Iterable[Topic]) -> None:
    """Refuse topics with a problem; the error has all of them."""
    problems = []
    for topic in topics:
        if not topic.steps:
            problems.append(f"{topic.name}: the topic is empty")
        for step in topic.steps:
            problems += [f"{step.name}: {line}" for line in patch_problems(step.text, step.overlay)]
        wrong = cover_problems(topic.cover)
        problems += [f"{topic.name}/{COVER_LETTER}: {line}" for line in wrong]
    if problems:
        raise HarnessError(problems[0], detail="\n".join(problems[1:]))


def _text_problems(lines: Sequence[str]) -> list[str]:
    problems = [
        f"message line {number} has {len(line)} columns, {MAX_COLUMNS} allowed"
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_COLUMNS and not _UNWRAPPED.match(line)
    ]
    if _SIGN_OFF.search("\n".join(lines)):
        problems.append("has a sign-off: the person who mails the series adds their own")
    return problems
