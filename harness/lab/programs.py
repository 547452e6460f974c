"""`make lab WORKLOAD=redis`: programs of Debian's, while their memory moves, in virtual time.

A guest boots for each way to move memory and each size of pages. The programs' own load
generator says what they get: at rest, and while migratepages(8) moves their memory to the other
node and back, over and over. Nothing of ours is in them.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from msgspec import structs

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import image, ktap, suite, vm
from harness.guest.ktap import Status
from harness.kernel import debian, qemu
from harness.kernel.arch import PC
from harness.kernel.build import Kernel
from harness.lab import results
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.lab.model.published import PAGE_KIB
from harness.lab.report import report
from harness.lab.results import Latency, Moves, Program, Results, State, Way

RELEASE = "trixie"
"""Debian's release whose programs run: the same on each host, like QEMU's."""

VANILLA, OURS = "programs-vanilla", "programs"

MOST_INACCESSIBLE_US = 500
"""What our kernel promises by default, in the modelled machine's time."""

_GUESTS = 2  # at a time: each has one processor


@dataclass(frozen=True)
class Workload:
    """A suite of the same name, and what of Debian it runs.

    `requests` is how many it makes in each case without a pipeline; `cases` are the suite's
    words for those, and the report's.
    """

    packages: tuple[str, ...]
    programs: tuple[str, ...]
    requests: int
    cases: dict[str, str]


WORKLOADS = {
    "redis": Workload(
        ("redis-server", "redis-tools", "numactl"),
        ("redis-server", "redis-benchmark", "redis-cli", "migratepages"),
        10_000,
        {
            f"{operation}-{pipeline}": f"{operation}, pipeline of {pipeline}"
            for operation in ("GET", "SET")
            for pipeline in (1, 16)
        },
    ),
}


@dataclass(frozen=True)
class Boot:
    """One guest: who copies in it, and what pages programs get."""

    way: Way
    config: str
    migrator: str
    live: bool
    folio_kib: int

    @property
    def name(self) -> str:
        """What its directory is called."""
        return f"{self.way.replace(' ', '-')}-{self.folio_kib}k"

    def states(self) -> tuple[State, ...]:
        """Return what each case is measured in."""
        return ("rest", "neighbour", "moving") if self.way == "vanilla" else ("rest", "moving")

    def args(self, workload: Workload, dilation: float) -> str:
        """Return the arguments of its suite."""
        most = round(MOST_INACCESSIBLE_US * dilation)
        pages = "4k" if self.folio_kib == PAGE_KIB else "2m"
        cases = ",".join(workload.cases)
        return f"{self.migrator},{self.live:d},{most},{pages},{workload.requests},{cases}"


WAYS: tuple[tuple[Way, str, str, bool], ...] = (
    ("vanilla", VANILLA, "off", False),
    ("off", OURS, "off", False),
    ("dcbm", OURS, "dcbm", False),
    ("dcbm live", OURS, "dcbm", True),
    ("cpu live", OURS, "cpu", True),
)


def boots() -> list[Boot]:
    """Return the guests of a workload, in the order in which reports show them."""
    return [Boot(*way, kib) for kib in (2048, PAGE_KIB) for way in WAYS]


_CASE = re.compile(r"^case: (\S+) (\w+)$", re.MULTILINE)
_PER_SECOND = re.compile(r"throughput summary: ([\d.]+) requests per second")
_AT_MOST = re.compile(r"^([\d.]+)% <= ([\d.]+) milliseconds", re.MULTILINE)
_SUMMARY = re.compile(r"^ +avg +min +p50 +p95 +p99 +max *\n +(.+)$", re.MULTILINE)
_MOVES = re.compile(r"^moves: (\d+) ([\d.]+) (\d+)$", re.MULTILINE)


def redis_cases(text: str, boot: Boot, dilation: float, where: str) -> Iterator[Program]:
    """Yield what redis-benchmark measured in each case, in the modelled machine's time.

    HarnessError if they are not the cases that were planned, or one lacks a figure.
    """
    cases = WORKLOADS["redis"].cases
    _, *parts = _CASE.split(text)
    found = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    planned = [(case, state) for case in cases for state in boot.states()]
    if [(case, state) for case, state, _ in found] != planned:
        raise HarnessError(f"{where}: not the cases that were planned", text)
    for case, state, said in found:
        per_second, summary = _PER_SECOND.search(said), _SUMMARY.search(said)
        rare = [float(ms) for percent, ms in _AT_MOST.findall(said) if float(percent) >= 99.9]
        moves = _MOVES.search(said)
        if not (per_second and summary and rare) or (state == "moving") != bool(moves):
            raise HarnessError(f"{where}: {case} {state}: no figures", said)
        _, _, p50, _, p99, longest = (float(ms) * 1000 / dilation for ms in summary[1].split())
        moved = None
        if moves:
            moved = Moves(
                count=int(moves[1]),
                ms=float(moves[2]) / int(moves[1]) * 1000 / dilation,
                cpu_ms=int(moves[3]) / 1000 / dilation,
            )
        latency = Latency(p50=p50, p99=p99, p999=rare[0] * 1000 / dilation, longest=longest)
        document = {
            "workload": "redis",
            "way": boot.way,
            "folio_kib": boot.folio_kib,
            "case": cases[case],
            "state": state,
            "per_s": float(per_second[1]) * dilation,
            "latency_us": latency,
            "moves": moved,
        }
        yield results.convert(document, Program, where)


