"""`make mutants`: apply each mutant to a copy, and run the test that must find it.

A mutant of this repository goes into a copy of the checkout, where the test runs as a user
would run it. A mutant of the kernel goes into a patched tree of its own, one for each
configuration, whose objects start as a copy of the configuration's and stay in the cache, so
that a mutant compiles only what it reaches. While two are tested, for tests mostly wait, the
next one is built, and the copy of the checkout has a test of its own.

out/mutants/results.json keeps what each test said, with and without its mutant, until anything
that decides it changes: a run that was interrupted goes on, and parts of one add up.
"""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue

import msgspec

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, source, stack, topics
from harness.kernel import tree as patches
from harness.kernel.stack import Git
from harness.layouts import run as layouts
from harness.mutants import mutant as model
from harness.mutants.mutant import Job, Kind, Mutant, Note, Result

Run = Callable[[], Result]

_PYTEST_SECONDS = 300
_CHECK_SECONDS = 1800
_GUESTS = 2  # at a time
_SEEDS = 50  # of layouts in a boot: a mutant that one of them finds is run on no more
# Headers of most objects: these are copied again rather than compiled again.
_WIDE = re.compile(r"^(include/|mm/internal\.h$)")
_NICE = 4  # of builds: a test beside them keeps its time limits
_OURS = "base"  # whose layouts are compared with those of vanilla
# Files of the checkout: those that decide no test, and those that decide one in a guest
# besides its suite and the kernel's sources.
_WORDS = r"^(docs|mutants)/|\.md$"
_OF_GUESTS = r"^(guest/(?!debian/|suites/)|qemu/|harness/(guest|kernel)/)"
_OF_LAYOUTS = r"^harness/layouts/"
# Words of pytest for a test that found something, and not for one that broke.
_ASSERTION = re.compile(r"assert\b|AssertionError|Failed: ")


def of_cases(cases: Sequence[Case]) -> Result:
    """Return the result of tests that all ran."""
    failed = [case for case in cases if case.status is Status.FAILED]
    if not failed:
        return Result(Kind.GREEN) if cases else Result(Kind.ERROR, "no test ran")
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return Result(Kind.CASE, f"{failed[0].name}{more}")


def of_guest(verdict: vm.Verdict, cases: Sequence[Case]) -> Result:
    """Return the result of a suite; what a guest said before its end was cut off is void."""
    if verdict.outcome is vm.Outcome.PANICKED:
        return Result(Kind.PANIC, verdict.message)
    if verdict.outcome is vm.Outcome.STOPPED:  # by the first failure: later ones are cut off
        return of_cases([next(case for case in cases if case.status is Status.FAILED)])
    if verdict.outcome is not vm.Outcome.FINISHED:
        return Result(Kind.ERROR, verdict.message)
    result = of_cases(cases)
    if result.kind is Kind.GREEN and verdict.status:
        return Result(Kind.ERROR, verdict.message)
    return result


def of_junit(text: str) -> Result:
    """Return the result of pytest: an assertion that fails is a case, a crash is not."""
    cases = ktap.parse_junit(text)
    bad = [case for case in cases if case.status is Status.FAILED]
    for case in bad:
        if _ASSERTION.match(case.detail):
            name = ".".join(case.name.split(".")[-2:])
            return Result(Kind.CASE, f"{name}: {case.detail.splitlines()[0]}")
    if bad or all(case.status is Status.SKIPPED for case in cases):
        return Result(Kind.ERROR, str(bad[0]) if bad else "no test ran")
    return Result(Kind.GREEN)


class _Stage(msgspec.Struct):
    stage: str
    cases: list[tuple[str, Status, str]]


def of_stages(text: str, stage: str) -> Result:
    """Return the result of a stage of `make check`; an error of another one is no case."""
    lines = [msgspec.json.decode(line, type=_Stage) for line in text.splitlines()]
    cases_of = {line.stage: [Case(*case) for case in line.cases] for line in lines}
    cases = cases_of.pop(stage, [])
    others = of_cases([case for some in cases_of.values() for case in some])
    if others.kind is Kind.CASE:
        return Result(Kind.ERROR, others.detail)
    return of_cases(cases)


def checkout_key(root: Path, *patterns: str, besides: str = "$^") -> str:
    """Name the content of those files of a checkout that match a pattern, but not `besides`."""
    listed = process.capture(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root)
    chosen = [
        name
        for name in sorted(set(listed.split("\0")) - {""})
        if any(re.search(pattern, name) for pattern in patterns)
        and not re.search(besides, name)
        and (root / name).is_file()
    ]
    return jsonio.digest(*(f"{name} {topics.read_text(root / name)!r}" for name in chosen))


