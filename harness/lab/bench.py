"""From the JSON of tools/mm/migrate_bench to the runs of results.json.

The lab uses runs_of() for what it boots; a user with real hardware gives the files of the
benchmark to `make report`, which uses from_benchmarks().
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal

from msgspec import Struct

from harness.core.errors import HarnessError
from harness.lab import results
from harness.lab.results import Count, Inaccessible, Phases, Positive, Results, Run, convert

_SAME = ("folio_kib", "move", "folios_failed", "folios_split", "latency_lost")
"""What a run has as the benchmark says it."""

VANILLA_BATCH_PAGES = 512
"""The batch of an unmodified kernel (NR_MAX_BATCHED_MIGRATION in mm/migrate.c)."""


class Touched(Struct, frozen=True):
    """Accesses of threads that used the memory while it moved."""

    writes_per_s: int
    read_ns: float
    write_ns: float
    read_p999_ns: float
    write_p999_ns: float
    read_faults: int
    write_faults: int
    ipis: int
    copied_twice: int | None
    readers: int
    zipf: bool


class BenchRun(Struct, frozen=True):
    """One folio size and direction; lists have an entry for each repetition.

    `folios` is how many each repetition moves, `first_folio_ns` the mean over calls,
    `phases_ns` the sum over `batches`, which it counts as well, `latency_lost` the folios that
    are in no latency, and `huge_pages` those that were `wanted`, and that it `got`.
    """

    folio_kib: int
    move: Literal[1, 2]
    folios: int
    gbps_mean: Positive
    cpu_ns: tuple[float, ...] | None
    folios_failed: int
    folios_split: int
    first_folio_ns: float | None
    inaccessible_ns: dict[str, float] | None
    phases_ns: dict[str, float] | None
    latency_lost: int
    touch: Touched | None = None
    huge_pages: dict[str, int] | None = None
    bytes_verified: Count = 0
    bytes_wrong: Count = 0


class Offload(Struct, frozen=True):
    """The migrator, and how it copied.

    `parameters` are those of the migrator's module, `channels` how many it holds of the DMA
    drivers `providers`, and None where debugfs does not tell. `live` is 1 if migrators that are
    asynchronous copy large folios live, and 2 if all copy all so; `max_inaccessible_us` is the
    bound for what is not.
    """

    enabled: bool
    migrator: str
    parameters: dict[str, str | None] | None
    providers: list[str] | None
    channels: int | None
    live: int = 0
    max_inaccessible_us: float = 0


class Bench(Struct, frozen=True):
    """The benchmark's output, as far as it is used here; `folios_per_call` 0 is all at once."""

    program: Literal["migrate_bench"]
    kernel: str
    machine: dict[str, Any]
    mib: float
    folios_per_call: int
    offload: Offload | None
    runs: tuple[BenchRun, ...]
    addresses: results.Addresses = "heads"
    memory: results.Memory = "anon"


def runs_of(
    bench: Bench, where: str, dilation: float | None = None, kernel: results.Kernel | None = None,
    preset: str | None = None, batch_pages: int = 0,
) -> list[Run]:  # fmt: skip
    """Return the benchmark's runs in the modelled machine's time.

    With `dilation`, the benchmark ran in virtual time, that many times slower than that
    machine; an instruction is a nanosecond then, so the time for which the calling thread
    ran is the number of instructions. Without, it is a real machine, and no instructions were
    counted. `kernel` and `preset` are what the lab calls the kernel and the engine, and
    `batch_pages` what its knob was set to, if not 0.
    """
    runs = []
    microsecond = 1000 * (dilation or 1.0)
    setting = setting_of(bench.offload)
    setting |= {"kernel": kernel or setting["kernel"],
                "engine": setting["engine"] and (preset or setting["engine"])}  # fmt: skip
    if batch_pages:
        setting["batch_pages"] = batch_pages
    offload = bench.offload
    bound = offload.max_inaccessible_us if offload else 0
    for number, run in enumerate(bench.runs):
        phases, inaccessible = run.phases_ns, run.inaccessible_ns
        batches = phases["batches"] if phases else 0
        counted = dilation is not None and run.cpu_ns and run.folios
        # Some stay where they are without having been looked at.
        folios = run.folios - (run.folios_failed if run.huge_pages else 0)
        fields = {
            **setting,
            "gbps": run.gbps_mean * (dilation or 1.0),
            "first_folio_us": run.first_folio_ns and run.first_folio_ns / microsecond,
            "inaccessible_us": inaccessible and {
                name: inaccessible[name] / microsecond
                for name in Inaccessible.__struct_fields__
            },
            "instructions_per_folio": fmean(run.cpu_ns or ()) / folios if counted else None,
            "cpu_ms_per_gb": fmean(run.cpu_ns) * 1e-6 / (folios * run.folio_kib * 1024e-9)
            if run.cpu_ns and folios and dilation is None else None,
            "phases_us": phases and {
                name: phases[name] / batches / microsecond for name in Phases.__struct_fields__
            } if batches else None,
            "total_mib": bench.mib,
            "folios_per_call": bench.folios_per_call or run.folios,
            "addresses": bench.addresses,
            "memory": bench.memory,
            "bound_us": round(bound / (dilation or 1.0)),
            **{name: getattr(run, name) for name in _SAME},
        }  # fmt: skip
        if run.huge_pages:
            fields["huge_pages_missing"] = run.huge_pages["wanted"] - run.huge_pages["got"]
        if run.touch:
            writes = run.touch.writes_per_s * (dilation or 1.0) / 1000
            fields["writes_per_ms"] = max(1, round(writes))
            fields |= {"readers": run.touch.readers, "zipf": run.touch.zipf}
            fields["touch"] = {
                name: getattr(run.touch, f"{name}_ns") / microsecond
                for name in ("read", "write", "read_p999", "write_p999")
            } | {
                "copied_twice": run.touch.copied_twice,
                "faults": run.touch.read_faults + run.touch.write_faults,
                "ipis_per_gb": run.touch.ipis / (bench.mib * 1.048576e-3),
            }
        runs.append(convert(fields, Run, f"{where}: runs[{number}]"))
    return runs


