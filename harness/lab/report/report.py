"""The lab's report: report.md, report.html (self-contained) and PNG figures.

Made from results.json alone, so that a real machine's results give the same report.
Published figures are other people's, and every caption says what ours come from.
"""

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.core import schema, ui
from harness.core.errors import HarnessError
from harness.lab import bench
from harness.lab import results as lab_results
from harness.lab.judge import goals
from harness.lab.judge.gains import gains_of, promises_of
from harness.lab.model import calibration as lab_calibration
from harness.lab.model import published as lab_published
from harness.lab.model.published import Published
from harness.lab.report import plots
from harness.lab.report.select import (
    OFF_LIMIT,
    SWEEP_TARGET,
    CurveKey,
    by_size,
    copies_of,
    costs_of,
    known,
    phase_panels,
    sweep_misses,
    sweep_pairs,
    tradeoff_curves,
)
from harness.lab.results import ENGINE_DESIGNS, CalibrationRow, Results, Run, relative_error

FIGURES = ("tradeoff.png", "throughput.png", "phases.png", "calibration.png")
"""All figures that a report can have."""

_LISTED = 12  # of a list in running text


@dataclass
class Section:
    """A section of the report; without lines it is left out, and `absent` says why."""

    title: str
    absent: str
    lines: list[str] = field(default_factory=list)


