"""What compilers and kernel tools complain about, as comparable records."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPILER = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? "
    r"(?P<level>warning|error|fatal error): (?P<text>.*)$"
)
_KERNEL_DOC = re.compile(
    r"^(?P<level>Warning|Error): (?P<file>[^\s:]+):(?P<line>\d+):? (?P<text>.*)$"
)
_CHECKPATCH = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+): "
    r"(?P<level>ERROR|WARNING|CHECK):(?P<type>\w+): (?P<text>.*)$"
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
        """What stays the same when lines move."""
        return self.file, self.level, re.sub(r"\bline \d+|:\d+\b", "", self.text)

    @property
    def from_gcc(self) -> bool:
        """Whether the compiler said it, and not sparse, which names no option."""
        return self.kind.startswith("-W")


def _relative(name: str, tree: Path) -> str:
    return name.removeprefix(f"{tree}/").removeprefix("./")


def parse_compiler(text: str, tree: Path) -> list[Diagnostic]:
    """Return what gcc and sparse said about files of a tree, each complaint once.

    A header's complaint is repeated for every file that includes it.
    """
    found = []
    for line in text.splitlines():
        if match := _COMPILER.match(line):
            words, _, kind = match["text"].partition(" [-W")
            kind = f"-W{kind.rstrip(']')}" if kind else ""
            file = _relative(match["file"], tree)
            found.append(Diagnostic(file, int(match["line"]), match["level"], words, kind))
    return list(dict.fromkeys(found))


def parse_kernel_doc(text: str, tree: Path) -> list[Diagnostic]:
    """Return what kernel-doc said; it may say the same twice."""
    found = []
    for line in text.splitlines():
        if match := _KERNEL_DOC.match(line):
            file = _relative(match["file"], tree)
            level = match["level"].lower()
            found.append(Diagnostic(file, int(match["line"]), level, match["text"]))
    return list(dict.fromkeys(found))


def parse_checkpatch(text: str) -> list[Diagnostic]:
    """Return what checkpatch said with --terse --show-types --showfile."""
    return [
        Diagnostic(
            match["file"], int(match["line"]), match["level"], match["text"], match["type"]
        )
        for line in text.splitlines()
        if (match := _CHECKPATCH.match(line))
    ]


def new_ones(after: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that `before` does not have, wherever their lines are."""
    known = Counter(diagnostic.identity for diagnostic in before)
    fresh = []
    for diagnostic in after:
        if known[diagnostic.identity]:
            known[diagnostic.identity] -= 1
        else:
            fresh.append(diagnostic)
    return fresh


def ours(
    found: Sequence[Diagnostic], vanilla: Sequence[Diagnostic], touched: Callable[[str], bool]
) -> list[Diagnostic]:
    """Return what the series has to answer for.

    Warnings count in files that the series touches; errors count anywhere, since after an
    error sparse keeps its warnings to itself.
    """
    return [
        diagnostic
        for diagnostic in new_ones(found, vanilla)
        if diagnostic.level != "warning" or touched(diagnostic.file)
    ]
