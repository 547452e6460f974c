"""`make check`: every test there is, in an order that tells bad news early.

A stage that fails does not keep later ones from running unless they need what it makes;
those are listed as skipped. Suites run one after the other. Meanwhile a second thread builds
what they will need, and only with the time that they leave: what it starts has the
scheduling class SCHED_IDLE, so that tests with time limits do not compete with compilers.
"""

import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from harness import demo
from harness.checks import compare
from harness.checks.lint import run as lint
from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, vm
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel import qemu, source, tree
from harness.kernel.build import Kernel
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.layouts import run as layouts
from harness.layouts.run import Machine
from harness.series import export

# The kernel that looks for mistakes is several times slower: it has a choice of the cases.
BASE_SUITES = (
    "kunit", "copy", "selftest", "mthp", "faults", "engines", "bounce", "isolated", "unmovable",
    "latency", "migrators", "live", "live-stress", "bounds", "hugetlb", "ptdma", "ae4dma",
    "doctor", "doctor-ptdma", "doctor-ae4dma", "doctor-pays", "keys",
)  # fmt: skip
DEBUG_SUITES = (
    "kunit", "selftest", "mthp", "rules", "faults", "engines", "churn", "live", "bounds",
    "ptdma", "ae4dma", "iommu",
)  # fmt: skip
ARM64_SUITES = ("mte", "mthp", "live", "zdma")
# How many random layouts, and where. An arm64 kernel more to compare with would take minutes to
# build: rules that need none judge it, and the debug kernel.
LAYOUTS = {
    Machine(vcpus=1): 120,
    Machine(vcpus=2): 25,
    Machine(vcpus=1, offload=True): 20,
    Machine(vcpus=1, pressure=True): 20,
    Machine(vcpus=1, offload=True, pressure=True): 10,
    Machine(vcpus=1, config="arm64"): 40,
    Machine(vcpus=1, config="debug", offload=True): 4,
}

_DETAILED = 3  # failures that the summary tells in full
_SLOWEST = 5


@dataclass(frozen=True)
class Stage:
    """A part of the check: its test cases, or something that later stages need.

    `run` gets what the stage `needs` has returned, or None if it needs nothing.
    """

    name: str
    run: Callable[[Any], Any]
    needs: str = ""


def builds(paths: Paths, out: Path) -> list[Stage]:
    """Return what runs in the background, in the order in which it is needed.

    What others need goes first, then what no load of the machine can change: the laboratory
    counts instructions, and layouts of memory have no time limits.
    """

    def kernel(config: str) -> Stage:
        return Stage(f"kernel-{config}", lambda _: guest.prepare(paths, config))

    def layouts_of(config: str) -> Stage:
        run = partial(_layouts, paths, out / layouts.SUITE, config)
        return Stage(f"{config}-layouts", run, needs[config])

    needs = {"debug": "kernel-debug", "base": "kernels-lab", "arm64": "kernel-arm64"}
    return [
        Stage("qemu", lambda _: qemu.get(paths)),
        kernel("base"),
        kernel("debug"),
        Stage("kernels-lab", lambda _: _laboratory().kernels(paths, quick=True)),
        kernel("arm64"),
        Stage("lint", lambda _: lint.run_lint(paths, tree.get(paths, source.get(paths)))),
        Stage("series", lambda _: _series(paths)),
        *(layouts_of(config) for config in needs),
        Stage("lab", lambda kernels: _lab(paths, out, kernels), "kernels-lab"),
    ]


def tests(paths: Paths, out: Path) -> list[Stage]:
    """Return what runs in the foreground, in this order."""

    def suite(config: str, name: str) -> Stage:
        directory = out / f"{config}-{name}"
        run = partial(_suite, paths, directory, name)
        return Stage(directory.name, run, f"kernel-{config}")

    def show(engine: demo.Engine) -> Stage:
        name = demo.directory_of(paths, engine).name
        run = partial(demo.run, paths, engine)
        return Stage(name, lambda kernel: run(kernel).cases, f"kernel-{engine.config}")

    return [
        Stage("unit", lambda _: _unit_tests(paths, out)),
        show(demo.DMASIM),
        *(suite("base", name) for name in BASE_SUITES),
        Stage("mm-selftests", lambda kernel: _mm(paths, out, kernel), "kernel-base"),
        *(suite("debug", name) for name in DEBUG_SUITES),
        *(show(engine) for engine in demo.ENGINES.values() if engine != demo.DMASIM),
        *(suite("arm64", name) for name in ARM64_SUITES),
    ]


