"""`make mutants`: apply each mutant to a copy, and run the test that must find it.

A mutant of this repository goes into a copy of the checkout, where the test runs as a user
would run it. A mutant of the kernel goes into a patched tree of its own, one for each
configuration, whose objects start as a copy of the configuration's and stay in the cache, so
that a mutant compiles only what it reaches. While one is tested, the next one is built.
"""

import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.kernel.stack import Git
from harness.layouts import run as layouts
from harness.mutants import mutant as model
from harness.mutants.mutant import Kind, Outcome, Result

Run = Callable[[], Result]

_PYTEST_SECONDS = 300
_GUEST_SECONDS = 1800
_OURS = "lab"  # whose layouts are compared with those of vanilla
# What pytest says of a test that found something, and not of one that broke.
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


class Checkout:
    """A copy of the checkout, with changes that are not committed; runs tests in it."""

    def __init__(self, paths: Paths, directory: Path) -> None:
        """Copy every file that git would commit, and make a repository of them."""
        self._root = directory
        directory.mkdir(parents=True, exist_ok=True)
        # What git ignores stays, such as kernels of the last run.
        process.capture(["rsync", "-a", "--delete", "--exclude=.git", "--filter=:- .gitignore",
                         f"{paths.root}/", f"{directory}/"])  # fmt: skip
        self._git = Git(directory, ())
        self._git("init", "-q")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "copy", "--allow-empty")

    def prepare(self, test: str, patch: Path | None) -> Run:
        """Return what runs a test, with a patch if there is one."""
        return partial(self._run, test, patch)

    def _run(self, test: str, patch: Path | None) -> Result:
        if patch:
            try:
                self._git("apply", str(patch))
            except HarnessError as error:
                raise HarnessError(f"stale: the patch does not apply: {error}") from error
        try:
            runner, _, words = test.partition(" ")
            return self._pytest(words) if runner == "pytest" else self._guest(words)
        finally:
            self._git("checkout", "-q", "-f", ".")
            self._git("clean", "-fdq")

    def _pytest(self, words: str) -> Result:
        xml = self._root / "out" / "junit.xml"
        xml.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "pytest", f"--junitxml={xml}", *shlex.split(words)]
        _, said = process.attempt(argv, self._root, timeout=_PYTEST_SECONDS)
        if not xml.exists():
            return Result(Kind.ERROR, process.first_error(said))
        return of_junit(xml.read_text())

    def _guest(self, words: str) -> Result:
        config, name, *args = words.split()
        directory = self._root / "out" / "guest" / f"{config}-{name}"
        shutil.rmtree(directory, ignore_errors=True)
        command = ["guest", "--config", config, f"--args={','.join(args)}", name]
        argv = [sys.executable, "-m", "harness", *command]
        _, said = process.attempt(argv, self._root, timeout=_GUEST_SECONDS)
        logs = [directory / "console.log", directory / "results.log"]
        if not all(log.exists() for log in logs):
            return Result(Kind.BUILD, process.first_error(said))
        console, results = (log.read_text(errors="replace") for log in logs)
        return of_guest(vm.judge(console, results), ktap.parse(results))


class Kernels:
    """Patched kernels with one mutant more; runs suites and random layouts on them."""

    def __init__(self, paths: Paths, out: Path) -> None:
        """Build nothing yet."""
        self._paths = paths
        self._out = out
        self._built = 0

    def prepare(self, test: str, patch: Path | None) -> Run:
        """Build the kernel of a test, with a patch if there is one; return what runs it."""
        runner, *words = test.split()
        config = _OURS if runner == "layouts" else words.pop(0)
        with lock.cache(self._paths):
            origin = source.get(self._paths)
            name, tree = config, None
            if patch:
                name += build.MUTANT
                # Seeding dates the files of a tree to suit the objects of one configuration.
                tree = patches.get(self._paths, origin, f"tree-{name}", extra=(patch,))
            try:
                kernel = suite.prepare(self._paths, name, tree)
            except HarnessError as error:
                return partial(Result, Kind.BUILD, str(error))
            kernel = self._copy(kernel, config)
            if runner == "layouts":
                return self._layouts(kernel, *(int(word) for word in words))
        return partial(self._suite, kernel, words[0], ",".join(words[1:]))

    def _copy(self, kernel: build.Kernel, config: str) -> build.Kernel:
        """Copy what is booted, which the next mutant replaces; two of them are in use."""
        self._built += 1
        out = self._out / f"kernel-{self._built % 2}"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(kernel.out, out, ignore=shutil.ignore_patterns("modules"))
        return replace(kernel, config=config, out=out)

    def _suite(self, kernel: build.Kernel, name: str, args: str) -> Result:
        done = suite.run_suite(self._paths, kernel, name, args, self._out / "guest")
        return of_guest(done.run.verdict, done.cases)

    def _layouts(self, ours: build.Kernel, vcpus: int, count: int, first: int = 1) -> Run:
        kernels = layouts.prepare(self._paths, self._out / layouts.SUITE, ours=ours)
        machine = layouts.Machine(vcpus)

        def run() -> Result:
            try:
                found = layouts.run(kernels, machine, first, count)
            except HarnessError as error:
                panicked = "the guest panicked" in str(error)
                return Result(Kind.PANIC if panicked else Kind.ERROR, str(error))
            return of_cases(layouts.cases(found))

        return run


def end(prepared: Future[Run]) -> Result:
    """Run a test; what keeps it from running, such as a stale patch, is a result as well."""
    try:
        return prepared.result()()
    except HarnessError as error:
        return Result(Kind.BROKEN, str(error))


def main(paths: Paths, only: str) -> int:
    """Run the chosen mutants; the last line counts them."""
    directory = paths.root / "mutants"
    chosen = model.select(model.load(directory), only)
    out = paths.out / "mutants"
    out.mkdir(parents=True, exist_ok=True)
    prepare = {"repo": Checkout(paths, out / "repo").prepare,
               "kernel": Kernels(paths, out).prepare}  # fmt: skip
    jobs = list(model.jobs(chosen))
    baselines: dict[tuple[str, str], Result] = {}
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max_workers=1, initializer=process.only_when_idle) as builder:

        def submit(mutant: model.Mutant, broken: bool) -> Future[Run]:
            patch = directory / f"{mutant.name}.patch" if broken else None
            return builder.submit(prepare[mutant.tree], mutant.test, patch)

        following = submit(*jobs[0])
        for (mutant, broken), after in zip(jobs, [*jobs[1:], None], strict=True):
            began = time.monotonic()
            wait([prepared := following])  # the one after it replaces what the last one used
            if after:
                following = submit(*after)
            result = end(prepared)
            if not broken:
                baselines[mutant.job] = result
                continue
            fate, why = model.judge(mutant, baselines[mutant.job], result)
            outcomes.append(Outcome(mutant, fate, why, time.monotonic() - began))
            done = f"{len(outcomes)}/{len(chosen)} {mutant.name}"
            ui.say(f"mutant {done}: {fate}: {why}")
            model.write(outcomes, out)
    ui.plain(f"\n{model.table(outcomes)}\n")
    ui.say(f"results.json and results.md are in {out}")
    ui.plain(model.totals(outcomes))
    return 1 if any(one.bad for one in outcomes) else 0