class Report:
    """Results being written up; figures go to `directory`."""

    def __init__(self, results: Results, published: Published, directory: Path) -> None:
        """Keep what every section needs."""
        self._results = results
        self._published = published
        self._directory = directory
        self._figures = 0
        self._tables = 0

    @property
    def _word(self) -> str:
        """What our figures are called beside published ones."""
        return "lab" if self._results.calibration else "measured"

    @property
    def _is_model(self) -> bool:
        return bool(self._results.engine and self._results.engine.is_model)

    def _look(self, design: str, channels: int | None) -> plots.Look:
        """Return how a number of channels looks in every figure."""
        every = {row.channels for row in self._published.offload}
        every |= {known(run.channels) for run in self._results.runs if run.engine}
        rank = sorted(every).index(known(channels))
        return plots.Look(
            plots.PALETTE[rank % len(plots.PALETTE)],
            plots.MARKERS[rank % len(plots.MARKERS)],
            _LINES.get(design, "-"),
        )

    def _configuration_look(self, kernel: str, design: str, channels: int | None) -> plots.Look:
        if kernel == "vanilla":
            return plots.Look(plots.BLACK, "H", "-")
        if design in ENGINE_DESIGNS:
            return self._look(design, channels)
        return plots.Look(plots.GREY, *(("<", ":") if design == "off" else (">", "-.")))

    def markdown(self) -> str:
        """Return the whole report, and write its figures."""
        lines = self._head()
        sections = (
            self._tradeoff(),
            self._sweep(),
            self._throughput(),
            self._phases(),
            self._calibration(),
            self._cost(),
            self._gains(),
            self._segments(),
            self._copies(),
        )
        for section in sections:
            if section.lines:
                lines += ["", f"## {section.title}", "", *section.lines]
            else:
                lines += ["", f"*{section.title}: left out, since {section.absent}.*"]
        return "\n".join(lines) + "\n"

    def _figure(self, name: str, caption: str) -> list[str]:
        self._figures += 1
        text = f"Figure {self._figures}: {caption} ({_escape(self._results.label)})."
        return [f"![{text}]({name})", "", f"*{text}*"]

    def _table(self, caption: str, head: Sequence[str], rows: Iterable[Sequence[str]],
               left: int = 1) -> list[str]:  # fmt: skip
        """Return a table whose first `left` columns are text."""
        self._tables += 1
        text = f"Table {self._tables}: {caption} ({_escape(self._results.label)})."
        rules = ["---"] * left + ["--:"] * (len(head) - left)
        return [f"*{text}*", "", *(f"| {' | '.join(row)} |" for row in (head, rules, *rows))]

    def _head(self) -> list[str]:
        results = self._results
        lines = ["# Migrating folios in batches: results", ""]
        lines += [f"- Kernel: {_escape(results.kernel_release)}"]
        if engine := results.engine:
            lines += [f"- {_escape(f'E{engine.label[1:]}')}. Source: {_escape(engine.source)}"]
        if engine and engine.is_model:
            lines += [
                "- **The engine is a model.** The kernel's code is real and ran in virtual "
                "time; the engine's speed is what the preset says."
            ]
        if results.calibration:
            lines += [
                "- Times and speeds are virtual time divided by "
                f"{results.calibration.dilation:.3f}, one constant for all of them."
            ]
        if results.qemu:
            lines += [f"- Emulator: {_escape(results.qemu)}"]
        if results.quick:
            lines += ["- A quick run: a subset of what `make lab` measures."]
        lines += [
            "- *Published* figures are other people's, from another machine (two Zen 3 "
            "sockets, PTDMA), as posted to kernel mailing lists."
        ]
        lines += [f"- {_escape(note)}" for note in results.notes]
        if failed := {r.name: r.folios_failed for r in results.runs if r.folios_failed}:
            lines += [f"- **Folios that did not move**: {_counts(failed)}"]
        return lines

    def _tradeoff(self) -> Section:
        section = Section(
            "Throughput against first-folio latency",
            "no run with an engine has a first-folio latency",
        )
        measured = tradeoff_curves(self._results.runs)
        if not measured:
            return section
        panels: dict[str, list[plots.Curve]] = {}
        for size in sorted({size for size, _, _ in measured}):
            published = _sweep_by_channels(self._published, size)
            curves = [
                plots.Curve(
                    name=_engine_name(design, count),
                    look=self._look(design, count),
                    measured=[(run.first_folio_us or 0.0, run.gbps) for run in runs],
                    published=published.pop(count, ()) if design == "batch" else (),
                )
                for (kib, design, count), runs in sorted(measured.items(), key=_curve_order)
                if kib == size
            ]
            panels[f"{plots.size_name(size)} folios"] = curves + [
                plots.Curve(
                    name=_engine_name("batch", count),
                    look=self._look("batch", count),
                    published=points,
                )
                for count, points in published.items()
            ]
        name = "tradeoff.png"
        plots.tradeoff(self._directory / name, panels, self._word, self._results.label)
        section.lines = self._figure(
            name,
            f"throughput against first-folio latency{_batches(measured.values())}",
        )
        return section

    def _sweep(self) -> Section:
        section = Section("The published batch sweep", "no run is one of its rows")
        if not self._is_model:
            section.absent = "it compares a model with the machine that it models"
            return section
        pairs = sweep_pairs(self._results.runs, self._published)
        if not pairs:
            return section
        targets = ", ".join(f"{_percent(t)} for order {o}" for o, t in SWEEP_TARGET.items())
        head = ["order", "channels", "batch pages", "GB/s published", self._word, "error",
                "first folio us published", self._word, "error", "inaccessible p99 us",
                "target"]  # fmt: skip
        rows, missed = [], []
        for row, run in pairs:
            problems = sweep_misses(row, run)
            first = run.first_folio_us
            seen = run.inaccessible_us
            rows.append(
                [
                    f"{row.order}", f"{row.channels}", f"{row.batch_pages:,}",
                    f"{row.gbps:.2f}", f"{run.gbps:.2f}",
                    _error(relative_error(row.gbps, run.gbps)),
                    f"{row.first_us:,.0f}", "-" if first is None else f"{first:,.0f}",
                    "-" if first is None else _error(relative_error(row.first_us, first)),
                    "-" if seen is None else f"{seen.p99:,.0f}",
                    "**missed**" if problems else "met",
                ]
            )  # fmt: skip
            if problems:
                missed.append(
                    f"order {row.order}, {row.channels} channels, {row.batch_pages:,} pages "
                    f"({', '.join(problems)})"
                )
        section.lines = [
            f"{len(pairs)} of {len(self._published.sweep)} published rows were measured; "
            f"{len(pairs) - len(missed)} of these are within the target ({targets}, in "
            "throughput and in first-folio latency).",
            "",
        ]
        if missed:
            section.lines += [f"Missed: {'; '.join(missed)}.", ""]
        section.lines += [_disagreement(self._published), ""]
        section.lines += self._table("the published sweep and its reproduction", head, rows, 0)
        return section

    def _throughput(self) -> Section:
        section = Section("Throughput by folio size", "there are no runs")
        configurations = by_size(self._results.runs)
        if not configurations:
            return section
        curves, rows = [], []
        sizes = sorted({size for runs in configurations.values() for size, _ in runs})
        for (kernel, design, count), runs in configurations.items():
            published = self._published_by_size(kernel, design, count)
            first = {size: run.gbps for (size, move), run in runs.items() if move == 1}
            back = {size: run.gbps for (size, move), run in runs.items() if move == 2}
            name = _configuration_name(kernel, design, count)
            if first:
                curves.append(
                    plots.Curve(
                        name=name,
                        look=self._configuration_look(kernel, design, count),
                        measured=sorted(first.items()),
                        published=sorted(published.items()),
                    )
                )
            for what, values in (
                ("published", published),
                (f"{self._word}, first move", first),
                (f"{self._word}, back", back),
            ):
                if values:
                    cells = [f"{values[s]:.2f}" if s in values else "-" for s in sizes]
                    rows.append([name, f"GB/s {what}", *cells])
            for what, move in (("first move", 1), ("back", 2)):
                split = {size: run.folios_split for (size, m), run in runs.items() if m == move}
                if any(count > 0 for count in split.values()):
                    cells = [f"{split[s]:,}" if split.get(s, -1) >= 0 else "-" for s in sizes]
                    rows.append([name, f"folios split, {what}", *cells])
        batches = {
            run.batch_pages
            for (_, design, _), runs in configurations.items()
            if design in ENGINE_DESIGNS
            for run in runs.values()
        }
        names = [f"{b:,} pages" if b else "unknown" for b in sorted(batches, key=known)]
        used = f"; batches with an engine: {', '.join(names)}" if batches else ""
        if curves:
            plots.throughput(
                self._directory / "throughput.png", curves, self._word, self._results.label
            )
            section.lines += [*self._figure("throughput.png", f"first move{used}"), ""]
        head = ["configuration", "figure", *(plots.size_name(size) for size in sizes)]
        section.lines += self._table(f"throughput by folio size{used}", head, rows, 2)
        return section

    def _published_by_size(
        self, kernel: str, design: str, channels: int | None
    ) -> dict[int, float]:
        if kernel == "vanilla":
            return {row.folio_kib: row.gbps for row in self._published.baseline}
        if design != "batch":
            return {}
        rows = self._published.offload
        return {row.folio_kib: row.gbps for row in rows if row.channels == channels}

    def _phases(self) -> Section:
        section = Section("Phases of a batch", "no run has phase times")
        panels, rows = [], []
        for size, batch, runs in phase_panels(self._results.runs):
            pages = "unknown size" if batch is None else f"{batch:,} pages"
            bars = {_short_name(run): run.phases_us for run in runs if run.phases_us}
            panels.append(plots.Bars(f"{plots.size_name(size)}, batch of {pages}", bars))
            for name, one in bars.items():
                times = (one.unmap, one.flush, one.copy, one.move)
                cells = [f"{time:,.2f}" for time in (*times, sum(times))]
                rows.append([plots.size_name(size), pages, name, *cells])
        if not panels:
            return section
        plots.phases(self._directory / "phases.png", panels, self._results.label)
        section.lines = [
            *self._figure("phases.png", "mean time of each phase of a batch, first move"),
            "",
            *self._table(
                "phases of a batch in us",
                ["folio", "batch", "copies by", "unmap", "flush", "copy", "move", "sum"],
                rows,
                3,
            ),
        ]
        return section

    def _calibration(self) -> Section:
        section = Section("Calibration", "these results are not in virtual time")
        calibration = self._results.calibration
        if calibration is None:
            return section
        outside = lab_calibration.unclaimed(self._published)
        claimed = [row for row in calibration.rows if (row.table, row.row) not in outside]
        over = lab_calibration.over_limit(calibration, self._published)
        limit = _percent(calibration.limit)
        section.lines = [
            "One constant maps virtual time to the published machine: "
            f"{calibration.dilation:.3f} virtual ns for each of its ns. "
            f"{len(claimed) - len(over)} of {len(claimed)} claimed rows are within {limit}.",
            "",
        ]
        if over:
            names = "; ".join(f"{_escape(row.name)} ({_error(row.error)})" for row in over)
            section.lines += [f"**Over the limit of {limit}**: {names}.", ""]
        if claimed:
            self._error_figure(section, claimed, calibration.limit)

        def verdict(row: CalibrationRow) -> str:
            if (row.table, row.row) in outside:
                return "outside the claim"
            return "**over**" if row in over else "within"

        rows = [
            [
                _escape(row.table), _escape(row.row), _escape(_QUANTITIES[row.quantity]),
                f"{row.published:,.2f}", f"{row.lab:,.2f}", _error(row.error), verdict(row),
            ]
            for row in calibration.rows
        ]  # fmt: skip
        head = ["table", "row", "quantity", "published", self._word, "error", limit]
        caption = (
            "published figures and the lab's, vanilla kernel; calls of few folios are shown "
            "without a claim"
        )
        section.lines += self._table(caption, head, rows, 3)
        return section

    def _error_figure(
        self, section: Section, rows: Sequence[CalibrationRow], limit: float
    ) -> None:
        shown = [
            (f"{_TABLES.get(row.table, row.table)}: {row.row}, {_QUANTITIES[row.quantity]}",
             row.error)
            for row in rows
        ]  # fmt: skip
        name = "calibration.png"
        plots.errors(self._directory / name, shown, limit, self._results.label)
        section.lines += [*self._figure(name, "error of every claimed row, vanilla kernel"), ""]

    def _cost(self) -> Section:
        section = Section(
            "Cost of being there",
            "there are no instruction counts of ours off and of ours without the feature",
        )
        costs = costs_of(self._results.runs)
        if not costs:
            return section
        rows = []
        for cost in costs:
            counts = (cost.without, cost.off, cost.vanilla, cost.cpu, cost.engine)
            cells = ["-" if count is None else f"{count:,.1f}" for count in counts]
            verdict = "**over**" if cost.overhead > OFF_LIMIT else "within"
            overhead = f"{100 * cost.overhead:+.3f} %"
            rows.append([plots.size_name(cost.folio_kib), *cells, overhead, verdict])
        limit = _percent(OFF_LIMIT)
        head = ["folio", "without", "off", "vanilla", "CPU copy", "engine",
                "off over without", limit]  # fmt: skip
        over = [plots.size_name(cost.folio_kib) for cost in costs if cost.overhead > OFF_LIMIT]
        section.lines = [
            '"Without" is the same kernel with the feature compiled out: all else that makes '
            "migration faster than vanilla's is in both. Off may take at most "
            f"{limit} more instructions than without. "
            + (f"**It takes more for {', '.join(over)}.**" if over else "It keeps to that."),
            "",
            *self._table(
                "instructions per folio, first move; the engine's column has the most channels "
                "and the largest batch",
                head,
                rows,
            ),
        ]
        return section

    def _gains(self) -> Section:
        section = Section(
            "Gain over vanilla without an engine", "vanilla and ours off were not both measured"
        )
        calibration = self._results.calibration
        dilation = calibration.dilation if calibration else 1.0
        gains = gains_of(self._results.runs, dilation)
        if not gains:
            return section
        promised = {(one.what, one.folio_kib): one for one in promises_of(gains)}

        def cells(what: str, size: int, measured: float | None) -> list[str]:
            one = promised.get((what, size))
            goal = "-" if one is None else f"{one.promised:g}"
            return ["-" if measured is None else f"{measured:.3f}", goal]

        rows = [
            [
                plots.size_name(gain.folio_kib),
                *cells("first move", gain.folio_kib, gain.first),
                *cells("moved back", gain.folio_kib, gain.back),
                *cells("outside the copy", gain.folio_kib, gain.outside),
                f"{gain.split:,}",
            ]
            for gain in gains
        ]
        head = ["folio", "first move", "goal", "moved back", "goal", "outside the copy", "goal",
                "folios split"]  # fmt: skip
        short = [one for one in promised.values() if one.cause or not one.kept]
        section.lines = [
            "The feature is off: what differs is how folios are looked up, allocated, "
            "unmapped, remapped and freed, and that large ones stay whole. Vanilla splits "
            "those below 2 MB when they move back.",
            "",
            *(
                f"**Less than the goal**: {one.what}, {plots.size_name(one.folio_kib)}: "
                f"{one.cause or 'not explained'}."
                for one in short
            ),
            *([""] if short else []),
            *self._table(
                "ours over vanilla: throughput (at least the goal), and instructions outside "
                "the copy of a first move (at most the goal)",
                head,
                rows,
            ),
        ]
        return section

    def _segments(self) -> Section:
        section = Section(
            "Folios cut into segments",
            "no engine copied in segments",
        )
        rows = []
        for goal in goals.goals_of(self._results):
            sign = ">=" if goal.at_least else "<="
            verdict = "met" if goal.met else f"missed: {goal.cause or 'nobody knows why'}"
            rows.append(
                [
                    goal.name,
                    f"{sign} {goal.goal:g} {goal.unit}",
                    f"{goal.value:.3g} {goal.unit}",
                    f"{goal.ceiling:.3g} {goal.unit}" if goal.ceiling else "",
                    verdict,
                ]
            )
        if not rows:
            return section
        section.lines = [
            "dcbm as it is by default: large folios are cut, small ones grouped, and a channel "
            'gets one descriptor for all that it copies of a batch. "batch" elsewhere in this '
            "report is the published design: whole folios, a descriptor each. The ceiling of a "
            "speed is that of the model: engine or processor, whichever is slower by itself, "
            "as if neither ever waited for the other.",
            "",
            *self._table("goals", ["figure", "goal", "lab", "ceiling", "verdict"], rows),
        ]
        return section

    def _copies(self) -> Section:
        section = Section(
            "Copies by the CPU",
            "instructions of page-by-page and of calibrated copies were not counted",
        )
        calibration = self._results.calibration
        copies = copies_of(self._results.runs, calibration.dilation) if calibration else []
        if not copies:
            return section
        rows = [
            [
                plots.size_name(one.folio_kib), f"{one.loop:,.0f}", f"{one.bulk:,.0f}",
                f"{one.fraction:.2f}", f"{one.migration_loop:,.0f}",
                f"{one.migration_bulk:,.0f}",
            ]
            for one in copies
        ]  # fmt: skip
        head = ["folio", "copy: page by page", "calibrated", "of 1", "migration: page by page",
                "calibrated"]  # fmt: skip
        section.lines = [
            "Virtual time knows no caches, so this says what is executed, not what is fast: "
            "`make bench-copy` measures that on a real processor. A `rep movs` counts one "
            "instruction for each of its iterations.",
            "",
            *self._table("instructions per folio, first move, copied by the CPU", head, rows),
        ]
        return section


