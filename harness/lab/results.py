"""The lab's results.json: what it holds, and what makes it invalid.

All times and speeds are in the time of the machine that is modelled: virtual time divided by
`calibration.dilation`. On real hardware that is the machine itself, and there is neither a
calibration nor a model. A GB is 10^9 bytes, a MiB 2^20.
"""

import json
import math
from collections import Counter
from itertools import groupby
from statistics import median
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from harness.core.errors import HarnessError

Kernel = Literal["vanilla", "ours", "without", "heart"]
"""Which kernel ran: "without" is without the feature, and "heart" the published design."""

Design = Literal["off", "cpu", "threads", "batch", "segments", "live", "other"]
"""The copier: "cpu", the kernel's own migrator; "threads", mtcopy; or one of ENGINE_DESIGNS."""

ENGINE_DESIGNS = ("batch", "segments", "live", "other")
"""Designs in which an engine copies, or a migrator that the lab does not know ("other").

"batch" divides as was published: a folio to a channel, a descriptor to a folio. With "segments"
folios are cut, and a channel gets one descriptor for all that it copies of a batch. With "live"
memory is mapped while it is copied; that is the one design that the CPU has as well.
"""

Addresses = Literal["heads", "all", "range", "reclaim", "fault", "compaction", "contig"]
"""Which addresses move_pages(2) gets of each folio: the first page's, or those of all pages; or
what else moves memory: mbind(2), demotion, NUMA balancing's faults, compaction, or an allocation
of a range where it is.
"""

WORKLOAD_NAMES: dict[Addresses, str] = {
    "all": "every page named", "range": "mbind(2)", "reclaim": "demotion",
    "fault": "NUMA hint fault", "compaction": "compaction", "contig": "contiguous range",
}  # fmt: skip
"""How people call what moves memory otherwise than by "heads"."""

Memory = Literal["anon", "shmem", "file", "hugetlb", "mixed"]
"""Kinds of memory; "file" is ext4's page cache, "mixed" ten thousand folios of three kinds."""

MEMORY_NAMES: dict[Memory, str] = {
    "shmem": "shmem", "file": "ext4", "hugetlb": "hugetlb", "mixed": "mixed memory",
}  # fmt: skip
"""How people call memory that is not anonymous."""

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]


def size_name(folio_kib: float) -> str:
    """Return a folio size for people."""
    return f"{folio_kib / 1024:g} MB" if folio_kib >= 1024 else f"{folio_kib:g} KB"


