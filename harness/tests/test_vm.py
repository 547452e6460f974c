"""The guest: its command line, and the verdict on what it left behind."""

import dataclasses
from pathlib import Path

import pytest

from harness import vm
from harness.vm import End, Guest, Limits, Outcome

DATA = Path(__file__).parent / "data"
LIMITS = Limits(total=300, silent=120)
DONE = "KTAP version 1\n1..1\nok 1 a\nguest: done rc=0\n"


def guest(accelerator: str = "tcg") -> Guest:
    return Guest(Path("/k/bzImage"), Path("/k/initrd"), "console=ttyS0", 3073, 2, accelerator)


def console(name: str) -> str:
    return (DATA / name).read_text()


def values(argv: list[str], option: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option]


def test_argv_has_two_nodes_with_half_of_the_memory_each() -> None:
    argv = vm.qemu_argv(guest(), "file:c", "file:r")
    assert values(argv, "-m") == ["3072M"]
    assert values(argv, "-object") == [
        "memory-backend-ram,id=memory0,size=1536M",
        "memory-backend-ram,id=memory1,size=1536M",
    ]
    assert values(argv, "-numa") == [
        "node,nodeid=0,cpus=0,memdev=memory0",
        "node,nodeid=1,cpus=1,memdev=memory1",
    ]
    assert values(argv, "-smp") == ["2,sockets=2,cores=1,threads=1"]


def test_argv_shares_more_cpus_between_the_nodes() -> None:
    four = dataclasses.replace(guest(), cpus=4)
    argv = vm.qemu_argv(four, "c", "r")
    assert values(argv, "-smp") == ["4,sockets=2,cores=2,threads=1"]
    assert values(argv, "-numa") == [
        "node,nodeid=0,cpus=0-1,memdev=memory0",
        "node,nodeid=1,cpus=2-3,memdev=memory1",
    ]


def test_argv_puts_the_console_first_and_results_second() -> None:
    argv = vm.qemu_argv(guest(), "file:c", "file:r")
    assert values(argv, "-serial") == ["file:c", "file:r"]
    assert values(argv, "-append") == ["console=ttyS0"]
    assert "-no-reboot" in argv


def test_argv_of_both_accelerators() -> None:
    tcg = vm.qemu_argv(guest(), "c", "r")
    kvm = vm.qemu_argv(guest("kvm"), "c", "r")
    assert values(tcg, "-accel") == ["tcg,thread=multi"]
    assert values(tcg, "-cpu") == ["max,-erms,-la57"]
    assert (values(kvm, "-accel"), values(kvm, "-cpu")) == (["kvm"], ["host"])


def test_a_suite_that_ends_is_finished_whatever_its_status() -> None:
    verdict = vm.judge(console("quiet.console"), DONE, End.EXITED, LIMITS)
    assert (verdict.outcome, verdict.status) == (Outcome.FINISHED, 0)
    verdict = vm.judge("", DONE.replace("rc=0", "rc=3"), End.EXITED, LIMITS)
    assert (verdict.outcome, verdict.status) == (Outcome.FINISHED, 3)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("panic.console", "BUG: KASAN: slab-use-after-free in dcbm_done+0x4f/0x120"),
        ("warning.console", "WARNING: mm/migrate.c:1830 at migrate_pages_batch+0x2f1/0xc40"),
        ("lockdep.console", "WARNING: possible circular locking dependency detected"),
    ],
)
def test_a_kernel_that_complains_has_panicked_even_if_the_suite_ended(
    log: str, words: str
) -> None:
    for results in ("", DONE):
        verdict = vm.judge(console(log), results, End.EXITED, LIMITS)
        assert verdict.outcome is Outcome.PANICKED
        assert verdict.message.startswith(f"the guest panicked: {words}")


def test_harmless_boot_messages_are_no_complaint() -> None:
    assert vm.complaint(console("quiet.console")) == ""


def test_a_hang_is_told_from_silence_and_from_a_sudden_end() -> None:
    results = (DATA / "truncated.ktap").read_text()
    late = vm.judge("", results, End.TIMED_OUT, LIMITS)
    silent = vm.judge("", "", End.SILENT, LIMITS)
    gone = vm.judge("", results, End.EXITED, LIMITS)
    assert (late.outcome, silent.outcome, gone.outcome) == (
        Outcome.HUNG,
        Outcome.HUNG,
        Outcome.VANISHED,
    )
    assert late.message == "the guest hung: not done in 300 s; last result: # round 17 of"
    assert silent.message == "the guest hung: silent for 120 s; it printed no results"
    assert len({late.message, silent.message, gone.message}) == 3
