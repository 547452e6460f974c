"""One guest: its QEMU command line, its life, and what is to be said of its end."""

import hashlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import ROOT
from harness.kernel.arch import PC, Machine

_POLL_SECONDS = 0.1
_BOOT_SECONDS = 240
_BOOTED = " as init process"
_PANIC_GRACE_SECONDS = 10.0
_PATIENCE = {True: 8, False: 3}
"""By how much limits grow for a guest that gets no processor, in virtual time or not.

A guest that hangs may be idle: that takes as long.
"""
_CONSOLE_LINES = 30

DEBIAN = Path("/usr/bin")
"""Debian's emulators. Processors take turns there: if two run at once, one may keep for good
what the other one has replaced (see qemu/source.patch)."""


@dataclass(frozen=True)
class Clock:
    """How several processors run in virtual time (qemu/quantum.patch).

    Their clocks differ by two quanta at most; an interrupt that one raises at another takes
    both `ipi_ns`; the seed varies the order in which they run.
    """

    seed: int = 1
    quantum_ns: int = 5000
    ipi_ns: int = 1000

    def argv(self, cpus: int) -> list[str]:
        """Return what makes time virtual; a single processor needs no quantum."""
        several = f",quantum={self.quantum_ns},ipi={self.ipi_ns},seed={self.seed}"
        return ["-icount", f"shift=0,sleep=off{several if cpus > 1 else ''}", "-seed", "1",
                "-rtc", "base=2026-01-01T00:00:00,clock=vm"]  # fmt: skip


_MACRO = re.compile(r"#define KERNEL_COMPLAINTS\b(?:[^\n]*\\\n)+.*")


def complaints(header: str) -> re.Pattern[str]:
    """Return what a healthy kernel never prints, from the header that has it for selftests."""
    (macro,) = _MACRO.findall(header)
    return re.compile("".join(re.findall(r'"([^"]*)"', macro)))