_LINES: Mapping[str, Literal["--", "-."]] = {"pipeline": "--", "segments": "-."}
_QUANTITIES: Mapping[str, str] = {"gbps": "GB/s", "first_folio_us": "first folio us"}
_TABLES: Mapping[str, str] = {
    lab_published.BASELINE: "baseline",
    lab_published.WORKLOAD: "workload",
}


def _curve_order(item: tuple[CurveKey, object]) -> tuple[int, str, int]:
    size, design, channels = item[0]
    return (size, design, known(channels))


def _sweep_by_channels(
    published: Published, folio_kib: int
) -> dict[int | None, list[tuple[float, float]]]:
    """Return the published latencies (us) and speeds (GB/s) of a folio size by channels."""
    found: dict[int | None, list[tuple[float, float]]] = {}
    for row in published.sweep:
        if lab_published.order_kib(row.order) == folio_kib:
            found.setdefault(row.channels, []).append((row.first_us, row.gbps))
    return found


def _batches(curves: Iterable[Iterable[Run]]) -> str:
    pages = {run.batch_pages for runs in curves for run in runs if run.batch_pages}
    if len(pages) < 2:
        return ""
    return f"; along each curve the batch grows, {min(pages):,} to {max(pages):,} pages"


def _engine_name(design: str, channels: int | None) -> str:
    many = "unknown channels" if channels is None else f"{channels} channel"
    plural = "s" if channels and channels > 1 else ""
    return f"{design}, {many}{plural}"


