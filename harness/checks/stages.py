"""Stages of a check, which pytest runs: an item each, and a report for each of their cases.

A stage that fails does not keep later ones from running unless they need its product; those
are skipped. Stages of the foreground run one after the other. Meanwhile other threads run those
of the background, and two at once of those in virtual time. They are nice, as tests with time
limits run in the foreground.

<out>/stages.jsonl has each stage as soon as it has ended, with its cases and its time;
<out>/junit.xml is pytest's.
"""

import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.checks import unsteady
from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import ROOT
from harness.guest import ktap
from harness.guest.ktap import Case, Status

_GUESTS = 2  # in virtual time, at once
_PARTS = 12  # of the table of times
_LINES = 40  # of a failed case, at the end
_OUTCOMES = {Status.FAILED: "failed", Status.SKIPPED: "skipped"}

Run = Callable[[Any, Path], Any]
"""Runs a stage: gets what it needs, or None, and the directory for its logs."""


@dataclass(frozen=True)
class Stage:
    """A part of a check: its test cases, or something that later stages need.

    One of the `background` builds, one after the other. One in `virtual` time may wait for a
    processor as long as it has to. `counts` are globs of cases whose verdict is a count or a
    time (see unsteady.py); `group` is the one in whose turn it runs, '' if it always does.
    """

    name: str
    run: Run
    needs: str = ""
    background: bool = False
    counts: tuple[str, ...] = ()
    group: str = ""
    virtual: bool = False

    @property
    def aside(self) -> bool:
        """Whether it runs beside those that need the processors for themselves."""
        return self.background or self.virtual


class Times(msgspec.Struct, frozen=True):
    """How long a stage took, and how long it and its children were busy, in seconds."""

    wall: float
    busy: float

    def __str__(self) -> str:
        """Return both in minutes."""
        return f"{self.busy / 60:.1f} ({self.wall / 60:.1f})"


@dataclass(frozen=True)
class Ended:
    """A stage that has run: its cases, and what others need of it, or None."""

    cases: list[Case]
    product: Any = None


@dataclass
class Runner:
    """Runs stages, and keeps what they found."""

    out: Path
    stages: Sequence[Stage]
    times: dict[str, Times] = field(default_factory=dict)
    unsteady: list[str] = field(default_factory=list)
    _ended: dict[str, Future[Ended]] = field(default_factory=dict)
    _doubtful: dict[str, list[Case]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, builder: ThreadPoolExecutor, guests: ThreadPoolExecutor) -> None:
        """Begin with the stages that run aside."""
        for stage in sorted(self.stages, key=lambda stage: not stage.background):
            if stage.aside:
                pool = builder if stage.background else guests
                self._ended[stage.name] = pool.submit(self._run, stage)

    def end(self, stage: Stage) -> list[Case]:
        """Return a stage's cases, without those that have to run again, alone."""
        if not stage.aside:
            self._ended[stage.name] = Future()
            self._ended[stage.name].set_result(self._run(stage))
        cases = self._ended[stage.name].result().cases
        doubtful = unsteady.doubtful(cases, stage.counts)
        if doubtful:
            self._doubtful[stage.name] = doubtful
        return [case for case in cases if case not in doubtful]

    def again(self) -> Iterator[tuple[str, list[Case]]]:
        """Run stages with doubtful cases again, now that nothing runs beside them.

        Return cases by stage.
        """
        for stage in self.stages:
            if doubtful := self._doubtful.get(stage.name):
                ui.say(f"{stage.name}: again, alone: {ktap.some([c.name for c in doubtful])}")
                runs = [
                    self._run(stage, f"{stage.name}-again-{number}").cases
                    for number in range(1, unsteady.RUNS + 1)
                ]
                cases, steady = unsteady.decide(doubtful, runs)
                self.unsteady += [f"{stage.name}: {name}" for name in steady]
                yield stage.name, cases
        if len(self.unsteady) > unsteady.MOST:
            detail = "\n".join(["more than one case is unsteady", *self.unsteady])
            yield "unsteady", [Case("at most one", Status.FAILED, detail)]

    def _run(self, stage: Stage, name: str = "") -> Ended:
        """Run a stage; an error in it is a failed case."""
        name = name or stage.name
        given = self._ended[stage.needs].result().product if stage.needs else None
        began, ours = time.monotonic(), time.thread_time()
        with process.charged() as busy:
            ended = self._attempt(stage, given, self.out / name)
        busy.append(time.thread_time() - ours)
        times = Times(time.monotonic() - began, sum(busy))
        told = [[case.name, case.status.value, case.detail] for case in ended.cases]
        line = msgspec.json.encode({"stage": name, "seconds": times, "cases": told})
        with self._lock, (self.out / "stages.jsonl").open("ab") as stream:
            self.times[name] = times
            stream.write(line + b"\n")
        return ended

    def _attempt(self, stage: Stage, given: Any, directory: Path) -> Ended:
        if stage.needs and given is None:
            return Ended([Case("all", Status.SKIPPED, f"there is no {stage.needs}")])
        try:
            product = stage.run(given, directory)
            return Ended(product if isinstance(product, list) else [], product)
        except Exception as error:
            if isinstance(error, HarnessError):
                detail = f"{error.detail}\n{error}".strip()
            else:
                detail = f"{traceback.format_exc()}a mistake in the harness: {error!r}"
            ui.say(f"{stage.name}: FAILED: {detail.splitlines()[-1]}")
            return Ended([Case("error", Status.FAILED, detail)])

    @property
    def where_time_went(self) -> list[str]:
        """Core-minutes by stage, and minutes, in lines."""
        order = sorted(self.times.items(), key=lambda item: -item[1].busy)
        wall = time.monotonic() - self._began
        busy = sum(times.busy for times in self.times.values())
        there = wall * len(os.sched_getaffinity(0))
        lines = [f"  {name} {times}" for name, times in order[:_PARTS]]
        rest = sum(times.busy for _, times in order[_PARTS:])
        return [
            f"{busy / 60:.1f} core-minutes in {wall / 60:.1f} minutes, processors "
            f"{100 * busy / there:.0f} % busy; core-minutes by stage (and its minutes):",
            *lines,
            *([f"  {len(order) - _PARTS} others {rest / 60:.1f}"] if rest else []),
        ]


