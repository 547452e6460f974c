"""`make series`: the patches and the overlay as one series that can be mailed.

Each line of kernel/patches/series is a step: a patch (whose message the step keeps) and
the overlay files that come with it. The steps are committed one after the other on the
pristine tree, in a scratch repository that tracks only the files which they touch, and
exported with git format-patch. The same input gives the same bytes.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.kernel.source import Source
from harness.series.build import Builder
from harness.series.git import Scratch, tree_differences
from harness.series.plan import Plan, load_plan


def export(paths: Paths, origin: Source, out: Path) -> tuple[Plan, Scratch, list[Path]]:
    """Commit every step, export the series to `out`, and prove that it applies again."""
    with ui.step("series") as progress:
        plan = load_plan(paths)
        scratch = Scratch(origin, origin.home / "series")
        progress.progress("linking the pristine tree")
        scratch.prepare(plan)
        for step in plan.steps:
            progress.progress(step.label)
            scratch.commit(step, paths)
        exported = scratch.export(plan, out)
        scratch.reapply(exported, scratch.tree_id("series"))
        progress.done(f"{len(plan.steps)} steps apply to Linux {origin.version}: {out}")
    return plan, scratch, exported


def verify_tree(scratch: Scratch, tree: Path) -> None:
    """Check that the series gives exactly the patched tree that is built and tested."""
    scratch.checkout("series")
    different = tree_differences(scratch.tree, tree, frozenset({".git"}))
    if different:
        raise HarnessError(
            f"series: {different[0]} is not the same as in the tree that is built",
            detail="\n".join(different[1:]),
        )


def run(paths: Paths, origin: Source, tree: patches.Tree, *, steps: bool) -> None:
    """Export the series to out/series and check it; with `steps`, build each of them."""
    plan, scratch, _ = export(paths, origin, paths.out / "series")
    verify_tree(scratch, tree.path)
    if steps:
        kernel = build.get(paths, tree, "base")
        Builder(paths, plan, scratch, kernel, tree.path).run()


def main(argv: Sequence[str]) -> int:
    """Run `make series`."""
    parser = argparse.ArgumentParser(prog="series", description="a series for git am")
    parser.add_argument("--build", action="store_true", help="build the kernel at every step")
    args = parser.parse_args(argv)
    paths = default_paths()
    origin = source.get(paths)
    run(paths, origin, patches.get(paths, origin), steps=args.build)
    return 0
