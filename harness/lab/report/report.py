"""The lab's report: report.html (self-contained) and PNG figures.

Made from results.json alone, so that a real machine's results give the same report.
Published figures are other people's, and every caption says what ours come from.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.lab import bench
from harness.lab import results as lab_results
from harness.lab.judge import claims, goals
from harness.lab.judge.claim import number, size_name
from harness.lab.model import published as lab_published
from harness.lab.model.published import Published
from harness.lab.plan import FOLIO_KIB
from harness.lab.report import plots
from harness.lab.report.plots import BLACK, GREY, Look
from harness.lab.report.select import (
    Configuration,
    by_size,
    known,
    phase_panels,
    tradeoff_curves,
)
from harness.lab.results import ENGINE_DESIGNS, Results, Run

FIGURES = ("tradeoff.png", "throughput.png", "phases.png")
"""All figures that a report can have."""

_LINES: dict[str, plots.Line] = {"pipeline": "--", "segments": "-."}
_CPU_LOOKS = {
    "off": Look(GREY, "<", ":"),
    "cpu": Look(GREY, ">", "-."),
    "bulk": Look(GREY, "*", "--"),
    "threads": Look(GREY, "h", "-"),
}
_CPU_NAMES = {"off": "off", "cpu": "CPU copy", "bulk": "CPU bulk copy"}


@dataclass
class Group:
    """Claims of one section: rows of a table, and which of them miss their goal for a cause."""

    rows: list[list[str]] = field(default_factory=list)
    causes: dict[str, list[str]] = field(default_factory=dict)


def groups_of(results: Results) -> dict[str, Group]:
    """Return claims by section."""
    groups: dict[str, Group] = {}
    for claim, case in claims.judged(results):
        group = groups.setdefault(claim.group, Group())
        value = "-" if claim.value is None else f"{number(claim.value)} {claim.unit}".rstrip()
        error = "-"
        if claim.published and claim.value is not None:
            error = f"{100 * (claim.value / claim.published - 1):+.1f} %"
        verdict, bound = "fitted" if claim.fitted else "-", "-"
        if case:
            verdict = case.status.value.removesuffix("es")
            bound = case.name.removeprefix(f"{claim.name}: ").partition(" (")[0]
        group.rows.append([claim.what, claim.goal or "-", value, error, bound, verdict])
        if claim.cause and not claim.met and not claim.fitted:
            group.causes.setdefault(claim.cause, []).append(claim.what)
    return groups


class Report:
    """Results being written up; figures go to `directory`."""

    def __init__(self, results: Results, published: Published, directory: Path) -> None:
        """Keep what every section needs."""
        self._results = results
        self._published = published
        self._directory = directory
        self._word = "lab" if results.calibration else "measured"

    def html(self) -> str:
        """Return the whole report, and write its figures."""
        results = self._results
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        context = {
            "results": results,
            "word": self._word,
            "groups": groups_of(results),
            "batches": self._tradeoff(),
            "throughput": self._throughput(),
            "phases": self._phases(),
            "copies": self._copies(),
            "unmoved": [
                f"{r.name}: {r.folios_failed:,}" for r in results.runs if r.folios_failed
            ],
            "lost": [f"{r.name}: {r.latency_lost:,}" for r in results.runs if r.latency_lost],
        }
        context["figures"] = {
            name: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
            for name in FIGURES
            if (path := self._directory / name).exists()
        }
        return environment.get_template("report.html.j2").render(context)

    def _look(self, kernel: str, design: str, channels: int | None) -> Look:
        """Return how a configuration looks in every figure."""
        if kernel == "vanilla":
            return Look(BLACK, "H", "-")
        if design not in ENGINE_DESIGNS:
            return _CPU_LOOKS[design]
        every = {row.channels for row in self._published.offload}
        every |= {known(run.channels) for run in self._results.runs if run.engine}
        rank = sorted(every).index(known(channels))
        return Look(
            plots.PALETTE[rank % len(plots.PALETTE)],
            plots.MARKERS[rank % len(plots.MARKERS)],
            _LINES.get(design, "-"),
        )

    def _tradeoff(self) -> str:
        """Draw the figure, and return what its caption says of batches."""
        measured = tradeoff_curves(self._results.runs)
        panels: dict[str, list[plots.Curve]] = {}
        for kib in sorted({kib for kib, _, _ in measured}):
            hollow: dict[int | None, list[tuple[float, float]]] = {}
            for row in self._published.sweep:
                if lab_published.order_kib(row.order) == kib:
                    hollow.setdefault(row.channels, []).append((row.first_us, row.gbps))
            curves = {
                (design, count): [(run.first_folio_us or 0.0, run.gbps) for run in runs]
                for (size, design, count), runs in measured.items()
                if size == kib
            }
            panels[f"{size_name(kib)} folios"] = [
                plots.Curve(
                    name=_name("ours", design, count),
                    look=self._look("ours", design, count),
                    measured=curves.get((design, count), ()),
                    published=hollow.get(count, ()) if design == "batch" else (),
                )
                for design, count in dict.fromkeys((*curves, *(("batch", n) for n in hollow)))
            ]
        if panels:
            path = self._directory / "tradeoff.png"
            plots.tradeoff(path, panels, self._word, self._results.label)
        pages = {
            run.batch_pages for runs in measured.values() for run in runs if run.batch_pages
        }
        if len(pages) < 2:
            return ""
        return f"; along each curve the batch grows, {min(pages):,} to {max(pages):,} pages"

    def _throughput(self) -> dict[str, object]:
        """Draw the figure, and return the table."""
        configurations = by_size(self._results.runs)
        sizes = sorted({size for runs in configurations.values() for size, _ in runs})
        curves, rows = [], []

        def add(name: str, what: str, values: Mapping[int, float | None], digits: int) -> None:
            shown = {size: value for size, value in values.items() if value is not None}
            cells = [f"{shown[s]:,.{digits}f}" if s in shown else "-" for s in sizes]
            if shown:
                rows.append([name, what, *cells])

        for key, runs in configurations.items():
            published = self._published_by_size(key)
            name = _name(*key)
            moves = [
                {size: run for (size, move), run in runs.items() if move == number}
                for number in (1, 2)
            ]
            first = {size: run.gbps for size, run in moves[0].items()}
            curves.append(
                plots.Curve(
                    name, self._look(*key), sorted(first.items()), sorted(published.items())
                )
            )
            add(name, "GB/s published", published, 2)
            for word, found in zip(("first move", "back"), moves, strict=True):
                add(name, f"GB/s {self._word}, {word}",
                    {size: run.gbps for size, run in found.items()}, 2)  # fmt: skip
                if any(run.folios_split > 0 for run in found.values()):
                    split = {size: run.folios_split for size, run in found.items()}
                    add(name, f"folios split, {word}", split, 0)
            counted = {size: run.instructions_per_folio for size, run in moves[0].items()}
            add(name, "instructions per folio", counted, 0)
        if curves:
            path = self._directory / "throughput.png"
            plots.throughput(path, curves, self._word, self._results.label)
        batches = {
            run.batch_pages
            for (_, design, _), runs in configurations.items()
            if design in ENGINE_DESIGNS
            for run in runs.values()
        }
        names = [
            f"{pages:,} pages" if pages else "unknown" for pages in sorted(batches, key=known)
        ]
        return {
            "head": ["configuration", "figure", *map(size_name, sizes)],
            "rows": rows,
            "batches": ", ".join(names) or "none",
        }

    def _published_by_size(self, key: Configuration) -> dict[int, float]:
        kernel, design, channels = key
        if kernel == "vanilla":
            return {row.folio_kib: row.gbps for row in self._published.baseline}
        if design != "batch":
            return {}
        rows = self._published.offload
        return {row.folio_kib: row.gbps for row in rows if row.channels == channels}

    def _phases(self) -> list[list[str]]:
        """Draw the figure, and return the rows of the table."""
        panels, rows = [], []
        for size, batch, runs in phase_panels(self._results.runs):
            pages = "unknown size" if batch is None else f"{batch:,} pages"
            bars = {_short_name(run): run.phases_us for run in runs if run.phases_us}
            panels.append(plots.Bars(f"{size_name(size)}, batch of {pages}", bars))
            for name, one in bars.items():
                times = (one.unmap, one.flush, one.copy, one.move)
                cells = [f"{time:,.2f}" for time in (*times, sum(times))]
                rows.append([size_name(size), pages, name, *cells])
        if panels:
            plots.phases(self._directory / "phases.png", panels, self._results.label)
        return rows

    def _copies(self) -> list[list[str]]:
        """Return the rows of the table of copies by the CPU."""
        calibration = self._results.calibration
        runs = {
            (run.design, run.folio_kib): (
                goals.copy_instructions(run, calibration.dilation),
                run,
            )
            for run in self._results.runs
            if calibration and run.move == 1 and run.instructions_per_folio
        }
        rows = []
        for size in FOLIO_KIB:
            (loop, old), (bulk, new) = (
                runs.get((design, size), (None, None)) for design in ("cpu", "bulk")
            )
            if loop and bulk and old and new:
                counts = (loop, bulk, old.instructions_per_folio, new.instructions_per_folio)
                rows.append([size_name(size), *(f"{count:,.0f}" for count in counts)])
        return rows


def _name(kernel: str, design: str, channels: int | None) -> str:
    """Return a configuration's name."""
    if kernel == "vanilla":
        return "vanilla"
    if design in _CPU_NAMES:
        return _CPU_NAMES[design]
    label, word = ("mtcopy", "thread") if design == "threads" else (design, "channel")
    count = "unknown" if channels is None else channels
    return f"{label}, {count} {word}{'' if channels == 1 else 's'}"