class Checkout:
    """A copy of the checkout, with changes that are not committed; runs tests in it."""

    def __init__(self, paths: Paths, directory: Path) -> None:
        """Copy every file that git would commit, and make a repository of them."""
        self._root = directory
        directory.mkdir(parents=True, exist_ok=True)
        # Files that git ignores stay, such as kernels of the last run.
        process.capture(["rsync", "-a", "--delete", "--exclude=.git", "--filter=:- .gitignore",
                         f"{paths.root}/", f"{directory}/"])  # fmt: skip
        self._git = Git(directory, ())
        self._git("init", "-q")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "copy", "--allow-empty")
        self._key = checkout_key(directory, "", besides=_WORDS)

    def key(self, test: str) -> str:
        """Name all that decides a test."""
        return jsonio.digest(self._key, test)

    def prepare(self, test: str, mutant: Mutant | None, *, brief: bool) -> Run:
        """Return what runs a test, with a mutant if there is one; pytest always runs all."""
        return partial(self._run, test, mutant)

    def _run(self, test: str, mutant: Mutant | None) -> Result:
        try:
            if mutant:
                topics.write_text(self._root / mutant.file, mutant.broken(self._root))
            runner, _, words = test.partition(" ")
            return self._check(words) if runner == "check" else self._pytest(words)
        finally:
            self._git("checkout", "-q", "-f", ".")
            self._git("clean", "-fdq")

    def _pytest(self, words: str) -> Result:
        xml = self._root / "out/junit.xml"
        argv = ["-m", "pytest", f"--junitxml={xml}", *shlex.split(words)]
        return self._told_in(xml, argv, _PYTEST_SECONDS, of_junit)

    def _check(self, stage: str) -> Result:
        """Run a stage of `make check`, which builds what it needs."""
        stages = self._root / "out/check/stages.jsonl"
        argv = ["-m", "harness", "check", f"--only={stage}"]
        return self._told_in(stages, argv, _CHECK_SECONDS, lambda text: of_stages(text, stage))

    def _told_in(
        self, file: Path, argv: Sequence[str], seconds: int, told: Callable[[str], Result]
    ) -> Result:
        """Run Python, and return what it tells in a file."""
        file.unlink(missing_ok=True)
        _, output = process.attempt([sys.executable, *argv], self._root, timeout=seconds)
        if not file.exists():
            return Result(Kind.ERROR, process.first_error(output))
        return told(file.read_text())


