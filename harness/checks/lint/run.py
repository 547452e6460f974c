"""`make lint`: everything that can be judged without running the kernel.

Files that are ours must be clean; files that we edit must have no complaint that the
vanilla file, compiled in the same way, does not have.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.checks.lint import checkpatch, compilers, docs, limits, names, words
from harness.checks.lint.diagnostics import Diagnostic
from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest.ktap import Case, Status
from harness.kernel import source, stack, topics
from harness.kernel import tree as patches
from harness.mutants import mutant
from harness.series import export

_SHOWN = 200  # complaints of one check that are printed
_CONCISE = "--output-format=concise"

Check = Callable[[], list[str]]


def checks(paths: Paths, tree: patches.Tree) -> Mapping[str, Check]:
    """Return every check by its name, in the order in which they run."""
    home = tree.source.home / "lint"
    new = topics.overlay_files(paths)
    files = names.project_files(paths)
    python = [name for name in files if name.endswith(".py")]
    scripts = [name for name, text in files.items() if names.is_shell(name, text[:80])]

    @functools.cache
    def compiled() -> list[Diagnostic]:
        return compilers.complaints(paths, tree, home)

    def series() -> list[str]:
        with stack.assemble(paths, tree.source) as made:
            mails = export.write_all(made, home / "series").values()
            return checkpatch.check(tree.path, [mail for some in mails for mail in some])

    def tool(*command: str) -> Check:
        return lambda: run_tool(command, paths.root)

    return {
        "checkpatch": series,
        "maintainers": lambda: docs.unmaintained(tree, new),
        "W=1": lambda: [str(msg) for msg in compiled() if msg.from_gcc or msg.level != "warning"],
        "sparse": lambda: [str(msg) for msg in compiled() if not msg.from_gcc],
        "kernel-doc": lambda: docs.kernel_doc(tree),
        "documentation": lambda: docs.check(tree.path, tree.files, new),
        "ruff check": tool("ruff", "check", _CONCISE, *python),
        "ruff format": tool("ruff", "format", "--check", _CONCISE, *python),
        "mypy": tool("mypy", "--strict", "harness"),
        "shellcheck": tool("shellcheck", "--external-sources", "--format=gcc", *scripts),
        "names": lambda: names.check(paths.root, files),
        "lines": lambda: limits.check(paths),
        "words": lambda: words.check(paths),
        "mutants": lambda: mutant.stale(paths.root, tree.path),
    }


def run_tool(command: Sequence[str], cwd: Path) -> list[str]:
    """Run a linter; return its output if it exits non-zero."""
    status, text = process.attempt(command, cwd)
    return (text.splitlines() or [f"{command[0]} ended with status {status}"]) if status else []


def run_check(name: str, check: Check) -> Case:
    """Run one check, with a line for it and one for each complaint."""
    with ui.step(f"lint: {name}") as step:
        try:
            problems = check()
        except HarnessError as error:
            problems = [str(error), *error.detail.splitlines()]
        step.done(f"FAILED, {len(problems)} complaints" if problems else "clean")
    for problem in problems[:_SHOWN]:
        ui.plain(f"    {problem}")
    return Case.judged(name, not problems, "\n".join(problems))


def run_lint(paths: Paths, tree: patches.Tree) -> list[Case]:
    """Run every check; each prints one line, and is one case of the result."""
    return [run_check(name, check) for name, check in checks(paths, tree).items()]


def main(paths: Paths) -> int:
    """Run `make lint`."""
    cases = run_lint(paths, patches.get(paths, source.get(paths)))
    failed = [case.name for case in cases if case.status is Status.FAILED]
    if failed:
        raise HarnessError(f"lint: {len(failed)} of {len(cases)} checks fail: {', '.join(failed)}")
    ui.say(f"lint: all {len(cases)} checks are clean")
    return 0
