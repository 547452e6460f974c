"""Suites: settings in their comments, the kernel command line, the words for a failure."""

from itertools import pairwise
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status
from harness.guest.suite import Settings
from harness.guest.vm import Outcome, Verdict
from harness.kernel.arch import AE4DMA, ARM64, PC, VIRT, X86_64, ZCU102
from harness.kernel.build import Kernel

FINISHED = Verdict(Outcome.FINISHED, "the suite ended with status 0", 0)
FAILED = Verdict(Outcome.FINISHED, "the suite ended with status 1", 1)


def test_settings_come_from_comment_lines() -> None:
    script = "#!/bin/sh\n# qemu: memory=3G timeout=600\n# qemu: append=norandmaps silent=60\n"
    assert suite.parse_settings(script) == Settings(
        "3G", timeout=600, silent=60, append=("norandmaps",)
    )
    assert suite.parse_settings("# qemu: cpus=4\n") == Settings(cpus=4)
    assert suite.parse_settings("# qemu: erms\n") == Settings(erms=True)
    assert suite.parse_settings("# qemu: cpus=1\n") == Settings(cpus=1, virtual=True)
    assert suite.parse_settings("# qemu: virtual\n") == Settings(virtual=True)
    assert Settings("3G").memory_mib == 3072
    assert suite.parse_settings("#!/bin/sh\n# uses qemu: nothing\n") == Settings()


@pytest.mark.parametrize(
    "line",
    ["# qemu: memroy=3G", "# qemu: memory=3T", "# qemu: timeout=x", "# qemu: cpus=3",
     "# qemu: erms=often"],
)  # fmt: skip
def test_a_setting_that_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"memroy|\$.memory|\$.timeout|cpus=3|\$.erms"):
        suite.parse_settings(line)


def test_a_suite_that_does_not_exist_is_refused_with_the_list(tmp_path: Path) -> None:
    (tmp_path / "guest/suites").mkdir(parents=True)
    (tmp_path / "guest/suites/hello").touch()
    with pytest.raises(HarnessError, match="no suite 'helo': there are hello"):
        suite.settings_of(Paths(tmp_path, tmp_path, tmp_path), "helo")


def test_command_lines() -> None:
    base = suite.command_line("base", "faults", "a,b", Settings(append=("quiet",)))
    assert base == (
        "console=ttyS0 panic=-1 oops=panic kernelcore=50% no_timer_check quiet "
        "mig.suite=faults mig.args=a,b"
    )
    debug = suite.command_line("debug", "demo", "", Settings())
    assert "panic_on_warn=1 page_poison=1 mig.debug=1" in debug
    assert "mig.args" not in debug


def test_the_command_line_names_the_ports_of_other_machines() -> None:
    virt = suite.command_line("arm64", "mte", "", Settings(), VIRT)
    assert virt.startswith("console=ttyAMA0 panic=-1")
    assert "kernelcore=50% mig.results=hvc0 mig.engine=dmasim mig.suite=mte" in virt
    assert "numa=fake" not in virt
    modelled = suite.command_line("base", "demo", "", Settings(), AE4DMA)
    assert "ae4dma.max_hw_q=16 mig.results=ttyS1 mig.engine=ae4dma" in modelled
    board = suite.command_line("arm64", "zdma", "", Settings(), ZCU102)
    assert "console=ttyPS0,115200" in board and "kernelcore" not in board
    assert "numa=fake=2 mem=1536M mig.results=ttyPS1 mig.engine=zynqmp_dma" in board


def test_a_suite_runs_on_the_machine_that_it_asks_for() -> None:
    assert suite.machine_of(X86_64, Settings()) == PC
    assert suite.machine_of(ARM64, Settings()) == VIRT
    assert suite.machine_of(ARM64, suite.parse_settings("# qemu: machine=zcu102")) == ZCU102
    with pytest.raises(HarnessError, match="no machine 'zcu102' for a kernel for x86_64"):
        suite.machine_of(X86_64, Settings(machine="zcu102"))


def booting(
    root: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> tuple[Paths, Kernel, list[vm.Guest]]:
    """Return a checkout with one suite, a kernel, and where guests go instead of booting."""
    (root / "guest/suites").mkdir(parents=True)
    (root / "guest/suites/faults").write_text(f"# qemu: {head}\n")
    seen: list[vm.Guest] = []

    def run(guest: vm.Guest, *_: object) -> vm.Run:
        seen.append(guest)
        return vm.Run(FINISHED, "", "")

    monkeypatch.setattr(vm, "run", run)
    paths = Paths(root, root / "cache", root / "out")
    return paths, Kernel("base", "", "", root, root), seen


def test_a_quiet_guest_is_in_our_qemu_with_the_devices_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, kernel, seen = booting(tmp_path, monkeypatch, "memory=3G")
    devices = ("-device", "ptdma")
    for more in ({"devices": devices}, {"memory": "10G"}):
        suite.run_quietly(paths, kernel, "faults", tmp_path / "log", {}, **more)
    assert seen[0].qemu == paths.out / "qemu/bin"
    assert devices in pairwise(vm.qemu_argv(seen[0], "stdio", tmp_path / "results"))
    assert [guest.memory_mib for guest in seen] == [3072, 10240]


def test_the_guest_is_told_whose_turn_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, kernel, seen = booting(tmp_path, monkeypatch, "cpus=1")
    for turn in ("", "arm64,faults"):
        suite.run_suite(paths, kernel, "faults", "", tmp_path / "log", turn=turn)
    lines = [guest.command_line for guest in seen]
    assert "mig.turn" not in lines[0] and "mig.untimed" not in lines[0]
    assert " mig.turn=arm64,faults " in lines[1]


def test_a_suite_in_virtual_time_may_run_by_the_wall_without_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, kernel, seen = booting(tmp_path, monkeypatch, "virtual")
    monkeypatch.setenv("SEED", "5")
    suite.run_suite(paths, kernel, "faults", "", tmp_path / "log")
    suite.run_suite(paths, kernel, "faults", "", tmp_path / "log", wall=True)
    virtual, wall = seen
    assert virtual.clock == vm.Clock(5) and " tsc=reliable " in virtual.command_line
    assert wall.clock is None and " mig.untimed=1 " in wall.command_line
    assert "tsc=" not in wall.command_line


def test_every_kind_of_failure_has_its_words() -> None:
    good = Case("a", Status.PASSED)
    bad = [Case(f"t{n}", Status.FAILED) for n in range(7)]
    hung = Verdict(Outcome.HUNG, "the guest hung: silent for 120 s")
    assert suite.describe(FINISHED, (good,)) == ""
    assert suite.describe(FAILED, (good, bad[0])) == "the guest failed a test: t0"
    assert suite.describe(FAILED, tuple(bad)) == (
        "the guest failed 7 tests: t0, t1, t2, t3, t4 and 2 more"
    )
    assert suite.describe(FAILED, (good,)) == "the suite failed: the suite ended with status 1"
    assert suite.describe(hung, (good,)) == "the guest hung: silent for 120 s"