class Kernels:
    """Patched kernels with one mutant more; runs suites and random layouts on them."""

    def __init__(
        self, paths: Paths, out: Path, scratch: ExitStack, mutants: Sequence[Mutant]
    ) -> None:
        """Build nothing yet; `scratch` keeps the stack of patches as long as we need it."""
        self._paths = paths
        self._files_changed = [mutant.file for mutant in mutants if mutant.tree == "kernel"]
        self._out = out
        self._scratch = scratch
        # Where guests run, and the next one waits, with copies of what they boot.
        self._rooms: SimpleQueue[Path] = SimpleQueue()
        for number in range(_GUESTS + 1):
            self._rooms.put(out / f"room-{number}")

    @cached_property
    def _stack(self) -> stack.Stack:
        with lock.cache(self._paths), ui.step("the stack of patches") as step:
            made = self._scratch.enter_context(
                stack.assemble(self._paths, source.get(self._paths), self._files_changed)
            )
            step.done(f"{len(made.commits)} patches")
            return made

    @cached_property
    def _ours(self) -> patches.Tree:
        return self._tree(patches.ALL, self._stack.tip)

    def _tree(self, name: str, revision: str) -> patches.Tree:
        made = self._stack
        patches.update(made, revision, made.source.home / name)
        return patches.Tree(made.source, made.files(revision), name)

    def key(self, test: str) -> str:
        """Name all that decides a test: sources, what is in the guest, and what judges it.

        A program of the selftests decides nothing where neither test nor suite names it.
        """
        runner, config, name, *_ = f"{test} -".split()
        layout = runner == "layouts"
        config, name = (_OURS, layouts.SUITE) if layout else (config, name)
        suite.settings_of(self._paths, name)  # it exists
        script = f"suites/{name}"
        named = set(re.findall(r"\w+", f"{test} {(self._paths.guest / script).read_text()}"))
        programs = {path for path in self._programs if Path(path).stem not in named}
        files = {path: of for path, of in self._files.items() if path not in programs}
        patterns = [_OF_GUESTS, f"^guest/{script}$", *([_OF_LAYOUTS] if layout else [])]
        return jsonio.digest(
            test,
            checkout_key(self._paths.root, *patterns),
            build.fragments(self._paths, config),
            self._stack.source.revision,
            str(sorted(files.items())),
        )

    @cached_property
    def _files(self) -> dict[str, str]:
        files = self._stack.files(self._stack.tip)
        return {path: of for path, of in files.items() if not path.startswith("Documentation/")}

    @cached_property
    def _programs(self) -> set[str]:
        self._stack.git.checkout(self._stack.tip)
        return {
            path
            for path in self._files
            if re.match(r"tools/testing/selftests/.*\.c$", path)
            and re.search(r"^int main\(|^TEST_HARNESS_MAIN",
                          topics.read_text(self._stack.git.tree / path), re.MULTILINE)
        }  # fmt: skip

    def prepare(self, test: str, mutant: Mutant | None, *, brief: bool) -> Run:
        """Build the kernel of a test, with a mutant if there is one.

        A `brief` test ends at its first failure.
        """
        room = self._rooms.get()
        try:
            ready = self._prepare(test, mutant, room, brief=brief)
        except BaseException:
            self._rooms.put(room)
            raise

        def run() -> Result:
            try:
                return ready()
            finally:
                self._rooms.put(room)

        return run

    def _prepare(self, test: str, mutant: Mutant | None, room: Path, *, brief: bool) -> Run:
        runner, *words = test.split()
        config = _OURS if runner == "layouts" else words.pop(0)
        with lock.cache(self._paths):
            name, tree, tools = config, self._ours, self._ours
            wide = mutant and _WIDE.search(mutant.file)
            if mutant:
                name += build.MUTANT
                # Seeding dates the files of a tree to suit the objects of one configuration.
                revision = self._stack.add(mutant.file, mutant.broken(self._ours.path))
                tree = tools = self._tree(f"tree-{name}", revision)
                if mutant.file.startswith("tools/"):
                    name, tree = config, self._ours
                else:
                    if not build.has_objects(self._ours, config):  # another clone has them
                        build.get(self._paths, self._ours, config, objects=True)
                    if mutant.compiles:
                        build.seed(tree, name)
                        compile_alone(mutant, self._ours.path, tree.path)
            try:
                kernel = suite.prepare(self._paths, name, tree, tools)
            except HarnessError as error:
                return partial(Result, Kind.BUILD, str(error))
            finally:
                if wide:
                    build.forget(tree, name)
            # The next mutant replaces what is booted.
            shutil.rmtree(room, ignore_errors=True)
            out = room / "kernel"
            shutil.copytree(kernel.out, out, ignore=shutil.ignore_patterns("modules"))
            kernel = replace(kernel, config=config, out=out)
            if runner == "layouts":
                return self._layouts(kernel, room, brief, *map(int, words))

        def run() -> Result:
            args, directory = ",".join(words[1:]), room / "guest"
            done = suite.run_suite(
                self._paths, kernel, words[0], args, directory,
                enough=lambda line: brief and ktap.is_failure(line),
            )  # fmt: skip
            return of_guest(done.run.verdict, done.cases)

        return run

    @cached_property
    def _twins(self) -> layouts.Kernels:
        return layouts.prepare(self._paths, self._out / layouts.SUITE)

    def _layouts(
        self, ours: build.Kernel, room: Path, brief: bool, vcpus: int, count: int, first: int = 1,
    ) -> Run:  # fmt: skip
        kernels = replace(self._twins.instead(ours), out=room)
        machine = layouts.Machine(vcpus)

        def run() -> Result:
            cases: list[Case] = []
            for start in range(first, first + count, _SEEDS):
                size = min(_SEEDS, first + count - start)
                try:
                    cases += layouts.cases(layouts.run(kernels, machine, start, size))
                except HarnessError as error:
                    panicked = "the guest panicked" in str(error)
                    return Result(Kind.PANIC if panicked else Kind.ERROR, str(error))
                if brief and of_cases(cases).kind is Kind.CASE:
                    break
            result = of_cases(cases)
            seed = next((case.detail.partition("\n")[0] for case in cases if case.detail), "")
            return Result(result.kind, f"{seed} {result.detail}".strip())

        return run


