"""Mutants, their tests and their fates; nothing here runs a test.

`mutants/<room>.toml` has a table for each: what the code promises, the lines that break it, and
the test that must go red.
"""

import fnmatch
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from harness.core.errors import HarnessError
from harness.kernel import topics

_WHY = 120  # characters of a reason in the table
# Options that choose cases; of several a selftest runs what any of them chooses.
_CASES = {"guest": re.compile(r"(?: -[frtv] \S+)+$"), "pytest": re.compile(r" -k (?:'[^']*'|\S+)$")}

Lines = Annotated[str, msgspec.Meta(min_length=1)]


class Kind(StrEnum):
    """How a test ended."""

    GREEN = "green"
    CASE = "case"  # a test case failed
    PANIC = "panic"
    BUILD = "build"
    ERROR = "error"  # it ended for any other reason
    BROKEN = "broken"  # it did not run: the mutant is stale, no time left


class Result(msgspec.Struct, frozen=True):
    """The end of a test; `detail` names the first failed case, or gives the reason."""

    kind: Kind
    detail: str = ""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One defect made on purpose: it breaks what `claim` promises.

    Lines of `file` are replaced: each `old` by its `new`, and removed if that is empty. `test`
    must end as `expect` says. `survives` is the reason if no test finds the mutant. Where
    hundreds of sources include `file`, `compiles` is the one that the test needs.
    """

    name: str
    room: str
    claim: Lines
    test: Annotated[str, msgspec.Meta(pattern=r"^(pytest|check|guest|layouts) ")]
    file: str
    old: Lines | tuple[Lines, ...]
    new: str | tuple[str, ...] = ""
    expect: Literal["case", "panic", "case or panic", "build", "error"] = "case"
    survives: str = ""
    compiles: str = ""

    def __post_init__(self) -> None:
        """Refuse lines that replace nothing, or themselves."""
        if len(_each(self.old)) != len(_each(self.new)):
            raise ValueError("`old` and `new` are not as many")
        if any(old == new for old, new in self.edits):
            raise ValueError("`new` is `old`")

    @property
    def edits(self) -> list[tuple[str, str]]:
        """Lines of the file, and what replaces them."""
        return list(zip(_each(self.old), _each(self.new), strict=True))

    @property
    def tree(self) -> Literal["repo", "kernel"]:
        """Where the file is: in this repository, or in the patched kernel."""
        return "repo" if self.test.startswith(("pytest ", "check ")) else "kernel"

    @property
    def expected(self) -> set[Kind]:
        """The ends of its test that kill it."""
        return {Kind(word) for word in self.expect.split(" or ")}

    @property
    def program(self) -> str:
        """Its test with all cases."""
        cases = _CASES.get(self.test.partition(" ")[0])
        return cases.sub("", self.test) if cases else self.test

    def broken(self, home: Path) -> str:
        """Return the text of its file below `home` with the defect; HarnessError if stale."""
        path = home / self.file
        text = topics.read_text(path) if path.is_file() else ""
        if self.compiles and not (home / self.compiles).is_file():
            raise HarnessError(f"stale: there is no {self.compiles}")
        for old, new in self.edits:
            before, *after = re.split(rf"^{re.escape(old)}\n", text, flags=re.MULTILINE)
            if len(after) != 1:
                first = old.strip().partition("\n")[0]
                error = f"stale: {self.file} has {len(after)} times, not once: {first}"
                raise HarnessError(error)
            text = f"{before}{new}\n{after[0]}" if new else before + after[0]
        return text

    def title(self, broken: bool) -> str:
        """Return the name of its note, or of that of its test without it."""
        return self.name if broken else f"without: {self.test}"


class Note(msgspec.Struct, frozen=True):
    """The result of a test, after how many seconds; `key` names all that decided it."""

    key: str
    result: Result
    seconds: float


class Fate(StrEnum):
    """The fate of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "invalid"  # nothing was learnt: the mutant or its test is broken


class Outcome(msgspec.Struct, frozen=True):
    """The fate of one mutant, the reason, and the seconds that it took."""

    mutant: Mutant
    fate: Fate
    why: str
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        """Whether it needs a change of a test or of the mutant."""
        known = bool(self.mutant.survives) and self.fate is Fate.SURVIVED
        return self.fate is not Fate.KILLED and not known


def _each(lines: str | tuple[str, ...]) -> tuple[str, ...]:
    return (lines,) if isinstance(lines, str) else lines


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of each mutant; those of a group have the group's as well."""
    for group in document.pop("in", ()):
        shared = {key: value for key, value in group.items() if isinstance(value, str)}
        yield from ((name, shared | group[name]) for name in group.keys() - shared.keys())
    yield from document.items()


