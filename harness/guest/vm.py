"""One guest: its QEMU command line, its life, and what is to be said of its end."""

import re
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from harness.core import process
from harness.core.errors import HarnessError
from harness.kernel.arch import PC, Machine

_POLL_SECONDS = 0.1
_PANIC_GRACE_SECONDS = 10.0
_CONSOLE_LINES = 30

# What a healthy kernel never prints. Stalls and lockups are left out: a busy host causes
# them, and a guest that really hangs runs into its time limit.
_COMPLAINT = re.compile(
    r"Kernel panic - not syncing|\bBUG: |kernel BUG at|Oops: |general protection fault"
    r"|WARNING: (?:.*CPU#\d+: |possible |suspicious |inconsistent |bad |held lock|lock held"
    r"|Nested lock|chain_key|\S+-safe -> |.*still has locks)"
    r"|INFO: trying to register non-static key|pagealloc: (?:memory|single bit)"
    r"|list_(?:add|del) corruption"
)
_CONSOLE_PREFIX = re.compile(r"^\[\s*\d+\.\d+\](?:\[[^\]]*\])? ?")
_DONE = re.compile(r"^guest: done rc=(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Limits:
    """How long a guest may run, and how long it may print nothing, in seconds."""

    total: float
    silent: float


@dataclass(frozen=True)
class Guest:
    """What to boot, and how.

    `extra` is a cpio archive that is unpacked over the initramfs. An emulated processor has
    `erms` only on demand.
    Emulated processors take turns unless they are `parallel`.
    With one processor the second node has none. With `virtual_time` there is one, an
    instruction takes one nanosecond, an idle processor jumps to the next timer, and every run
    is the same, but takes three times as long.
    """

    kernel: Path
    initrd: Path
    command_line: str
    memory_mib: int
    cpus: int = 2
    accelerator: str = "tcg"
    virtual_time: bool = False
    extra: bytes = b""
    erms: bool = False
    machine: Machine = PC
    device_tree: Path | None = None
    parallel: bool = True


class Outcome(Enum):
    """How a guest's life ended."""

    FINISHED = "finished"
    PANICKED = "panicked"
    HUNG = "hung"
    VANISHED = "ended without a result"


class End(Enum):
    """Why we stopped watching."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    SILENT = "silent"


@dataclass(frozen=True)
class Verdict:
    """The outcome in words; `status` is the suite's exit status if it got that far."""

    outcome: Outcome
    message: str
    status: int | None = None


@dataclass(frozen=True)
class Run:
    """A guest that has ended."""

    verdict: Verdict
    seconds: float
    console: str
    results: str

    @property
    def console_end(self) -> str:
        """The last lines of the console."""
        return process.tail(self.console, _CONSOLE_LINES)

    @property
    def what_happened(self) -> str:
        """The console from the first complaint on, or its end if there is none."""
        lines = self.console.splitlines()
        for number, line in enumerate(lines):
            if _COMPLAINT.search(line):
                return "\n".join(lines[number : number + _CONSOLE_LINES])
        return self.console_end


def qemu_argv(guest: Guest, console: str, results: Path) -> list[str]:
    """Return the command line of a guest with two NUMA nodes, one socket on each.

    `console` is the character device of the first serial port; what the guest writes to the
    second, or to what stands in for it, goes to `results`. A machine with a device tree of ours
    has no nodes: its kernel has.
    """
    return [
        guest.machine.qemu, "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-monitor", "none",
        *_machine_words(guest),
        "-serial", console,
        *_results_words(guest.machine, results),
        "-kernel", str(guest.kernel),
        "-initrd", str(guest.initrd),
        "-append", guest.command_line,
    ]  # fmt: skip


def _machine_words(guest: Guest) -> list[str]:
    machine = guest.machine
    words = ["-machine", machine.machine]
    emulated = f"tcg,thread={'multi' if guest.parallel else 'single'}"
    if guest.device_tree:
        return [
            *words, "-accel", emulated, "-smp", str(guest.cpus),
            "-m", f"{guest.memory_mib}M", "-dtb", str(guest.device_tree),
        ]  # fmt: skip
    half = guest.memory_mib // 2
    cores = guest.cpus // 2
    cpu = "host" if guest.accelerator == "kvm" else machine.cpu
    if guest.erms:
        cpu = cpu.replace("-erms", "+erms")
    single = guest.virtual_time or guest.cpus == 1
    if guest.virtual_time:
        time = [
            "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1",
            "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-smp", "1",
        ]  # fmt: skip
    elif single:
        time = ["-accel", "tcg,thread=single", "-smp", "1"]
    else:
        time = [
            "-accel", "kvm" if guest.accelerator == "kvm" else emulated,
            # Without sockets the guest warns in topology_sane(): CPUs of one package on two
            # nodes.
            "-smp", f"{2 * cores},sockets=2,cores={cores},threads=1",
        ]  # fmt: skip
    words += ["-cpu", cpu, *time, "-m", f"{2 * half}M"]
    for node in (0, 1):
        cpus = f"cpus={_cpu_range(node, cores)},"
        if single:
            cpus = "" if node else "cpus=0,"
        words += [
            "-object", f"memory-backend-ram,id=memory{node},size={half}M",
            "-numa", f"node,nodeid={node},{cpus}memdev=memory{node}",
        ]  # fmt: skip
    return words


def _results_words(machine: Machine, results: Path) -> list[str]:
    if not machine.virtio_results:
        return ["-serial", f"file:{results}"]
    # Commas in the value of an option are doubled.
    path = str(results).replace(",", ",,")
    return [
        "-chardev", f"file,id=results,path={path}",
        "-device", "virtio-serial-device", "-device", "virtconsole,chardev=results",
    ]  # fmt: skip


def _cpu_range(node: int, cores: int) -> str:
    first = node * cores
    return f"{first}-{first + cores - 1}" if cores > 1 else str(first)


def is_emulators_mistake(run: Run) -> bool:
    """Tell whether a guest died of a breakpoint that was not there any more.

    QEMU before 8.1 translates code without a lock on its page: a processor may go on running
    the breakpoint with which another one guarded an instruction while it patched it (static
    keys, alternatives). The kernel sets no others.
    """
    return run.verdict.outcome is Outcome.PANICKED and "Oops: int3: " in run.console


def complaint(console: str) -> str:
    """Return the first line in which the guest's kernel reports a bug, or ''."""
    for line in console.splitlines():
        if _COMPLAINT.search(line):
            return _CONSOLE_PREFIX.sub("", line).strip()
    return ""


def judge(console: str, results: str, end: End, limits: Limits) -> Verdict:
    """Say how a guest ended, from what it left behind."""
    if said := complaint(console):
        return Verdict(Outcome.PANICKED, f"the guest panicked: {said}")
    done = _DONE.search(results)
    if done:
        status = int(done[1])
        return Verdict(Outcome.FINISHED, f"the suite ended with status {status}", status)
    words = [line for line in results.splitlines() if line.strip()]
    last = f"; last result: {words[-1].strip()}" if words else "; it printed no results"
    if end is End.TIMED_OUT:
        return Verdict(Outcome.HUNG, f"the guest hung: not done in {limits.total:.0f} s{last}")
    if end is End.SILENT:
        return Verdict(Outcome.HUNG, f"the guest hung: silent for {limits.silent:.0f} s{last}")
    return Verdict(Outcome.VANISHED, f"the guest ended without its last line{last}")


def run(guest: Guest, directory: Path, limits: Limits, on_result: Callable[[str], None]) -> Run:
    """Boot a guest and watch it to its end; `on_result` gets each result line as it comes."""
    directory.mkdir(parents=True, exist_ok=True)
    console, results = directory / "console.log", directory / "results.log"
    for path in (console, results):
        path.write_bytes(b"")
    if guest.extra:
        combined = directory / "initrd"
        combined.write_bytes(guest.initrd.read_bytes() + guest.extra)
        guest = replace(guest, initrd=combined)
    argv = qemu_argv(guest, f"file:{console}", results)
    (directory / "qemu.cmd").write_text(shlex.join(argv) + "\n")
    began = time.monotonic()
    with (directory / "qemu.log").open("wb") as log:
        child = process.start(argv, stdout=log, stderr=subprocess.STDOUT)
    try:
        end = _watch(child, console, results, limits, on_result)
    finally:
        process.stop(child)
    words = console.read_text(errors="replace")
    said = results.read_text(errors="replace")
    if not words and not said and child.returncode > 0:
        reason = process.first_error((directory / "qemu.log").read_text(errors="replace"))
        raise HarnessError(f"QEMU does not start: {reason}")
    return Run(
        verdict=judge(words, said, end, limits),
        seconds=time.monotonic() - began,
        console=words,
        results=said,
    )


def _watch(
    child: subprocess.Popen[bytes],
    console: Path,
    results: Path,
    limits: Limits,
    on_result: Callable[[str], None],
) -> End:
    began = time.monotonic()
    grown = began
    panicked: float | None = None
    rest = ""
    with results.open(errors="replace") as news, console.open(errors="replace") as words:
        while True:
            ended = child.poll() is not None
            now = time.monotonic()
            if fresh := news.read():
                grown = now
                *lines, rest = (rest + fresh).split("\n")
                for line in lines:
                    on_result(line)
            # With panic=-1 and -no-reboot a panic ends QEMU, unless the reboot hangs too.
            if "Kernel panic - not syncing" in words.read() and panicked is None:
                panicked = now
            if ended or (panicked and now - panicked > _PANIC_GRACE_SECONDS):
                return End.EXITED
            if now - began > limits.total:
                return End.TIMED_OUT
            if now - grown > limits.silent:
                return End.SILENT
            time.sleep(_POLL_SECONDS)


def interact(guest: Guest, results: Path) -> int:
    """Give the guest's console to our terminal until it powers off.

    Ctrl-C belongs to the guest; Ctrl-A X ends QEMU.
    """
    results.parent.mkdir(parents=True, exist_ok=True)
    argv = qemu_argv(guest, "mon:stdio", results)
    child = process.start(argv, stdin=None)
    try:
        return int(child.wait())
    finally:
        process.stop(child)
