"""The rig that breaks the code on purpose: only a failed test case kills a mutant."""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, vm
from harness.guest.ktap import Case, Status
from harness.kernel import source
from harness.mutants import mutant as model
from harness.mutants import run
from harness.mutants.mutant import Fate, Kind, Outcome, Result
from harness.tests.kernel_project import Project

GREEN = Result(Kind.GREEN)
SUM = "def add(a, b):\n    return a + b\n"
TEST = """\
import sum
def test_add():
    assert sum.add(1, 2) == 3
def test_zero():
    assert sum.add(0, 0) == 0
"""


@pytest.fixture
def project(tmp_path: Path, project: Project) -> Project:
    project.write(tmp_path / "mutants/.gitkeep", "")
    project.write(tmp_path / "sum.py", SUM)
    project.write(tmp_path / ".gitignore", "/out/\n/cache/\n")
    return project


def add(directory: Path, name: str, room: str = "room", **more: str | list[str]) -> None:
    """Append a mutant to a room; no room has it twice."""
    fields = {
        "claim": "c", "test": "pytest test_sum.py", "file": "sum.py", "old": "    return a + b",
        "new": "    return a", **more,
    }  # fmt: skip
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    with (directory / f"{room}.toml").open("a") as file:
        file.write(f"[{name}]\n{text}")


