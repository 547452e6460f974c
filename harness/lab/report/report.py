"""The lab's report: report.html (self-contained), two pictures, and one table a question.

Made from results.json alone, so that a real machine's results give the same report.
Published figures are other people's, and every caption says what ours come from.
"""

import base64
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import jinja2
from msgspec import structs

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.guest.ktap import Case
from harness.lab import bench
from harness.lab.judge import claims
from harness.lab.judge.claim import Claim, number, size
from harness.lab.judge.reproduced import SIZES
from harness.lab.model.calibration import UNFITTED_KIB
from harness.lab.plan import HUGE_KIB
from harness.lab.report import plots, predicted, programs
from harness.lab.results import Design, Results, Run, Strip, StripWay, convert, size_name
from harness.lab.workloads import WORKLOADS

STRIP, COST = FIGURES = ("strip.png", "cost.png")
"""All figures that a report can have."""

CLAIMS: dict[str, str] = {
    r"^cost of being there|, (ours, off|switched off): ": "Does it cost anything when it is off?",
    r"^copied while it is mapped": "Is memory accessible while it moves?",
    r"^copied while it is written": "Does it pay while threads write to the memory?",
    r"^other kinds of memory": "Does it pay for memory that is not copied live?",
    r"moves: |^Movers": "Do programs get more than on vanilla while memory moves?",
    r"^callers|^A hot set": "Does it pay where the kernel moves memory by itself?",
    r"^gain|^stays": "Is anything gained without an engine?",
    r"^folios cut": "Does it pay to cut folios over channels?",
    r"^calibration|^batch sweep|^published": "Does the model reproduce what was published?",
}
"""Questions that claims answer, by patterns of their names: the first that fits."""

_WAYS: dict[StripWay, str] = {
    "vanilla": "vanilla", "batch": "published design", "dcbm": "engine, not live",
    "dcbm live": "engine, live\n(default)",
}  # fmt: skip

_BESIDES = ("inventory", "redis")  # parts of a file of migrate-offload-report
_WORSE, _NEAR = 0.02, 0.1
"""Fractions by which a figure is worse than vanilla's and no tie, and still as predicted."""


@dataclass
class Question:
    """A table, whose title is the question; the first columns are words."""

    title: str
    head: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    words: int = 1


def _title(question: str, judged: Sequence[Claim]) -> str:
    """Return a question and its answer: yes (or that it costs nothing) if all goals are met."""
    met = [claim.met for claim in judged if claim.goal and not claim.fitted]
    if not met:
        return question
    good, bad = ("No", "Yes") if "cost" in question else ("Yes", "No")
    answer = good if all(met) else "In part" if any(met) else bad
    held = [claim.met for claim in judged if claim.group == SIZES
            and not (claim.fitted or claim.what.startswith("4 KB"))]  # fmt: skip
    held_out = f", {sum(held)} of {len(held)} of the published design from 16 KB to 1 MB"
    return f"{question} {answer}: {sum(met)} of {len(met)} goals are met{held_out if held else ''}"


def _row(claim: Claim, case: Case | None) -> list[str]:
    """Return a claim as a row: with its bound, its verdict, and the cause of a known miss."""
    value, bound, verdict = "-", "-", "fitted" if claim.fitted else "-"
    if not math.isnan(claim.value):
        value = f"{number(claim.value)} {claim.unit}".rstrip()
        if claim.published:
            ends = [end for end in (claim.value, claim.other) if not math.isnan(end)]
            errors = " to ".join(f"{100 * (end / claim.published - 1):+.0f}" for end in ends)
            value = f"{' to '.join(map(number, ends))} {claim.unit} ({errors} %)"
    if case:
        verdict = case.status.value.removesuffix("es")
        bound = case.name.removeprefix(f"{claim.name}: ").partition(" (")[0]
        if claim.cause and not claim.met:
            verdict += f": {claim.cause}"
    return [claim.name, claim.goal or "-", value, bound, verdict]


