"""Whether virtual time keeps its promises with several processors (qemu/quantum.patch)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.core import process
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.guest.ktap import Case
from harness.kernel.build import Kernel

SUITE = "virtual-time"
CLOCK = vm.Clock(quantum_ns=2000, ipi_ns=3000)
INTERRUPTS = 400  # in side_by_side.c

_LINE = re.compile(r"^(threads|pingpong|timer|ipi|accessed) (\d+) ([\d ]+)$", re.MULTILINE)

_FUNCTIONS = "seq -f 'int f%.0f(int x) { return x * x; }' 2000"
_COMPILE = f"while {_FUNCTIONS} | gcc -O2 -S -o /dev/null -xc -; do :; done"

Measured = dict[str, dict[int, list[int]]]


def parse(results: str) -> Measured:
    """Return nanoseconds by test of side_by_side.c, then by its first number."""
    measured: Measured = {}
    for test, number, values in _LINE.findall(results):
        measured.setdefault(test, {})[int(number)] = [int(value) for value in values.split()]
    return measured


def judge(measured: Measured, clock: vm.Clock = CLOCK) -> list[Case]:
    """Compare what the guest measured with what the clock promises."""
    quantum, ipi = clock.quantum_ns, clock.ipi_ns
    threads, hops = measured.get("threads", {}), measured.get("pingpong", {})
    timers, ipis = measured.get("timer", {}), measured.get("ipi", {})
    alone = threads.get(1, [0])[-1]
    waits = [*threads.values(), *(row[1:] for row in ipis.values())]
    missed = [row[0] for _, row in sorted(measured.get("accessed", {}).items())]
    roomy = [turn for turn, pages in enumerate(missed) if pages < 100]
    return [
        Case.judged(
            "threads_are_as_fast_as_one",
            set(threads) == {1, 2, 4}
            and all(len(values) == 1 + number for number, values in threads.items())
            and all(abs(t - alone) < 0.005 * alone for row in threads.values() for t in row[1:]),
            f"{threads}",
        ),
        Case.judged(
            "an_idle_processor_wakes_in_time",
            len(waits) == 6
            and all(
                -2 * quantum < row[0] - max(row[1:]) < 0.05 * alone for row in waits if row[1:]
            ),
            f"{waits}",
        ),
        # Two quanta for a reader that is behind the writer, which then is ahead of it: but with
        # PAUSE, which takes 20 ns, the one that waits lets the other one go on.
        Case.judged(
            "a_store_is_seen_within_two_quanta",
            set(hops) == {0, 1} and 0 < hops[0][0] <= 2 * quantum and 20 < hops[1][0] < 100,
            f"{hops}",
        ),
        # The median of many: the kernel takes 2.5 to 3.5 us, with others busy 15 ns more.
        Case.judged(
            "a_timer_is_not_late_beside_busy_processors",
            set(timers) == {0, 3}
            and [len(row) for row in timers.values()] == [2, 2]
            and all(
                0 < late < idle + quantum // 20 < 2 * quantum
                for idle, late in zip(timers[0], timers[3], strict=True)
            ),
            f"{timers}",
        ),
        Case.judged(
            "an_interrupt_costs_its_sender_and_each_target",
            [(n, len(row)) for n, row in ipis.items()] == [(1, 3), (2, 4), (3, 5)]
            and all(n * ipi < row[0] < n * ipi + 3 * quantum for n, row in ipis.items())
            and all(t - alone > 0.9 * INTERRUPTS * ipi for row in ipis.values() for t in row[2:]),
            f"{ipis}",
        ),
        # A TLB that grew at four flushes shrinks a hundred flushes later, 6 or 7 a round.
        Case.judged(
            "flushes_decide_how_large_a_tlb_is",
            len(missed) == 40 and roomy == list(range(3, len(roomy) + 3)) and 12 < len(roomy) < 20,
            f"{missed}",
        ),
    ]


@contextmanager
def busy(processors: int = 2) -> Iterator[None]:
    """Let processors of this host compile."""
    compiling = [process.start(["sh", "-c", _COMPILE]) for _ in range(processors)]
    try:
        yield
    finally:
        for child in compiling:
            process.stop(child)


def run(paths: Paths, kernel: Kernel, out: Path) -> list[Case]:
    """Measure in a guest, and boot it again beside a load and with another seed."""

    def boot(directory: Path, name: str = SUITE, **more: Any) -> vm.Run:
        done = suite.run_quietly(paths, kernel, name, directory, {}, **more)
        return done.finished(str(directory))

    first = boot(out / "first", clock=CLOCK)
    with busy():
        again = boot(out / "again", clock=CLOCK)
    other = boot(out / "other-seed", clock=replace(CLOCK, seed=CLOCK.seed + 1))
    options = ("-icount", "quantum=2000,ipi=3000,seed=7")
    single = boot(out / "single", "hello", cpus=1, devices=options)
    plain = boot(out / "single-plain", "hello", cpus=1)
    return [
        *judge(parse(first.results)),
        Case.judged("a_loaded_host_changes_nothing", first.digest == again.digest, str(out)),
        Case.judged("another_seed_interleaves_otherwise", first.digest != other.digest, str(out)),
        Case.judged(
            "one_processor_is_as_without_a_quantum", single.digest == plain.digest, str(out)
        ),
    ]