def _configuration_name(kernel: str, design: str, channels: int | None) -> str:
    if kernel == "vanilla":
        return "vanilla"
    names = {"off": "off", "cpu": "CPU copy", "bulk": "CPU bulk copy"}
    return names.get(design) or _engine_name(design, channels)


def _short_name(run: Run) -> str:
    """Return a configuration's name for the axis of a bar."""
    if run.design not in ENGINE_DESIGNS:
        return _configuration_name(run.kernel, run.design, run.channels)
    mark = {"pipeline": "p", "segments": "s"}.get(run.design, "")
    return f"{'?' if run.channels is None else run.channels} ch{mark}"


def _counts(by_run: Mapping[str, int]) -> str:
    """Return how many of something each run had, as running text."""
    listed = [f"{_escape(name)}: {count:,}" for name, count in by_run.items()]
    more = [f"and {len(listed) - _LISTED} more runs"] if len(listed) > _LISTED else []
    return "; ".join(listed[:_LISTED] + more)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} %"


def _error(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _escape(text: str) -> str:
    """Return text that Markdown takes as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#!&~])", r"\\\1", " ".join(text.split()))


def _disagreement(published: Published) -> str:
    """Say where the published sources contradict each other, and which of them rules."""
    (bare,) = [
        row
        for row in published.prep
        if (row.mode, row.channels, row.folio_kib) == ("memcpy", 1, lab_published.PAGE_KIB)
    ]
    fastest = max(row.gbps for row in published.sweep if (row.order, row.channels) == (0, 1))
    size = bare.folio_kib * 1024
    descriptor_us = bare.run_ms * 1000 / bare.prep_calls
    return (
        f"**Where the published sources disagree.** In {lab_published.PREP}.csv, which has no "
        f"migration in it, one channel takes {descriptor_us:.1f} us for each descriptor of "
        f"{bare.folio_kib} KB ({size / descriptor_us / 1000:.2f} GB/s). In "
        f"{lab_published.SWEEP}.csv, one channel too, the whole migration of such a folio, one "
        f"descriptor and all that the CPU does, takes {size / fastest / 1000:.1f} us "
        f"({fastest:.2f} GB/s). No one engine does both: the former implies a far larger cost "
        "per descriptor than the sweep has room for. The sweep rules, and the model follows it."
    )


_CSS = """
body { font-family: sans-serif; line-height: 1.45; color: #111; background: #fff;
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0 1.5rem; }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #ddd; }
thead th { border-bottom: 2px solid #555; }
@media print { body { margin: 0; max-width: none; } tr, img { break-inside: avoid; } }
"""


def to_html(markdown: str, directory: Path) -> str:
    """Return the report as one HTML file: figures of `directory` become data: URIs."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        for child in token.children or ():
            if child.type == "image":
                _embed(child, directory)
    title = html.escape(markdown.partition("\n")[0].lstrip("# "))
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _embed(image: Token, directory: Path) -> None:
    data = (directory / str(image.attrs["src"])).read_bytes()
    image.attrs["src"] = f"data:image/png;base64,{base64.b64encode(data).decode()}"


def write(results: Results, directory: Path) -> None:
    """Write report.md, report.html and the figures; HarnessError if that cannot be."""
    published = lab_published.load()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in FIGURES:
            (directory / stale).unlink(missing_ok=True)
        markdown = Report(results, published, directory).markdown()
        (directory / "report.md").write_text(markdown, encoding="utf-8")
        page = to_html(markdown, directory)
        (directory / "report.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{error.filename or directory}: {error.strerror}") from error


def load(files: Sequence[Path]) -> Results:
    """Return the results in one results.json, or in files of migrate_bench taken together."""
    if not files:
        raise HarnessError("report: no file is given: make report FROM=results.json")
    documents = [(str(path), schema.load_json(path)) for path in files]
    if all(bench.is_benchmark(document) for _, document in documents):
        return bench.from_benchmarks(
            [(name, bench.parse(document, name)) for name, document in documents]
        )
    if len(documents) > 1:
        raise HarnessError("report: several files must all be output of migrate_bench")
    ((name, document),) = documents
    return lab_results.parse(document, name)


def main(files: Sequence[Path], to: Path | None) -> int:
    """Write the report of these files to a directory, or beside the first of them."""
    results = load(files)
    directory = to or files[0].parent
    write(results, directory)
    ui.say(f"report: {len(results.runs)} runs, {results.label}; {directory}/report.html")
    return 0