def compile_alone(mutant: Mutant, ours: Path, tree: Path) -> None:
    """Date the files of a tree so that make sees a change of one source, not of the header."""
    shutil.copystat(ours / mutant.file, tree / mutant.file)
    patches.replace(tree / mutant.compiles, tree / mutant.compiles)


def end(prepared: Future[Run]) -> tuple[Result, float]:
    """Run a test; what keeps it from running, such as a stale mutant, is a result as well.

    Return how many seconds it took, too.
    """
    began = time.monotonic()
    try:
        run = prepared.result()
        began = time.monotonic()
        result = run()
    except HarnessError as error:
        result = Result(Kind.BROKEN, str(error))
    return result, time.monotonic() - began


def main(paths: Paths, only: str) -> int:
    """Run the chosen mutants that no note is kept of; the last line counts them all."""
    chosen = model.select(model.load(paths.root / "mutants"), only)
    out = paths.out / "mutants"
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as scratch:
        checkout, kernels = Checkout(paths, out / "repo"), Kernels(paths, out, scratch, chosen)
        notes = _run(paths, {"repo": checkout, "kernel": kernels}, chosen)
    outcomes = []
    for mutant in chosen:
        without, note = (notes[mutant.title(broken)] for broken in (False, True))
        fate, why = model.judge(mutant, without.result, note.result)
        outcomes.append(model.Outcome(mutant, fate, why, note.seconds))
    jsonio.write_text(out / "results.md", f"{model.table(outcomes)}\n\n{model.totals(outcomes)}\n")
    ui.plain(f"\n{model.table(outcomes)}\n")
    ui.say(f"results.json and results.md are in {out}")
    ui.plain(model.totals(outcomes))
    return 1 if any(outcome.bad for outcome in outcomes) else 0


def _run(
    paths: Paths, places: Mapping[str, Checkout | Kernels], chosen: Sequence[Mutant]
) -> dict[str, Note]:
    """Run what is not known of mutants, and return what is noted."""
    record = paths.out / "mutants" / "results.json"
    notes = jsonio.recall(dict[str, Note], record) or {}
    of_tests = {mutant.test: places[mutant.tree].key(mutant.test) for mutant in chosen}

    def key(mutant: Mutant, broken: bool) -> str:
        more = (mutant.expect, mutant.file, mutant.compiles, str(mutant.edits)) if broken else ()
        return jsonio.digest(of_tests[mutant.test], *more)

    def known(mutant: Mutant, broken: bool) -> bool:
        return model.is_known(mutant, broken, notes, key(mutant, broken))

    # Those of the checkout need no builder, and run beside the others.
    jobs = sorted(model.jobs(chosen, known), key=lambda job: job.mutants[0].tree == "kernel")
    told = len(chosen) - sum(job.broken for job in jobs)
    if told:
        ui.say(f"{told} of {len(chosen)} mutants are known from an earlier run")
    builder = ThreadPoolExecutor(max_workers=1, initializer=partial(os.nice, _NICE))
    testers = {"repo": ThreadPoolExecutor(1), "kernel": ThreadPoolExecutor(_GUESTS)}
    waiting: dict[Future[tuple[Result, float]], Job] = {}

    def submit(job: Job) -> None:
        mutant = job.mutants[0]
        brief = job.broken and Kind.CASE in mutant.expected
        prepare = places[mutant.tree].prepare
        broken = mutant if job.broken else None
        prepared = builder.submit(prepare, job.test, broken, brief=brief)
        waiting[testers[mutant.tree].submit(end, prepared)] = job

    try:
        for job in jobs:
            submit(job)
        while waiting:
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                job, (result, seconds) = waiting.pop(done), done.result()
                for mutant in job.mutants:
                    note = Note(key(mutant, job.broken), result, seconds)
                    notes[mutant.title(job.broken)] = note
                jsonio.write(record, notes)
                if job.broken:
                    told += 1
                    words = f"{result.kind} {result.detail}".rstrip()
                    ui.say(f"mutant {told}/{len(chosen)} {job.mutants[0].name}: {words}")
                elif result.kind is not Kind.GREEN and len(job.mutants) > 1:
                    for mutant in job.mutants:  # one may be in the way of another
                        submit(Job((mutant,), broken=False, test=mutant.test))
    finally:
        pools = (*testers.values(), builder)
        for pool in pools:  # all of them, before anything waits for one
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.shutdown()
    return notes
