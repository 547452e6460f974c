"""Mutants: one whose lines are not there, or twice, breaks nothing, and proves nothing."""

from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.mutants import mutant


def stale(paths: Paths, tree: Path) -> list[str]:
    """Return the mutants that do not apply to the checkout or to the patched kernel."""
    problems = []
    for one in mutant.load(paths.root / "mutants"):
        try:
            one.broken(tree if one.tree == "kernel" else paths.root)
        except HarnessError as error:
            problems.append(f"mutants/{one.room}.toml: {one.name}: {error}")
    return problems
