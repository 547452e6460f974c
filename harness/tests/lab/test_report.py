"""The report: two pictures, a table a question, and pages that stand by themselves."""

import base64
import html
import re
from pathlib import Path

import pytest
from msgspec import structs

from harness import cli
from harness.lab import results as lab_results
from harness.lab.judge import claims
from harness.lab.report import plots, programs
from harness.lab.report import report as lab_report
from harness.lab.results import WAY_NAMES, Engine, Results, Touch
from harness.lab.workloads import WORKLOADS
from harness.tests.lab.sample import FULL, QUICK, by_cpu, real_results, results, run

AGAINST, SPEED, MET = (
    "Where does vanilla win?", "How fast is a move, and at what cost?",
    "What do threads meet that read and write the memory?",
)  # fmt: skip
PROGRAMS = claims.recorded_programs()
MOVING = [f"{workload.group}: what does it get?" for workload in WORKLOADS.values()
          if any(row.workload == workload.name for row in PROGRAMS)]  # fmt: skip
TITLES = [AGAINST, SPEED, MET, *lab_report.CLAIMS.values(), *MOVING]
WHOLE = structs.replace(FULL, programs=PROGRAMS)


def titles(page: str) -> list[str]:
    """Return the questions, without their answers."""
    return re.findall(r"<h2>(.*?\?) \S.*</h2>", page)


