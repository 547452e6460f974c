"""checkpatch.pl --strict on every patch of the series, and what is allowed in spite of it."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.checks.lint import diagnostics
from harness.checks.lint.diagnostics import Diagnostic
from harness.core import process
from harness.kernel import build

# UNKNOWN_COMMIT_ID: no history of Linux is here to look up the commits of Fixes: tags
_COMMAND = (
    "perl", "scripts/checkpatch.pl", "--strict", "--no-signoff", "--terse", "--show-types",
    "--showfile", "--no-summary", "--color=never", "--ignore=UNKNOWN_COMMIT_ID",
)  # fmt: skip
_TRACE = "include/trace/events/*"
_SELFTESTS = "tools/testing/selftests/*"
_DMAENGINE = "include/linux/dmaengine.h"


@dataclass(frozen=True)
class Ignored:
    """A type that does not apply to some files, and why.

    `text` narrows it to complaints that contain this.
    """

    kind: str
    files: str
    reason: str
    text: str = ""


IGNORED = (
    Ignored("FILE_PATH_CHANGES", "*", "the check 'maintainers' reads the final MAINTAINERS"),
    Ignored("OPEN_ENDED_LINE", _TRACE, "every TRACE_EVENT() is laid out like this"),
    Ignored("PARENTHESIS_ALIGNMENT", _TRACE, "every TRACE_EVENT() is laid out like this"),
    Ignored("PARENTHESIS_ALIGNMENT", _DMAENGINE, "callbacks there are laid out like this"),
    Ignored("CAMELCASE", "*", "page flag functions are named so", text="SetPage"),
    Ignored("SPACING", _SELFTESTS, "FIXTURE_DATA(x) *self is a pointer", text="that '*'"),
    Ignored("BIT_MACRO", _SELFTESTS, "user space lacks the kernel's macro"),
    Ignored("VOLATILE", _SELFTESTS, "user space lacks READ_ONCE()"),
    Ignored("MULTISTATEMENT_MACRO_USE_DO_WHILE", _SELFTESTS, "these macros declare variants"),
    Ignored("COMPLEX_MACRO", _SELFTESTS, "these macros declare variants"),
    Ignored("MACRO_ARG_REUSE", _SELFTESTS, "arguments of test macros are plain names"),
    Ignored("SPACING", "*/asm/copy_routines.h", "it is a label in assembly", text="that '%'"),
    Ignored("MACRO_ARG_REUSE", "*_kunit.c", "arguments of test macros are plain names"),
)


def is_ignored(complaint: Diagnostic) -> bool:
    """Tell whether IGNORED allows a complaint."""
    return any(
        complaint.kind == ignored.kind
        and fnmatch.fnmatch(complaint.file, ignored.files)
        and ignored.text in complaint.text
        for ignored in IGNORED
    )


def check(tree: Path, patches: Sequence[Path]) -> list[str]:
    """Check patches in a tree that has them all."""

    def problems_in(share: Sequence[Path]) -> list[str]:
        status, text = process.attempt([*_COMMAND, *map(str, share)], tree)
        complaints = diagnostics.parse(diagnostics.CHECKPATCH, text, tree)
        lines = set(filter(None, text.splitlines()))
        if status not in (0, 1) or len(lines) != len(complaints) or (status and not complaints):
            return [f"checkpatch.pl ended with status {status}", *sorted(lines)]
        return [str(complaint) for complaint in complaints if not is_ignored(complaint)]

    # It looks up each file that a patch names, but once: many patches at a time take half as
    # long as one by one.
    longest = sorted(patches, key=lambda path: -path.stat().st_size)
    jobs = min(build.jobs(), len(longest))
    try:
        with process.Threads(jobs) as pool:
            shares = [longest[first::jobs] for first in range(jobs)]
            return sorted({line for problems in pool.map(problems_in, shares) for line in problems})
    finally:
        for cache in tree.glob(".checkpatch-*"):  # it leaves one where it runs
            cache.unlink()
