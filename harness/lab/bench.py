"""From the JSON of tools/mm/migrate_bench to the runs of results.json.

The lab uses convert() for what it boots; a user with real hardware gives the files of the
benchmark to `make report`, which uses from_benchmarks().
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.core import schema
from harness.core.errors import HarnessError
from harness.lab.results import (
    ENGINE_DESIGNS,
    Design,
    Engine,
    Kernel,
    Phases,
    Results,
    Run,
)

PROGRAM = "migrate_bench"

VANILLA_BATCH_PAGES = 512
"""What an unmodified kernel migrates together (NR_MAX_BATCHED_MIGRATION in mm/migrate.c)."""


@dataclass(frozen=True)
class Percentiles:
    """Inaccessible time of folios, in ns."""

    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class PhaseTotals:
    """Time in each phase over all batches, in ns."""

    unmap: float
    flush: float
    copy: float
    move: float
    batches: int


@dataclass(frozen=True)
class BenchRun:
    """One folio size and direction; lists have an entry for each repetition.

    `folios` is how many each repetition moves, `first_folio_ns` the mean over calls.
    """

    folio_kib: int
    move: int
    folios: int
    gbps_mean: float
    elapsed_ns: tuple[float, ...]
    cpu_ns: tuple[float, ...] | None
    folios_failed: int
    folios_split: int
    first_folio_ns: float | None
    inaccessible_ns: Percentiles | None
    phases_ns: PhaseTotals | None


@dataclass(frozen=True)
class Bench:
    """The benchmark's output, as far as it is used here.

    `machine` and `offload` are looked into by name; `folios_per_call` 0 is all at once.
    """

    program: str
    kernel: str
    machine: Mapping[str, object]
    mib: float
    folios_per_call: int
    engine_is_model: bool
    offload: Mapping[str, object] | None
    runs: tuple[BenchRun, ...]

    def __post_init__(self) -> None:
        """Refuse the output of another program."""
        if self.program != PROGRAM:
            raise ValueError(f"program is '{self.program}', not '{PROGRAM}'")


@dataclass(frozen=True)
class Setting:
    """What the benchmark cannot know of a run; the fields are those of Run."""

    kernel: Kernel
    design: Design
    engine: str | None
    channels: int | None
    batch_pages: int | None


def parse(document: object, where: str) -> Bench:
    """Check the benchmark's JSON; HarnessError tells in one line what is wrong and where.

    Fields that are not used are ignored: the benchmark may learn to tell more.
    """
    return schema.decode(Bench, document, where, lenient=True)


def is_benchmark(document: object) -> bool:
    """Tell the benchmark's output from results.json."""
    return isinstance(document, dict) and "program" in document


def convert(
    bench: Bench, setting: Setting, where: str, dilation: float | None = None
) -> list[Run]:
    """Return the benchmark's runs in the modelled machine's time.

    With `dilation`, the benchmark ran in virtual time, that many times slower than that
    machine; an instruction is a nanosecond then, so the time for which the calling thread
    ran is the number of instructions. A dilation of 1 leaves virtual time as it is (for the
    fit).
    Without, it is a real machine, and nobody counted instructions.
    """
    runs = []
    for number, one in enumerate(bench.runs):
        fields = {
            **vars(setting),
            "folio_kib": one.folio_kib,
            "move": one.move,
            "gbps": one.gbps_mean,
            "first_folio_us": _divided(one.first_folio_ns, 1000),
            "inaccessible_us": _microseconds(one.inaccessible_ns),
            "instructions_per_folio": None if dilation is None else _instructions(one),
            "phases_us": _per_batch(one.phases_ns),
            "total_mib": bench.mib,
            "folios_per_call": bench.folios_per_call or one.folios,
            "folios_failed": one.folios_failed,
            "folios_split": one.folios_split,
        }
        run = schema.decode(Run, fields, f"{where}: runs[{number}]")
        runs.append(run.undilated(dilation or 1.0))
    return runs


def _divided(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _microseconds(times: Percentiles | None) -> dict[str, float] | None:
    if times is None:
        return None
    return {name: value / 1000 for name, value in vars(times).items()}


def _per_batch(totals: PhaseTotals | None) -> dict[str, float] | None:
    if totals is None or totals.batches < 1:
        return None
    return {
        name: getattr(totals, name) / totals.batches / 1000 for name in Phases.__annotations__
    }


def _instructions(run: BenchRun) -> float | None:
    """Return instructions per folio: in virtual time, nanoseconds for which the caller ran."""
    if not run.cpu_ns or run.folios < 1:
        return None
    return fmean(run.cpu_ns) / run.folios


def from_benchmarks(files: Sequence[tuple[str, Bench]]) -> Results:
    """Return results of a real machine from the benchmark's files, each with its name.

    A kernel without /sys/kernel/mm/migrate_copy_offload counts as vanilla. HarnessError if
    a file comes from a modelled engine, whose clock only the lab knows, or if the files are
    not of one machine and one engine.
    """
    runs: list[Run] = []
    engines: set[str] = set()
    machines: set[str] = set()
    for where, bench in files:
        if bench.engine_is_model:
            raise HarnessError(f"{where}: a model's clock is known to `make lab` only")
        setting = _setting(bench, where)
        runs += convert(bench, setting, where)
        engines |= {setting.engine} if setting.engine else set()
        machines.add(str(bench.machine.get("model") or "unnamed machine"))
    if len(machines) > 1:
        raise HarnessError(f"the files are of several machines: {', '.join(sorted(machines))}")
    if len(engines) > 1:
        raise HarnessError(f"the files are of several engines: {', '.join(sorted(engines))}")
    machine = "".join(machines)
    engine = Engine("".join(engines), False, machine) if engines else None
    try:
        return Results(
            calibration=None,
            engine=engine,
            runs=tuple(runs),
            notes=(f"measured by {PROGRAM} on real hardware: {machine}",),
            quick=False,
            kernel_release=", ".join(sorted({bench.kernel for _, bench in files})),
            qemu=None,
        )
    except ValueError as error:
        raise HarnessError(f"{', '.join(name for name, _ in files)}: {error}") from error


def _setting(bench: Bench, where: str) -> Setting:
    """Say what kind of run it was from what the benchmark saw of the offload.

    `channels`, `batch_pages` and `engine` are taken from there too if the benchmark, or the
    user by hand, put them there.
    """
    offload = bench.offload
    if offload is None:
        return Setting("vanilla", "off", None, 0, VANILLA_BATCH_PAGES)
    try:
        enabled, route = offload["enabled"], offload["route"]
    except KeyError as error:
        raise HarnessError(f"{where}: offload lacks {error.args[0]}") from error
    if not isinstance(enabled, (bool, int)) or not isinstance(route, str):
        raise HarnessError(f"{where}: offload is neither on nor off: {dict(offload)}")
    design: Design = "off" if not enabled or route == "none" else "batch"
    if route == "cpu" and design == "batch":
        design = "cpu"
    if design not in ENGINE_DESIGNS:
        return Setting("ours", design, None, 0, VANILLA_BATCH_PAGES)
    engine = str(offload.get("engine") or route)
    return Setting(
        "ours",
        design,
        engine,
        _count(offload.get("channels"), f"{where}: offload.channels"),
        _count(offload.get("batch_pages"), f"{where}: offload.batch_pages"),
    )


def _count(value: object, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise HarnessError(f"{where}: is {value!r}, not a number from 1 on")
    return value