class _Item(pytest.Item):
    """A stage, or, with None, what has to run again when all stages have ended."""

    stage: Stage | None

    def runtest(self) -> None:
        """Never called: the plugin has a protocol of its own."""
        raise NotImplementedError


class _Plugin:
    """Makes pytest collect stages, and report their cases."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.statuses: list[Status] = []

    def pytest_collection(self, session: pytest.Session) -> bool:
        for stage in (*self._runner.stages, None):
            name = stage.name if stage else "again"
            item = _Item.from_parent(session, name=name, nodeid=name)
            item.stage = stage
            session.items.append(item)
        session.testscollected = len(session.items)
        return True

    def pytest_runtest_protocol(self, item: _Item) -> bool:
        ended = [(item.name, self._runner.end(item.stage))] if item.stage else self._runner.again()
        for name, cases in ended:
            for case in cases:
                self.statuses.append(case.status)
                # The second one lets a case have the name of another.
                for when in ("call", "teardown"):
                    item.ihook.pytest_runtest_logreport(report=_report(name, case, when))
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """Count, and print nothing: stages print their progress."""
        status: Status = report.status
        return (status.value, "", status.name) if report.when == "call" else ("", "", "")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for status in (Status.KNOWN, Status.XFAIL):
            skips: dict[str, list[str]] = {}
            for report in terminalreporter.stats.get(status.value, []):
                stage, _, name = report.nodeid.partition("::")
                skips.setdefault(f"{stage}: {report.reason}", []).append(name)
            for reason, names in skips.items():
                ui.plain(f"{status.value}: {reason}: {ktap.some(names)}")
        for name in self._runner.unsteady:
            ui.plain(f"unsteady: {name}")
        for line in self._runner.where_time_went:
            ui.plain(line)
        ui.plain(f"all of them are in {self._runner.out}/stages.jsonl, logs beside it")


def _report(name: str, case: Case, when: Any) -> pytest.TestReport:
    reason = case.detail.partition("\n")[0]
    longrepr: Any = None
    if case.status is Status.FAILED:
        longrepr = "\n".join(case.detail.splitlines()[:_LINES])
    elif case.status is Status.SKIPPED:
        longrepr = (name, None, reason)
    # pytest takes brackets for parameters.
    title = f"{name}::{case.name}".translate(str.maketrans("[]", "()"))
    return pytest.TestReport(
        nodeid=title,
        location=(name, None, title),
        keywords={},
        outcome=_OUTCOMES.get(case.status, "passed") if when == "call" else "passed",  # type: ignore[arg-type]
        longrepr=longrepr if when == "call" else None,
        when=when,
        status=case.status,
        reason=reason,
    )


def select(known: Sequence[Stage], usual: Collection[str], words: str = "") -> list[Stage]:
    """Return the stages that words name, and those that they need, in the order of `known`.

    A word is a name, or else a prefix or a glob: of `usual` stages if it names some of them.
    Without words, all that is usual. HarnessError if a word names nothing.
    """
    needs = {stage.name: stage.needs for stage in known}
    chosen: set[str] = set() if words else set(usual)
    for word in words.replace(",", " ").split():
        named = [word] if word in needs else _matching(usual, word) or _matching(needs, word)
        if not named:
            raise HarnessError(f"ONLY: no stage '{word}': there are {', '.join(needs)}")
        chosen.update(named)
    waiting = list(chosen)
    while waiting:
        if (need := needs[waiting.pop()]) and need not in chosen:
            chosen.add(need)
            waiting.append(need)
    return [stage for stage in known if stage.name in chosen]


def _matching(names: Iterable[str], word: str) -> list[str]:
    return [name for name in names if name.startswith(word) or fnmatchcase(name, word)]


def run(out: Path, stages: Sequence[Stage]) -> int:
    """Run stages in a fresh `out`; the last line counts. Return 1 if any failed, or none passed."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    runner = Runner(out, stages)
    plugin = _Plugin(runner)
    options = [
        "-qq", "-rfs", "-s", "-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider",
        f"--junitxml={out}/junit.xml",
    ]  # fmt: skip
    with (
        ThreadPoolExecutor(1, initializer=process.be_nice) as builder,
        ThreadPoolExecutor(_GUESTS, initializer=process.be_nice) as guests,
    ):
        try:
            runner.start(builder, guests)
            status = pytest.main(options, plugins=[plugin])
        except BaseException:
            for pool in (builder, guests):
                pool.shutdown(wait=False, cancel_futures=True)
            raise
    counts = ktap.Counts(plugin.statuses)
    ui.plain(str(counts))
    failed = status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return 1 if failed or counts[Status.FAILED] or not counts[Status.PASSED] else 0
