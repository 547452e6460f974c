"""What a mutant is, and what becomes of it: no running here.

`mutants/<name>.toml` says what `mutants/<name>.patch` breaks and which test must go red.
"""

import fnmatch
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.errors import HarnessError
from harness.kernel import topics

_RUNNERS = {"repo": ("pytest", "guest"), "kernel": ("guest", "layouts")}
_WHY = 120  # characters of a reason in the table
# Options of a selftest that choose cases: of several it runs what any of them chooses.
_CASES = re.compile(r"(?: -[frtv] \S+)+$")


class Kind(StrEnum):
    """How a test ended."""

    GREEN = "green"
    CASE = "case"  # a test case failed
    PANIC = "panic"
    BUILD = "build"
    ERROR = "error"  # it ended for any other reason
    BROKEN = "broken"  # it did not run: a stale patch, no time left


class Result(msgspec.Struct, frozen=True):
    """The end of a test; `detail` names the first failed case, or gives the reason."""

    kind: Kind
    detail: str = ""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One defect made on purpose.

    `tree` is what the patch applies to: this repository, or the patched kernel tree. `test`
    must end as `expect` says. `survives` is the reason if no test finds the mutant.
    """

    name: str
    claim: str
    what: str
    tree: Literal["repo", "kernel"]
    test: str
    expect: Literal["case", "panic", "case or panic", "build", "error"] = "case"
    survives: str = ""

    @property
    def expected(self) -> set[Kind]:
        """The ends of its test that kill it."""
        return {Kind(word) for word in self.expect.split(" or ")}

    @property
    def job(self) -> tuple[str, str]:
        """Its test, and where that runs."""
        return self.tree, self.test

    @property
    def program(self) -> str:
        """Its test with all cases."""
        return _CASES.sub("", self.test) if self.test.startswith("guest ") else self.test

    def title(self, broken: bool) -> str:
        """Return the name of its note, or of that of its test without it."""
        return self.name if broken else f"without: {self.tree}: {self.test}"


class Note(msgspec.Struct, frozen=True):
    """What a test said, after how many seconds; `key` names all that decided it."""

    key: str
    result: Result
    seconds: float


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "invalid"  # nothing was learnt: the mutant or its test is broken


class Outcome(msgspec.Struct, frozen=True):
    """What became of one mutant, why, and after how many seconds."""

    mutant: Mutant
    fate: Fate
    why: str
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        """Whether somebody has to do something about it."""
        known = bool(self.mutant.survives) and self.fate is Fate.SURVIVED
        return self.fate is not Fate.KILLED and not known


def load(directory: Path) -> list[Mutant]:
    """Read every mutant; HarnessError names the first file that is not one.

    Those of one kernel come together, and those that change the same file.
    """
    found = []
    for path in sorted(directory.glob("*.toml")):
        try:
            text = {"name": path.stem, **tomllib.loads(path.read_text())}
            mutant = msgspec.convert(text, Mutant)
            if mutant.test.partition(" ")[0] not in _RUNNERS[mutant.tree]:
                raise ValueError(f"no such test for {mutant.tree}: {mutant.test}")
            patch = path.with_suffix(".patch").read_text(errors="replace")
        except (ValueError, OSError) as error:  # msgspec's and tomllib's are ValueErrors
            raise HarnessError(f"mutants/{path.name}: {error}") from error
        kernel = () if mutant.test.startswith("pytest") else mutant.test.split()[:2]
        found.append(((*kernel, *topics.touched_paths(patch)[:1]), mutant))
    names = {mutant.name for _, mutant in found}
    if lone := {path.stem for path in directory.glob("*.patch")} - names:
        raise HarnessError(f"mutants/{min(lone)}.patch has no .toml")
    return [mutant for _, mutant in sorted(found, key=lambda one: one[0])]


def select(mutants: Sequence[Mutant], only: str) -> list[Mutant]:
    """Return the mutants that a comma separated list names: by name, prefix, glob or claim."""
    chosen: list[Mutant] = []
    for word in filter(None, map(str.strip, only.split(","))):
        named = [
            mutant
            for mutant in mutants
            if mutant.claim.lower() == word.lower() or fnmatch.fnmatch(mutant.name, f"{word}*")
        ]
        if not named:
            raise HarnessError(f"no mutant is called {word}, and none belongs to such a claim")
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
    tests = {mutant.job for mutant in mutants if known(mutant, False)}
    for mutant in mutants:
        if mutant.job not in tests:
            alike = {
                other.job: other
                for other in mutants
                if (other.tree, other.program) == (mutant.tree, mutant.program)
                and other.job not in tests
            }
            tests.update(alike)
            cases = [other.test.removeprefix(other.program) for other in alike.values()]
            test = mutant.program + ("" if "" in cases else "".join(cases))
            yield Job(tuple(alike.values()), broken=False, test=test)
        if not known(mutant, True):
            yield Job((mutant,), broken=True, test=mutant.test)


def is_known(mutant: Mutant, broken: bool, notes: Mapping[str, Note], key: str) -> bool:
    """Tell whether a note says what a test would: one that taught nothing is run again."""
    note = notes.get(mutant.title(broken))
    taught = {Kind.GREEN, *mutant.expected} if broken else {Kind.GREEN}
    return note is not None and note.key == key and note.result.kind in taught


def outcome(mutant: Mutant, notes: Mapping[str, Note]) -> Outcome:
    """Return what became of a mutant, by what is noted of its test without it and with it."""
    note = notes[mutant.title(broken=True)]
    fate, why = judge(mutant, notes[mutant.title(broken=False)].result, note.result)
    return Outcome(mutant, fate, why, note.seconds)


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
    said = f"ended with '{result.kind}', not '{mutant.expect}': {result.detail}"
    return Fate.INVALID, said


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    lines = ["| mutant | claim | what | fate | by, or why | s |", "|---|---|---|---|---|--:|"]
    for one in outcomes:
        unexpected = one.fate is Fate.KILLED and one.mutant.survives
        cells = [
            one.mutant.name, one.mutant.claim, one.mutant.what,
            f"{one.fate}{' after all: drop `survives`' if unexpected else ''}",
            one.why.splitlines()[0][:_WHY] if one.why else "", f"{one.seconds:.0f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def totals(outcomes: Sequence[Outcome]) -> str:
    """Return the last line."""
    killed = sum(one.fate is Fate.KILLED for one in outcomes)
    return f"{len(outcomes)} mutants, {killed} killed"
