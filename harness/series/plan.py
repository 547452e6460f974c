"""The plan of the mailable series: which patch and which overlay files make which step.

Everything here is read and checked without a kernel tree.
"""

import email.header
import email.parser
import email.utils
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import tree

COVER_LETTER = "0000-cover-letter.txt"
MAX_COLUMNS = 75

_SUBJECT = re.compile(r"(?:[A-Za-z0-9_.,/+-]+(?: [A-Za-z0-9_.,/+-]+)?: )+\S")
_NEW_FILE = re.compile(r"^diff --git a/\S+ b/(\S+)\nnew file mode", re.MULTILINE)
_SIGN_OFF = re.compile(r"^\s*signed-off-by:", re.IGNORECASE | re.MULTILINE)
_UNWRAPPED = re.compile(r"^(Fixes|Link|Closes): |^\S*https?://\S+$")


@dataclass(frozen=True)
class Message:
    """What a patch says about itself."""

    author: str
    subject: str
    body: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One commit of the series, with every overlay file by name."""

    number: int
    patch: str
    message: Message
    overlay: tuple[str, ...]
    edits: tuple[str, ...]

    @property
    def label(self) -> str:
        """Name of the step in messages."""
        return f"step {self.number} ({self.patch})"


@dataclass(frozen=True)
class Plan:
    """The whole series, checked as far as that goes without a kernel tree."""

    steps: tuple[Step, ...]
    cover: str

    @property
    def touched(self) -> list[str]:
        """Every file that some step edits or adds."""
        return sorted({name for step in self.steps for name in (*step.edits, *step.overlay)})


def parse_message(text: str) -> Message:
    """Read the mail header and the commit message of a patch."""
    mail = email.parser.Parser().parsestr(text)

    def header(name: str) -> str:
        parts = email.header.decode_header(re.sub(r"\n\s*", " ", mail.get(name, "")))
        return str(email.header.make_header(parts)).strip()

    body = re.split(r"^(?:---|diff --git .*)$", str(mail.get_payload()), flags=re.MULTILINE)[0]
    return Message(
        author=header("From"),
        subject=re.sub(r"^\[[^]]*\]\s*", "", header("Subject")),
        body=tuple(body.strip("\n").splitlines()) if body.strip() else (),
    )


def message_problems(message: Message) -> list[str]:
    """Return what is wrong with a commit message."""
    problems = []
    name, address = email.utils.parseaddr(message.author)
    if not name or "@" not in address:
        problems.append("no author (From: Name <address>)")
    if not _SUBJECT.match(message.subject):
        problems.append(f"subject is not 'subsystem: summary': '{message.subject}'")
    if message.subject.endswith("."):
        problems.append("subject ends with a full stop")
    if len(message.subject) > MAX_COLUMNS:
        problems.append(f"subject has {len(message.subject)} columns, {MAX_COLUMNS} allowed")
    if not message.body:
        problems.append("no message body")
    problems += _text_problems(message.body)
    return problems


def cover_problems(text: str) -> list[str]:
    """Return what is wrong with the cover letter."""
    subject, _, rest = text.partition("\n")
    body = rest.strip("\n").splitlines()
    problems = []
    if not subject.strip() or len(subject) > MAX_COLUMNS:
        problems.append(f"first line is not a subject of at most {MAX_COLUMNS} columns")
    if not rest.startswith("\n") or not body:
        problems.append("no blank line and body after the subject")
    return problems + _text_problems(body)


def _text_problems(lines: Sequence[str]) -> list[str]:
    problems = [
        f"message line {number} has {len(line)} columns, {MAX_COLUMNS} allowed"
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_COLUMNS and not _UNWRAPPED.match(line)
    ]
    if _SIGN_OFF.search("\n".join(lines)):
        problems.append("has a sign-off: whoever mails the series adds their own")
    return problems


def assign_overlay(
    entries: Sequence[tree.Step], files: Iterable[str]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Expand each entry's overlay names to files; every file belongs to exactly one step.

    Returns the files of each entry, and what is wrong.
    """
    remaining = dict.fromkeys(sorted(files), "")
    assigned, problems = [], []
    for number, entry in enumerate(entries, 1):
        label = f"step {number} ({entry.patch})"
        mine = []
        for name in entry.adds:
            directory = name.rstrip("/") + "/"
            found = [file for file in remaining if file == name or file.startswith(directory)]
            if not found:
                problems.append(f"{label}: {name} is not in the overlay")
            for file in found:
                if remaining[file]:
                    problems.append(f"{label}: {file} already belongs to {remaining[file]}")
                else:
                    remaining[file] = label
                    mine.append(file)
        assigned.append(tuple(mine))
    problems += [
        f"{file}: overlay file is in no step" for file, step in remaining.items() if not step
    ]
    return assigned, problems


def make_plan(
    series: str, texts: Mapping[str, str], overlay: Iterable[str], cover: str
) -> Plan:
    """Check a series by its texts alone, and return its steps.

    `texts` maps the name of each patch file to its contents.
    """
    entries = tree.parse_series(series)
    files = set(overlay)
    assigned, problems = assign_overlay(entries, files)
    names = [entry.patch for entry in entries]
    problems += [
        f"series names {name} twice" for name in sorted(set(names)) if names.count(name) > 1
    ]
    problems += [
        f"series names {name}, which does not exist" for name in names if name not in texts
    ]
    problems += [f"{name} is not in the series" for name in sorted(set(texts) - set(names))]
    if not entries:
        problems.append("the series is empty")
    if names != sorted(names):
        problems.append("the patches are not in the order of their numbers")

    steps = []
    for number, (entry, mine) in enumerate(zip(entries, assigned, strict=True), 1):
        text = texts.get(entry.patch, "")
        message = parse_message(text)
        edits = tuple(sorted(tree.touched_paths(text)))
        step = Step(number, entry.patch, message, mine, edits)
        steps.append(step)
        if entry.patch not in texts:
            continue
        wrong = message_problems(message)
        wrong += [
            f"creates {name}: new files belong in the overlay"
            for name in _NEW_FILE.findall(text)
        ]
        wrong += [f"edits {name}, an overlay file" for name in edits if name in files]
        if not edits and not mine:
            wrong.append("changes nothing")
        problems += [f"{step.label}: {problem}" for problem in wrong]
    problems += [f"{COVER_LETTER}: {problem}" for problem in cover_problems(cover)]
    if problems:
        raise HarnessError(f"series: {problems[0]}", detail="\n".join(problems[1:]))
    return Plan(tuple(steps), cover)


def load_plan(paths: Paths) -> Plan:
    """Read and check kernel/patches and the names in the overlay."""
    for name in ("series", COVER_LETTER):
        if not (paths.patches / name).is_file():
            raise HarnessError(f"series: kernel/patches/{name} is missing")
    links = [path for path in paths.overlay.rglob("*") if path.is_symlink()]
    if links:
        raise HarnessError(f"series: {links[0].relative_to(paths.root)} is a symbolic link")
    return make_plan(
        (paths.patches / "series").read_text(),
        {path.name: path.read_text() for path in paths.patches.glob("*.patch")},
        tree.overlay_files(paths),
        (paths.patches / COVER_LETTER).read_text(),
    )
