"""Mutants: a patch that no longer applies breaks nothing, and proves nothing."""

import tomllib
from pathlib import Path

from harness.core import process
from harness.core.paths import Paths


def stale(paths: Paths, tree: Path) -> list[str]:
    """Return the mutants that do not apply to the checkout or to the patched kernel."""
    problems = []
    for patch in sorted((paths.root / "mutants").glob("*.patch")):
        mutant = tomllib.loads(patch.with_suffix(".toml").read_text())
        where = tree if mutant["tree"] == "kernel" else paths.root
        # The tree of the kernel may be inside a repository, which must not matter.
        env = {"GIT_CEILING_DIRECTORIES": str(where.parent)}
        status, said = process.attempt(["git", "apply", "--check", str(patch)], where, env=env)
        if status:
            problems.append(f"mutants/{patch.name}: {said.strip()}")
    return problems
