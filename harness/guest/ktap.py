"""KTAP: parse what tests print, and count it.

The parser takes nested results (children are indented deeper and come before their
parent), several documents in a row, and any junk in between. A plan that is not kept and
a parent that failed although no child did are failures of their own: nothing that went
wrong may get lost on the way to the totals.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from xml.etree import ElementTree

_RESULT = re.compile(
    r"^(?P<indent>\s*)(?P<status>not ok|ok)\b *(?P<number>\d+)? *(?:- )?"
    r"(?P<name>.*?)(?:\s*# *"
    r"(?P<directive>SKIP|XFAIL|TODO|XPASS|TIMEOUT|ERROR)\b:? *(?P<reason>.*))?$",
    re.IGNORECASE,
)
_PLAN = re.compile(r"^(?P<indent>\s*)1\.\.(?P<count>\d+)")
_VERSION = re.compile(r"^(?P<indent>\s*)K?TAP version \d+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Status(Enum):
    """The end of a test.

    KNOWN is a bound that holds although the goal behind it is missed, and XFAIL a test that its
    author expects to fail.
    """

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    KNOWN = "known misses"
    XFAIL = "expected failures"


_JUNIT = {"skipped": Status.SKIPPED, "error": Status.FAILED, "failure": Status.FAILED}
_NAMED = 5
_LAST_NOTES = 20  # of a failed test, besides what it expected before
_EXPECTED = re.compile(r"\w+\.c:\d+:")
_ALWAYS_COUNTED = (Status.PASSED, Status.FAILED, Status.SKIPPED)


@dataclass(frozen=True)
class Case:
    """One leaf test; `detail` is a skip's reason, or what a failed test printed."""

    name: str
    status: Status
    detail: str = ""

    @classmethod
    def judged(cls, name: str, passed: object, detail: str) -> "Case":
        """Return a test that has passed or failed; `detail` is for one that failed."""
        return cls(name, Status.PASSED) if passed else cls(name, Status.FAILED, detail)


class Counts(Counter[Status]):
    """Totals by status; as text, the line that ends `make check`."""

    def __str__(self) -> str:
        """Name what is nearly always zero only if it is not."""
        return ", ".join(
            f"{self[status]} {status.value}"
            for status in Status
            if status in _ALWAYS_COUNTED or self[status]
        )


def count(cases: Iterable[Case]) -> Counts:
    """Count cases by status."""
    return Counts(case.status for case in cases)


def some(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass
class _Level:
    """One open document: results at one indentation."""

    indent: int
    planned: int | None = None
    seen: int = 0


class _Parser:
    def __init__(self) -> None:
        self.cases: list[tuple[int, Case]] = []  # with the indentation of each
        self.levels: list[_Level] = []

    def level(self, indent: int) -> _Level:
        """Return the document at an indentation; deeper ones end with this line."""
        self.close(indent)
        if not self.levels or self.levels[-1].indent < indent:
            self.levels.append(_Level(indent))
        return self.levels[-1]

    def close(self, indent: int = -1) -> None:
        """End the documents that are deeper than an indentation."""
        while self.levels and self.levels[-1].indent > indent:
            level = self.levels.pop()
            if level.planned not in (None, level.seen):
                detail = f"planned {level.planned} tests, saw {level.seen}"
                self.cases.append((level.indent, Case("plan", Status.FAILED, detail)))

    def document(self, indent: int) -> None:
        """Begin a document: one before it at the same indentation is over."""
        self.close(indent - 1)
        self.levels.append(_Level(indent))

    def plan(self, indent: int, planned: int) -> None:
        if self.level(indent).planned is not None:
            self.document(indent)
        self.level(indent).planned = planned

    def result(self, indent: int, case: Case) -> None:
        self.level(indent).seen += 1
        start = len(self.cases)
        while start and self.cases[start - 1][0] > indent:
            start -= 1
        children = [child for _, child in self.cases[start:]]
        if not children:
            self.cases.append((indent, case))
            return
        named = [replace(child, name=f"{case.name}/{child.name}") for child in children]
        if case.status is Status.FAILED and not any(c.status is Status.FAILED for c in named):
            named.append(replace(case, detail=case.detail or "failed although no subtest did"))
        self.cases[start:] = [(indent, child) for child in named]


def parse(text: str) -> list[Case]:
    """Return the leaf tests in the order in which they ended."""
    parser = _Parser()
    notes: list[str] = []
    for line in _CONTROL.sub("", text.replace("\r", "")).splitlines():
        if match := _VERSION.match(line):
            parser.document(len(match["indent"]))
        elif match := _PLAN.match(line):
            parser.plan(len(match["indent"]), int(match["count"]))
        elif (match := _RESULT.match(line)) and (match["number"] or match["name"]):
            parser.result(len(match["indent"]), _case(match, notes))
            notes = []
        elif line.strip():
            notes.append(line.strip().removeprefix("# "))
    parser.close()
    return [case for _, case in parser.cases]


def is_failure(line: str) -> bool:
    """Tell whether one line says that a test failed, and not that it was expected to."""
    match = _RESULT.match(_CONTROL.sub("", line))
    return match is not None and _case(match, []).status is Status.FAILED


def _case(match: re.Match[str], notes: list[str]) -> Case:
    name = match["name"].strip()
    reason = (match["reason"] or "").strip()
    directive = (match["directive"] or "").upper()
    # ksft_test_result_skip() puts the name behind the directive.
    if not name:
        name, reason = reason or f"test {match['number']}", notes[-1] if notes else ""
    # KTAP: a test that was skipped, or is expected to fail, may say "ok" or "not ok".
    if directive == "SKIP":
        return Case(name, Status.SKIPPED, reason or "no reason given")
    if directive in ("XFAIL", "TODO"):
        return Case(name, Status.XFAIL, reason)
    if match["status"].lower() == "ok" and directive not in ("TIMEOUT", "ERROR"):
        return Case(name, Status.PASSED)
    first = [note for note in notes[:-_LAST_NOTES] if _EXPECTED.match(note)]
    first = sorted(first, key=lambda note: ":Expected " not in note)[:_NAMED]
    shown = filter(None, [directive, *first, *notes[-_LAST_NOTES:]])
    return Case(name, Status.FAILED, "\n".join(shown))


def parse_junit(text: str) -> list[Case]:
    """Return the cases of a JUnit file, as pytest writes it."""
    cases = []
    for element in ElementTree.fromstring(text).iter("testcase"):
        name = f"{element.get('classname', '')}.{element.get('name', '')}"
        case = Case(name, Status.PASSED)
        for tag, status in _JUNIT.items():
            if (verdict := element.find(tag)) is not None:
                case = Case(name, status, verdict.get("message", ""))
        cases.append(case)
    return cases
