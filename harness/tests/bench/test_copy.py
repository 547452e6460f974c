"""The benchmark of copy primitives: what it builds, reads, claims and refuses."""

import dataclasses
import json
import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import copy, native, plot
from harness.bench.copy import Bench, Choice, Cpu, Result
from harness.bench.native import Quartiles
from harness.core import jsonio
from harness.core.errors import HarnessError
from harness.core.paths import default_paths

ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly")


def result(primitive: str, kib: int, state: copy.State, ratio: float) -> Result:
    same = Quartiles(ratio, ratio, ratio)
    return Result(kib, state, primitive, same, same)


def bench(*results: Result, verdict: tuple[Choice, ...]) -> Bench:
    return Bench("copy_bench", 1, Cpu("a processor", True), 31, results, verdict)


GOOD = bench(
    result("nontemporal", 64, "cold", 0.9),
    result("nontemporal", 256, "cold", 1.5),
    result("nontemporal", 512, "cold", 1.4),
    result("nontemporal", 512, "hot", 0.2),
    result("movsq", 512, "hot", 0.5),
    verdict=(
        Choice("per_page", "far", 64, "per_page"),
        Choice("per_page", "far", 256, "nontemporal"),
        Choice("per_page", "reader", 64, "per_page"),
    ),
)


def with_ratio(number: int, ratio: float) -> Bench:
    results = list(GOOD.results)
    results[number] = replace(results[number], ratio=Quartiles(ratio, ratio, ratio))
    return replace(GOOD, results=tuple(results))


def test_a_choice_answers_for_its_class_and_for_what_it_is_used_for() -> None:
    assert [(one.result.kib, one.result.state) for one in copy.used(GOOD)] == [
        (256, "cold"),
        (512, "cold"),
    ]
    assert copy.slower(GOOD) == []
    assert copy.below_goal(GOOD) == []


def test_a_choice_that_loses_is_named() -> None:
    (problem,) = copy.slower(with_ratio(2, 0.96))
    assert (
        problem == "nontemporal for far, 512 KiB, cold, instead of per_page: 0.96, below 0.97"
    )
    assert copy.slower(with_ratio(2, 0.97)) == []


def test_a_choice_for_readers_answers_for_hot_caches_too() -> None:
    choice = Choice("per_page", "reader", 64, "movsq")
    (problem,) = copy.slower(replace(GOOD, verdict=(choice,)))
    assert "movsq for reader, 512 KiB, hot" in problem


def test_a_choice_does_not_answer_for_the_next_class() -> None:
    small = Choice("per_page", "far", 64, "nontemporal")
    changed = replace(with_ratio(2, 0.5), verdict=(small,))
    assert any("512 KiB" in problem for problem in copy.slower(changed))
    changed = replace(changed, verdict=(small, replace(small, from_kib=256, primitive="movsq")))
    assert [one.result.kib for one in copy.used(changed)] == [64]


def test_the_loop_that_is_replaced_is_the_one_that_counts() -> None:
    choice = Choice("per_page_mc", "far", 256, "nontemporal")
    changed = replace(with_ratio(2, 0.5), verdict=(choice,))
    assert copy.slower(changed) == []
    assert copy.slower(replace(changed, verdict=(replace(choice, loop="per_page"),)))


def test_the_goal_is_missed_by_a_slow_choice_and_by_none() -> None:
    assert len(copy.below_goal(with_ratio(1, 1.24))) == 1
    none = replace(GOOD, verdict=(Choice("per_page", "far", 256, "per_page"),))
    assert copy.below_goal(none) == ["from 256 KiB, per_page: nothing was chosen"]


def document() -> dict[str, object]:
    return json.loads(json.dumps(dataclasses.asdict(GOOD)))  # type: ignore[no-any-return]


def test_results_survive_json() -> None:
    assert jsonio.decode(Bench, json.dumps(document()), "r.json") == GOOD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "Invalid enum value 2"),
        ({"results": []}, r"length >= 1 - at `\$.results`"),
        ({"verdict": []}, r"length >= 1 - at `\$.verdict`"),
        ({"rounds": "many"}, "rounds"),
    ],
)
def test_results_that_say_nothing_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        jsonio.decode(Bench, json.dumps(document() | change), "r.json")


def test_other_machines_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(HarnessError, match="not aarch64"):
        native.build(default_paths(), "copy_bench", tmp_path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native.build(default_paths(), "copy_bench", tmp_path_factory.mktemp("bench"))


@ON_X86
def test_every_length_and_every_poisoned_line(program: Path) -> None:
    done = subprocess.run([program, "--verify"], capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "movsq",
        "movsb",
        "nontemporal",
    ]


@ON_X86
def test_a_short_run_is_read(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    argv = [str(program), "--rounds=5", "--sizes=4,64", f"--output={output}"]
    subprocess.run(argv, check=True)
    found = jsonio.load(Bench, output)
    assert len(found.results) == 2 * 3 * 5
    assert {choice.from_kib for choice in found.verdict} == {64}
    copy.show(found)
    printed = capsys.readouterr().out
    assert len(re.findall(r"^│ +(?:4|64) │", printed, re.MULTILINE)) == 2
    assert len(re.findall(r"^│ (?:far|reader) +│ per_page", printed, re.MULTILINE)) in (2, 4)
    points = [(one.primitive, one.kib, one.ratio) for one in found.results]
    plot.draw(tmp_path / "ratios.png", {"one": points, "two": points}, "a footer")
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")


@ON_X86
@pytest.mark.parametrize(
    "argument",
    ["--rounds=4", "--rounds=64", "--rounds=9x", "--sizes=3", "--sizes=4096", "--sizes=4,",
     "--sizes=-4", "--nonsense", "word"],
)  # fmt: skip
def test_bad_arguments_are_told(program: Path, argument: str) -> None:
    done = subprocess.run([program, argument], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr
    assert not done.stdout


@ON_X86
def test_an_output_that_cannot_be_written_is_told(program: Path) -> None:
    argv = [str(program), "--output=/nonexistent/r.json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