(_HEADER,) = (ROOT / "kernel/overlay").rglob("kernel_complaints.h")
_COMPLAINT = complaints(_HEADER.read_text())
# Complaints in virtual time, too: no busy host causes them there.
_STALL = re.compile(r"self-detected stall|detected (expedited )?stalls|BUG: soft lockup")
_CONSOLE_PREFIX = re.compile(r"^\[\s*\d+\.\d+\](?:\[[^\]]*\])? ?")
_DONE = re.compile(r"^guest: done rc=(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Guest:
    """A guest to boot; `timeout` and `silent` are the seconds until we end it.

    `extra` is a cpio archive that is unpacked over the initramfs. An emulated processor has
    `erms` only on demand. With a `clock` time is virtual: an instruction takes one nanosecond,
    processors that are all idle jump to the next timer, and every run is the same, whatever
    else the host does. A single processor is on the first node; with `tiers` all are, and the
    firmware calls the second node slower. `qemu` is the directory of the emulators. The first
    result line of which `enough` is true ends a guest.
    """

    kernel: Path
    initrd: Path
    command_line: str
    memory_mib: int
    cpus: int = 2
    extra: bytes = b""
    erms: bool = False
    tiers: bool = False
    machine: Machine = PC
    device_tree: Path | None = None
    qemu: Path = DEBIAN
    clock: Clock | None = None
    timeout: int = 900
    silent: int = 120
    enough: Callable[[str], bool] = lambda _: False

    @property
    def takes_turns(self) -> bool:
        """Whether its processors run one at a time."""
        return self.clock is not None or self.qemu == DEBIAN


class Outcome(Enum):
    """How a guest's life ended."""

    FINISHED = "finished"
    PANICKED = "panicked"
    HUNG = "hung"
    STOPPED = "said enough"
    VANISHED = "ended without a result"


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
    console: str
    results: str

    @property
    def digest(self) -> str:
        """A name of all that the guest printed: equal runs have equal ones."""
        return hashlib.sha256(f"{self.console}\0{self.results}".encode()).hexdigest()[:16]

    def finished(self, where: str) -> "Run":
        """Return this run; HarnessError if the guest did not come to its end."""
        if self.verdict.outcome is not Outcome.FINISHED:
            raise HarnessError(f"{where}: {self.verdict.message}", self.what_happened)
        return self

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
    port = ["-serial", f"file:{results}"]
    if guest.machine.virtio_results:
        path = str(results).replace(",", ",,")  # as in the value of any option
        port = ["-chardev", f"file,id=results,path={path}", "-device", "virtio-serial-device",
                "-device", "virtconsole,chardev=results"]  # fmt: skip
    return [
        str(guest.qemu / guest.machine.qemu), "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-monitor", "none", "-machine", guest.machine.machine,
        *(() if guest.qemu == DEBIAN else guest.machine.options),
        *_processors_and_memory(guest),
        "-serial", console, *port,
        "-kernel", str(guest.kernel),
        "-initrd", str(guest.initrd),
        "-append", guest.command_line,
    ]  # fmt: skip


def _processors_and_memory(guest: Guest) -> list[str]:
    accelerator = f"tcg,thread={'single' if guest.takes_turns else 'multi'}"
    clock = guest.clock.argv(guest.cpus) if guest.clock else []
    if guest.device_tree:
        return ["-accel", accelerator, "-smp", str(guest.cpus), "-m", f"{guest.memory_mib}M",
                "-dtb", str(guest.device_tree), *clock]  # fmt: skip
    cpu = guest.machine.cpu.replace("-erms", "+erms" if guest.erms else "-erms")
    half, cores = guest.memory_mib // 2, guest.cpus // 2
    words = ["-accel", accelerator, "-cpu", cpu, "-m", f"{2 * half}M", *clock]
    if guest.cpus == 1 or guest.tiers:
        several = f"-{guest.cpus - 1}" * (guest.cpus > 1)
        processors = (f"cpus=0{several},", "initiator=0," if guest.tiers else "")
        words += ["-smp", str(guest.cpus)]
    else:
        processors = (f"cpus=0-{cores - 1},", f"cpus={cores}-{2 * cores - 1},")
        # Without sockets topology_sane() warns: the CPUs of one package are on two nodes.
        words += ["-smp", f"{2 * cores},sockets=2,cores={cores},threads=1"]
    for node, cpus in enumerate(processors):
        words += ["-object", f"memory-backend-ram,id=memory{node},size={half}M",
                  "-numa", f"node,nodeid={node},{cpus}memdev=memory{node}"]  # fmt: skip
    if guest.tiers:  # ACPI's HMAT tells the kernel that the second node is slower
        words += ["-machine", "hmat=on"]
        for node, latency, bandwidth in ((0, 100, "20G"), (1, 300, "10G")):
            common = f"hmat-lb,initiator=0,target={node},hierarchy=memory,data-type=access"
            words += ["-numa", f"{common}-latency,latency={latency}",
                      "-numa", f"{common}-bandwidth,bandwidth={bandwidth}"]  # fmt: skip
    return words


def complaint(console: str, *, virtual: bool = False) -> str:
    """Return the first line in which the guest's kernel reports a bug, or ''."""
    for line in console.splitlines():
        if _COMPLAINT.search(line) or (virtual and _STALL.search(line)):
            return _CONSOLE_PREFIX.sub("", line).strip()
    return ""


def judge(
    console: str, results: str, hung: str = "", stopped: str = "", *, virtual: bool = False
) -> Verdict:
    """Say how a guest ended, from what it left behind, and from why we ended it, if we did.

    It hung, or `stopped` is the line that was enough.
    """
    if message := complaint(console, virtual=virtual):
        return Verdict(Outcome.PANICKED, f"the guest panicked: {message}")
    if done := _DONE.search(results):
        status = int(done[1])
        return Verdict(Outcome.FINISHED, f"the suite ended with status {status}", status)
    if stopped:
        return Verdict(Outcome.STOPPED, f"the guest was stopped after: {stopped.strip()}")
    words = results.strip().splitlines()
    last = f"last result: {words[-1].strip()}" if words else "it printed no results"
    if hung:
        return Verdict(Outcome.HUNG, f"the guest hung: {hung}; {last}")
    return Verdict(Outcome.VANISHED, f"the guest ended without its last line; {last}")


def run(guest: Guest, directory: Path, on_result: Callable[[str], None]) -> Run:
    """Boot a guest and watch it to its end; `on_result` gets each result line as it comes.

    One that hangs before its init runs is booted once more: of 400 boots one stood still while
    Linux looked for PCI devices. Our output says so, and its console stays.
    """
    directory.mkdir(parents=True, exist_ok=True)
    done = _run(guest, directory, on_result)
    if done.verdict.outcome is Outcome.HUNG and _BOOTED not in done.console:
        kept = (directory / "console.log").rename(directory / "console-hung.log")
        ui.say(f"the guest hung in boot, and boots again: {kept}")
        done = _run(guest, directory, on_result)
    return done


def _run(guest: Guest, directory: Path, on_result: Callable[[str], None]) -> Run:
    console, results = directory / "console.log", directory / "results.log"
    for path in (console, results):
        path.write_bytes(b"")
    if guest.extra:
        combined = directory / "initrd"
        combined.write_bytes(guest.initrd.read_bytes() + guest.extra)
        guest = replace(guest, initrd=combined)
    argv = qemu_argv(guest, f"file:{console}", results)
    (directory / "qemu.cmd").write_text(shlex.join(argv) + "\n")
    with (directory / "qemu.log").open("wb") as log:
        child = process.start(argv, stdout=log, stderr=subprocess.STDOUT)
    try:
        hung, stopped = _watch(guest, child, console, results, on_result)
    finally:
        process.stop(child)
    words = console.read_text(errors="replace")
    printed = results.read_text(errors="replace")
    if not words and not printed and child.returncode > 0:
        reason = process.first_error((directory / "qemu.log").read_text(errors="replace"))
        raise HarnessError(f"QEMU does not start: {reason}")
    verdict = judge(words, printed, hung, stopped, virtual=guest.clock is not None)
    done = Run(verdict, words, printed)
    (directory / "digest").write_text(f"{done.digest}\n")
    return done


def _watch(
    guest: Guest, child: subprocess.Popen[bytes], console: Path, results: Path,
    on_result: Callable[[str], None],
) -> tuple[str, str]:  # fmt: skip
    """Wait until a guest has ended, or must be: return how it hung, or what was enough."""
    seconds = _stopwatch(guest, child)
    began = grown = seconds()
    panicked: float | None = None
    silent = min(guest.silent, _BOOT_SECONDS)
    rest = ""
    with results.open(errors="replace") as news, console.open(errors="replace") as words:
        while True:
            ended = child.poll() is not None
            now = seconds()
            if fresh := news.read():
                grown = now
                *lines, rest = (rest + fresh).split("\n")
                for line in lines:
                    on_result(line)
                    if guest.enough(line):
                        return "", line
            # With panic=-1 and -no-reboot a panic ends QEMU, unless the reboot hangs too.
            log = words.read()
            stalled = guest.clock is not None and _STALL.search(log)
            if panicked is None and (stalled or "Kernel panic - not syncing" in log):
                panicked = now
            if ended or (panicked and now - panicked > _PANIC_GRACE_SECONDS):
                return "", ""
            if now - began > guest.timeout:
                return f"not done in {guest.timeout} s", ""
            if now - grown > silent:
                if silent == guest.silent or _BOOTED not in console.read_text(errors="replace"):
                    return f"silent for {silent} s", ""
                silent = guest.silent
            time.sleep(_POLL_SECONDS)


def _stopwatch(guest: Guest, child: subprocess.Popen[bytes]) -> Callable[[], float]:
    """Return what the limits of a guest are measured by, in seconds.

    That is how long it had a processor, or all of its processors if they run at once: other
    programs may keep it waiting for minutes.
    """
    began = time.monotonic()
    stat = Path(f"/proc/{child.pid}/stat")
    patience = _PATIENCE[guest.clock is not None]
    at_once = 1 if guest.takes_turns else guest.cpus

    def seconds() -> float:
        wall = time.monotonic() - began
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            fields = []
        ticks = sum(map(int, fields[11:13]))  # utime and stime, of proc(5)
        return max(ticks / os.sysconf("SC_CLK_TCK") / at_once, wall / patience)

    return seconds


def interact(guest: Guest, results: Path) -> int:
    """Give the guest's console to our terminal until it powers off.

    Ctrl-C belongs to the guest; Ctrl-A X ends QEMU.
    """
    results.parent.mkdir(parents=True, exist_ok=True)
    child = process.start(qemu_argv(guest, "mon:stdio", results), stdin=None)
    try:
        return int(child.wait())
    finally:
        process.stop(child)