def _against(judged: Sequence[Claim]) -> Question:
    """Return where a figure is worse than vanilla's, the worst first."""
    worse = []
    for claim in judged:
        if re.search("(of|over) vanilla", claim.what) and claim.value:
            times = 1 / claim.value if claim.more else claim.value
            if times > 1 + _WORSE:
                worse.append((times, [claim.name, f"{times:.2f} times", claim.cause or "-"]))
    worse.sort(key=lambda row: -row[0])
    title, rows = f"Where does vanilla win? Figures: {len(worse)}", [row for _, row in worse]
    return Question(title, ("figure", "worse than vanilla", "cause"), rows)


def _copier(run: Run) -> str:
    """Return how people call what copies in a run."""
    if run.kernel == "vanilla":
        return "vanilla"
    who = {"off": "off", "cpu": "CPU", "threads": f"mtcopy, {run.channels} threads"}.get(run.design)
    if who or not run.engine:
        return who or "CPU, live"
    name = {"segments": "engine", "live": "engine, live"}.get(run.design, run.design)
    name = "published design" if run.kernel == "heart" else name
    count = "unknown" if run.channels is None else run.channels
    default = " (default)" if run.bound_us and run.design == "live" else ""
    return f"{name}, {count} channel{'' if count == 1 else 's'}{default}"


def _speeds(results: Results, missed: Collection[str]) -> Question:
    """Return speed, inaccessible time and CPU time by folio size, of the largest batches.

    In virtual time nothing is said of how fast the CPU copies, but for vanilla, which the clock
    is fitted to; of engines only those with the most channels are shown, and the published way to
    divide only on the kernel that was published. The model `missed` rows of that.
    """
    runs = [
        run for run in results.runs
        if (run.move, run.writes_per_ms, run.addresses, run.memory) == (1, 0, "heads", "anon")
        and run.kernel != "without"
    ]  # fmt: skip
    most = max((run.channels or 0 for run in runs if run.engine), default=0)
    if results.calibration:
        runs = [
            run for run in runs
            if run.kernel == "vanilla" or (run.channels == most and
                                           (run.kernel == "heart") == (run.design == "batch"))
        ]  # fmt: skip
    runs.sort(key=lambda run: (run.kernel != "vanilla", run.kernel != "heart",
                               get_args(Design).index(run.design), run.channels or 0))  # fmt: skip
    sizes = sorted({run.folio_kib for run in runs})
    by_copier: dict[tuple[str, int], Run] = {}
    for run in sorted(runs, key=lambda run: (run.bound_us > 0, *size(run))):  # the default last
        by_copier[_copier(run), run.folio_kib] = run

    def figures(run: Run) -> dict[str, str]:
        fitted = {"vanilla": run.folio_kib != UNFITTED_KIB, "heart": run.folio_kib == HUGE_KIB}
        mark = " (fitted)" if results.calibration and fitted.get(run.kernel) else ""
        row = f"{size_name(run.folio_kib)}, {run.channels} channels: throughput"
        mark = " (missed)" if run.kernel == "heart" and row in missed else mark
        told = {"GB/s": number(run.gbps) + mark}
        if run.inaccessible_us:
            told["inaccessible, p99, us"] = number(run.inaccessible_us.p99)
        if (ms := results.cpu_ms_per_gb(run)) is not None:
            told["CPU-ms a GB"] = number(ms)
        return told

    rows = []
    for name in dict.fromkeys(map(_copier, runs)):
        cells = [figures(by_copier[name, kib]) if (name, kib) in by_copier else {} for kib in sizes]
        for what in dict.fromkeys(what for some in cells for what in some):
            rows.append([name, what, *(some.get(what, "-") for some in cells)])
    told = [f"{row[0]} {row[-1]}" for row in rows if row[1] == "GB/s" and row[-1] != "-"]
    title = "How fast is a move, and at what cost? GB/s with the largest folios: "
    title += "; ".join(dict.fromkeys(told[:1] + told[-1:]))
    return Question(title, ("copies by", "figure", *map(size_name, sizes)), rows, 2)


