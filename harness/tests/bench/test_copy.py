"""The benchmark of routines that copy ranges: what it builds, reads, claims and refuses."""

import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import copy
from harness.bench.copy import Bench, Quartiles, Result
from harness.core import jsonio
from harness.core.errors import HarnessError
from harness.core.paths import default_paths

ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly")


def same(value: float) -> Quartiles:
    return Quartiles(value, value, value)


def result(
    routine: copy.Routine, kib: int, state: copy.State, ratio: float, ratio_mc: float
) -> Result:
    return Result(kib, state, routine, same(ratio), same(ratio_mc))


GOOD = Bench("copy_bench", 2, 31, (
    result("movsq", 8, "cold", 0.5, 0.5), result("movsq", 64, "cold", 0.97, 1.2),
    result("movsb", 64, "cold", 0.5, 1.0), result("movsb", 64, "hot", 0.5, 0.97),
    result("nontemporal", 64, "cold", 0.9, 1.5), result("nontemporal", 64, "hot", 0.2, 0.2),
))  # fmt: skip


def with_ratios(number: int, ratio: float, ratio_mc: float) -> Bench:
    results = list(GOOD.results)
    results[number] = replace(results[number], ratio=same(ratio), ratio_mc=same(ratio_mc))
    return replace(GOOD, results=tuple(results))


def test_the_default_answers_for_the_loop_that_it_replaces() -> None:
    assert copy.slower(GOOD) == []
    assert copy.slower(with_ratios(3, 1.2, 0.96)) == ["64 KiB, hot: 0.96, below 0.97"]
    assert copy.slower(with_ratios(1, 0.1, 0.1)) == []
    assert copy.slower(with_ratios(4, 0.1, 0.1)) == []
    noisy = replace(GOOD.results[2], ratio_mc=Quartiles(0.5, 0.9, 0.98))
    assert copy.slower(replace(GOOD, results=(noisy,))) == []


def test_a_routine_is_compared_with_the_default_where_the_kernel_uses_it() -> None:
    assert copy.gains(GOOD, "nontemporal") == [1.5]
    assert copy.gains(with_ratios(2, 0.5, 2.0), "nontemporal") == [0.75]
    assert copy.gains(GOOD, "movsq") == [1.2]


def test_the_choices_are_those_of_the_kernel() -> None:
    source = (default_paths().overlay / "arch/x86/lib/copy_pages.c").read_text()
    names = re.findall(r"^\t\t\[COPY_\w+\]\s*= \"(\w+)\"", source, re.MULTILINE)
    assert names == ["default", *copy.CHOICES]


def test_other_machines_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(HarnessError, match="not aarch64"):
        copy.build(default_paths(), tmp_path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy.build(default_paths(), tmp_path_factory.mktemp("bench"))


@ON_X86
def test_every_length(program: Path) -> None:
    done = subprocess.run([program, "--verify"], capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "movsq", "movsb", "nontemporal",
    ]  # fmt: skip


@ON_X86
def test_a_short_run_is_read(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    argv = [str(program), "--rounds=5", "--sizes=4,64", f"--output={output}"]
    subprocess.run(argv, check=True)
    bench = jsonio.load(Bench, output)
    assert len(bench.results) == 2 * 3 * 5
    copy.show(bench, copy.processor())
    assert len(re.findall(r"^│ +(?:4|64) │", capsys.readouterr().out, re.MULTILINE)) == 2


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
