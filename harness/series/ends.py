"""The end of each series: a kernel with only its needs, built, booted and tested.

kernel/patches/<series>/tests names the suites. An interruption loses nothing: finished kernels
are kept for all clones, and what passed is noted with all that it depends on.
"""

from collections.abc import Collection, Mapping

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel import build, source, stack
from harness.kernel import tree as patches
from harness.kernel.stack import Stack
from harness.kernel.topics import Topic
from harness.kernel.tree import Tree
from harness.series.build import CONFIG, by_least_change, compiled_files, tree_at

ALL = "all"

_PROGRAMS = ("tools/", "include/uapi/", "arch/x86/include/uapi/")


def run(paths: Paths, made: Stack, names: Collection[str] = ()) -> list[Case]:
    """Test all series that have not passed as they are, or in any case those that are named."""
    if unknown := set(names) - {topic.name for topic in made.topics}:
        known = ", ".join(topic.name for topic in made.topics)
        raise HarnessError(f"TEST: no series '{min(unknown)}': there are {known}, or {ALL}")
    for topic in made.topics:
        for test in topic.tests:
            guest.settings_of(paths, test.suite)
    tip = made.files(made.tip)
    topics = {topic.name: topic for topic in made.topics if not names or topic.name in names}
    revisions = {name: made.pick_topic(topic)[-1] for name, topic in topics.items()}
    files = {name: made.files(revision) for name, revision in revisions.items()}
    record = made.source.home / "series-tested.json"
    passed = jsonio.recall(dict[str, str], record) or {}
    programs = patches.get(paths, made.source)
    around = _surroundings(paths, made, tip)
    cases = []
    for name in by_least_change(files, tip):
        topic = topics[name]
        key = jsonio.key([around, compiled_files(files[name]), [str(test) for test in topic.tests]])
        with ui.step(f"series {name}") as step:
            if passed.get(name) == key and not names:
                cases.append(Case(f"{name}: has passed as it is", Status.PASSED))
                step.done("has passed as it is", reused=True)
                continue
            results = _test(paths, made, topic, revisions[name], programs)
            cases += results
            if not any(case.status is Status.FAILED for case in results):
                jsonio.write(record, passed := {**passed, name: key})
            below = ", ".join((f"Linux {made.source.version}", *topic.needs))
            step.done(f"{len(topic.steps)} patches on {below}: built; {ktap.count(results)}")
    return cases


def _test(paths: Paths, made: Stack, topic: Topic, revision: str, programs: Tree) -> list[Case]:
    """Build the kernel of a series, and boot it for each of its tests; return a case for each.

    The programs in the guest are those of the whole stack.
    """
    try:
        kernel = guest.prepare(paths, CONFIG, tree_at(made, revision), programs)
    except HarnessError as error:
        return [Case(f"{topic.name}: builds", Status.FAILED, f"{error.detail}\n{error}")]
    cases = [Case(f"{topic.name}: builds", Status.PASSED)]
    for number, test in enumerate(topic.tests, 1):
        directory = paths.out / "series-tests" / f"{topic.name}-{number}"
        arguments = ",".join(test.arguments)
        result = guest.run_suite(paths, kernel, test.suite, arguments, directory, test.machine)
        if wrong := problem(result):
            guest.show_failure(result, directory)
        status = Status.FAILED if wrong else Status.PASSED
        cases.append(Case(f"{topic.name}: {test}", status, wrong))
    return cases


def problem(result: guest.SuiteResult) -> str:
    """Say what is wrong with a test, or ''. A skip is wrong: tests are chosen for this end."""
    skipped = [case.name for case in result.cases if case.status is Status.SKIPPED]
    if result.failure or not result.cases:
        return result.failure or "the suite printed no test results"
    return f"the guest skipped {ktap.some(skipped)}" if skipped else ""


def _surroundings(paths: Paths, made: Stack, tip: Mapping[str, str]) -> str:
    """Name all that the result of every series depends on; `tip` has the whole stack's files."""
    programs = {name: what for name, what in tip.items() if name.startswith(_PROGRAMS)}
    homes = (paths.guest, paths.root / "qemu")
    ours = sorted(path for home in homes for path in home.rglob("*") if path.is_file())
    return jsonio.key([
        made.source.revision, build.compiler(), build.fragments(paths, CONFIG), programs,
        [f"{path.name} {path.read_bytes().hex()}" for path in ours],
    ])  # fmt: skip


def main(paths: Paths) -> list[Case]:
    """Test the series that have changed."""
    with stack.assemble(paths, source.get(paths)) as made:
        return run(paths, made)
