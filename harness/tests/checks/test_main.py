"""The stages of a check, and the cases of a suite: nothing that failed may get lost."""

import pytest

from harness.checks import main, stages, turns
from harness.checks.stages import Stage
from harness.core.errors import HarnessError
from harness.core.paths import default_paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status
from harness.lab.workloads import WORKLOADS
from harness.layouts import run as layouts
from harness.layouts.run import Machine, Outcome

GOOD = Case("good", Status.PASSED)
BAD = Case("bad", Status.FAILED, "why")
SKIPPED = Case("skipped", Status.SKIPPED, "no huge pages")


def result(verdict: vm.Verdict, *cases: Case) -> suite.SuiteResult:
    run = vm.Run(verdict, console="", results="")
    return suite.SuiteResult(run, cases, suite.describe(verdict, cases))


def failures(verdict: vm.Verdict, *cases: Case) -> list[str]:
    judged = main.suite_cases(result(verdict, *cases))
    return [case.name for case in judged if case.status is Status.FAILED]


def finished(status: int) -> vm.Verdict:
    return vm.Verdict(vm.Outcome.FINISHED, f"the suite ended with status {status}", status)


def test_a_panic_or_hang_is_a_failure_beside_those_of_tests() -> None:
    for outcome in (vm.Outcome.PANICKED, vm.Outcome.HUNG, vm.Outcome.VANISHED):
        verdict = vm.Verdict(outcome, "words")
        assert failures(verdict, GOOD) == ["guest"]
        assert failures(verdict, GOOD, BAD) == ["bad", "guest"]


def test_a_panic_is_told_from_its_first_line_on() -> None:
    console = "booting\nBUG: KASAN: use-after-free in f\nCall Trace:\n"
    run = vm.Run(vm.Verdict(vm.Outcome.PANICKED, "the guest panicked"), console, "")
    case = main.suite_cases(suite.SuiteResult(run, (GOOD,), "the guest panicked"))[-1]
    assert case.detail.splitlines() == [
        "the guest panicked", "BUG: KASAN: use-after-free in f", "Call Trace:",
    ]  # fmt: skip


def test_a_suite_must_end_well_and_print_something() -> None:
    assert failures(finished(0), GOOD, SKIPPED) == []
    assert failures(finished(0), GOOD, BAD) == ["bad"]
    assert failures(finished(1), GOOD) == failures(finished(0)) == ["guest"]


OURS = ("ptdma", "ae4dma", "ioat", "dsa")


def turn(*groups: str) -> set[str]:
    return main.of_turn(main.every(default_paths(), groups), groups)


def test_each_stage_needs_one_that_comes_first_or_runs_in_the_background() -> None:
    known = main.every(default_paths(), ())
    names = [stage.name for stage in known]
    assert len(names) == len(set(names))
    background = [stage.name for stage in known if stage.background]
    for number, stage in enumerate(known):
        first = background[: background.index(stage.name)] if stage.background else background
        assert stage.needs in {"", *first, *names[:number]}


def test_every_suite_has_a_stage() -> None:
    told = " ".join([*turn(turns.ALL, *turns.GROUPS), "layouts lab strip"])
    suites = {path.name for path in (default_paths().guest / "suites").iterdir()}
    suites -= {"hello", "one", "shell", *WORKLOADS}  # workloads take too long
    assert {suite for suite in suites if suite not in told} == set()


def test_a_quick_check_leaves_groups_out_and_their_turn_brings_them() -> None:
    quick = turn()
    assert {"unit", "demo", "lint", "lab", "base-kunit", "debug-rules", "layouts-base"} <= quick
    brought = {
        "layouts": {"layouts-base-vcpus", "vanilla"},
        "faults": set(),
        "doctors": {f"base-doctor-{x}" for x in OURS},
        "ptdma": {"base-report", "base-doctor-pays", "base-doctor-tiers", "demo-ptdma"},
        "ae4dma": {"base-ae4dma", "debug-ae4dma", "demo-ae4dma"},
        "ioat": {"base-ioat", "demo-ioat"},
        "dsa": {"base-dsa", "debug-iommu-intel", "demo-dsa"},
    }
    for group, names in brought.items():
        assert turn(group) == quick | names
        assert not quick & names


def test_the_turn_of_arm64_leaves_the_debug_kernel_out() -> None:
    known = main.every(default_paths(), ("arm64",))
    names = {stage.name for stage in stages.select(known, turn("arm64"))}
    assert {"kernel-arm64", "qemu-arm64", "arm64-mte", "demo-zdma", "layouts-arm64"} <= names
    assert not {name for name in names if "debug" in name}
    assert not {name for name in turn("arm64", "layouts") if "debug" in name}
    assert "debug-faults" in turn("faults", "arm64")
    assert "debug-kunit" in turn(turns.ALL, *turns.GROUPS)