def example(tmp_path: Path, **more: str) -> model.Mutant:
    (tmp_path / "room.toml").unlink(missing_ok=True)
    add(tmp_path, "one", **more)
    return model.load(tmp_path)[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expects": "panic"}, "unknown field `expects`"),
        ({"expect": "green"}, "Invalid enum value 'green'"),
        ({"claim": ""}, r"length >= 1 - at `\$.claim`"),
        ({"test": "nose x"}, r"matching regex .* at `\$.test`"),
        ({"old": ""}, r"length >= 1 - at `\$.old`"),
        ({"old": ["a", "b"]}, "`old` and `new` are not as many"),
        ({"old": "a", "new": "a"}, "`new` is `old`"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(
    tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    add(tmp_path, "odd", **fields)
    with pytest.raises(HarnessError, match=f"mutants/room.toml: odd: .*{words}"):
        model.load(tmp_path)


def test_mutants_of_a_group_have_what_it_says(tmp_path: Path) -> None:
    group = '[[in]]\nfile = "a.c"\ntest = "pytest a"\n'
    both = '[in.{0}]\nclaim = "c"\nold = "x"\n{1}'
    own = both.format("two", 'test = "pytest b"\n')
    (tmp_path / "room.toml").write_text(group + both.format("one", "") + own)
    loaded = {(mutant.name, mutant.file, mutant.test) for mutant in model.load(tmp_path)}
    assert loaded == {("one", "a.c", "pytest a"), ("two", "a.c", "pytest b")}


def test_lines_are_replaced_where_they_are_there_once(tmp_path: Path) -> None:
    rest = "\ttwo\nthree\ntwo\nthree\nfive\nfive\n"
    (tmp_path / "a.c").write_text(f"one\n{rest}four\n")

    def broken(**fields: str | tuple[str, ...]) -> str:
        mutant = msgspec.structs.replace(example(tmp_path, file="a.c", old="x"), **fields)
        return mutant.broken(tmp_path)

    assert broken(old="four", new="4\n5") == f"one\n{rest}4\n5\n"
    assert broken(old="one", new="") == f"{rest}four\n"
    assert broken(old=("two\nthree", "one"), new=("2.3", "1")) == (
        "1\n\ttwo\nthree\n2.3\nfive\nfive\nfour\n"
    )
    for old, times in (("three", 2), ("five", 2), ("wo", 0), ("tw", 0), ("f.*", 0)):
        with pytest.raises(HarnessError, match=f"^stale: a.c has {times} times, not once: "):
            broken(old=old)
    with pytest.raises(HarnessError, match=r"^stale: b.c has 0 times"):
        broken(file="b.c")
    with pytest.raises(HarnessError, match=r"^stale: there is no b.c"):
        broken(old="one", compiles="b.c")


def test_mutants_are_chosen_by_room_name_prefix_and_glob(tmp_path: Path) -> None:
    for name, room in (("lab_a", "lab"), ("lab_b", "rest"), ("rules_c", "lab")):
        add(tmp_path, name, room)
    mutants = model.load(tmp_path)

    def names(only: str) -> list[str]:
        return [mutant.name for mutant in model.select(mutants, only)]

    assert names("") == ["lab_a", "lab_b", "rules_c"]
    assert names("lab") == ["lab_a", "rules_c"]
    assert names("lab_") == ["lab_a", "lab_b"]
    assert names("lab_a, *c") == ["lab_a", "rules_c"]
    with pytest.raises(HarnessError, match="no mutant and no file of mutants/ is called demo"):
        names("lab,demo")


def test_only_the_expected_end_of_a_test_that_was_green_kills(tmp_path: Path) -> None:
    mutant = example(tmp_path)
    case, panic = Result(Kind.CASE, "test_add"), Result(Kind.PANIC, "BUG: x")
    assert model.judge(mutant, GREEN, case) == (Fate.KILLED, "test_add")
    assert model.judge(mutant, GREEN, GREEN)[0] is Fate.SURVIVED
    assert model.judge(mutant, GREEN, panic)[0] is Fate.INVALID
    assert model.judge(mutant, case, case)[0] is Fate.INVALID
    assert model.judge(mutant, GREEN, Result(Kind.BROKEN, "stale"))[0] is Fate.INVALID
    assert model.judge(example(tmp_path, expect="panic"), GREEN, panic)[0] is Fate.KILLED
    either = example(tmp_path, expect="case or panic")
    assert model.judge(either, GREEN, panic)[0] is Fate.KILLED
    assert model.judge(either, GREEN, Result(Kind.CASE, "a"))[0] is Fate.KILLED
    assert model.judge(either, GREEN, Result(Kind.BUILD))[0] is Fate.INVALID


def test_a_known_survivor_is_not_bad(tmp_path: Path) -> None:
    mutant, known = example(tmp_path), example(tmp_path, survives="no test can tell")
    assert Outcome(mutant, Fate.SURVIVED, "").bad
    assert Outcome(mutant, Fate.INVALID, "").bad
    assert not Outcome(mutant, Fate.KILLED, "").bad
    assert not Outcome(known, Fate.SURVIVED, "").bad
    assert Outcome(known, Fate.INVALID, "").bad
    assert "drop `survives`" in model.table([Outcome(known, Fate.KILLED, "t")])
    assert model.totals([Outcome(known, Fate.KILLED, "")] * 2) == "2 mutants, 2 killed"


def test_a_guest_that_broke_off_has_no_failed_case() -> None:
    bad, good = Case("bad", Status.FAILED), Case("good", Status.PASSED)

    def kind(outcome: vm.Outcome, *cases: Case, status: int | None = 0) -> Kind:
        return run.of_guest(vm.Verdict(outcome, "words", status), cases).kind

    assert kind(vm.Outcome.FINISHED, good) is Kind.GREEN
    assert kind(vm.Outcome.FINISHED, good, bad) is Kind.CASE
    assert kind(vm.Outcome.FINISHED, good, status=1) is Kind.ERROR
    assert kind(vm.Outcome.FINISHED) is Kind.ERROR
    assert kind(vm.Outcome.PANICKED, bad) is Kind.PANIC
    assert kind(vm.Outcome.HUNG, bad) is Kind.ERROR
    assert kind(vm.Outcome.VANISHED, bad) is Kind.ERROR


def test_a_guest_that_was_stopped_names_what_stopped_it() -> None:
    verdict = vm.Verdict(vm.Outcome.STOPPED, "words")
    cut_off = ktap.parse("1..3\nok 1 a\nnot ok 2 b\n")
    assert run.of_guest(verdict, cut_off) == Result(Kind.CASE, "b")


def test_a_crash_is_no_failed_assertion() -> None:
    def kind(body: str) -> Kind:
        case = f'<testcase classname="c" name="n">{body}</testcase>'
        return run.of_junit(f"<testsuites>{case}</testsuites>").kind

    assert kind("") is Kind.GREEN
    assert kind('<failure message="assert 1 == 2&#10;  more"/>') is Kind.CASE
    assert kind('<failure message="Failed: DID NOT RAISE"/>') is Kind.CASE
    assert kind('<failure message="NameError: x"/>') is Kind.ERROR
    assert kind('<error message="collection failure"/>') is Kind.ERROR
    assert kind('<skipped message="no"/>') is Kind.ERROR


@pytest.mark.parametrize(
    ("stages", "kind"),
    [
        ([("clock", "passed")], Kind.GREEN),
        ([("clock", "failed")], Kind.CASE),
        ([("qemu", "failed"), ("clock", "skipped")], Kind.ERROR),
        ([("qemu", "passed")], Kind.ERROR),
        ([("clock", "passed"), ("unit", "failed")], Kind.ERROR),
    ],
)
def test_only_a_case_of_its_own_stage_is_a_find(stages: list[tuple[str, str]], kind: Kind) -> None:
    lines = [
        json.dumps({"stage": name, "seconds": {}, "cases": [["case", status, "why"]]})
        for name, status in stages
    ]
    assert run.of_stages("\n".join(lines), "clock").kind is kind


def test_mutants_of_a_small_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    mutants = root / "mutants"
    mutants.mkdir(parents=True)
    (root / "sum.py").write_text(SUM)
    (root / "test_sum.py").write_text(TEST)
    (root / ".gitignore").write_text("/out/\n")
    add(mutants, "a_killed")
    add(mutants, "b_survives", test="pytest test_sum.py -k zero", survives="zero is zero")
    add(mutants, "c_crashes", new="    return x")
    add(mutants, "d_stale", old="    return a - b")
    add(mutants, "e_no_test", test="pytest test_sum.py -k nothing")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    paths = Paths(root, tmp_path / "cache", root / "out")

    assert run.main(paths, "a,b") == 0
    assert run.main(paths, "") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "5 mutants, 1 killed"
    lines = (root / "out/mutants/results.md").read_text().splitlines()[2:7]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert [(row[1], row[3], row[4].split(":")[0]) for row in rows] == [
        ("a_killed", "killed", "test_sum.test_add"),
        ("b_survives", "survived", "zero is zero"),
        ("c_crashes", "invalid", "ended with 'error', not 'case'"),
        ("d_stale", "invalid", "stale"),
        ("e_no_test", "invalid", "the test is not green without the mutant"),
    ]


def test_what_is_known_is_not_run_again(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def prepare(_: run.Checkout, test: str, mutant: model.Mutant | None, *, brief: bool) -> run.Run:
        ran.append(mutant.name if mutant else f"without: {test}")
        assert brief is (mutant is not None)
        kind = Kind.CASE if mutant else Kind.GREEN
        return lambda: Result(Kind.BROKEN if mutant and mutant.name == "c" else kind)

    def mutants(only: str = "") -> tuple[list[str], str]:
        ran.clear()
        run.main(project.paths, only)
        return ran.copy(), capsys.readouterr().out.splitlines()[-1]

    monkeypatch.setattr(run.Checkout, "prepare", prepare)
    home = project.paths.root / "mutants"

    def write(**b: str) -> None:
        (home / "room.toml").unlink(missing_ok=True)
        for name, test in (("a", "pytest 1"), ("b", "pytest 1"), ("c", "pytest 2")):
            add(home, name, test=test, **(b if name == "b" else {}))

    write()
    subprocess.run(["git", "init", "-q"], cwd=project.paths.root, check=True)
    first, second = "without: pytest 1", "without: pytest 2"
    assert mutants("b") == ([first, "b"], "1 mutants, 1 killed")
    assert mutants() == (["a", second, "c"], "3 mutants, 2 killed")
    assert mutants() == (["c"], "3 mutants, 2 killed")  # it taught nothing
    (project.paths.root / "README.md").write_text("words\n")
    write(claim="other words")
    assert mutants("a,b")[0] == []
    write(new="    return b")
    assert mutants("a,b")[0] == ["b"]
    (project.paths.root / "sum.py").write_text("")
    assert mutants("a,b")[0] == [first, "a", "b"]


def test_cases_that_are_red_together_run_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def prepare(_: run.Checkout, test: str, mutant: model.Mutant | None, *, brief: bool) -> run.Run:
        ran.append(test)
        kind = Kind.CASE if mutant or test in ("pytest p", "pytest q -k z") else Kind.GREEN
        return lambda: Result(kind)

    monkeypatch.setattr(run.Checkout, "prepare", prepare)
    home = project.paths.root / "mutants"
    for name, test in {"a": "p -k x", "b": "p -k y", "c": "q -k z"}.items():
        add(home, name, test=f"pytest {test}")
    subprocess.run(["git", "init", "-q"], cwd=project.paths.root, check=True)
    assert run.main(project.paths, "") == 1
    assert sorted(ran) == sorted(
        f"pytest {test}"
        for test in ("p", "p -k x", "p -k x", "p -k y", "p -k y", "q -k z", "q -k z")
    )
    assert capsys.readouterr().out.splitlines()[-1] == "3 mutants, 2 killed"


def test_cases_of_one_program_run_at_once_without_mutants(tmp_path: Path) -> None:
    call = "guest base one as-is"
    tests = {
        "a": f"{call} rules -t x", "b": f"{call} live", "c": f"{call} rules -f y -t z",
        "d": f"{call} live -t w", "e": "guest debug one as-is rules -t x",
        "f": "pytest p -k 'x or y'", "g": "pytest p -k z", "h": "layouts 1 9",
    }  # fmt: skip
    for name, test in tests.items():
        add(tmp_path, name, test=test)

    def names(job: model.Job) -> str:
        return "".join(mutant.name for mutant in job.mutants)

    jobs = list(model.jobs(model.load(tmp_path), lambda mutant, _: mutant.name == "e"))
    assert {names(job): job.test for job in jobs if not job.broken} == {
        "fg": "pytest p",
        "bd": f"{call} live",
        "ac": f"{call} rules -t x -f y -t z",
        "h": "layouts 1 9",
    }
    broken = {names(job): job.test for job in jobs if job.broken}
    assert broken == {name: test for name, test in tests.items() if name != "e"}
    for number, job in enumerate(jobs):
        alone = [names(job) for job in jobs[:number] if not job.broken]
        assert not job.broken or names(job) == "e" or names(job) in "".join(alone)


def test_a_mutant_of_a_header_may_compile_one_source(tmp_path: Path) -> None:
    mutant = example(tmp_path, file="a.h", compiles="a.c")
    ours, tree = tmp_path / "ours", tmp_path / "tree"
    for home in (ours, tree):
        home.mkdir()
        for time, name in enumerate(("a.h", "a.c"), 1000 if home == ours else 2000):
            (home / name).write_text(home.name)
            os.utime(home / name, (time, time))
    run.compile_alone(mutant, ours, tree)
    assert (tree / "a.h").stat().st_mtime == 1000
    assert (tree / "a.c").stat().st_mtime > 2001
    assert (tree / "a.h").read_text() == (tree / "a.c").read_text() == "tree"


def test_what_decides_a_test_in_a_guest(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "get", lambda _: project.source)
    root, overlay = project.paths.root, project.paths.overlay
    tests = "tools/testing/selftests/m"
    for name, text in {
        "guest/suites/one": "program=$2\n", "guest/suites/all": "$tests/prog\n",
        "guest/suites/layouts": "", "guest/lib.sh": "", "harness/guest/vm.py": "",
        "harness/layouts/run.py": "", "kernel/configs/base.config": "",
        "kernel/configs/lab.config": "",
    }.items():  # fmt: skip
        project.write(root / name, text)
    for name, text in (("prog", "int main(void)\n"), ("other", "int main(void)\n"), ("lib", "")):
        project.write(overlay / tests / f"{name}.c", text)
    series = project.patch("lab/series")
    series.write_text(f"{series.read_text().strip()} {tests}/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)

    def keys() -> list[str]:
        with ExitStack() as scratch:
            kernels = run.Kernels(project.paths, project.paths.out, scratch, ())
            return [
                kernels.key(test)
                for test in ("guest base one as-is prog", "guest base all", "layouts 1 9")
            ]

    def changed(path: Path, text: str = "int changed;\n") -> list[bool]:
        before = keys()
        path.write_text(path.read_text() + text)
        return [old != new for old, new in zip(before, keys(), strict=True)]

    assert changed(overlay / tests / "prog.c") == [True, True, False]
    assert changed(overlay / tests / "other.c") == [False, False, False]
    assert changed(overlay / tests / "lib.c") == [True, True, True]
    assert changed(overlay / "mm/offload.c") == [True, True, True]
    assert changed(root / "guest/suites/all", "#\n") == [False, True, False]
    assert changed(root / "guest/lib.sh", "#\n") == [True, True, True]
    assert changed(root / "kernel/configs/lab.config", "#\n") == [True] * 3
    assert changed(root / "harness/layouts/run.py", "#\n") == [False, False, True]
    assert changed(project.patch("lab/cover-letter.txt"), "more\n") == [False] * 3