def _short_name(run: Run) -> str:
    """Return a configuration's name for the axis of a bar."""
    if run.design not in ENGINE_DESIGNS:
        return _name(run.kernel, run.design, run.channels)
    mark = {"pipeline": "p", "segments": "s"}.get(run.design, "")
    return f"{'?' if run.channels is None else run.channels} ch{mark}"


def write(results: Results, directory: Path) -> None:
    """Write report.html and the figures; HarnessError if that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in FIGURES:
            (directory / stale).unlink(missing_ok=True)
        page = Report(results, lab_published.load(), directory).html()
        (directory / "report.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{error.filename or directory}: {error.strerror}") from error


def load(files: Sequence[Path]) -> Results:
    """Return the results in one results.json, or in files of migrate_bench taken together."""
    if not files:
        raise HarnessError("report: no file is given: make report FROM=results.json")
    documents = [(str(path), jsonio.load(dict[str, object], path)) for path in files]
    if all(bench.is_benchmark(document) for _, document in documents):
        return bench.from_benchmarks(
            [(name, bench.parse(document, name)) for name, document in documents]
        )
    if len(documents) > 1:
        raise HarnessError("report: several files must all be output of migrate_bench")
    ((name, document),) = documents
    return lab_results.convert(document, Results, name)


def main(files: Sequence[Path], to: Path | None) -> int:
    """Write the report of these files to a directory, or beside the first of them."""
    results = load(files)
    directory = to or files[0].parent
    write(results, directory)
    ui.say(f"report: {len(results.runs)} runs, {results.label}; {directory}/report.html")
    return 0
