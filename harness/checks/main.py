"""`make check`: every test there is, in an order that tells bad news early.

A stage that fails does not keep later ones from running unless they need what it makes;
those are listed as skipped. Suites run one after the other. Meanwhile a second thread builds
what they will need, and only with the time that they leave: what it starts has the
scheduling class SCHED_IDLE, so that tests with time limits do not compete with compilers.
"""

import functools
import os
import re
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from xml.etree import ElementTree

from harness import demo
from harness.checks.lint import run as lint
from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel import source, tree
from harness.series import export

if TYPE_CHECKING:
    from harness.layouts import run as layouts

Built = TypeVar("Built")

# The kernel that looks for mistakes is several times slower: it has a choice of the cases.
BASE_SUITES = (
    "kunit",
    "copy",
    "selftest",
    "mthp",
    "faults",
    "engines",
    "bounce",
    "isolated",
    "migrators",
)
DEBUG_SUITES = ("kunit", "selftest", "mthp", "rules", "faults", "engines", "churn")
ARM64_SUITES = ("mte", "zdma")
MM_SUITE = "mm-selftests"
LATENCY_SUITE = "latency"
LAYOUTS = ((1, 300), (2, 25))  # virtual CPUs, and how many random layouts

# Tests of `cow` that no single run can judge: with the offload off some of them failed in 5
# of 12 runs (on this project's plain kernel: ENOMEM when a swapped-out THP is pinned for
# long, EFAULT for a private mapping of a hugetlb memfd), with it on in 16 of 24. Whether a
# page gets swapped out at all is not certain either.
_UNRELIABLE = re.compile(r"\bcow\b.*(swapped.out|memfd hugetlb)")

_NAMED = 6  # cases with the same reason that the summary names
_DETAILED = 3  # failures that the summary tells in full


def parse_junit(text: str) -> list[Case]:
    """Return the cases of a JUnit file, as pytest writes it."""
    cases = []
    for element in ElementTree.fromstring(text).iter("testcase"):
        name = f"{element.get('classname', '')}.{element.get('name', '')}"
        skipped = element.find("skipped")
        failures = [*element.findall("failure"), *element.findall("error")]
        if failures:
            cases.append(Case(name, Status.FAILED, failures[0].get("message", "")))
        elif skipped is not None:
            cases.append(Case(name, Status.SKIPPED, skipped.get("message", "no reason given")))
        else:
            cases.append(Case(name, Status.PASSED))
    return cases


def compare(off: Sequence[Case], on: Sequence[Case]) -> list[Case]:
    """Return the cases of `on`, judged by what the same tests did in `off`."""
    before = {case.name: case for case in off}
    after = {case.name: case for case in on}
    cases = []
    for name, old in before.items():
        new = after.get(name)
        passed = new is not None and new.status is Status.PASSED
        if new is None and old.status is Status.SKIPPED:
            # A skipped test has a number for a name: this one was run with the offload on.
            cases.append(old)
        elif not passed and _UNRELIABLE.search(name):
            detail = "does not pass in every run with the offload off either"
            cases.append(Case(name, Status.SKIPPED, detail))
        elif new is None:
            detail = "did not run with the offload on"
            cases.append(Case(name, Status.FAILED, detail))
        elif new.status is Status.FAILED:
            detail = f"{old.status.value} with the offload off, fails with it on\n{new.detail}"
            cases.append(Case(name, Status.FAILED, detail))
        elif new.status is Status.SKIPPED and old.status is Status.PASSED:
            detail = f"passes with the offload off, skipped with it on: {new.detail}"
            cases.append(Case(name, Status.FAILED, detail))
        else:
            cases.append(new)
    return cases + [case for name, case in after.items() if name not in before]


def without_mode(cases: Sequence[Case], mode: str) -> list[Case]:
    """Drop the mode that is part of every name, so that names can be compared."""
    prefix = re.compile(rf"(^|/){mode}\.")
    return [replace(case, name=prefix.sub(r"\1", case.name)) for case in cases]