def suite_cases(result: guest.SuiteResult) -> list[Case]:
    """Return a suite's cases, with one more that fails if the guest or the suite did."""
    finished = result.run.verdict.outcome is vm.Outcome.FINISHED
    wrong = result.failure
    if finished and any(case.status is Status.FAILED for case in result.cases):
        wrong = ""
    elif not wrong and not result.cases:
        wrong = "the suite printed no test results"
    detail = f"{wrong}\n{result.run.what_happened}"
    return [*result.cases, *([Case("guest", Status.FAILED, detail)] if wrong else [])]


@dataclass
class Report:
    """What the stages found so far, and the seconds that each of them took."""

    out: Path
    suites: dict[str, list[Case]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, cases: Sequence[Case]) -> None:
        """Record a stage's cases; the files are always up to date."""
        with self._lock:
            self.suites[name] = list(cases)
            (self.out / "junit.xml").write_text(ktap.junit(dict(self.suites)))
            (self.out / "times.json").write_text(json.dumps(self.times, indent=1) + "\n")

    def run(self, stage: Stage, made: Future[Any] | None = None) -> Any:
        """Run a stage; an error in it is a failed case. Return what others need, or None.

        `made` is what the stage needs.
        """
        given = made.result() if made else None
        if made and given is None:
            self.add(stage.name, [Case("all", Status.SKIPPED, f"there is no {stage.needs}")])
            return None
        began = time.monotonic()
        product: Any = None
        try:
            product = stage.run(given)
            cases = product if isinstance(product, list) else []
        except Exception as error:
            if isinstance(error, HarnessError):
                detail = f"{error.detail}\n{error}".strip()
            else:
                detail = f"{traceback.format_exc()}a mistake in the harness: {error!r}"
            ui.say(f"{stage.name}: FAILED: {detail.splitlines()[-1]}")
            cases = [Case("error", Status.FAILED, detail)]
        self.times[stage.name] = round(time.monotonic() - began, 1)
        self.add(stage.name, cases)
        return product

    @property
    def slowest(self) -> str:
        """The stages that took longest, and how busy they kept the processors, in one line."""
        order = sorted(self.times.items(), key=lambda item: -item[1])[:_SLOWEST]
        stages = ", ".join(f"{name} {ui.clock(seconds)}" for name, seconds in order)
        used = sum(os.times()[:4])  # by this process and by the children that have ended
        there = (time.monotonic() - self.began) * len(os.sched_getaffinity(0))
        return f"{stages}; processors {100 * used / there:.0f} % busy"

    @property
    def cases(self) -> list[tuple[str, Case]]:
        """Every case, with its suite."""
        return [(suite, case) for suite, cases in self.suites.items() for case in cases]

    def listed(self, status: Status) -> list[str]:
        """Return a line for each reason why cases of a suite have a status."""
        found: dict[str, list[str]] = {}
        for suite, case in self.cases:
            if case.status is status:
                reason = case.detail.partition("\n")[0]
                found.setdefault(f"  {suite}: {reason}", []).append(case.name)
        return [f"{reason}: {ktap.some(names)}" for reason, names in found.items()]


def _unit_tests(paths: Paths, out: Path) -> list[Case]:
    """Run the host's unit tests."""
    xml = out / "unit.xml"
    with ui.step("host unit tests") as step:
        status, text = process.attempt(
            [sys.executable, "-m", "pytest", f"--junitxml={xml}"], paths.root
        )
        (out / "unit.log").write_text(text)
        if not xml.exists():
            raise HarnessError(f"pytest ended with status {status}", process.tail(text))
        cases = ktap.parse_junit(xml.read_text())
        step.done(str(ktap.count(cases)))
    return cases