@dataclass(frozen=True)
class _Room:
    """What all guests of a workload share."""

    paths: Paths
    name: str
    kernels: dict[str, Kernel]
    programs: bytes
    devices: tuple[str, ...]
    dilation: float

    def run(self, boot: Boot) -> list[Program]:
        """Boot one guest; HarnessError if anything went wrong."""
        where = f"lab: {self.name}: {boot.name}"
        run = suite.run_quietly(
            self.paths,
            self.kernels[boot.config],
            self.name,
            self.paths.out / "lab/guests" / f"{self.name}-{boot.name}",
            {},
            args=boot.args(WORKLOADS[self.name], self.dilation),
            devices=self.devices if boot.migrator == "dcbm" else (),
            programs=self.programs,
        )
        if run.verdict.outcome is not vm.Outcome.FINISHED:
            raise HarnessError(f"{where}: {run.verdict.message}", run.what_happened)
        if run.verdict.status:
            words = [line for line in run.results.splitlines() if line.startswith("# ")]
            raise HarnessError(f"{where}: {words[0] if words else 'failed'}", run.results)
        return list(redis_cases(run.results, boot, self.dilation, where))


def run(paths: Paths, preset_name: str, name: str) -> Results:
    """Measure one workload; the clock is the one that was fitted when figures were recorded."""
    recorded = claims.recorded(quick=False)
    if not recorded.calibration or name not in WORKLOADS:
        raise HarnessError(f"no workload '{name}': there are {', '.join(WORKLOADS)}")
    engine, workload = preset.load(preset_name), WORKLOADS[name]
    with lock.cache(paths):
        kernels = {config: suite.prepare(paths, config) for config in (OURS, VANILLA)}
        root = debian.userland(paths, "amd64", workload.packages, RELEASE)
    dilation = recorded.calibration.dilation
    room = _Room(
        paths, name, kernels, image.programs(root, workload.programs, "debian"),
        engine.devices(engine.channels, dilation), dilation,
    )  # fmt: skip
    planned, done = boots(), count(1)
    with (
        ui.step(f"lab: {name}") as step,
        ThreadPoolExecutor(max_workers=_GUESTS) as pool,
    ):

        def one(boot: Boot) -> list[Program]:
            found = room.run(boot)
            step.progress(f"{next(done)} of {len(planned)} guests, {boot.name}")
            return found

        found = [program for some in pool.map(one, planned) for program in some]
        step.done(f"{len(planned)} guests")
    emulator = qemu.programs(paths) / PC.qemu
    return Results(
        calibration=structs.replace(recorded.calibration, rows=()),
        engine=results.Engine(preset=preset_name, is_model=True, source=engine.source),
        runs=(),
        programs=tuple(found),
        notes=(),
        quick=False,
        kernel_release=kernels[OURS].release,
        qemu=process.capture([str(emulator), "--version"]).splitlines()[0],
    )


def main(paths: Paths, preset_name: str, name: str) -> int:
    """Run `make lab WORKLOAD=...`; 1 if a claim fails.

    What else out/lab/results.json has of the laboratory stays in it, and in the report.
    """
    out = paths.out / "lab"
    found = run(paths, preset_name, name)
    if (out / "results.json").exists():
        known = jsonio.load(Results, out / "results.json")
        others = tuple(one for one in known.programs if one.workload != name)
        if known.kernel_release == found.kernel_release:
            found = structs.replace(known, programs=(*others, *found.programs))
    jsonio.write_text(out / "results.json", results.dump(found))
    report.write(found, out)
    cases = claims.judge_programs(found, name)
    for case in cases:
        if case.status in (Status.FAILED, Status.KNOWN):
            ui.plain(f"{case.status.value}: {case.name}: {case.detail}")
    ui.say(f"lab: {name}: {out}/report.html, {out}/results.json")
    counts = ktap.count(cases)
    ui.plain(str(counts))
    return 1 if counts[Status.FAILED] else 0