def suite_cases(result: guest.SuiteResult) -> list[Case]:
    """Return a suite's cases, with one more that fails if the guest or the suite did."""
    cases = list(result.cases)
    failed = any(case.status is Status.FAILED for case in cases)
    verdict = result.run.verdict
    ended_badly = verdict.outcome is not verdict.outcome.FINISHED
    wrong = verdict.message if ended_badly else "" if failed else result.failure
    if wrong:
        detail = f"{wrong}\n{result.run.what_happened}"
        cases.append(Case("guest", Status.FAILED, detail))
    elif not cases:
        cases.append(Case("guest", Status.FAILED, "the suite printed no test results"))
    return cases


@dataclass
class Report:
    """What the stages found so far."""

    out: Path
    suites: dict[str, list[Case]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, cases: Sequence[Case]) -> None:
        """Record a stage's cases; the JUnit file is always up to date."""
        with self._lock:
            self.suites[name] = list(cases)
            (self.out / "junit.xml").write_text(ktap.junit(dict(self.suites)))

    def attempt(self, name: str, stage: Callable[[], Sequence[Case]]) -> bool:
        """Run a stage; an error in it is a failed case. Return whether it could be run."""
        try:
            self.add(name, stage())
        except HarnessError as error:
            ui.say(f"{name}: FAILED: {error}")
            detail = f"{error.detail}\n{error}" if error.detail else str(error)
            self.add(name, [Case("error", Status.FAILED, detail)])
            return False
        except Exception:
            detail = traceback.format_exc()
            ui.say(f"{name}: FAILED: a mistake in the harness\n{detail}")
            self.add(name, [Case("error", Status.FAILED, detail.splitlines()[-1])])
            return False
        return True

    def skip(self, name: str, reason: str) -> None:
        """Record a stage that could not be run."""
        self.add(name, [Case("all", Status.SKIPPED, reason)])

    @property
    def counts(self) -> ktap.Counts:
        """Totals over all stages."""
        return ktap.count([case for cases in self.suites.values() for case in cases])

    @property
    def failures(self) -> list[tuple[str, Case]]:
        """Every failed case, with its suite."""
        return [
            (suite, case)
            for suite, cases in self.suites.items()
            for case in cases
            if case.status is Status.FAILED
        ]

    def listed(self, status: Status) -> list[str]:
        """Return a line for each reason why cases of a suite have a status."""
        names: dict[tuple[str, str], list[str]] = {}
        for suite, cases in self.suites.items():
            for case in cases:
                if case.status is status:
                    reason = (case.detail.splitlines() or [""])[0]
                    names.setdefault((suite, reason), []).append(case.name)
        return [
            f"  {suite}: {reason}: {_some(cases)}" for (suite, reason), cases in names.items()
        ]


def _some(names: Sequence[str]) -> str:
    """Return the first few names and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _unit_tests(out: Path) -> list[Case]:
    """Run the host's unit tests."""
    xml = out / "unit.xml"
    with ui.step("host unit tests") as step:
        log = out / "unit.log"
        try:
            process.run_logged(
                [sys.executable, "-m", "pytest", f"--junitxml={xml}"], log, "pytest"
            )
        except HarnessError:
            if not xml.exists():
                raise
        cases = parse_junit(xml.read_text())
        step.done(str(ktap.count(cases)))
    return cases


def _lint(paths: Paths) -> list[Case]:
    with lock.cache(paths):
        return lint.run_lint(paths, tree.get(paths, source.get(paths)))


def _series(paths: Paths) -> list[Case]:
    with lock.cache(paths):
        origin = source.get(paths)
        export.run(paths, origin, tree.get(paths, origin), steps=False)
    return [Case("applies, and is the tree that was tested", Status.PASSED)]


