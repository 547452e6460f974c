"""`make demo`: migrate real process memory in a guest, and prove that not a byte was lost."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel.arch import AE4DMA, DSA, IOAT, PTDMA, ZCU102
from harness.kernel.build import Kernel
from harness.lab.bench import Bench
from harness.lab.results import Count

FOLIO_KIB = (4, 64, 2048)
MODES = ("off", "cpu", "dcbm", "live")
BY_DMA = ("dcbm", "live")

BY_ENGINE = 0.99
"""Of the folios that move, the part that an engine copies at least in mode live; else all."""

_PREFIX = "result: "
_WIDTH = 132  # of a table that does not go to a terminal


@dataclass(frozen=True)
class Engine:
    """A DMA engine that the demo can show: the kernel and the machine that have it.

    `machine` is '' for the first machine of the kernel's architecture; `driver` is what the
    guest calls the engine. Debian's QEMU, which needs no build, has those that are not
    ours. One with several processors does not run in `virtual_time` (see vm.Guest).
    """

    name: str
    config: str
    machine: str
    driver: str
    channels: int
    ours: bool = False
    virtual_time: bool = True


DMASIM = Engine("dmasim", "base", "", "dmasim", 4)
ZDMA = Engine("zdma", "arm64", ZCU102.name, "xilinx-zynqmp-dma", 16, virtual_time=False)
_OURS = [
    Engine(m.name, "base", m.name, m.engine, channels, True)
    for m, channels in ((PTDMA, 16), (AE4DMA, 16), (IOAT, 4), (DSA, 16))
]
ENGINES = {engine.name: engine for engine in (DMASIM, ZDMA, *_OURS)}


Mode = Literal["off", "cpu", "dcbm", "live"]


class Result(msgspec.Struct, frozen=True):
    """One measured migration, as results.json holds it.

    `inaccessible_us` is how long the folio that waited longest could not be touched, and None
    if the kernel has no instrument. `folios_live` were copied while they were mapped.
    """

    folio_kib: int
    mode: Mode
    engine: str | None
    channels: int
    folios_asked: int
    folios_moved: int
    folios_by_engine: int
    folios_live: int
    fallbacks: dict[str, int]
    inaccessible_us: float | None
    bytes_verified: int
    bytes_wrong: int
    gbps_emulated: float

    @property
    def name(self) -> str:
        """How messages call this run."""
        return f"{self.folio_kib} KiB, mode {self.mode}"


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the guest: the output of migrate_bench, and the route's counters."""

    mode: Mode
    counters: dict[str, Count]
    bench: Bench

    @property
    def result(self) -> Result:
        """The same as results.json has it."""
        runs, offload, counters = self.bench.runs, self.bench.offload, self.counters
        if not offload or len(runs) != 1 or runs[0].folio_kib not in FOLIO_KIB:
            raise HarnessError("demo: a result of the guest is not of the demo's benchmark")
        run, engine = runs[0], "+".join(offload.providers or ())
        waited = run.inaccessible_ns
        return Result(
            folio_kib=run.folio_kib,
            mode=self.mode,
            engine=engine or ("cpu" if self.mode == "cpu" else None),
            channels=offload.channels or 0,
            folios_asked=run.folios,
            folios_moved=run.folios - run.folios_failed - run.folios_split,
            folios_by_engine=counters.get("folios_copied", 0) if engine else 0,
            folios_live=counters.get("live_copied", 0),
            fallbacks={
                name: number
                for name, number in counters.items()
                if name.startswith(("fallback_", "declined"))
            },
            inaccessible_us=waited["max"] / 1000 if waited else None,
            bytes_verified=run.bytes_verified,
            bytes_wrong=run.bytes_wrong,
            gbps_emulated=run.gbps_mean,
        )


def parse_results(text: str) -> list[Result]:
    """Return the `result:` lines of a guest's output."""
    return [
        jsonio.decode(_Line, line.removeprefix(_PREFIX), "demo: a result of the guest").result
        for line in text.splitlines()
        if line.startswith(_PREFIX)
    ]


def problems(results: Sequence[Result], engine: Engine = DMASIM) -> list[str]:
    """Say everything that makes a set of results a failure, with `engine` at work."""
    there = {result.name: result.inaccessible_us for result in results}
    runs = [f"{size} KiB, mode {mode}" for size in FOLIO_KIB for mode in MODES]
    return [f"{run}: no result" for run in runs if run not in there] + [
        f"{result.name}: {problem}"
        for result in results
        for problem in _problems(
            result, engine, there.get(f"{result.folio_kib} KiB, mode dcbm") or 0
        )
    ]