def _touched(results: Results) -> Question:
    """Return memory that threads use while it moves."""
    runs = sorted(results.runs, key=lambda run: (run.zipf, run.readers, -run.folio_kib,
                                                 run.writes_per_ms))  # fmt: skip

    def told(figure: float | None, digits: int = 2) -> str:
        return "-" if figure is None else f"{figure:,.{digits}f}"

    rows = [
        [
            size_name(run.folio_kib), _copier(run),
            f"{run.writes_per_ms:,}{', Zipf' * run.zipf}", f"{run.readers}",
            "-" if results.calibration and not run.engine else f"{run.gbps:.2f}",
            told(run.inaccessible_us.p99 if run.inaccessible_us else None),
            told(run.touch.read_p999), told(run.touch.read),
            told(run.touch.write_p999), told(run.touch.write),
            told(run.touch.faults, 0), told(run.touch.ipis_per_gb, 0),
            told(run.touch.copied_twice, 0),
            f"{run.total_mib * 1024 / run.folio_kib:,.0f}",
            "-" if run.touch.by_quantum is None else f"{run.touch.by_quantum:.1%}",
        ]
        for run in runs if run.touch
    ]  # fmt: skip
    head = ("folio", "copies by", "pages written a ms", "readers", "GB/s", "inaccessible, p99, us",
            "read, p99.9, us", "longest", "write, p99.9, us", "longest", "page faults",
            "IPIs a GB", "folios written meanwhile", "of", "GB/s with another quantum")  # fmt: skip
    largest = next((size_name(run.folio_kib) for run in runs if run.touch), "")
    met = {_copier(run): f"{_copier(run)} {max(run.touch.read, run.touch.write):,.2f} us"
           for run in runs if run.touch and size_name(run.folio_kib) == largest}  # fmt: skip
    longest = "; ".join(met[name] for name in met if re.search(r"^vanilla$|^off$|default", name))
    title = "What do threads meet that read and write the memory? The longest access with "
    return Question(f"{title}{largest}: {longest}", head, rows, 2)


def _predicted(results: Results) -> Question:
    """Return what was predicted of a real engine beside what it does."""
    rows = predicted.rows(results)
    times = [float(row[3].removesuffix(" times").replace(",", "")) for row in rows if row[1] != "-"]
    near = sum(abs(value - 1) <= _NEAR for value in times)
    title = f"Is the engine as predicted? {near} of {len(times)} figures are, within a tenth"
    return Question(title, predicted.HEAD, rows)


def questions(results: Results) -> list[Question]:
    """Return the tables that have rows: those against us first."""
    judged = claims.judged(results)
    head = ("figure", "goal", "lab" if results.calibration else "measured", "bound", "verdict")
    titles = [next(t for name, t in CLAIMS.items() if re.search(name, c.name)) for c, _ in judged]
    answered = []
    for question in CLAIMS.values():
        fits = [row for row, title in zip(judged, titles, strict=True) if title == question]
        title = _title(question, [claim for claim, _ in fits])
        answered.append(Question(title, head, [_row(*row) for row in fits]))
    served = []
    for name, workload in WORKLOADS.items():
        if some := [row for row in results.programs if row.workload == name]:
            title = f"{workload.group}: what does it get? {programs.answer(some)}"
            served.append(Question(title, *programs.table(some), 4))
    missed = {claim.what for claim, _ in judged if claim.group == SIZES and not claim.met}
    tables = [_predicted(results), _against([claim for claim, _ in judged]),
              _speeds(results, missed), _touched(results), *answered, *served]  # fmt: skip
    return [table for table in tables if table.rows]