def _suite(paths: Paths, ready: guest.Ready, suite: str, out: Path) -> list[Case]:
    directory = out / f"{ready.kernel.config}-{suite}"
    result = guest.run_suite(paths, ready, suite, "", directory)
    if result.failure:
        guest.show_failure(result, directory)
    return suite_cases(result)


def _demo(
    paths: Paths, ready: guest.Ready | None, report: Report, engine: demo.Engine = demo.DMASIM
) -> None:
    """Run the demo on an engine, if there is the kernel for it."""
    name = demo.directory_of(paths, engine).name

    def stage() -> list[Case]:
        assert ready
        shown = demo.run(paths, ready, engine)
        if shown.suite.failure:
            guest.show_failure(shown.suite, paths.out / name)
        return shown.cases

    if ready:
        report.attempt(name, stage)
    else:
        report.skip(name, f"there is no {engine.config} kernel")


def _mm(paths: Paths, ready: guest.Ready, out: Path) -> list[Case]:
    """Run the tree's mm selftests with the offload, and without it if not all of them pass."""
    found = {}
    for mode in ("on", "off"):
        directory = out / f"{ready.kernel.config}-{MM_SUITE}-{mode}"
        result = guest.run_suite(paths, ready, MM_SUITE, mode, directory)
        verdict = result.run.verdict
        if verdict.outcome is not verdict.outcome.FINISHED:
            guest.show_failure(result, directory)
            raise HarnessError(f"offload {mode}: {verdict.message}")
        if not result.cases:
            raise HarnessError("the suite printed no test results")
        found[mode] = without_mode(result.cases, mode)
        if all(case.status in (Status.PASSED, Status.XFAIL) for case in found[mode]):
            break
    return compare(found["off"], found["on"]) if "off" in found else found["on"]


def _latency(paths: Paths, ready: guest.Ready, out: Path) -> list[Case]:
    """Compare the instrument with the function graph tracer, in virtual time."""
    directory = out / f"{ready.kernel.config}-{LATENCY_SUITE}"
    with ui.step(f"guest {ready.kernel.config} {LATENCY_SUITE}") as step:
        run = guest.run_in_virtual_time(paths, ready, LATENCY_SUITE, {}, directory)
        cases = tuple(ktap.parse(run.results))
        step.done(str(ktap.count(cases)))
    failure = guest.describe(run.verdict, cases)
    return suite_cases(guest.SuiteResult(LATENCY_SUITE, run, cases, failure))


def _lab(paths: Paths, out: Path) -> list[Case]:
    """Run the quick laboratory twice, and judge what it says."""
    from harness.lab import run as lab  # noqa: PLC0415
    from harness.lab.judge import claims  # noqa: PLC0415
    from harness.lab.model import preset as lab_preset  # noqa: PLC0415
    from harness.lab.model import published  # noqa: PLC0415
    from harness.lab.report import report as lab_report  # noqa: PLC0415

    preset = lab_preset.DEFAULT
    first, second = (lab.run(paths, preset, True, out / f"lab-{n}") for n in (1, 2))
    lab_report.write(first, out / "lab-1")
    return claims.judge(first, second, published.load())


def _lab_kernels(paths: Paths, out: Path) -> "layouts.Kernels":
    """Build the kernels of the laboratory, and what random layouts need."""
    from harness.lab import run as lab  # noqa: PLC0415
    from harness.layouts import run as layouts  # noqa: PLC0415

    lab.kernels(paths)
    return layouts.prepare(paths, out / layouts.SUITE)


def _layouts(kernels: "layouts.Kernels") -> list[Case]:
    """Compare random layouts of memory with vanilla, always the same ones."""
    from harness.layouts import run as layouts  # noqa: PLC0415

    cases = []
    for vcpus, count in LAYOUTS:
        machine = layouts.Machine(vcpus)
        outcome = layouts.run(kernels, machine, layouts.SEED, count)
        cases += layouts.cases(outcome, machine, layouts.SEED)
    return cases