def _problems(result: Result, engine: Engine, longest: float) -> Iterator[str]:
    moved = result.folios_moved
    if result.bytes_wrong:
        yield f"{result.bytes_wrong} bytes are wrong"
    if not moved or moved != result.folios_asked:
        yield f"{moved} of {result.folios_asked} folios moved"
    if result.bytes_verified != moved * result.folio_kib * 1024:
        yield f"{result.bytes_verified} bytes of {moved} folios were verified"
    if not result.inaccessible_us:
        yield "how long memory was inaccessible is unknown"
    elif result.mode == "live" and engine.virtual_time and result.inaccessible_us >= longest:
        yield "memory was inaccessible for no less time than in mode dcbm"
    live = result.folios_live
    if live < BY_ENGINE * moved if result.mode == "live" else live:
        yield f"{live} of {moved} folios were copied while they were mapped"
    if result.mode in BY_DMA:
        if result.folios_by_engine < (moved if result.mode == "dcbm" else BY_ENGINE * moved):
            yield f"the engine copied {result.folios_by_engine} of {moved} folios"
        seen = f"{result.channels} channels of {result.engine}"
        wanted = f"{engine.channels} channels of {engine.driver}"
        if seen != wanted:
            yield f"{seen}, not {wanted}"
    elif result.folios_by_engine:
        yield "an engine copied although no route leads to it"


def table(results: Sequence[Result]) -> Table:
    """Return the table that the user sees."""
    shown = Table(title="move_pages(2) between two NUMA nodes of an emulated machine")
    for heading in ("folio", "mode", "engine", "channels", "folios asked", "moved", "by engine",
                    "fallbacks", "bytes verified", "wrong", "longest wait us",
                    "GB/s (emulated)"):  # fmt: skip
        text = heading in ("folio", "mode", "engine")
        shown.add_column(heading, justify="left" if text else "right", overflow="fold")
    for result in results:
        causes = ", ".join(f"{n} {cause}" for cause, n in result.fallbacks.items() if n)
        cells = (
            f"{result.folio_kib} KiB", result.mode, result.engine or "-",
            result.channels or "-", result.folios_asked, result.folios_moved,
            result.folios_by_engine, causes or "0", f"{result.bytes_verified:,}",
            result.bytes_wrong, f"{result.inaccessible_us or math.nan:,.1f}",
            f"{result.gbps_emulated:.2f}",
        )  # fmt: skip
        shown.add_row(*map(str, cells), end_section=result.mode == MODES[-1])
    return shown


def seen(results: Sequence[Result]) -> str:
    """Say in a sentence what the largest folios have shown, and draw it."""
    waits = {r.mode: r.inaccessible_us or 0 for r in results if r.folio_kib == FOLIO_KIB[-1]}
    text = f"""The folio of 2 MB that waited longest was inaccessible for {waits["off"]:,.1f} us
when the CPU copied it, and for {waits["live"]:,.1f} us when an engine copied it live, in the time
of an emulated machine, which says nothing about hardware:"""
    for mode, us in waits.items():
        text += f"\n  {mode:4} {'#' * math.ceil(60 * us / max(waits.values()))} {us:,.1f} us"
    return text


@dataclass(frozen=True)
class Report:
    """A demo that has run: what it measured, and what is wrong with that."""

    results: tuple[Result, ...]
    problems: tuple[str, ...]

    @property
    def cases(self) -> list[Case]:
        """The demo as test cases: each problem, and each run that has none."""
        failed = [Case(problem.split(": ")[0], Status.FAILED, problem) for problem in self.problems]
        bad = {case.name for case in failed}
        good = [result.name for result in self.results if result.name not in bad]
        return [Case(name, Status.PASSED) for name in good] + failed


def directory_of(paths: Paths, engine: Engine) -> Path:
    """Return where the results for an engine go."""
    return paths.out / ("demo" if engine == DMASIM else f"demo-{engine.name}")


def run(paths: Paths, engine: Engine, kernel: Kernel) -> Report:
    """Run the demo suite and write results.json."""
    directory = directory_of(paths, engine)
    suite = guest.run_suite(
        paths, kernel, "demo", "", directory, engine.machine,
        debian=not engine.ours, wall=not engine.virtual_time,
    )  # fmt: skip
    errors, results = [], []
    if suite.failure:
        guest.show_failure(suite, directory)
        errors.append(f"demo: {suite.failure}")
    try:
        results = parse_results(suite.run.results)
    except HarnessError as error:
        errors.append(str(error))
    document = {"kernel": kernel.release, "emulated": True, "runs": results}
    jsonio.write(directory / "results.json", document)
    return Report(tuple(results), tuple(errors or problems(results, engine)))


def main(paths: Paths, name: str = DMASIM.name) -> int:
    """Run the demo on an engine; anything wrong with its results is an error."""
    engine = ENGINES[name]
    report = run(paths, engine, guest.prepare(paths, engine.config, debian=not engine.ours))
    if report.results:
        Console(width=None if sys.stdout.isatty() else _WIDTH).print(table(report.results))
    if report.problems:
        more = f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        raise HarnessError(f"demo failed: {report.problems[0]}{more}", "\n".join(report.problems))
    total = sum(result.bytes_verified for result in report.results)
    written = directory_of(paths, engine) / "results.json"
    ui.say(f"demo: {total:,} bytes verified, 0 wrong; {written}\n{seen(report.results)}")
    return 0
