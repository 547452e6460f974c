"""What a mutant is, and what becomes of it: no running here.

`mutants/<name>.toml` says what `mutants/<name>.patch` breaks and which test must go red.
"""

import fnmatch
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path

from harness.core.errors import HarnessError
from harness.kernel import tree as patches

_RUNNERS = {"repo": ("pytest", "guest"), "kernel": ("guest", "layouts")}


_WHY = 120  # characters of a reason in the table


class Kind(Enum):
    """How a test ended."""

    GREEN = "green"
    CASE = "case"  # a test case failed
    PANIC = "panic"
    BUILD = "build"
    ERROR = "error"  # it ended for any other reason
    BROKEN = "broken"  # it did not run: a stale patch, no time left


@dataclass(frozen=True)
class Result:
    """The end of a test; `detail` names the first failed case, or gives the reason."""

    kind: Kind
    detail: str = ""


@dataclass(frozen=True)
class Mutant:
    """One defect made on purpose.

    `tree` is what the patch applies to: this repository, or the patched kernel tree. `test`
    must end as `expect` says. `survives` is the reason if no test finds the mutant.
    """

    name: str
    patch: Path
    claim: str
    what: str
    tree: str
    test: str
    expect: str = Kind.CASE.value
    survives: str = ""

    @property
    def order(self) -> tuple[str, ...]:
        """Sort mutants of one kernel together, and those that change the same file."""
        config = "" if self.test.startswith("pytest") else " ".join(self.test.split()[:2])
        files = patches.touched_paths(self.patch.read_text(errors="replace"))
        return (config, *files[:1], self.name)


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INVALID = "invalid"  # nothing was learnt: the mutant or its test is broken


@dataclass(frozen=True)
class Outcome:
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
    """Read every mutant; HarnessError names the first file that is not one."""
    found = []
    known = {field.name for field in fields(Mutant)} - {"name", "patch"}
    for path in sorted(directory.glob("*.toml")):
        where = f"mutants/{path.name}"
        try:
            text = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise HarnessError(f"{where}: {error}") from error
        if strange := text.keys() - known:
            raise HarnessError(f"{where}: unknown key {min(strange)}")
        if missing := {"claim", "what", "tree", "test"} - text.keys():
            raise HarnessError(f"{where}: lacks {min(missing)}")
        mutant = Mutant(path.stem, path.with_suffix(".patch"), **text)
        choices = {"tree": tuple(_RUNNERS), "expect": tuple(kind.value for kind in Kind)[1:-1]}
        for key, values in choices.items():
            if getattr(mutant, key) not in values:
                raise HarnessError(f"{where}: {key} is none of {', '.join(values)}")
        if mutant.test.partition(" ")[0] not in _RUNNERS[mutant.tree]:
            raise HarnessError(f"{where}: no such test for {mutant.tree}: {mutant.test}")
        if not mutant.patch.is_file():
            raise HarnessError(f"{where}: there is no {mutant.patch.name}")
        found.append(mutant)
    lone = {path.stem for path in directory.glob("*.patch")} - {one.name for one in found}
    if lone:
        raise HarnessError(f"mutants/{min(lone)}.patch has no .toml")
    return sorted(found, key=lambda mutant: mutant.order)


def select(mutants: Sequence[Mutant], only: str) -> list[Mutant]:
    """Return the mutants that a comma separated list names: by name, prefix, glob or claim."""
    words = [word.strip() for word in only.split(",") if word.strip()]

    def named(mutant: Mutant, word: str) -> bool:
        return mutant.claim.lower() == word.lower() or fnmatch.fnmatch(mutant.name, f"{word}*")

    for word in words:
        if not any(named(mutant, word) for mutant in mutants):
            raise HarnessError(f"no mutant is called {word}, and none belongs to such a claim")
    return [
        mutant for mutant in mutants if not words or any(named(mutant, word) for word in words)
    ]


def judge(mutant: Mutant, baseline: Result, result: Result) -> tuple[Fate, str]:
    """Return what became of a mutant, by what its test said without it and with it."""
    if baseline.kind is not Kind.GREEN:
        return Fate.INVALID, f"the test is not green without the mutant: {baseline.detail}"
    if result.kind is Kind.BROKEN:
        return Fate.INVALID, result.detail
    if result.kind is Kind.GREEN:
        return Fate.SURVIVED, mutant.survives or "the test is green"
    if result.kind.value == mutant.expect:
        return Fate.KILLED, result.detail
    said = f"ended with '{result.kind.value}', not '{mutant.expect}': {result.detail}"
    return Fate.INVALID, said


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    lines = ["| mutant | claim | what | fate | by, or why | s |", "|---|---|---|---|---|--:|"]
    for one in outcomes:
        unexpected = one.fate is Fate.KILLED and one.mutant.survives
        cells = [
            one.mutant.name, one.mutant.claim, one.mutant.what,
            f"{one.fate.value}{' after all: drop `survives`' if unexpected else ''}",
            one.why.splitlines()[0][:_WHY] if one.why else "", f"{one.seconds:.0f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def totals(outcomes: Sequence[Outcome]) -> str:
    """Return the last line."""
    killed = sum(one.fate is Fate.KILLED for one in outcomes)
    return f"{len(outcomes)} mutants, {killed} killed"


def write(outcomes: Sequence[Outcome], out: Path) -> None:
    """Write results.json and results.md."""
    records = [
        {**asdict(one.mutant), "patch": one.mutant.patch.name, "fate": one.fate.value,
         "why": one.why, "seconds": round(one.seconds, 1)}
        for one in outcomes
    ]  # fmt: skip
    (out / "results.json").write_text(json.dumps(records, indent=1) + "\n")
    (out / "results.md").write_text(f"{table(outcomes)}\n\n{totals(outcomes)}\n")