class _Struct(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of results.json; every field must be there, and nothing else."""


class Calibration(_Struct, frozen=True):
    """Virtual nanoseconds for each of the modelled machine."""

    dilation: Positive


class Engine(_Struct, frozen=True):
    """The engine that copied: a preset of the model, or a real engine's name."""

    preset: str
    is_model: bool
    source: str


class Inaccessible(_Struct, frozen=True):
    """For how long folios could not be touched, in microseconds."""

    p50: NotNegative
    p99: NotNegative
    max: NotNegative


class Phases(_Struct, frozen=True):
    """Mean time of each phase of a batch, in microseconds."""

    unmap: NotNegative
    flush: NotNegative
    copy: NotNegative
    move: NotNegative


class Touch(_Struct, frozen=True):
    """The longest that an access to memory took while it moved, in microseconds.

    The 99.9th percentile of all, their page faults, and IPIs of the move; in older records None.
    `copied_twice` counts folios that were written while they were copied, and is None where
    the kernel does not count them. `by_quantum` is the greatest difference that another quantum
    made to the speed, as a fraction, and None where time is not virtual.
    """

    read: NotNegative
    write: NotNegative
    copied_twice: Count | None
    read_p999: NotNegative | None = None
    write_p999: NotNegative | None = None
    faults: Count | None = None
    ipis_per_gb: NotNegative | None = None
    by_quantum: NotNegative | None = None


class Key(_Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a run: the lab plans keys, and measures a run for each.

    `channels` counts an engine's channels or a migrator's threads; it is 0 where neither copies,
    and like `batch_pages` None where a real machine did not tell. Live copies choose how much they
    copy together: their `batch_pages` is None. `move` is 1 for the first move and 2 for the way
    back. With `writes_per_ms` threads use the memory while it moves: one writes to that many pages
    a millisecond, and `readers` read; with `zipf` few pages get most accesses. `addresses` are
    those that move_pages(2) gets. `bound_us` is for how long memory may be inaccessible that is not
    copied live; 0 is for no bound.
    """

    kernel: Kernel
    design: Design
    engine: str | None
    channels: Count | None
    batch_pages: AtLeastOne | None
    folio_kib: Annotated[int, Meta(ge=4)]
    move: Literal[1, 2]
    total_mib: Positive
    folios_per_call: AtLeastOne
    writes_per_ms: Count = 0
    readers: AtLeastOne = 1
    zipf: bool = False
    addresses: Addresses = "heads"
    memory: Memory = "anon"
    bound_us: Count = 0

    def __post_init__(self) -> None:
        """Refuse with a ValueError combinations that no measurement can have."""
        if self.kernel not in ("ours", "heart") and self.design != "off":
            raise ValueError(f"design '{self.design}' on the kernel '{self.kernel}'")
        if self.design != "live" and (self.engine is None) == (self.design in ENGINE_DESIGNS):
            raise ValueError(f"design '{self.design}' with engine {self.engine!r}")
        if self.design != "threads" and (self.engine is None) != (self.channels == 0):
            raise ValueError(f"{self.channels} channels with engine {self.engine!r}")

    @property
    def name(self) -> str:
        """How people and comparisons call this run."""
        batch, channels = (
            "?" if number is None else number for number in (self.batch_pages, self.channels)
        )
        copied = f", engine {self.engine}, {channels} channels" if self.engine else ""
        if self.design == "threads":
            copied = f", {channels} threads"
        named = f", {WORKLOAD_NAMES[self.addresses]}" if self.addresses != "heads" else ""
        written = f", {self.writes_per_ms} writes per ms" if self.writes_per_ms else ""
        written += f", {self.readers} readers" * (self.readers > 1) + ", Zipf" * self.zipf
        if self.memory != "anon":
            named += f", {MEMORY_NAMES[self.memory]}"
        if self.bound_us:
            named += f", at most {self.bound_us} us"
        return (
            f"{self.kernel}/{self.design}{copied}, {self.folio_kib} KiB, batch {batch} pages, "
            f"move {self.move}, {self.total_mib:g} MiB, {self.folios_per_call} folios per call"
            f"{named}{written}"
        )


class Run(Key, frozen=True, kw_only=True):
    """One measurement; None is what the kernel or the machine could not tell.

    `instructions_per_folio` are those of the calling thread, without interrupts, and for each
    folio that moved where that makes huge pages: `huge_pages_missing` of those wanted. A real
    machine tells `cpu_ms_per_gb` of that thread instead.
    `folios_split` is -1 where it could not be seen, and `latency_lost` counts folios that the
    kernel's instrument lost, so that they are in no latency.
    """

    gbps: Positive
    first_folio_us: NotNegative | None
    inaccessible_us: Inaccessible | None
    instructions_per_folio: NotNegative | None
    phases_us: Phases | None
    folios_failed: Count
    folios_split: Annotated[int, Meta(ge=-1)]
    latency_lost: Count
    touch: Touch | None = None
    huge_pages_missing: Count | None = None
    cpu_ms_per_gb: NotNegative | None = None


Way = Literal["vanilla", "off", "mtcopy", "dcbm", "dcbm 50us", "dcbm live", "dsa live", "cpu live"]
"""The copier of a program's memory (dsa: dcbm); the time is how long it is inaccessible at most."""

WAY_NAMES: dict[Way, str] = {
    "vanilla": "vanilla", "off": "ours, off", "mtcopy": "mtcopy", "dcbm": "engine",
    "dcbm 50us": "engine, at most 50 us", "dcbm live": "engine, live", "dsa live": "DSA, live",
    "cpu live": "no engine, live",
}  # fmt: skip
"""How people call ways to move a program's memory."""

QUANTUM_NS = 5000
"""By how much clocks of processors may differ: some figures are taken at half and double that."""

State = Literal["rest", "moving"]
"""Whether a program's memory moves."""


Counted = Literal["demoted_per_s", "promoted_per_s", "near"]
"""Of the kernel: pages moved, and the share of a hot set on the fast node when it moved on."""


class Program(_Struct, frozen=True, omit_defaults=True):
    """The service that a program's clients got in one case, by its own load generator.

    `moves` is how many moves of all its memory ended meanwhile; each took `move_ms`, kept
    processors busy for `mover_ms` more than at rest, and moved `gb`. Moves by the kernel itself
    count as one, in which its thread that demotes took `mover_ms`. `late` requests took longer
    than the workload says, and processors sent `ipis`. `cpu_us` is the processor's time for one
    step of the program. The seed and the quantum are those of virtual time.
    """

    workload: str
    way: Way
    folio_kib: Annotated[int, Meta(ge=4)]
    case: str
    state: State
    per_s: Positive
    p50_us: NotNegative = 0
    p99_us: NotNegative = 0
    p999_us: NotNegative = 0
    longest_us: NotNegative = 0
    moves: Count = 0
    move_ms: NotNegative = 0
    mover_ms: NotNegative = 0
    cpu_us: NotNegative = 0
    gb: NotNegative = 0
    late: Count = 0
    ipis: Count = 0
    seed: AtLeastOne = 1
    quantum_ns: AtLeastOne = QUANTUM_NS
    counts: dict[Counted, NotNegative] = {}

    def per_gb(self, figure: float) -> float:
        """Return a figure of all moves for each GB, or what is not a number if nothing moved."""
        return figure / (self.moves * self.gb) if self.moves and self.gb else math.nan


StripWay = Literal["vanilla", "batch", "dcbm", "dcbm live"]
"""A way to move memory of which there are strips; "batch" is the published design."""


class Strip(_Struct, frozen=True):
    """Times at which one move takes each folio, in microseconds since it touched the first.

    Of each: from when it is read-only, from when inaccessible, and from when as before.
    """

    way: StripWay
    folio_kib: Annotated[int, Meta(ge=4)]
    folios: tuple[tuple[float, float, float], ...]

    @property
    def lasts_us(self) -> tuple[float, float, float]:
        """How long it takes, and how long a folio is read-only and inaccessible: medians."""
        read_only = median(since - protected for protected, since, _ in self.folios)
        inaccessible = median(until - since for _, since, until in self.folios)
        return max(until for _, _, until in self.folios), read_only, inaccessible


class Results(_Struct, frozen=True):
    """A whole results.json; `qemu` and `compiler` are None on a real machine.

    `other_end` has GB/s of the published design at the preset's other end, `bare` an engine's ns.
    """

    calibration: Calibration | None
    engine: Engine | None
    notes: tuple[str, ...]
    quick: bool
    kernel_release: str
    qemu: str | None
    compiler: str | None
    runs: tuple[Run, ...] = ()
    programs: tuple[Program, ...] = ()
    strips: tuple[Strip, ...] = ()
    other_end: dict[str, Positive] = {}
    bare: dict[str, NotNegative] = {}

    def __post_init__(self) -> None:
        """Refuse a model without calibration, hardware with one, and ambiguous runs."""
        if (self.calibration is not None) != bool(self.engine and self.engine.is_model):
            raise ValueError("a model needs a calibration, and nothing else has one")
        known = self.engine.preset if self.engine else None
        for run in self.runs:
            if run.engine not in (None, known):
                raise ValueError(f"a run has engine '{run.engine}', the results '{known}'")
        for name, count in Counter(run.name for run in self.runs).items():
            if count > 1:
                raise ValueError(f"there twice: {name}")

    def cpu_ms_per_gb(self, run: Run) -> float | None:
        """Return what a move costs the calling thread."""
        if not (self.calibration and run.instructions_per_folio):
            return run.cpu_ms_per_gb
        gb = run.folio_kib * 1024e-9
        return run.instructions_per_folio * 1e-6 / self.calibration.dilation / gb

    @property
    def label(self) -> str:
        """The origin that every figure and table names."""
        if not self.engine:
            return "no engine; real hardware"
        kind = "model" if self.engine.is_model else "real hardware,"
        return f"engine: {kind} '{self.engine.preset}'"


T = TypeVar("T")


def convert(document: object, kind: type[T], where: str) -> T:
    """Return parsed JSON as `kind`; HarnessError tells in one line what is wrong."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise HarnessError(f"{where}: {error}") from error


_ALIKE = ("kernel", "design", "channels", "readers", "zipf", "addresses", "memory", "bound_us",
          "workload", "way")  # fmt: skip
"""Fields that entries on a line of a record have in common: sizes, batches and rates vary."""


def dump(results: Results) -> str:
    """Return results as JSON: entries that are alike share a line, and figures have six digits."""
    document = json.loads(
        msgspec.json.encode(results), parse_float=lambda text: float(f"{float(text):.6g}")
    )
    lists = [(name, document.pop(name)) for name in ("runs", "programs", "strips")]
    others = {name: value for name, value in document.items() if value != {}}
    parts = [json.dumps(others, ensure_ascii=False)[1:-1]]
    for name, entries in lists:
        some = groupby(entries, lambda entry: [entry.get(field) for field in _ALIKE])
        lines = ",\n".join(msgspec.json.encode(list(alike)).decode()[1:-1] for _, alike in some)
        parts += [f'"{name}": [\n{lines}\n]'] if lines else []
    return "{" + ",\n".join(parts) + "}\n"