class Part(Struct, frozen=True):
    """The measurements of one step of a round of migrate-offload-report."""

    bench: dict[str, object]


def parts(document: dict[str, object], where: str) -> list[dict[str, object]]:
    """Return the benchmark's output in a file of migrate-offload-report; others are one part."""
    if document.get("program") != "migrate_offload_report":
        return [document]
    return [part.bench for part in convert(document.get("benches"), list[Part], where)]


def from_benchmarks(
    files: Sequence[tuple[str, Bench]], rounds: bool = False, told: Sequence[str] = ()
) -> Results:
    """Return results of a real machine from the benchmark's files, each with its name.

    A kernel without /sys/kernel/mm/migrate_offload counts as vanilla. Of several `rounds`, that of
    the median speed counts; `told` are more notes. HarnessError if the files are not of one machine
    and one engine.
    """
    runs: list[Run] = []
    notes = []
    for where, bench in files:
        runs += runs_of(bench, where)
        if bench.offload:
            values = (bench.offload.parameters or {}).items()
            parameters = " ".join(f"{name}={value}" for name, value in values)
            note = f"{where}: migrator {bench.offload.migrator} {parameters}".rstrip()
            notes += [note] * (note not in notes)
    if rounds:
        alike: dict[str, list[Run]] = {}
        for run in sorted(runs, key=lambda run: run.gbps):
            alike.setdefault(run.name, []).append(run)
        runs = [some[len(some) // 2] for some in alike.values()]
    machines = {bench.machine.get("model") or "unnamed machine" for _, bench in files}
    engines = {run.engine for run in runs if run.engine}
    for what, names in (("machines", machines), ("engines", engines)):
        if len(names) > 1:
            raise HarnessError(f"the files are of several {what}: {', '.join(sorted(names))}")
    (machine,) = machines
    engine = {"preset": max(engines), "is_model": False, "source": machine} if engines else None
    kernels = ", ".join(sorted({bench.kernel for _, bench in files}))
    notes = [f"measured by migrate_bench on real hardware: {machine}", *told, *notes]
    fields = {"calibration": None, "engine": engine, "runs": runs, "notes": notes,
              "quick": False, "kernel_release": kernels, "qemu": None,
              "compiler": None}  # fmt: skip
    return convert(fields, Results, ", ".join(name for name, _ in files))


def setting_of(offload: Offload | None) -> dict[str, Any]:
    """Return what the benchmark saw of kernel and offload, as fields of a run."""
    design, engine = "off", None
    channels: int | None = 0
    batch: int | None = VANILLA_BATCH_PAGES
    parameters = offload.parameters or {} if offload else {}
    match offload:
        case Offload(enabled=True, migrator="cpu"):
            design = "cpu"
        case Offload(enabled=True, migrator="mtcopy"):
            design, channels = "threads", int(parameters.get("threads") or 0) or None
        case Offload(enabled=True, migrator="dcbm"):
            cut = parameters.get("segments") == "Y"
            design = "segments" if cut else "batch"
            engine = "+".join(offload.providers or ()) or "dcbm"
            channels = offload.channels
        case Offload(enabled=True, migrator=str(name)) if name != "none":
            design, engine, channels, batch = "other", name, None, None
    if offload and offload.enabled and offload.live >= {"segments": 1, "cpu": 2}.get(design, 3):
        design, batch = "live", None
    return {"kernel": "ours" if offload else "vanilla", "design": design, "engine": engine,
            "channels": channels, "batch_pages": batch}  # fmt: skip
