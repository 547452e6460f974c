"""The guest: its command line, and the verdict on what it left behind."""

import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.guest import ktap, vm
from harness.guest.vm import Guest, Outcome
from harness.kernel.arch import PTDMA, VIRT, ZCU102

DATA = Path(__file__).parent.parent / "data"
RESULTS = Path("/o/results.log")
DONE = "KTAP version 1\n1..1\nok 1 a\nguest: done rc=0\n"


def guest() -> Guest:
    kernel, initrd = Path("/k/bzImage"), Path("/k/initrd")
    return Guest(kernel, initrd, "console=ttyS0", 3073, 2, qemu=Path("/o/qemu/bin"))


def console(name: str) -> str:
    return (DATA / name).read_text()


def values(argv: list[str], option: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option]


def nodes(*cpus: str) -> list[str]:
    return [f"node,nodeid={node},{some}memdev=memory{node}" for node, some in enumerate(cpus)]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, {
            "-m": ["3072M"], "-smp": ["2,sockets=2,cores=1,threads=1"],
            "-object": [f"memory-backend-ram,id=memory{n},size=1536M" for n in (0, 1)],
            "-numa": nodes("cpus=0-0,", "cpus=1-1,"), "-append": ["console=ttyS0"],
            "-serial": ["file:c", "file:/o/results.log"], "-device": [], "-icount": [],
            "-accel": ["tcg,thread=multi"], "-cpu": ["max,-erms,-fsrm,-la57"],
            "-machine": ["q35"],  # the one that qemu/x86_64.mak has
        }),
        ({"cpus": 4},
         {"-smp": ["4,sockets=2,cores=2,threads=1"], "-numa": nodes("cpus=0-1,", "cpus=2-3,")}),
        ({"cpus": 1, "clock": vm.Clock(seed=7)}, {
            "-smp": ["1"], "-accel": ["tcg,thread=single"], "-icount": ["shift=0,sleep=off"],
            "-numa": nodes("cpus=0,", ""),
        }),
        ({"cpus": 4, "clock": vm.Clock(7, 2000, 300)}, {
            "-accel": ["tcg,thread=single"], "-rtc": ["base=2026-01-01T00:00:00,clock=vm"],
            "-icount": ["shift=0,sleep=off,quantum=2000,ipi=300,seed=7"],
        }),
        ({"machine": PTDMA}, {"-device": ["ptdma"] * 16}),
        ({"qemu": vm.DEBIAN}, {"-accel": ["tcg,thread=single"]}),
        ({"erms": True}, {"-cpu": ["max,+erms,-fsrm,-la57"]}),
        # QEMU 7.2 refuses `-audio none`.
        ({"machine": ZCU102, "qemu": vm.DEBIAN}, {"-audio": []}),
        ({"machine": ZCU102, "cpus": 4, "device_tree": Path("/k/z.dtb")}, {
            "-dtb": ["/k/z.dtb"], "-audio": ["none"], "-smp": ["4"], "-m": ["3073M"],
            "-serial": ["file:c", "file:/o/results.log"], "-numa": [], "-cpu": [],
        }),
    ],
)  # fmt: skip
def test_options_of_qemu(changes: dict[str, Any], wanted: dict[str, list[str]]) -> None:
    argv = vm.qemu_argv(replace(guest(), **changes), "file:c", RESULTS)
    assert {option: values(argv, option) for option in wanted} == wanted
    assert "-no-reboot" in argv


def test_an_arm64_guest_with_tags_has_one_serial_port_and_a_virtio_console() -> None:
    argv = vm.qemu_argv(replace(guest(), machine=VIRT), "file:c", Path("/a,b/r"))
    assert argv[0] == "/o/qemu/bin/qemu-system-aarch64"
    assert values(argv, "-machine") == ["virt,mte=on"]
    assert values(argv, "-serial") == ["file:c"]
    assert values(argv, "-chardev") == ["file,id=results,path=/a,,b/r"]
    assert values(argv, "-device")[-1] == "virtconsole,chardev=results"
    assert len(values(argv, "-numa")) == 2


def test_a_suite_that_ends_is_finished_whatever_its_status() -> None:
    verdict = vm.judge(console("quiet.console"), DONE)
    assert (verdict.outcome, verdict.status) == (Outcome.FINISHED, 0)
    verdict = vm.judge("", DONE.replace("rc=0", "rc=3"))
    assert (verdict.outcome, verdict.status) == (Outcome.FINISHED, 3)


def test_a_kernel_that_complains_has_panicked_even_if_the_suite_ended() -> None:
    words = "BUG: KASAN: slab-use-after-free in dcbm_done+0x4f/0x120"
    for results in ("", DONE):
        verdict = vm.judge(console("panic.console"), results)
        assert verdict.outcome is Outcome.PANICKED
        assert verdict.message.startswith(f"the guest panicked: {words}")