def test_suites_come_in_order_the_quickest_first() -> None:
    names = [stage.name for stage in main.tests(default_paths(), ())]
    assert names[:3] == ["unit", "demo", "base-kunit"]
    configs = [name.split("-")[0] for name in names if name.startswith(main.KERNELS)]
    assert list(dict.fromkeys(configs)) == list(main.KERNELS)


def test_the_turn_is_told_to_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def run(*_: object, turn: str) -> suite.SuiteResult:
        told.append(turn)
        return result(finished(0), GOOD)

    monkeypatch.setattr(suite, "run_suite", run)
    stage = next(
        x for x in main.tests(default_paths(), ("faults", "ptdma")) if x.name == "base-faults"
    )
    assert stage.run(None, default_paths().out) == [GOOD]
    assert told == ["faults,ptdma"]


def test_all_groups_have_suites_in_virtual_time_with_more_seeds_and_by_the_wall() -> None:
    names = [stage.name for stage in main.tests(default_paths(), (*turns.GROUPS, turns.ALL))]
    some = [name.removeprefix("base-bounds") for name in names if name.startswith("base-bounds")]
    assert some == ["", *(f"-seed-{seed}" for seed in (2, 3)), "-untimed"]
    there = {"mm-selftests", "mm-selftests-seed-3", "debug-rules-seed-3", "base-ioat-untimed"}
    assert there | {"base-churn", "base-latency"} <= set(names)
    absent = {"base-churn-untimed", "base-dsa-seed-2", "base-doctor-seed-2", "base-dsa-untimed"}
    assert (
        absent | {"debug-bounds-seed-2", "debug-rules-untimed", "mm-selftests-untimed"}
    ).isdisjoint(names)
    assert not [name for name in turn(*turns.GROUPS) if "-seed-" in name or "untimed" in name]


def test_layouts_on_several_processors_have_the_clock_of_the_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boots: list[tuple[Machine, int]] = []

    def run(_: object, machine: Machine, first: int, __: int) -> Outcome:
        boots.append((machine, first))
        return Outcome(machine)

    monkeypatch.setattr(layouts, "prepare", lambda *_: None)
    monkeypatch.setattr(layouts, "run", run)
    known = {stage.name: stage for stage in main.builds(default_paths())}
    for seed in ("", "7"):
        monkeypatch.setenv("SEED", seed)
        known["layouts-base-vcpus"].run(None, default_paths().out)
    assert boots == [(Machine(2, clock=vm.Clock(seed)), layouts.SEED) for seed in (1, 7)]


def test_only_suites_on_several_processors_have_cases_that_count() -> None:
    for stage in main.tests(default_paths(), ()):
        config, _, name = stage.name.partition("-")
        if stage.counts:
            assert config in main.KERNELS
            assert not suite.settings_of(default_paths(), name).virtual


STAGES = [
    Stage("unit", lambda *_: []), Stage("base-live", lambda *_: [], "kernel-base"),
    Stage("base-live-stress", lambda *_: [], "kernel-base"),
    Stage("arm64-live", lambda *_: [], "kernel-arm64"), Stage("kernel-base", lambda *_: [], "qemu"),
    Stage("kernel-arm64", lambda *_: []), Stage("qemu", lambda *_: []),
]  # fmt: skip
USUAL = {"unit", "base-live", "base-live-stress"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["unit", "base-live", "base-live-stress", "kernel-base", "qemu"]),
        ("unit", ["unit"]),
        ("base-live", ["base-live", "kernel-base", "qemu"]),
        ("base", ["base-live", "base-live-stress", "kernel-base", "qemu"]),
        ("*-live", ["base-live", "kernel-base", "qemu"]),
        ("arm", ["arm64-live", "kernel-arm64"]),
        ("arm64-live,unit", ["unit", "arm64-live", "kernel-arm64"]),
    ],
)
def test_stages_are_chosen_with_what_they_need(words: str, names: list[str]) -> None:
    assert [stage.name for stage in stages.select(STAGES, USUAL, words)] == names


def test_a_stage_that_does_not_exist_is_refused_with_the_list() -> None:
    with pytest.raises(HarnessError, match="ONLY: no stage 'lif': there are unit, base-live"):
        stages.select(STAGES, USUAL, "unit,lif")