def _only_when_idle() -> None:
    """Leave the processors to others: this thread, and all that it will start."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:
        ui.say(f"builds compete with tests, whose time limits may be too short: {error}")


class _Builds:
    """Everything that is compiled, in the order in which the suites ask for it."""

    def __init__(self, paths: Paths, report: Report) -> None:
        self._report = report
        self._pool = ThreadPoolExecutor(max_workers=1, initializer=_only_when_idle)

        def kernel(config: str) -> Future[guest.Ready | None]:
            return self._submit(f"kernel-{config}", lambda: guest.prepare(paths, config))

        self.base = kernel("base")
        self.debug = kernel("debug")
        self.lab = self._submit("kernels-lab", lambda: _lab_kernels(paths, report.out))
        self.arm64 = kernel("arm64")
        self.lint = self._pool.submit(report.attempt, "lint", lambda: _lint(paths))
        self.series = self._pool.submit(report.attempt, "series", lambda: _series(paths))

    def _submit(self, name: str, build: Callable[[], Built]) -> Future[Built | None]:
        """Build something when its turn comes; the result is None if that failed."""
        built: list[Built] = []

        def stage() -> list[Case]:
            built.append(build())
            return []  # a step, not a test

        def run() -> Built | None:
            self._report.attempt(name, stage)
            return built[0] if built else None

        return self._pool.submit(run)

    def __enter__(self) -> "_Builds":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def _suites(
    paths: Paths,
    config: str,
    ready: guest.Ready | None,
    report: Report,
    suites: Sequence[str],
) -> None:
    """Run suites on a kernel, if there is one."""
    for suite in suites:
        name = f"{config}-{suite}"
        if ready:
            stage = functools.partial(_suite, paths, ready, suite, report.out)
            report.attempt(name, stage)
        else:
            report.skip(name, f"there is no {config} kernel")


def main(paths: Paths) -> int:
    """Run everything; the last line counts it."""
    out = paths.out / "check"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    report = Report(out)
    with lock.cache(paths), _Builds(paths, report) as builds:
        report.attempt("unit", lambda: _unit_tests(out))
        base = builds.base.result()
        _demo(paths, base, report)
        _suites(paths, "base", base, report, BASE_SUITES)
        _attempt_with(base, report, LATENCY_SUITE, lambda ready: _latency(paths, ready, out))
        _attempt_with(base, report, MM_SUITE, lambda ready: _mm(paths, ready, out))
        _suites(paths, "debug", builds.debug.result(), report, DEBUG_SUITES)
        kernels = builds.lab.result()
        _attempt_with(kernels, report, "lab", lambda _: _lab(paths, out))
        _attempt_with(kernels, report, "layouts", _layouts)
        arm64 = builds.arm64.result()
        _demo(paths, arm64, report, demo.ZDMA)
        _suites(paths, "arm64", arm64, report, ARM64_SUITES)
        builds.lint.result()
        builds.series.result()
    return _summary(report)


def _attempt_with(
    built: Built | None, report: Report, name: str, stage: Callable[[Built], Sequence[Case]]
) -> None:
    """Run a stage on what was built for it, if there is that."""
    if built is None:
        report.skip(name, "what it needs could not be built")
    else:
        report.attempt(name, lambda: stage(built))


def _summary(report: Report) -> int:
    if again := guest.reruns():
        report.add("guests", again)
    for status in Status:
        if status is not Status.PASSED and (lines := report.listed(status)):
            ui.plain(f"\n{status.value}:")
            ui.plain(os.linesep.join(lines))
    # A log may be all that is left of a run elsewhere, and only its end.
    for suite, case in report.failures[:_DETAILED]:
        ui.plain(f"\n{suite}: {case.name}:")
        ui.plain(os.linesep.join(f"  | {line}" for line in case.detail.splitlines()))
    ui.say(f"logs and junit.xml are in {report.out}")
    counts = report.counts
    ui.plain(str(counts))
    return 1 if counts[Status.FAILED] or not counts[Status.PASSED] else 0
