"""The report: sections, marks, and pages that stand by themselves."""

import base64
import html
import re
from pathlib import Path

import pytest
from msgspec import structs

from harness import cli
from harness.lab import results as lab_results
from harness.lab.judge import claims
from harness.lab.report import report as lab_report
from harness.lab.report.select import by_size, phase_panels, tradeoff_curves, waits
from harness.lab.results import Engine, Results, Touch
from harness.lab.workloads import WORKLOADS
from harness.tests.lab.sample import FULL, QUICK, by_cpu, real_results, results, run

MOVING = [workload.group for workload in WORKLOADS.values()]
TITLES = [
    "Throughput against first-folio latency", "Throughput against inaccessible time",
    "Memory that threads use while it moves", "The published batch sweep",
    "Throughput by folio size", "The published design", "Phases of a batch", "Calibration",
    "Cost of being there", "Gain over vanilla without an engine", "Folios cut into segments",
    *MOVING, "Copied while it is mapped", "Other kinds of memory", "Callers",
]  # fmt: skip
RECORDED = claims.recorded_programs()
POSTGRES = tuple(
    structs.replace(one, workload="postgres") for one in RECORDED if one.workload == "redis"
)
PROGRAMS = RECORDED + POSTGRES * (not any(one.workload == "postgres" for one in RECORDED))
WHOLE = structs.replace(FULL, programs=PROGRAMS)


def titles(page: str) -> list[str]:
    return re.findall(r"<h2>(.*)</h2>", page)


