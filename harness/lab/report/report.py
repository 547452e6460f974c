"""The lab's report: report.html (self-contained) and PNG figures.

Made from results.json alone, so that a real machine's results give the same report.
Published figures are other people's, and every caption says what ours come from.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from msgspec import structs

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.lab import bench
from harness.lab.judge import claims
from harness.lab.judge.claim import number
from harness.lab.model.published import BASELINE, OFFLOAD, SWEEP, rows
from harness.lab.report import plots, programs, select
from harness.lab.report.plots import BLACK, GREY, Curve, Look
from harness.lab.report.select import Configuration, Curves, by_size, configuration
from harness.lab.results import ENGINE_DESIGNS, Program, Results, Run, convert, size_name
from harness.lab.workloads import WORKLOADS

FIGURES = ("tradeoff.png", "inaccessible.png", "throughput.png", *programs.FIGURES)
"""All figures that a report can have."""

_CPU_LOOKS = {
    "off": Look(GREY, "<", ":"),
    "cpu": Look(GREY, ">", "-."),
    "threads": Look(GREY, "h", "-"),
}
_CPU_NAMES = {"off": "off", "cpu": "CPU copy"}


def groups_of(results: Results) -> dict[str, dict[str, Any]]:
    """Return claims by section: rows of a table, and causes with the claims that miss for them."""
    groups: dict[str, dict[str, Any]] = {}
    for claim, case in claims.judged(results):
        group = groups.setdefault(claim.group, {"rows": [], "causes": {}})
        value, error = "-", "-"
        if not math.isnan(claim.value):
            value = f"{number(claim.value)} {claim.unit}".rstrip()
            if claim.published:
                error = f"{100 * (claim.value / claim.published - 1):+.1f} %"
        verdict, bound = "fitted" if claim.fitted else "-", "-"
        if case:
            verdict = case.status.value.removesuffix("es")
            bound = case.name.removeprefix(f"{claim.name}: ").partition(" (")[0]
        group["rows"].append([claim.what, claim.goal or "-", value, error, bound, verdict])
        if claim.cause and not claim.met and not claim.fitted:
            group["causes"].setdefault(claim.cause, []).append(claim.what)
    return groups


class Report:
    """Results being written up; figures go to `directory`."""

    def __init__(self, results: Results, directory: Path) -> None:
        """Keep what every section needs."""
        self._results = results
        self._directory = directory
        self._word = "lab" if results.calibration else "measured"
        channels = {row.channels for row in rows(OFFLOAD)}
        channels |= {run.channels or 0 for run in results.runs if run.design in ENGINE_DESIGNS}
        self._channels = sorted(channels)

    def html(self) -> str:
        """Return the whole report, and write its figures."""
        results = self._results
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._waits()
        context = {
            "results": results,
            "word": self._word,
            "groups": groups_of(results),
            "batches": self._tradeoff(),
            "touched": self._touched(),
            "throughput": self._throughput(),
            "phases": self._phases(),
            "unmoved": [f"{r.name}: {r.folios_failed:,}" for r in results.runs if r.folios_failed],
            "lost": [f"{r.name}: {r.latency_lost:,}" for r in results.runs if r.latency_lost],
            "programs": self._programs(),
            "workloads": WORKLOADS,
            "figures": {
                name: base64.b64encode(path.read_bytes()).decode()
                for name in FIGURES
                if (path := self._directory / name).exists()
            },
        }
        return environment.get_template("report.html.j2").render(context)

    def _look(self, key: Configuration) -> Look:
        """Return how a configuration looks in every figure."""
        kernel, design, channels = key
        if kernel == "vanilla":
            return Look(BLACK, "H")
        if design in _CPU_LOOKS:
            return _CPU_LOOKS[design]
        if design == "live" and not channels:
            return Look(BLACK, "*", ":")
        rank = self._channels.index(channels or 0)
        return Look(
            plots.PALETTE[rank % len(plots.PALETTE)],
            {"segments": "d", "live": "*"}.get(design, plots.MARKERS[rank % len(plots.MARKERS)]),
            {"segments": "-.", "live": ":"}.get(design, "--" if kernel == "heart" else "-"),
        )

    def _tradeoff(self) -> str:
        """Draw the figure, and return what its caption says of batches."""
        measured = select.tradeoff_curves(self._results.runs)
        hollow: dict[tuple[int, Configuration], list[tuple[float, float]]] = {}
        for row in rows(SWEEP):
            if any(kib == row.folio_kib for kib, _ in measured):
                place = row.folio_kib, ("ours", "batch", row.channels)
                hollow.setdefault(place, []).append((row.first_us, row.gbps))
        name, time = "tradeoff.png", "first-folio latency"
        self._draw(name, time, measured, lambda run: run.first_folio_us or 0.0, hollow)
        pages = {run.batch_pages or 0 for runs in measured.values() for run in runs} - {0}
        if len(pages) < 2:
            return ""
        return f"; along each curve the batch grows, {min(pages):,} to {max(pages):,} pages"

    def _waits(self) -> None:
        """Draw what throughput costs in time for which memory is inaccessible."""
        name, time = "inaccessible.png", "inaccessible, 99th percentile"
        curves = select.waits(self._results.runs)
        self._draw(
            name, time, curves, lambda run: run.inaccessible_us.p99 if run.inaccessible_us else 0
        )

    def _draw(
        self, name: str, time: str, curves: Curves, x: Callable[[Run], float],
        published: Mapping[tuple[int, Configuration], plots.Points] | None = None,
    ) -> None:  # fmt: skip
        """Draw throughput against a time of runs, a panel for each folio size."""
        panels: dict[str, list[Curve]] = {}
        others = published or {}
        for kib, key in dict.fromkeys((*curves, *others)):
            points = [(x(run), run.gbps) for run in curves.get((kib, key), ())]
            curve = Curve(_name(key), self._look(key), points, others.get((kib, key), ()))
            panels.setdefault(f"{size_name(kib)} folios", []).append(curve)
        if panels:
            path, label = self._directory / name, self._results.label
            plots.tradeoff(path, panels, time, self._word, label)

    def _touched(self) -> list[list[str]]:
        """Return the table of memory that threads use while it moves."""
        return [
            [
                size_name(run.folio_kib), _name(configuration(run)), f"{run.writes_per_ms:,}",
                f"{run.gbps:.2f}", f"{run.touch.read:,.2f}", f"{run.touch.write:,.2f}",
                "-" if run.touch.copied_twice is None else f"{run.touch.copied_twice:,}",
                f"{run.total_mib * 1024 / run.folio_kib:,.0f}",
            ]
            for run in sorted(self._results.runs, key=lambda run: -run.folio_kib)
            if run.touch
        ]  # fmt: skip

    def _programs(self) -> dict[str, tuple[list[str], list[list[str]]]]:
        """Draw what programs get while their memory moves, and return tables by workload."""
        found: dict[str, list[Program]] = {}
        for one in self._results.programs:
            found.setdefault(one.workload, []).append(one)
        for name, some in found.items():
            path = self._directory / f"{name}.png"
            plots.programs(path, programs.panels(some), self._results.label)
        return {name: programs.table(some) for name, some in found.items()}

    def _throughput(self) -> dict[str, object]:
        """Draw the figure, and return the table."""
        configurations = by_size(self._results.runs)
        sizes = sorted({size for runs in configurations.values() for size, _ in runs})
        curves, cells = [], []
        batches: set[int] = set()
        for key, runs in configurations.items():
            published = _published(key)
            figures: list[tuple[str, Mapping[int, float | None], int]] = [
                ("GB/s published", published, 2)
            ]
            for move, word in ((1, "first move"), (2, "back")):
                moved = {kib: run for (kib, number), run in runs.items() if number == move}
                speeds = {kib: run.gbps for kib, run in moved.items()}
                figures.append((f"GB/s {self._word}, {word}", speeds, 2))
                split = {kib: run.folios_split for kib, run in moved.items()}
                if max(split.values(), default=0) > 0:
                    figures.append((f"folios split, {word}", split, 0))
                if move == 1:
                    points = sorted(speeds.items()), sorted(published.items())
                    curves.append(Curve(_name(key), self._look(key), *points))
                    counted = {kib: run.instructions_per_folio for kib, run in moved.items()}
            figures.append(("instructions per folio", counted, 0))
            for what, values, digits in figures:
                if any(value is not None for value in values.values()):
                    numbers = map(values.get, sizes)
                    shown = ["-" if x is None else f"{x:,.{digits}f}" for x in numbers]
                    cells.append([_name(key), what, *shown])
            if key[1] in ENGINE_DESIGNS:
                batches |= {run.batch_pages or 0 for run in runs.values()}
        if curves:
            path = self._directory / "throughput.png"
            plots.throughput(path, curves, self._word, self._results.label)
        return {
            "head": ["configuration", "figure", *map(size_name, sizes)],
            "rows": cells,
            "batches": ", ".join(map(_pages, sorted(batches))) or "none",
        }

    def _phases(self) -> list[list[str]]:
        """Return the table."""
        cells = []
        for kib, runs in select.phase_panels(self._results.runs).items():
            for run in runs:
                assert run.phases_us
                times = structs.astuple(run.phases_us)
                shown = [f"{time:,.2f}" for time in (*times, sum(times))]
                name = _name(configuration(run))
                cells.append([size_name(kib), _pages(run.batch_pages), name, *shown])
        return cells


def _published(key: Configuration) -> dict[int, float]:
    """Return published speeds of a configuration by folio size."""
    kernel, _, channels = key
    table = {"vanilla": BASELINE, "heart": OFFLOAD}.get(kernel)
    known = rows(table) if table else ()
    return {row.folio_kib: row.gbps for row in known if row.channels == (channels or 0)}


def _pages(batch: int | None) -> str:
    return f"{batch:,} pages" if batch else "unknown size"


def _name(key: Configuration) -> str:
    """Return a configuration's name."""
    kernel, design, channels = key
    if kernel == "vanilla":
        return "vanilla"
    if design in _CPU_NAMES:
        return _CPU_NAMES[design]
    label, word = ("mtcopy", "thread") if design == "threads" else (design, "channel")
    label = "published design" if kernel == "heart" else label
    if design == "live" and not channels:
        return "live, CPU"
    count = "unknown" if channels is None else channels
    return f"{label}, {count} {word}{'' if channels == 1 else 's'}"


def write(results: Results, directory: Path) -> None:
    """Write report.html and the figures; HarnessError if that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in FIGURES:
            (directory / stale).unlink(missing_ok=True)
        page = Report(results, directory).html()
        (directory / "report.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{error.filename or directory}: {error.strerror}") from error


def load(files: Sequence[Path]) -> Results:
    """Return the results in one results.json, or in files of migrate_bench taken together."""
    if not files:
        raise HarnessError("report: no file is given: make report FROM=results.json")
    documents = [(str(path), jsonio.load(dict[str, object], path)) for path in files]
    if all("program" in document for _, document in documents):
        return bench.from_benchmarks(
            [(name, convert(document, bench.Bench, name)) for name, document in documents]
        )
    if len(documents) > 1:
        raise HarnessError("report: several files must all be output of migrate_bench")
    ((name, document),) = documents
    return convert(document, Results, name)


def main(files: Sequence[Path], to: Path | None) -> int:
    """Write the report of these files to a directory, or beside the first of them."""
    results = load(files)
    directory = to or files[0].parent
    write(results, directory)
    count = len(results.runs) + len(results.programs)
    ui.say(f"report: {count} runs, {results.label}; {directory}/report.html")
    return 0
