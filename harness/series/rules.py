"""What a patch and a cover letter must look like to be mailed."""

import email.header
import email.parser
import email.utils
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.errors import HarnessError
from harness.kernel.topics import COVER_LETTER, Topic, touched_paths

MAX_COLUMNS = 75

_SUBJECT = re.compile(r"(?:[A-Za-z0-9_.,/+-]+(?: [A-Za-z0-9_.,/+-]+)?: )+\S")
_NEW_FILE = re.compile(r"^diff --git a/\S+ b/(\S+)\nnew file mode", re.MULTILINE)
_SIGN_OFF = re.compile(r"^\s*signed-off-by:", re.IGNORECASE | re.MULTILINE)
_UNWRAPPED = re.compile(r"^(Fixes|Link|Closes): |^\S*https?://\S+$")


@dataclass(frozen=True)
class Message:
    """What a patch says about itself."""

    author: str
    date: str
    subject: str
    body: tuple[str, ...]


def parse_message(text: str) -> Message:
    """Read the mail header and the commit message of a patch."""
    mail = email.parser.Parser().parsestr(text)

    def header(name: str) -> str:
        parts = email.header.decode_header(re.sub(r"\n\s*", " ", mail.get(name, "")))
        return str(email.header.make_header(parts)).strip()

    body = re.split(r"^(?:---|diff --git .*)$", str(mail.get_payload()), flags=re.MULTILINE)[0]
    return Message(
        author=header("From"),
        date=header("Date"),
        subject=re.sub(r"^\[[^]]*\]\s*", "", header("Subject")),
        body=tuple(body.strip("\n").splitlines()) if body.strip() else (),
    )


def message_problems(message: Message) -> list[str]:
    """Return what is wrong with a commit message."""
    problems = []
    name, address = email.utils.parseaddr(message.author)
    if not name or "@" not in address:
        problems.append("no author (From: Name <address>)")
    if not message.date:
        problems.append("no date (Date:)")
    if not _SUBJECT.match(message.subject):
        problems.append(f"subject is not 'subsystem: summary': '{message.subject}'")
    if message.subject.endswith("."):
        problems.append("subject ends with a full stop")
    if len(message.subject) > MAX_COLUMNS:
        problems.append(f"subject has {len(message.subject)} columns, {MAX_COLUMNS} allowed")
    if not message.body:
        problems.append("no message body")
    return problems + _text_problems(message.body)


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
    problems = message_problems(parse_message(text))
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
            problems += [
                f"{step.name}: {one}" for one in patch_problems(step.text, step.overlay)
            ]
        found = cover_problems(topic.cover)
        problems += [f"{topic.name}/{COVER_LETTER}: {one}" for one in found]
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