def _pictures(results: Results, directory: Path) -> list[tuple[str, str]]:
    """Draw what there is to draw, and return it as base64, each with a sentence."""
    pictures = []
    by_way: dict[StripWay, list[Strip]] = {}
    for strip in results.strips:
        by_way.setdefault(strip.way, []).append(strip)
    if by_way:
        plots.strip(directory / STRIP, [(_WAYS[way], some) for way, some in by_way.items()],
                    results.label)  # fmt: skip
        told = [f"{_WAYS[way].partition(chr(10))[0]} {plots.amount(some[0].lasts_us[2])} us"
                for way, some in by_way.items()]  # fmt: skip
        size = size_name(results.strips[0].folio_kib)
        pictures.append((STRIP, f"For how long no program can touch a folio of {size} that moves: "
                         f"{'; '.join(told)}"))  # fmt: skip
    if costs := programs.costs(results.programs):
        plots.cost(directory / COST, programs.PANELS, costs, results.label)
        title, bars = next(iter(costs.items()))
        shown = [bar for bar in bars if bar.default or bar.way == "vanilla"]
        told = [f"{plots.amount(bar.figures[0].median)} and {plots.amount(bar.figures[1].median)} "
                f"with {bar.name}" for bar in shown]  # fmt: skip
        pictures.append((COST, f"Requests and CPU-ms that a GB costs when it moves ({title}): "
                         f"{'; '.join(told)}. A bar is the median of all seeds, a line leads from "
                         "the least to the greatest"))  # fmt: skip
    return [
        (base64.b64encode((directory / name).read_bytes()).decode(), sentence)
        for name, sentence in pictures
    ]


def html(results: Results, directory: Path) -> str:
    """Return the whole report, and write its pictures."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        results=results,
        pictures=_pictures(results, directory),
        questions=questions(results),
        unmoved=[f"{r.name}: {r.folios_failed:,}" for r in results.runs if r.folios_failed],
        lost=[f"{r.name}: {r.latency_lost:,}" for r in results.runs if r.latency_lost],
    )


def write(results: Results, directory: Path) -> None:
    """Write report.html and the figures; HarnessError if that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in FIGURES:
            (directory / stale).unlink(missing_ok=True)
        (directory / "report.html").write_text(html(results, directory), encoding="utf-8")
        if results.quick:
            (directory / "predictions.json").write_text(predicted.dump(results))
    except OSError as error:
        raise HarnessError(f"{error.filename or directory}: {error.strerror}") from error


def load(files: Sequence[Path]) -> Results:
    """Return what is in results.json, and in those of workloads, or in files of migrate_bench."""
    if not files:
        raise HarnessError("report: no file is given: make report FROM=results.json")
    read = [(str(path), jsonio.load(dict[str, object], path)) for path in files]
    documents = [(name, part) for name, whole in read for part in bench.parts(whole, name)]
    told = [f"{what}: {whole[what]}" for _, whole in read for what in _BESIDES if whole.get(what)]
    if all("program" in document for _, document in documents):
        measured = bench.from_benchmarks(
            [(name, convert(document, bench.Bench, name)) for name, document in documents],
            rounds=len(documents) > len(files), told=told,
        )  # fmt: skip
        copies = {
            predicted.bare(row["bytes"] / 1024, int(row["channels"])): row["ns"]
            for name, whole in read
            for row in convert(whole.get("bare", []), list[dict[str, float]], name)
        }
        return structs.replace(measured, bare=copies)
    first, *others = (convert(document, Results, name) for name, document in documents)
    if any(other.runs for other in others):
        raise HarnessError("report: of several results.json only the first may have runs")
    rows = [row for some in (first, *others) for row in some.programs]
    return structs.replace(first, programs=tuple(rows))


def main(files: Sequence[Path], to: Path | None) -> int:
    """Write the report of these files to a directory, or beside the first of them."""
    results = load(files)
    directory = to or files[0].parent
    write(results, directory)
    count = len(results.runs) + len(results.programs)
    ui.say(f"report: {count} runs, {results.label}; {directory}/report.html")
    return 0