def cells(page: str, first: str) -> list[list[str]]:
    """Return the cells of each row that begins with this cell."""
    rows = re.findall(r"<tr>(.*)</tr>", page)
    found = [
        [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in rows
    ]
    return [row for row in found if row[:1] == [first]]


def report(directory: Path, whole: Results) -> str:
    lab_report.write(whole, directory)
    return (directory / "report.html").read_text()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    lab_report.write(WHOLE, directory)
    return directory


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return (written / "report.html").read_text()


def test_every_section_is_there_and_names_the_model(page: str, tmp_path: Path) -> None:
    assert titles(page) == TITLES
    missing = {"Memory that threads use while it moves", "The published design"}
    missing |= {"Cost of being there", *MOVING}
    assert titles(report(tmp_path, QUICK)) == [one for one in TITLES if one not in missing]
    captions = re.findall(r"<(?:figcaption|p><em)>(.*)</(?:figcaption|em>)", page)
    assert len(captions) == page.count("<table>") + page.count("<img ")
    assert all(caption.endswith("(engine: model &#39;zen3-ptdma&#39;).") for caption in captions)
    assert "<strong>The engine is a model.</strong>" in page
    assert "interrupts are not among" in page


def test_the_page_is_self_contained(written: Path, page: str) -> None:
    assert "http" not in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == len(lab_report.FIGURES)
    for figure, source in zip(lab_report.FIGURES, sources, strict=True):
        header, data = source.split(",")
        assert header == "data:image/png;base64"
        image = base64.b64decode(data)
        assert image == (written / figure).read_bytes()
        assert image.startswith(b"\x89PNG")


def test_every_claim_is_in_a_table_with_its_bound_and_verdict(page: str) -> None:
    for claim, case in claims.judged(FULL):
        # Folios that are cut, and live ones, have claims with the same words and other goals.
        (row,) = (row for row in cells(page, claim.what) if row[1] == (claim.goal or "-"))
        if case is None:
            assert row[5] == "fitted"
        else:
            assert case.name.startswith(f"{claim.name}: {row[4]}")
            assert case.status.value.startswith(row[5])
        if case and not claim.met:
            assert row[5] == "known miss"
            assert html.escape(claim.cause).replace("&#x27;", "&#39;") in page


def test_prose_holds_no_figure_that_was_measured(page: str) -> None:
    """A cause says why; how much is in the table."""
    for claim in claims.claims_of(FULL):
        assert not re.search(r"\d (us|ns|GB/s|instructions|%)", claim.cause)


def test_real_hardware_gets_the_same_report(tmp_path: Path) -> None:
    page = report(tmp_path, real_results())
    assert "Engine: real hardware, &#39;idxd&#39;" in page
    assert "The engine is a model" not in page
    assert titles(page) == [*TITLES[:2], TITLES[4], TITLES[6], *TITLES[9:11]]
    speeds = {row[0]: row[2] for row in cells(page, "segments, 8 channels") if "GB/s" in row[1]}
    assert speeds == {"segments, 8 channels": "16.38"}
    assert cells(page, "mtcopy, 4 threads")
    assert not cells(page, "batch, 8 channels")
    assert (tmp_path / "tradeoff.png").exists()


def test_sections_without_data_are_left_out_and_old_figures_go(tmp_path: Path) -> None:
    (tmp_path / "tradeoff.png").write_bytes(b"old")
    page = report(tmp_path, real_results(runs=(), engine=None))
    assert titles(page) == []
    assert "<img" not in page
    assert not (tmp_path / "tradeoff.png").exists()


def test_folios_that_failed_were_split_or_lost_are_told(tmp_path: Path) -> None:
    found = results(run(folios_failed=3, latency_lost=7), run(move=2, folios_split=512))
    page = report(tmp_path, found)
    name = run().name
    assert f"<strong>Folios that did not move</strong>: {name}: 3</li>" in page
    assert f"<strong>Folios that are in no latency</strong>: {name}: 7</li>" in page
    assert ["batch, 16 channels", "folios split, back", "512"] in cells(page, "batch, 16 channels")


def test_curves_are_in_order_of_batches_and_of_the_largest_workload() -> None:
    runs = [run(batch_pages=2048), run(batch_pages=512), run(batch_pages=512, total_mib=64)]
    ((key, curve),) = tradeoff_curves([*runs, run(move=2), by_cpu("ours", "cpu")]).items()
    assert key == (2048, ("ours", "batch", 16))
    assert [(one.batch_pages, one.total_mib) for one in curve][:2] == [(512, 1024), (2048, 1024)]
    single = run(channels=8)
    assert list(tradeoff_curves([*runs, single])) == [(2048, ("ours", "batch", 16))]
    assert list(tradeoff_curves([single])) == [(2048, ("ours", "batch", 8))]
    assert not tradeoff_curves([structs.replace(single, first_folio_us=None)])


def test_inaccessible_time_is_shown_of_vanilla_most_channels_and_live() -> None:
    live = [run(design="live", batch_pages=None, channels=channels) for channels in (4, 16)]
    runs = [
        run(batch_pages=8192), run(batch_pages=512), run(channels=4), *live,
        by_cpu("vanilla", "off"), by_cpu("ours", "off"), by_cpu("without", "off"),
        by_cpu("ours", "live"), run(design="segments", inaccessible_us=None), run(move=2),
    ]  # fmt: skip
    found = waits(runs)
    assert list(found) == [
        (2048, ("vanilla", "off", 0)),
        (2048, ("ours", "batch", 16)),
        (2048, ("ours", "live", 0)),
        (2048, ("ours", "live", 4)),
        (2048, ("ours", "live", 16)),
    ]
    assert [one.batch_pages for one in found[2048, ("ours", "batch", 16)]] == [512, 8192]


def test_memory_that_threads_use_has_a_table_and_no_curve(tmp_path: Path) -> None:
    met = Touch(read=0.5, write=1234.567, copied_twice=1200)
    used = [
        run(design="live", batch_pages=None, folio_kib=64, writes_per_ms=10000, touch=met),
        by_cpu("vanilla", "off", writes_per_ms=1,
               touch=structs.replace(met, copied_twice=None)),
    ]  # fmt: skip
    page = report(tmp_path, results(*used))
    table = [*cells(page, "2 MB"), *cells(page, "64 KB")]
    assert table == [
        ["2 MB", "vanilla", "1", "60.00", "0.50", "1,234.57", "-", "512"],
        ["64 KB", "live, 16 channels", "10,000", "60.00", "0.50", "1,234.57", "1,200",
         "16,384"],
    ]  # fmt: skip
    assert "Virtual time\nhas one processor" in page
    assert not by_size(used)
    assert not waits(used)


def test_a_configuration_is_shown_with_one_batch() -> None:
    small = [run(folio_kib=size, batch_pages=512) for size in (4, 64, 2048)]
    large = [run(folio_kib=size, batch_pages=8192) for size in (4, 2048)]
    (runs,) = by_size([*large, *small]).values()
    assert {one.batch_pages for one in runs.values()} == {512}
    panels = phase_panels([run(), run(channels=4), run(batch_pages=65536)])
    assert {size: [(one.batch_pages, one.channels) for one in shown]
            for size, shown in panels.items()} == {2048: [(8192, 4), (8192, 16)]}  # fmt: skip


def test_the_kernel_without_the_feature_does_not_choose_the_batch_of_the_phases() -> None:
    few = [by_cpu(kernel, "off") for kernel in ("ours", "without")]
    (shown,) = phase_panels([run(), *few]).values()
    assert [(one.batch_pages, one.kernel) for one in shown] == [(8192, "ours")]


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    nasty = "<b>x</b> <img src=http://e.example/i.png>"
    engine = Engine(preset="zen3-ptdma", is_model=True, source=nasty)
    page = report(
        tmp_path, structs.replace(QUICK, notes=(nasty,), engine=engine, programs=PROGRAMS)
    )
    assert page.count("<img") == len(lab_report.FIGURES)
    assert page.count("&lt;b&gt;x&lt;/b&gt;") == 2


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
        (["--from", bad], "bad.json: Object missing required field"),
        (["--from", bad, bad], "report: several files must all be output of migrate_bench"),
        (["--from", str(source), "--to", f"{source}/x"], "Not a directory"),
    ):
        assert cli.main(["report", *arguments]) == 1
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
