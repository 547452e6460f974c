"""Complaints of compilers and kernel tools, as comparable records."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPILER = re.compile(  # gcc and sparse; only gcc names an option
    r"(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? (?P<level>warning|error|fatal error): "
    r"(?P<text>.*?)(?: \[(?P<kind>-W[^]]*)\])?$"
)
KERNEL_DOC = re.compile(
    r"(?P<level>Warning|Error): (?P<file>[^\s:]+):(?P<line>\d+):? (?P<text>.*)$"
)
CHECKPATCH = re.compile(  # with --terse --show-types --showfile
    r"(?P<file>[^\s:]+):(?P<line>\d+): (?P<level>ERROR|WARNING|CHECK):(?P<kind>\w+): "
    r"(?P<text>.*)$"
)


@dataclass(frozen=True)
class Diagnostic:
    """One complaint. `kind` is a compiler's option or checkpatch's type, if there is one."""

    file: str
    line: int
    level: str
    text: str
    kind: str = ""

    def __str__(self) -> str:
        """Return it as a compiler prints it."""
        kind = f" [{self.kind}]" if self.kind else ""
        return f"{self.file}:{self.line}: {self.level}: {self.text}{kind}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """The parts that stay the same when lines move."""
        return self.file, self.level, re.sub(r"\bline \d+|:\d+\b", "", self.text)

    @property
    def from_gcc(self) -> bool:
        """Whether the compiler said it, and not sparse, which names no option."""
        return self.kind.startswith("-W")


def parse(pattern: re.Pattern[str], text: str, tree: Path) -> list[Diagnostic]:
    """Return what a tool said about files of a tree, each complaint once.

    A compiler repeats a header's complaint for every file that includes it.
    """
    complaints = []
    for line in text.splitlines():
        if match := pattern.match(line):
            fields = match.groupdict(default="")
            file = fields.pop("file").removeprefix(f"{tree}/").removeprefix("./")
            number, level = int(fields.pop("line")), fields.pop("level").lower()
            complaints.append(Diagnostic(file, number, level, **fields))
    return list(dict.fromkeys(complaints))


def fresh(after: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that `before` does not have, wherever their lines are."""
    known = Counter(diagnostic.identity for diagnostic in before)
    kept = []
    for diagnostic in after:
        if known[diagnostic.identity]:
            known[diagnostic.identity] -= 1
        else:
            kept.append(diagnostic)
    return kept


def ours(
    patched: Sequence[Diagnostic], vanilla: Sequence[Diagnostic], touched: Callable[[str], bool]
) -> list[Diagnostic]:
    """Return what the series has to answer for.

    Warnings count in files that the series touches; errors count anywhere, since after an
    error sparse keeps its warnings to itself.
    """
    return [new for new in fresh(patched, vanilla) if new.level != "warning" or touched(new.file)]


def suspects(
    patched: Sequence[Diagnostic], sources: Sequence[str], touched: Callable[[str], bool]
) -> list[str]:
    """Return the sources whose complaints ours() has to compare with vanilla's.

    Any of them may have led to a complaint about a file that is none of them, such as a header.
    """
    files = {new.file for new in ours(patched, (), touched)}
    return list(sources) if files - set(sources) else [new for new in sources if new in files]
