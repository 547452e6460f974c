"""The rig that breaks the code on purpose: only a failed test case kills a mutant."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import ROOT, Paths
from harness.guest import vm
from harness.guest.ktap import Case, Status
from harness.mutants import mutant as model
from harness.mutants import run
from harness.mutants.mutant import Fate, Kind, Outcome, Result

GREEN = Result(Kind.GREEN)
PATCH = """\
--- a/sum.py
+++ b/sum.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a + b
+    return {}
"""
TEST = """\
import sum
def test_add():
    assert sum.add(1, 2) == 3
def test_zero():
    assert sum.add(0, 0) == 0
"""


def add(directory: Path, name: str, patch: str = PATCH.format("a"), **more: str) -> None:
    fields = {"claim": "A1", "what": "w", "tree": "repo", "test": "pytest test_sum.py", **more}
    (directory / f"{name}.toml").write_text(
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    )
    (directory / f"{name}.patch").write_text(patch)


def one(tmp_path: Path, **more: str) -> model.Mutant:
    add(tmp_path, "one", **more)
    return model.load(tmp_path)[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expects": "panic"}, "unknown field `expects`"),
        ({"expect": "green"}, "Invalid enum value 'green'"),
        ({"tree": "docs"}, "Invalid enum value 'docs'"),
        ({"tree": "kernel"}, "no such test for kernel: pytest"),
        ({"test": "nose x"}, "no such test for repo: nose x"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(
    tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    add(tmp_path, "odd", **fields)
    with pytest.raises(HarnessError, match=words):
        model.load(tmp_path)


def test_patch_and_description_belong_together(tmp_path: Path) -> None:
    add(tmp_path, "one")
    (tmp_path / "one.patch").rename(tmp_path / "other.patch")
    with pytest.raises(HarnessError, match=r"one\.toml: .*one\.patch"):
        model.load(tmp_path)
    (tmp_path / "one.toml").unlink()
    with pytest.raises(HarnessError, match=r"other\.patch has no \.toml"):
        model.load(tmp_path)


def test_the_projects_mutants_can_be_read_and_every_claim_has_one() -> None:
    mutants = model.load(ROOT / "mutants")
    assert len(mutants) >= 40
    claims = {f"A{n}" for n in range(1, 6)} | {f"B{n}" for n in range(9, 22)}
    assert claims - {mutant.claim for mutant in mutants} == set()


def test_mutants_are_chosen_by_name_prefix_glob_and_claim(tmp_path: Path) -> None:
    for name, claim in (("lab_a", "A1"), ("lab_b", "A10"), ("rules_c", "rule 2")):
        add(tmp_path, name, claim=claim)
    mutants = model.load(tmp_path)

    def names(only: str) -> list[str]:
        return [mutant.name for mutant in model.select(mutants, only)]

    assert names("") == ["lab_a", "lab_b", "rules_c"]
    assert names("lab") == ["lab_a", "lab_b"]
    assert names("a1, *c") == ["lab_a", "rules_c"]
    assert names("Rule 2") == ["rules_c"]
    with pytest.raises(HarnessError, match="no mutant is called demo"):
        names("lab,demo")


def test_only_the_expected_end_of_a_test_that_was_green_kills(tmp_path: Path) -> None:
    mutant = one(tmp_path)
    case, panic = Result(Kind.CASE, "test_add"), Result(Kind.PANIC, "BUG: x")
    assert model.judge(mutant, GREEN, case) == (Fate.KILLED, "test_add")
    assert model.judge(mutant, GREEN, GREEN)[0] is Fate.SURVIVED
    assert model.judge(mutant, GREEN, panic)[0] is Fate.INVALID
    assert model.judge(mutant, case, case)[0] is Fate.INVALID
    assert model.judge(mutant, GREEN, Result(Kind.BROKEN, "stale"))[0] is Fate.INVALID
    assert model.judge(one(tmp_path, expect="panic"), GREEN, panic)[0] is Fate.KILLED


def test_a_known_survivor_is_not_bad(tmp_path: Path) -> None:
    mutant, known = one(tmp_path), one(tmp_path, survives="nobody can tell")
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


def test_mutants_of_a_small_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    mutants = root / "mutants"
    mutants.mkdir(parents=True)
    (root / "sum.py").write_text("def add(a, b):\n    return a + b\n")
    (root / "test_sum.py").write_text(TEST)
    (root / ".gitignore").write_text("/out/\n")
    add(mutants, "a_killed")
    add(mutants, "b_survives", test="pytest test_sum.py -k zero", survives="zero is zero")
    add(mutants, "c_crashes", PATCH.format("x"))
    add(mutants, "d_stale", PATCH.format("a").replace("a + b", "a - b"))
    add(mutants, "e_no_test", test="pytest test_sum.py -k nothing")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    paths = Paths(root, tmp_path / "cache", root / "out")

    assert run.main(paths, "a,b") == 0
    assert run.main(paths, "") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "5 mutants, 1 killed"
    said = json.loads((root / "out/mutants/results.json").read_text())
    assert [(one["mutant"]["name"], one["fate"], one["why"].split(":")[0]) for one in said] == [
        ("a_killed", "killed", "test_sum.test_add"),
        ("b_survives", "survived", "zero is zero"),
        ("c_crashes", "invalid", "ended with 'error', not 'case'"),
        ("d_stale", "invalid", "stale"),
        ("e_no_test", "invalid", "the test is not green without the mutant"),
    ]