def cells(page: str, first: str) -> list[list[str]]:
    """Return the cells of each row that begins with this cell."""
    rows = re.findall(r"<tr[^>]*>(.*)</tr>", page)
    parsed = [
        [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in rows
    ]
    return [row for row in parsed if row[:1] == [first]]


def table(page: str, title: str) -> str:
    return page.partition(f"<h2>{title}")[2].partition("</table>")[0]


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


def test_every_question_is_there_and_names_the_model(page: str, tmp_path: Path) -> None:
    written = {MET, "Does it pay while threads write to the memory?"}  # quick, until full has them
    assert titles(page) == [title for title in TITLES if title not in written]
    missing = {"Do programs get more than on vanilla while memory moves?", *MOVING}
    assert titles(report(tmp_path, QUICK)) == [title for title in TITLES if title not in missing]
    for workload in WORKLOADS.values():
        assert any(re.search(name, f"{workload.group}: ") for name in lab_report.CLAIMS)
    captions = re.findall(r"<(?:fig)?caption>(.*)</", page)
    assert len(captions) == page.count("<table>") + page.count("<img ")
    assert all("engine: model &#39;zen3-ptdma&#39;" in caption for caption in captions)
    assert "<strong>The engine is a model.</strong>" in page


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
        (row,) = (row for row in cells(page, claim.name) if len(row) == 5)
        assert row[1] == (claim.goal or "-")
        if case is None:
            assert row[4] == "fitted"
        else:
            assert case.name.startswith(f"{claim.name}: {row[3]}")
            assert case.status.value.startswith(row[4].partition(":")[0])
        if case and not claim.met:
            assert row[4] == f"known miss: {claim.cause}"


def test_what_is_against_us_is_there_the_worst_first(page: str) -> None:
    times = list(map(float, re.findall(r">([\d.]+) times</td>", table(page, AGAINST))))
    assert len(times) > 8 and times == sorted(times, reverse=True) and times[-1] > 1
    assert 3 < times[0] < 4  # single pages of a contiguous range, for whose copies all wait


def test_virtual_time_says_nothing_of_copies_by_the_cpu(page: str) -> None:
    shown = table(page, SPEED)
    names = set(re.findall(r"<tr><td>(.*?)</td>", shown))
    assert names == {"vanilla", "published design, 16 channels", "engine, 16 channels",
                     "engine, live, 16 channels"}  # fmt: skip
    (speeds,) = (row for row in cells(shown, "vanilla") if row[1] == "GB/s")
    assert [cell.endswith("(fitted)") for cell in speeds[2:]] == [True, False, *[True] * 4]


def test_a_cause_is_one_line_and_holds_no_figure_that_was_measured() -> None:
    """It says why; how much is in the table."""
    for claim in claims.claims_of(WHOLE):
        assert not re.search(r"\n|\d (us|ns|GB/s|instructions|%)", claim.cause)


def test_real_hardware_gets_the_same_report(tmp_path: Path) -> None:
    page = report(tmp_path, real_results())
    assert "Engine: real hardware, &#39;idxd&#39;" in page
    assert "The engine is a model" not in page
    assert titles(page)[0] == SPEED and AGAINST not in titles(page)
    speeds = [row[2] for row in cells(page, "engine, 8 channels") if row[1] == "GB/s"]
    assert speeds == ["16.38"]
    assert cells(page, "mtcopy, 4 threads")


def test_questions_without_data_are_left_out_and_old_pictures_go(tmp_path: Path) -> None:
    (tmp_path / "cost.png").write_bytes(b"old")
    page = report(tmp_path, real_results(runs=(), engine=None))
    assert titles(page) == []
    assert "<img" not in page
    assert not (tmp_path / "cost.png").exists()


def test_folios_that_failed_or_lost_their_latency_are_told(tmp_path: Path) -> None:
    page = report(tmp_path, results(run(folios_failed=3, latency_lost=7)))
    name = run().name
    assert f"<strong>Folios that did not move</strong>: {name}: 3</li>" in page
    assert f"<strong>Folios that are in no latency</strong>: {name}: 7</li>" in page


def test_memory_that_threads_use_has_a_table_of_its_own(tmp_path: Path) -> None:
    met = Touch(read=0.5, write=1234.567, copied_twice=1200, read_p999=0.25, write_p999=12.5,
                faults=1234, ipis_per_gb=998.4, by_quantum=0.0123)  # fmt: skip
    used = [
        run(design="live", batch_pages=None, folio_kib=64, writes_per_ms=10000, readers=6,
            zipf=True, touch=met),
        by_cpu("vanilla", "off", writes_per_ms=1,
               touch=Touch(read=0.5, write=1234.567, copied_twice=None)),
    ]  # fmt: skip
    page = report(tmp_path, results(*used))
    assert [*cells(page, "2 MB"), *cells(page, "64 KB")] == [
        ["2 MB", "vanilla", "1", "1", "-", "500.00", "-", "0.50", "-", "1,234.57", "-", "-", "-",
         "512", "-"],
        ["64 KB", "engine, live, 16 channels", "10,000, Zipf", "6", "60.00", "500.00", "0.25",
         "0.50", "12.50", "1,234.57", "1,234", "998", "1,200", "16,384", "1.2%"],
    ]  # fmt: skip
    assert SPEED not in titles(page)


def test_a_gb_costs_what_requests_and_the_mover_lose_in_a_move() -> None:
    rest, *_ = (row for row in PROGRAMS if row.workload == "redis")
    slow = structs.replace(rest, state="moving", late=1000, moves=2, gb=0.5, mover_ms=25)
    seeds = [structs.replace(slow, longest_us=us) for us in (500, 300, 400)]
    ((title, (cost,)),) = programs.costs([rest, *seeds]).items()
    assert title == f"redis, {rest.case}, 2 MB pages"
    assert [figure.median for figure in cost.figures] == pytest.approx([1000, 50, 400])
    assert cost.figures[2] == plots.Interval(400, 300, 500)
    assert not cost.default
    assert {*WAY_NAMES} < {*plots.COLOURS}


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    nasty = "<b>x</b> <img src=http://e.example/i.png>"
    engine = Engine(preset="zen3-ptdma", is_model=True, source=nasty)
    page = report(tmp_path, structs.replace(WHOLE, notes=(nasty,), engine=engine))
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
        (["--from", str(source), str(source)], "report: of several results.json only the first"),
        (["--from", str(source), "--to", f"{source}/x"], "Not a directory"),
    ):
        assert cli.main(["report", *arguments]) == 1
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