@pytest.mark.parametrize(
    "line",
    [
        "Kernel panic - not syncing: Attempted to kill init!",
        "kernel BUG at mm/migrate.c:1!",
        "Oops: int3: 0000 [#1]",
        "general protection fault, probably for non-canonical address",
        "WARNING: mm/migrate.c:1830 at migrate_pages_batch+0x2f1/0xc40, CPU#1: mover/71",
        "WARNING: suspicious RCU usage",
        "WARNING: possible circular locking dependency detected",
        "WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected",
        "WARNING: mover/71 still has locks held!",
        "INFO: trying to register non-static key.",
        "pagealloc: memory corruption",
        "list_del corruption. prev->next should be 0",
    ],
)
def test_complaints(line: str) -> None:
    assert vm.complaint(f"[    1.0] quiet\n[    2.5][   T71] {line}\n") == line


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Support for this is going to end",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [mover:71]",
        "DEBUG: nothing",
        "INFO: rcu_preempt self-detected stall on CPU",
        "DMA-API: preallocated 65536 debug entries",
    ],
)
def test_no_complaints(line: str) -> None:
    assert vm.complaint(line) == ""
    stalls = "stall" in line or "lockup" in line
    assert vm.complaint(line, virtual=True) == (line if stalls else "")


def test_complaints_come_from_the_header_of_the_selftests() -> None:
    macro = '#define KERNEL_COMPLAINTS\t\\\n\t"one|"  /* 1 */\t\\\n\t"t[w]o"\n'
    header = f'#define A "a"\n{macro}\n#define KERNEL_COMPLAINTS_IN_A_TEST "x"\n'
    assert vm.complaints(header).pattern == "one|t[w]o"


def test_a_hang_is_told_from_silence_and_from_a_sudden_end() -> None:
    results = (DATA / "truncated.ktap").read_text()
    late = vm.judge("", results, "not done in 300 s")
    silent = vm.judge("", "", "silent for 120 s")
    gone = vm.judge("", results)
    assert late.outcome is silent.outcome is Outcome.HUNG
    assert gone.outcome is Outcome.VANISHED
    assert late.message == "the guest hung: not done in 300 s; last result: # round 17 of"
    assert silent.message == "the guest hung: silent for 120 s; it printed no results"
    assert len({late.message, silent.message, gone.message}) == 3


def test_a_guest_ends_at_the_line_that_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "ok 1 a\n  not ok 2 b # XFAIL known\n  not ok 3 c\n"
    script = f"printf '%s' '{printed}' >{tmp_path}/results.log; exec sleep 60"
    monkeypatch.setattr(vm, "qemu_argv", lambda *_: ["sh", "-c", script])
    heard: list[str] = []
    machine = replace(guest(), enough=ktap.is_failure)
    done = vm.run(machine, tmp_path, heard.append)
    assert done.verdict.outcome is Outcome.STOPPED
    assert done.verdict.message == "the guest was stopped after: not ok 3 c"
    assert heard == printed.splitlines()
    patient = vm.run(replace(guest(), timeout=1), tmp_path, heard.append)
    assert patient.verdict.outcome is Outcome.HUNG


def test_a_guest_that_hangs_in_boot_boots_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console, results = tmp_path / "console.log", tmp_path / "results.log"
    starts = ["exec sleep 60", f"echo '{DONE}' >{results}"]
    monkeypatch.setattr(vm, "qemu_argv", lambda *_: ["sh", "-c", starts.pop(0)])
    monkeypatch.setattr(vm, "_BOOT_SECONDS", 4)
    assert vm.run(guest(), tmp_path, lambda _: None).verdict.outcome is Outcome.FINISHED
    assert "the guest hung in boot, and boots again" in capsys.readouterr().out
    assert (tmp_path / "console-hung.log").exists()

    starts += ["exec sleep 60"] * 2
    assert vm.run(guest(), tmp_path, lambda _: None).verdict.outcome is Outcome.HUNG
    booted = f"echo 'Run /init{vm._BOOTED}' >{console}; sleep 3; echo '{DONE}' >{results}"
    starts = [booted]
    assert vm.run(guest(), tmp_path, lambda _: None).verdict.outcome is Outcome.FINISHED
    starts = [f"echo 'Run /init{vm._BOOTED}' >{console}; exec sleep 60"]
    late = vm.run(replace(guest(), silent=2), tmp_path, lambda _: None)
    assert late.verdict.message.startswith("the guest hung: silent for 2 s")


def test_a_panic_counts_whatever_was_enough() -> None:
    verdict = vm.judge("BUG: kernel NULL pointer", "not ok 1 a\n", stopped="not ok 1 a")
    assert verdict.outcome is Outcome.PANICKED


def late_after_a_sleep(machine: vm.Guest) -> float:
    """Return how late a guest is that got no processor for 0.3 s."""
    with subprocess.Popen(["sleep", "60"]) as child:
        seconds = vm._stopwatch(machine, child)
        time.sleep(0.3)
        late = seconds()
        child.kill()
    return late


@pytest.mark.parametrize("clock", [None, vm.Clock()])
def test_a_guest_is_late_by_the_time_that_it_had_a_processor(
    clock: vm.Clock | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "_PATIENCE", {True: 1e9, False: 1e9})
    machine = replace(guest(), clock=clock)
    assert late_after_a_sleep(machine) < 0.3
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as child:
        computes = vm._stopwatch(machine, child)
        while computes() < 0.3:
            time.sleep(0.01)
        child.kill()


@pytest.mark.parametrize(("clock", "patience"), [(None, 3), (vm.Clock(), 8)])
def test_patience_with_a_guest_that_gets_no_processor_ends(
    clock: vm.Clock | None, patience: int
) -> None:
    assert late_after_a_sleep(replace(guest(), clock=clock)) >= 0.3 / patience
