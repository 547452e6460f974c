"""`make demo`: migrate real process memory in a guest, and prove that not a byte was lost."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel.arch import ZCU102

FOLIO_KIB = (4, 64, 2048)
MODES = ("off", "cpu", "dcbm")

_PREFIX = "result: "
_WIDTH = 132  # of a table that does not go to a terminal
_COUNTS = (
    "channels", "folios_asked", "folios_moved", "folios_by_engine", "bytes_verified",
    "bytes_wrong",
)  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """A DMA engine that the demo can show: the kernel and the machine that have it.

    `machine` is '' for the first machine of the kernel's architecture; `driver` is what the
    guest calls the engine.
    """

    name: str
    config: str
    machine: str
    driver: str
    channels: int


DMASIM = Engine("dmasim", "base", "", "dmasim", 4)
ZDMA = Engine("zdma", "arm64", ZCU102.name, "xilinx-zynqmp-dma", 16)
ENGINES = {engine.name: engine for engine in (DMASIM, ZDMA)}


@dataclass(frozen=True)
class Result:
    """One measured migration, as results.json holds it."""

    folio_kib: int
    mode: str
    engine: str | None
    channels: int
    folios_asked: int
    folios_moved: int
    folios_by_engine: int
    fallbacks: Mapping[str, int]
    bytes_verified: int
    bytes_wrong: int
    gbps_emulated: float

    @property
    def name(self) -> str:
        """How messages call this run."""
        return f"{self.folio_kib} KiB, mode {self.mode}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def parse_result(item: Mapping[str, Any]) -> Result:
    """Check one object of the guest against the schema; a mistake raises ValueError."""
    names = set(Result.__dataclass_fields__)
    if missing := sorted(names - set(item)):
        raise ValueError(f"lacks {', '.join(missing)}")
    if unknown := sorted(set(item) - names):
        raise ValueError(f"has unknown {', '.join(unknown)}")
    if item["folio_kib"] not in FOLIO_KIB:
        raise ValueError(f"folio_kib is {item['folio_kib']!r}")
    if item["mode"] not in MODES:
        raise ValueError(f"mode is {item['mode']!r}")
    for name in _COUNTS:
        if not _is_count(item[name]):
            raise ValueError(f"{name} is {item[name]!r}, not a count")
    if item["engine"] is not None and not isinstance(item["engine"], str):
        raise ValueError(f"engine is {item['engine']!r}, not a name")
    causes = item["fallbacks"]
    if not isinstance(causes, dict) or not all(_is_count(n) for n in causes.values()):
        raise ValueError(f"fallbacks is {causes!r}, not counts by cause")
    speed = item["gbps_emulated"]
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or speed < 0:
        raise ValueError(f"gbps_emulated is {speed!r}, not a speed")
    return Result(**item)


def parse_results(text: str) -> list[Result]:
    """Return the `result:` lines of a guest's output."""
    results = []
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        try:
            item = json.loads(line.removeprefix(_PREFIX))
            if not isinstance(item, dict):
                raise ValueError("is no object")
            results.append(parse_result(item))
        except ValueError as error:
            raise HarnessError(f"demo: a result of the guest {error}", line) from error
    return results


def problems(results: Sequence[Result], engine: Engine = DMASIM) -> list[str]:
    """Say everything that makes a set of results a failure, with `engine` in mode dcbm."""
    found = []
    for size in FOLIO_KIB:
        for mode in MODES:
            if not any(r.folio_kib == size and r.mode == mode for r in results):
                found.append(f"{size} KiB, mode {mode}: no result")
    for result in results:
        if result.bytes_wrong:
            found.append(f"{result.name}: {result.bytes_wrong} bytes are wrong")
        if not result.bytes_verified:
            found.append(f"{result.name}: nothing was verified")
        if not result.folios_moved:
            found.append(f"{result.name}: no folio moved")
        if result.mode == "dcbm" and not result.folios_by_engine:
            found.append(f"{result.name}: the engine copied no folio")
        seen = f"{result.channels} channels of {result.engine}"
        wanted = f"{engine.channels} channels of {engine.driver}"
        if result.mode == "dcbm" and seen != wanted:
            found.append(f"{result.name}: {seen}, not {wanted}")
        if result.mode == "off" and result.folios_by_engine:
            found.append(f"{result.name}: an engine copied although the feature is off")
    return found


