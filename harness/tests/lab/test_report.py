"""The report: order, marks, and pages that stand by themselves."""

import base64
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cli
from harness.lab import results as lab_results
from harness.lab.model import calibration as lab_calibration
from harness.lab.report import report as lab_report
from harness.lab.report.select import (
    batch_curves,
    by_size,
    copies_of,
    costs_of,
    phase_panels,
    sweep_misses,
    sweep_pairs,
    tradeoff_curves,
)
from harness.lab.results import Calibration, CalibrationRow, Engine, Kernel, Results, Run
from harness.tests.lab.sample import (
    DILATION,
    PUBLISHED,
    by_cpu,
    real_results,
    results,
    run,
    sweep_runs,
)

TITLES = [
    "Throughput against first-folio latency",
    "The published batch sweep",
    "Throughput by folio size",
    "Phases of a batch",
    "Calibration",
    "Cost of being there",
    "Gain over vanilla without an engine",
    "Folios cut into segments",
    "Copies by the CPU",
]


def report(directory: Path, whole: Results) -> str:
    lab_report.write(whole, directory)
    return (directory / "report.md").read_text()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    lab_report.write(results(), directory)
    return directory


def test_sections_come_in_the_order_of_the_issue(written: Path) -> None:
    text = (written / "report.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == TITLES
    assert "left out" not in text


def test_every_figure_and_table_names_the_model(written: Path) -> None:
    text = (written / "report.md").read_text()
    captions = re.findall(r"^\*((?:Figure|Table) \d+: .*)\*$", text, re.MULTILINE)
    assert [caption.split(":")[0] for caption in captions if caption[0] == "F"] == [
        f"Figure {n}" for n in range(1, 5)
    ]
    assert len(re.findall(r"^\|[ -:|]+\|$", text, re.MULTILINE)) == len(captions) - 4
    assert all(caption.endswith("(engine: model 'zen3-ptdma').") for caption in captions)
    assert "**The engine is a model.**" in text


def test_the_page_is_self_contained(written: Path) -> None:
    page = (written / "report.html").read_text()
    assert "http" not in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == len(lab_report.FIGURES)
    for figure, source in zip(lab_report.FIGURES, sources, strict=True):
        header, data = source.split(",")
        assert header == "data:image/png;base64"
        image = base64.b64decode(data)
        assert image == (written / figure).read_bytes()
        assert image.startswith(b"\x89PNG")
    assert page.count("<table>") == 8


def test_the_same_results_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    lab_report.write(results(), tmp_path)
    for path in written.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_where_sources_disagree_is_said(written: Path) -> None:
    (line,) = re.findall(r"\*\*Where the published sources disagree.*",
                         (written / "report.md").read_text())  # fmt: skip
    assert "4.8 us for each descriptor of 4 KB" in line
    assert "1.9 us (2.21 GB/s)" in line
    assert "The sweep rules" in line


def test_real_hardware_gets_the_same_report(tmp_path: Path) -> None:
    text = report(tmp_path, real_results())
    assert "engine: real hardware, 'idxd'" in text
    assert "model" not in text.replace("compares a model with the machine that it models", "")
    found = re.findall(r"^(?:## |\*)([^:*\n]*?)(?:: left out.*)?$", text, re.MULTILINE)
    assert [title for title in found if title in TITLES] == TITLES
    assert "*Calibration: left out, since these results are not in virtual time.*" in text


def test_sections_without_data_are_left_out_and_old_figures_go(tmp_path: Path) -> None:
    (tmp_path / "tradeoff.png").write_bytes(b"old")
    text = report(tmp_path, replace(real_results(), runs=(), engine=None))
    assert text.count(": left out, since ") == len(TITLES)
    assert "![" not in text
    assert not (tmp_path / "tradeoff.png").exists()


def test_sweep_rows_that_miss_the_target_are_marked(tmp_path: Path) -> None:
    def changed(one: Run) -> Run:
        if (one.folio_kib, one.batch_pages, one.channels) == (2048, 2048, 4):
            return replace(one, gbps=one.gbps * 1.2)
        if (one.folio_kib, one.batch_pages, one.channels) == (4, 512, 16):
            return replace(one, first_folio_us=10.0)
        return one

    runs = [changed(one) for one in sweep_runs()]
    text = report(tmp_path, results(runs=tuple(runs)))
    assert "60 of 60 published rows were measured; 58 of these are within the target" in text
    assert (
        "Missed: order 0, 16 channels, 512 pages (first folio -96.0 %); "
        "order 9, 4 channels, 2,048 pages (throughput +26.0 %)." in text
    )
    assert text.count("| **missed** |") == 2
    assert text.count("| met |") == 58


def test_targets_are_by_order_and_a_missing_latency_is_a_miss() -> None:
    for order, error, met in (
        (0, 1.29, True),
        (0, 1.31, False),
        (9, 1.14, True),
        (9, 0.84, False),
    ):
        row = next(row for row in PUBLISHED.sweep if row.order == order)
        one = run(gbps=row.gbps * error, first_folio_us=row.first_us)
        assert (sweep_misses(row, one) == []) is met
        assert sweep_misses(row, replace(one, first_folio_us=None))


def test_being_faster_than_published_can_have_a_target_of_its_own() -> None:
    row = next(row for row in PUBLISHED.sweep if row.order == 9)
    for error, met in ((1.24, True), (1.26, False), (0.84, False)):
        one = run(gbps=row.gbps * error, first_folio_us=row.first_us)
        assert (sweep_misses(row, one, None, 0.25) == []) is met


def test_only_batch_runs_of_the_first_move_are_sweep_rows() -> None:
    good = sweep_runs()[0]
    others = [
        replace(good, design="pipeline"),
        replace(good, move=2),
        replace(good, channels=3),
    ]
    assert [one for _, one in sweep_pairs([*others, good], PUBLISHED)] == [good]


def test_calibration_rows_over_the_limit_are_named(tmp_path: Path) -> None:
    row = CalibrationRow("baseline-move-pages", "4 KiB", "gbps", 3.0, 3.6, 3.6 / 3.0 - 1)
    fine = CalibrationRow("baseline-move-pages", "16 KiB", "gbps", 3.0, 3.3, 3.3 / 3.0 - 1)
    small = CalibrationRow(
        "vanilla-workload-sweep", "order 0, 1 folios", "gbps", 0.04, 0.08, 1.0
    )
    calibration = Calibration(4.75, lab_calibration.LIMIT, (row, fine, small))
    text = report(tmp_path, results(calibration=calibration))
    assert "1 of 2 claimed rows are within 15 %" in text
    assert "**Over the limit of 15 %**: baseline-move-pages, 4 KiB, gbps (+20.0 %)." in text
    assert (text.count("| outside the claim |"), text.count("| **over** |")) == (1, 1)


@pytest.mark.parametrize(("extra", "verdict"), [(0.0029, "within"), (0.0031, "**over**")])
def test_off_must_cost_nothing(tmp_path: Path, extra: float, verdict: str) -> None:
    def counted(one: Run, count: float) -> Run:
        return replace(one, instructions_per_folio=count)

    runs = (
        counted(by_cpu("vanilla", "off"), 1.5e6),
        counted(by_cpu("without", "off"), 1e6),
        counted(by_cpu("ours", "off"), 1e6 * (1 + extra)),
        counted(by_cpu("ours", "cpu"), 1.1e6),
        counted(run(), 3e4),
        counted(run(channels=4), 4e4),
        counted(by_cpu("ours", "off", folio_kib=4, total_mib=1), 1e9),
        counted(by_cpu("without", "off", folio_kib=4, total_mib=2), 1e3),
    )
    (cost,) = costs_of(runs)
    assert (cost.vanilla, cost.cpu, cost.engine) == (1.5e6, 1.1e6, 3e4)
    assert cost.overhead == pytest.approx(extra)
    text = report(tmp_path, results(runs=runs))
    off = f"{1e6 * (1 + extra):,.1f}"
    counts = f"1,000,000.0 | {off} | 1,500,000.0 | 1,100,000.0 | 30,000.0"
    assert f"| 2 MB | {counts} | {100 * extra:+.3f} % | {verdict} |" in text
    assert "| folio | without | off | vanilla | CPU copy | engine | off over without |" in text
    assert ("It takes more for 2 MB" in text) is (verdict != "within")


def test_vanilla_is_a_column_and_no_measure_of_the_cost() -> None:
    def counted(kernel: Kernel, count: float) -> Run:
        return by_cpu(kernel, "off", instructions_per_folio=count)

    off, without = counted("ours", 1.01e6), counted("without", 1e6)
    for vanilla in (0.5e6, 2e6):
        (cost,) = costs_of([off, without, counted("vanilla", vanilla)])
        assert cost.vanilla == vanilla
        assert cost.overhead == pytest.approx(0.01)
    (cost,) = costs_of([off, without])
    assert cost.vanilla is None
    assert costs_of([off, counted("vanilla", 2e6)]) == []


def test_the_kernel_without_the_feature_is_in_the_section_on_cost_alone(
    written: Path, tmp_path: Path
) -> None:
    def rest(directory: Path) -> list[str]:
        text = (directory / "report.md").read_text()
        text = re.sub(r"## Cost of being there.*?(?=\n## )", "", text, flags=re.DOTALL)
        text = re.sub(r"\*Cost of being there: left out, .*\*", "", text)
        return [line for line in re.sub(r"Table \d+", "Table", text).splitlines() if line]

    whole = results()
    runs = tuple(one for one in whole.runs if one.kernel != "without")
    assert len(runs) < len(whole.runs)
    lab_report.write(replace(whole, runs=runs), tmp_path)
    assert rest(written) == rest(tmp_path)
    for name in lab_report.FIGURES:
        assert (written / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_copies_by_the_cpu_are_compared(tmp_path: Path) -> None:
    copies = copies_of(results().runs, DILATION)
    assert [one.folio_kib for one in copies] == [row.folio_kib for row in PUBLISHED.baseline]
    two_mib = copies[-1]
    assert (two_mib.loop, two_mib.bulk) == pytest.approx((450e3 * DILATION, 150e3 * DILATION))
    assert two_mib.fraction == pytest.approx(1 / 3)
    assert copies[0].loop == pytest.approx(two_mib.loop / 512)
    lab_report.write(results(), tmp_path)
    assert "| 2 MB | 2,137,500 | 712,500 | 0.33 |" in (tmp_path / "report.md").read_text()


def test_copies_without_a_counterpart_are_left_out() -> None:
    loop = by_cpu("ours", "cpu")
    for other in ([], [by_cpu("ours", "bulk", move=2)], [by_cpu("ours", "bulk", folio_kib=4)]):
        assert copies_of([loop, *other], DILATION) == []
    bulk = by_cpu("ours", "bulk", phases_us=None)
    assert copies_of([loop, bulk], DILATION) == []


def test_folios_that_failed_or_were_split_are_told(tmp_path: Path) -> None:
    text = report(tmp_path, results(runs=(run(folios_failed=3), run(move=2, folios_split=512))))
    assert "- **Folios that did not move**: ours/batch, engine zen3-ptdma, 16 channels" in text
    assert re.search(r"^\| batch, 16 channels \| folios split, back \| 512 \|$", text, re.M)


def test_curves_are_in_order_of_batches_and_of_the_largest_workload() -> None:
    runs = [run(batch_pages=2048), run(batch_pages=512), run(batch_pages=512, total_mib=64)]
    ((key, curve),) = batch_curves([*runs, run(move=2), by_cpu("ours", "cpu")]).items()
    assert key == (2048, "batch", 16)
    assert [(one.batch_pages, one.total_mib) for one in curve][:2] == [
        (512, 1024),
        (2048, 1024),
    ]
    single = run(channels=8)
    assert list(tradeoff_curves([*runs, single])) == [(2048, "batch", 16)]
    assert list(tradeoff_curves([single])) == [(2048, "batch", 8)]
    assert not tradeoff_curves([replace(single, first_folio_us=None)])


def test_a_configuration_is_shown_with_one_batch() -> None:
    small = [run(folio_kib=size, batch_pages=512) for size in (4, 64, 2048)]
    large = [run(folio_kib=size, batch_pages=8192) for size in (4, 2048)]
    (runs,) = by_size([*large, *small]).values()
    assert {one.batch_pages for one in runs.values()} == {512}
    ((size, pages, shown),) = phase_panels([run(), run(channels=4), run(batch_pages=65536)])
    assert (size, pages, [one.channels for one in shown]) == (2048, 8192, [4, 16])


def test_the_kernel_without_the_feature_does_not_choose_the_batch_of_the_phases() -> None:
    few = [by_cpu(kernel, "off") for kernel in ("ours", "without")]
    ((_, pages, shown),) = phase_panels([run(), *few])
    assert (pages, [one.kernel for one in shown]) == (8192, ["ours"])


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    nasty = "<b>x</b> ![i](http://e.example/i.png) | *s*\n# head"
    whole = results(notes=(nasty,), engine=Engine("zen3-ptdma", True, nasty))
    lab_report.write(whole, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<img") == len(lab_report.FIGURES)
    assert "<b>x" not in page
    assert "<i>" not in lab_report.to_html("<i>x</i>", tmp_path)
    assert "&lt;b&gt;x&lt;/b&gt; ![i](http://e.example/i.png) | *s* # head" in page


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "results.json"
    source.write_text(lab_results.dump(real_results()))
    assert cli.main(["report", "--from", str(source), "--to", ""]) == 0
    assert (tmp_path / "report.html").exists()
    assert cli.main(["report", "--from", str(source), "--to", str(tmp_path / "a/b")]) == 0
    assert (tmp_path / "a/b/report.html").exists()
    capsys.readouterr()
    (tmp_path / "bad.json").write_text("{}")
    bad = str(tmp_path / "bad.json")
    for arguments, message in (
        (["--from"], "report: no file is given"),
        (["--from", str(tmp_path / "none.json")], "none.json: No such file or directory"),
        (["--from", bad], "bad.json: lacks calibration"),
        (["--from", bad, bad], "report: several files must all be output of migrate_bench"),
        (["--from", str(source), "--to", f"{source}/x"], "Not a directory"),
    ):
        assert cli.main(["report", *arguments]) == 1
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
