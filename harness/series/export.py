"""`make series`: each topic as a series that can be mailed, in a directory of its own.

A topic is exported from pristine Linux with only the topics that it needs below it. The files
that are written are applied again, as their readers will, and must give the stack that is
built and tested. The same input gives the same bytes.
"""

import shutil
from pathlib import Path

from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest.ktap import Status
from harness.kernel import build, source, stack, topics
from harness.kernel import tree as patches
from harness.kernel.source import Source
from harness.kernel.stack import Stack
from harness.kernel.topics import Topic
from harness.series import ends, rules
from harness.series.build import build_steps

COVER_LETTER = "0000-cover-letter.txt"  # not .patch: git am stops at a mail without changes


def write(made: Stack, topic: Topic, out: Path) -> list[Path]:
    """Write one topic's mails and cover letter to `out`; return the mails."""
    git, (base, *_, tip) = made.git, made.pick_topic(topic)
    git("checkout", "-q", "-f", "-B", topic.name, tip)
    source = made.source
    needs = f"needs: {', '.join(topic.needs)}\n" if topic.needs else ""
    base_line = f"base: Linux {source.version}, {source.package or source.home.name}"
    cover = f"{topic.cover.strip()}\n\n{needs}{base_line}\n"
    git("config", f"branch.{topic.name}.description", cover)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    git(
        "format-patch", "-q", "-o", str(out.resolve()), "--cover-letter", "--numbered",
        "--cover-from-description=subject", "--zero-commit", "--no-signature",
        "--no-renames", "--abbrev=12", "--stat=75", "--summary", f"{base}..{topic.name}",
    )  # fmt: skip
    (out / "0000-cover-letter.patch").rename(out / COVER_LETTER)
    if topic.needs:
        (out / "needs").write_text("".join(f"{need}\n" for need in topic.needs))
    git("checkout", "-q", "--detach")
    git("branch", "-q", "-D", topic.name)
    return sorted(out.glob("*.patch"))


def prove(made: Stack, exported: dict[str, list[Path]]) -> None:
    """Apply each exported topic on what it needs, and all of them as a stack; compare."""
    git, version = made.git, made.source.version
    commits = []
    for topic in made.topics:
        base, *_, expected = made.pick_topic(topic)
        git.checkout(base)
        names = [f"{topic.name}/{mail.name}" for mail in exported[topic.name]]
        below = f"{version} with {', '.join(topic.needs)}" if topic.needs else version
        applied = git.apply(exported[topic.name], names, below)
        _same_tree(made, applied[-1], expected, f"topic {topic.name}, exported,")
        commits += applied
    git.checkout(made.base)
    status, output = git.run("cherry-pick", "--ff", *commits)
    if status:
        raise HarnessError("the exported topics do not go on top of each other", output)
    _same_tree(made, "HEAD", made.tip, "the stack of exported topics")


def _same_tree(made: Stack, revision: str, expected: str, what: str) -> None:
    if different := made.git("diff", "--name-only", expected, revision).split():
        raise HarnessError(f"{what} gives another {different[0]}")


def write_all(made: Stack, out: Path) -> dict[str, list[Path]]:
    """Write all topics below `out`; return the mails of each."""
    rules.check(made.topics)
    shutil.rmtree(out, ignore_errors=True)
    return {topic.name: write(made, topic, out / topic.name) for topic in made.topics}


def export(made: Stack, out: Path) -> None:
    """Write all topics below `out` and prove that they give the stack."""
    with ui.step("series") as progress:
        prove(made, exported := write_all(made, out))
        progress.done(
            f"each of {len(exported)} topics applies to Linux {made.source.version}, all give "
            f"the stack; in {out}"
        )


def run(
    paths: Paths, origin: Source, tree: patches.Tree, *, steps: bool = False, test: str = ""
) -> None:
    """Export to out/series, compare with the tree that is built; with `steps`, build each.

    `test` names the series that are tested at their ends.
    """
    with stack.assemble(paths, origin) as made:
        export(made, paths.out / "series")
        if different := patches.differences(made, tree.path):
            error = f"series: {different[0]} is not the same as in the tree that is built"
            raise HarnessError(error, "\n".join(different[1:]))
        prove_edits(paths, made)
        if names := test.replace(",", " ").split():
            cases = ends.run(paths, made, () if ends.ALL in names else names)
            if failed := [case for case in cases if case.status is Status.FAILED]:
                error = f"series: {len(failed)} of {len(cases)} tests failed: {failed[0].name}"
                raise HarnessError(error)
        if steps:
            build_steps(paths, made, tree)


def prove_edits(paths: Paths, made: Stack) -> None:
    """Apply the patches in kernel/configs to the few series that their kernels have."""
    for config in build.CONFIGS.values():
        if config.edit:
            if not (edit := paths.configs / config.edit).is_file():
                raise HarnessError(f"kernel/configs/{config.edit} is missing")
            made.pick(topics.select(topics.all_steps(made.topics), config.only or ()), edit)


def main(paths: Paths, steps: bool = False, test: str = "") -> int:
    """Run `make series`."""
    origin = source.get(paths)
    run(paths, origin, patches.get(paths, origin), steps=steps, test=test)
    return 0