def load(directory: Path) -> list[Mutant]:
    """Read every mutant; HarnessError names the first one that cannot be right.

    Those of one kernel come together, and those that change the same file.
    """
    mutants: dict[str, Mutant] = {}
    for path in sorted(directory.glob("*.toml")):
        where = f"mutants/{path.name}"
        try:
            for name, fields in _tables(tomllib.loads(path.read_text())):
                where = f"mutants/{path.name}: {name}"
                mutant = msgspec.convert({**fields, "name": name, "room": path.stem}, Mutant)
                if name in mutants:
                    raise ValueError(f"{mutants[name].room}.toml has one of this name")
                mutants[name] = mutant
        except (ValueError, TypeError) as error:  # msgspec's and tomllib's are ValueErrors
            raise HarnessError(f"{where}: {error}") from error

    def place(mutant: Mutant) -> tuple[str, ...]:
        kernel = mutant.test.split()[:2] if mutant.tree == "kernel" else ()
        return (*kernel, mutant.file, mutant.name)

    return sorted(mutants.values(), key=place)


def stale(root: Path, tree: Path) -> list[str]:
    """Return the mutants that do not apply to the checkout or to the patched kernel."""
    problems = []
    for mutant in load(root / "mutants"):
        try:
            mutant.broken(tree if mutant.tree == "kernel" else root)
        except HarnessError as error:
            problems.append(f"mutants/{mutant.room}.toml: {mutant.name}: {error}")
    return problems


def select(mutants: Sequence[Mutant], only: str) -> list[Mutant]:
    """Return the mutants that a comma separated list names: by room, name, prefix or glob."""
    chosen: list[Mutant] = []
    for word in filter(None, map(str.strip, only.split(","))):
        named = [mutant for mutant in mutants if mutant.room == word] or [
            mutant for mutant in mutants if fnmatch.fnmatch(mutant.name, f"{word}*")
        ]
        if not named:
            raise HarnessError(f"no mutant and no file of mutants/ is called {word}")
        chosen += named
    return [mutant for mutant in mutants if mutant in chosen] if chosen else list(mutants)


class Job(msgspec.Struct, frozen=True):
    """A test to run: with the one mutant, or for several without any of them."""

    mutants: tuple[Mutant, ...]
    broken: bool
    test: str


def jobs(mutants: Sequence[Mutant], known: Callable[[Mutant, bool], bool]) -> Iterator[Job]:
    """Return what is to be run: each test without a mutant before the first one of its own.

    Tests that are cases of one program run at once without mutants.
    """
    tests = {mutant.test for mutant in mutants if known(mutant, False)}
    for mutant in mutants:
        if mutant.test not in tests:
            alike = {
                other.test: other
                for other in mutants
                if other.program == mutant.program and other.test not in tests
            }
            tests.update(alike)
            yield Job(tuple(alike.values()), broken=False, test=together(list(alike)))
        if not known(mutant, True):
            yield Job((mutant,), broken=True, test=mutant.test)


def together(tests: Sequence[str]) -> str:
    """Return the one test that runs several, which are cases of one program."""
    runner = tests[0].partition(" ")[0]
    if len(tests) == 1 or runner not in _CASES:
        return tests[0]
    programs = [_CASES[runner].sub("", test) for test in tests]
    if runner == "pytest" or set(programs) & set(tests):
        return programs[0]
    return programs[0] + "".join(test.removeprefix(programs[0]) for test in tests)


def is_known(mutant: Mutant, broken: bool, notes: Mapping[str, Note], key: str) -> bool:
    """Tell whether a note says what a test would: one that taught nothing is run again."""
    note = notes.get(mutant.title(broken))
    taught = {Kind.GREEN, *mutant.expected} if broken else {Kind.GREEN}
    return note is not None and note.key == key and note.result.kind in taught


def judge(mutant: Mutant, baseline: Result, result: Result) -> tuple[Fate, str]:
    """Return what became of a mutant, by what its test said without it and with it."""
    if baseline.kind is not Kind.GREEN:
        return Fate.INVALID, f"the test is not green without the mutant: {baseline.detail}"
    if result.kind is Kind.BROKEN:
        return Fate.INVALID, result.detail
    if result.kind is Kind.GREEN:
        return Fate.SURVIVED, mutant.survives or "the test is green"
    if result.kind in mutant.expected:
        return Fate.KILLED, result.detail
    detail = f"ended with '{result.kind}', not '{mutant.expect}': {result.detail}"
    return Fate.INVALID, detail


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    lines = ["| mutant | claim | fate | by, or why | s |", "|---|---|---|---|--:|"]
    for outcome in outcomes:
        unexpected = outcome.fate is Fate.KILLED and outcome.mutant.survives
        cells = [
            outcome.mutant.name, outcome.mutant.claim,
            f"{outcome.fate}{' after all: drop `survives`' if unexpected else ''}",
            outcome.why.splitlines()[0][:_WHY] if outcome.why else "", f"{outcome.seconds:.0f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def totals(outcomes: Sequence[Outcome]) -> str:
    """Return the last line."""
    killed = sum(outcome.fate is Fate.KILLED for outcome in outcomes)
    return f"{len(outcomes)} mutants, {killed} killed"