def table(results: Sequence[Result]) -> Table:
    """Return the table that the user sees."""
    shown = Table(title="move_pages(2) between two NUMA nodes of an emulated machine")
    shown.add_column("folio")
    shown.add_column("mode")
    shown.add_column("engine", overflow="fold")
    for heading in ("channels", "folios asked", "moved", "by engine", "fallbacks",
                    "bytes verified", "wrong", "GB/s (emulated)"):  # fmt: skip
        shown.add_column(heading, justify="right")
    for result in results:
        causes = ", ".join(f"{n} {cause}" for cause, n in result.fallbacks.items() if n)
        shown.add_row(
            f"{result.folio_kib} KiB",
            result.mode,
            result.engine or "-",
            str(result.channels) if result.channels else "-",
            str(result.folios_asked),
            str(result.folios_moved),
            str(result.folios_by_engine),
            causes or "0",
            f"{result.bytes_verified:,}",
            str(result.bytes_wrong),
            f"{result.gbps_emulated:.2f}",
            end_section=result.mode == MODES[-1],
        )
    return shown


@dataclass(frozen=True)
class Report:
    """A demo that has run: what it measured, and what is wrong with that."""

    results: tuple[Result, ...]
    suite: guest.SuiteResult
    problems: tuple[str, ...]

    @property
    def cases(self) -> list[Case]:
        """The demo as test cases, one a run."""
        cases = [
            Case(result.name, Status.PASSED)
            for result in self.results
            if not any(problem.startswith(f"{result.name}:") for problem in self.problems)
        ]
        return cases + [
            Case(problem.split(": ")[0], Status.FAILED, problem) for problem in self.problems
        ]


def directory_of(paths: Paths, engine: Engine) -> Path:
    """Return where the results for an engine go."""
    return paths.out / ("demo" if engine == DMASIM else f"demo-{engine.name}")


def run(paths: Paths, ready: guest.Ready, engine: Engine = DMASIM) -> Report:
    """Run the demo suite and write results.json."""
    directory = directory_of(paths, engine)
    suite = guest.run_suite(paths, ready, "demo", "", directory, engine.machine)
    found = [f"demo: {suite.failure}"] if suite.failure else []
    results: list[Result] = []
    try:
        results = parse_results(suite.run.results)
    except HarnessError as error:
        found.append(str(error))
    if not found:
        found += problems(results, engine)
    document = {
        "kernel": ready.kernel.release,
        "emulated": True,
        "runs": [dict(vars(result)) for result in results],
    }
    (directory / "results.json").write_text(json.dumps(document, indent=2) + "\n")
    return Report(tuple(results), suite, tuple(found))


def show(report: Report) -> None:
    """Print the table, and what it is not."""
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table(report.results))
    ui.plain(
        "Speeds are those of an emulated machine (QEMU): they prove that the path works and "
        "say nothing about hardware."
    )


def main(paths: Paths, name: str = DMASIM.name) -> int:
    """Run the demo on an engine; anything wrong with its results is an error."""
    engine = ENGINES[name]
    report = run(paths, guest.prepare(paths, engine.config), engine)
    directory = directory_of(paths, engine)
    if report.results:
        show(report)
    if report.problems:
        if report.suite.failure:
            guest.show_failure(report.suite, directory)
        more = f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        raise HarnessError(
            f"demo failed: {report.problems[0]}{more}", "\n".join(report.problems)
        )
    total = sum(result.bytes_verified for result in report.results)
    ui.say(f"demo: {total:,} bytes verified, 0 wrong; {directory}/results.json")
    return 0