def _series(paths: Paths) -> list[Case]:
    export.main(paths)
    return [Case("each topic applies, and all are the tree that was tested", Status.PASSED)]


def _suite(paths: Paths, directory: Path, name: str, kernel: Kernel) -> list[Case]:
    result = guest.run_suite(paths, kernel, name, "", directory)
    if result.failure:
        guest.show_failure(result, directory)
    return suite_cases(result)


def _mm(paths: Paths, out: Path, kernel: Kernel) -> list[Case]:
    """Run the tree's mm selftests with the offload, and those that do not pass without it.

    Cases that no single run can judge are repeated in both modes.
    """

    def run(mode: str, programs: Sequence[str] = (), number: int = 1) -> list[Case]:
        directory = out / f"mm-selftests-{mode}-{number}"
        args = ",".join([mode, *programs])
        result = guest.run_suite(paths, kernel, "mm-selftests", args, directory)
        if result.run.verdict.outcome is not vm.Outcome.FINISHED or not result.cases:
            guest.show_failure(result, directory)
            raise HarnessError(f"offload {mode}: {result.failure or 'no test results'}")
        return compare.without_mode(result.cases, mode)

    on = run("on")
    if not (programs := compare.programs(on)):
        return on
    off = run("off", programs)
    cases = compare.once(off, on)
    doubtful = compare.unreliable(cases)
    rounds = 1
    while rounds < compare.ROUNDS and not compare.seen_both_ways(doubtful, off, on, rounds):
        rounds += 1
        off += run("off", [compare.PROGRAM], rounds)
        on += run("on", [compare.PROGRAM], rounds)
    judged = [compare.rates(name, off, on, rounds) for name in doubtful]
    return [case for case in cases if case.name not in doubtful] + judged


def _laboratory() -> ModuleType:
    from harness.lab import run  # noqa: PLC0415 (imports matplotlib, which takes a while)

    return run


def _lab(paths: Paths, out: Path, kernels: dict[str, Kernel]) -> list[Case]:
    """Run the quick laboratory, a part of it twice, and judge what it says."""
    lab = _laboratory()
    first = lab.run(lab.Lab(paths, kernels, out / "lab-1"), preset.DEFAULT, True)
    second = lab.again(lab.Lab(paths, kernels, out / "lab-2"), first)
    return claims.judge(first, second)


def _layouts(paths: Paths, directory: Path, config: str, _: object) -> list[Case]:
    """Compare random layouts of memory with vanilla, always the same ones."""
    kernels = layouts.prepare(paths, directory, config)
    return [
        case
        for machine, count in LAYOUTS.items()
        if machine.config == config
        for case in layouts.cases(layouts.run(kernels, machine, layouts.SEED, count))
    ]


def main(paths: Paths) -> int:
    """Run everything; the last line counts it."""
    out = paths.out / "check"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    report = Report(out)
    with (
        lock.cache(paths),
        ThreadPoolExecutor(max_workers=1, initializer=process.only_when_idle) as pool,
    ):
        made: dict[str, Future[Any]] = {}
        for stage in builds(paths, out):
            made[stage.name] = pool.submit(report.run, stage, made.get(stage.needs))
        try:
            for stage in tests(paths, out):
                report.run(stage, made[stage.needs] if stage.needs else None)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return summary(report)


def summary(report: Report) -> int:
    """Print what is not passed, and the counts last; return the exit status."""
    for status in Status:
        if status is not Status.PASSED and (lines := report.listed(status)):
            ui.plain(f"\n{status.value}:")
            ui.plain(os.linesep.join(lines))
    # A log may be all that is left of a run elsewhere, and only its end.
    failed = [(suite, case) for suite, case in report.cases if case.status is Status.FAILED]
    for suite, case in failed[:_DETAILED]:
        ui.plain(f"\n{suite}: {case.name}:")
        ui.plain(os.linesep.join(f"  | {line}" for line in case.detail.splitlines()))
    ui.say(f"slowest of times.json: {report.slowest}")
    ui.say(f"logs and junit.xml are in {report.out}")
    counts = ktap.count(case for _, case in report.cases)
    ui.plain(str(counts))
    return 1 if failed or not counts[Status.PASSED] else 0
