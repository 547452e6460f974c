"""The guests that the laboratory boots, and the measurements in each of them.

A boot has a kernel, perhaps an engine, and measurements one after the other; the first of
each size warms up the guest's allocator and is dropped by the benchmark itself.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import partial

from harness.guest.recorded import Guest
from harness.lab.bench import VANILLA_BATCH_PAGES
from harness.lab.model.published import PAGE_KIB, SWEEP, WORKLOAD, rows
from harness.lab.results import QUANTUM_NS, Addresses, Design, Kernel, Key, Memory

VANILLA, TRACED = "lab-vanilla", "lab-traced"
OURS, WITHOUT, HEART = "base", "lab-without", "lab-heart"
"""Kernel configurations: nothing of ours, only the tracepoints and probes; everything of ours,
the same with the feature compiled out, and the published design on an unmodified kernel.
"""

KERNEL: dict[str, Kernel] = {
    OURS: "ours", VANILLA: "vanilla", TRACED: "vanilla", WITHOUT: "without", HEART: "heart",
}  # fmt: skip
"""The kernels' names in results; each is built after the one that it starts from."""

FOLIO_KIB = (4, 16, 64, 256, 1024, 2048)
CHANNELS = (1, 2, 4, 8, 12, 16)
SEGMENT_CHANNELS = (4, 16)

# By folio size the published work does not say which batch it used; its sweep is flat from here on.
SIZE_BATCH_PAGES = 16384

# For figures that are compared to a fraction of a per cent: a tick of the timer is as much.
_REPEAT = 5

MIB = 64
QUICK_MIB = 16
_LIVE_MIB = 512
_LIVE_LARGE_KIB = 64
TOUCHED_KIB = (2048, 1024, 256, 64)
_TOUCHED_MIB = 128
# Measurements of this many pages take long.
_LARGE_PAGES = 32768

WORKLOADS: dict[Addresses, tuple[int, ...]] = {"all": (64, 1024), "range": (4, 64, 1024)}
"""Folio sizes that are moved with every page named, and by mbind(2)."""

BOUND_US = 100
"""For how long memory that is not copied live may be inaccessible by default."""

LOW_BOUND_US = 45
"""A lower bound, that is longer than one folio of 2 MB takes."""

CALLER_KIB = (64, 4)
"""Folio sizes of callers other than system calls."""

BY_KERNEL: tuple[Addresses, ...] = ("reclaim", "compaction", "contig")
"""Where the kernel moves what it finds, and not what it is told."""

_FAULT_MIB = 8
_LOOK_MS = 10 * _FAULT_MIB
"""A fault of a page takes no longer than 40 us; then NUMA balancing may look at all of it again."""

HUGE_KIB = 2048
GIGANTIC_KIB = 1024 * 1024

MIXED_FOLIOS, MIXED_MIB = 10000, 468
"""Mixed memory as migrate_bench takes it."""

_FILES = "/tmp/lab"
_ON_FILES = {"file", "mixed"}

READS_PER_MS = 492
WRITES_PER_MS = (5, 492)
"""How many pages threads touch that use memory while it moves."""

ZIPF_PER_MS = (1, 10, 100, 1_000, 10_000, 50_000)
ZIPF_KIB = (2048, 64)
MANY_READERS = 6
"""The same of a writer that writes to few pages most, and threads on eight processors."""

OTHER_QUANTA_NS = (QUANTUM_NS // 2, QUANTUM_NS * 2)
"""Figures that depend on the quantum are not to be believed."""

QUICK_FOLIO_KIB = (4, 64, 2048)
QUICK_CHANNELS = (16,)
# Of the published tables: folio size in KiB, and pages a batch or folios a call.
QUICK_SWEEP = ((4, 512), (4, 8192), (2048, 512), (2048, 2048), (2048, 8192))
_QUICK_WORKLOAD = ((4, 2048), (2048, 1), (2048, 256))


@dataclass(frozen=True)
class Measurement:
    """One call of the benchmark; `channels` is 0 where no engine copies."""

    design: Design
    channels: int
    folio_kib: tuple[int, ...]
    mib: int
    batch_pages: int | None = VANILLA_BATCH_PAGES
    folios_per_call: int = 0
    moves: int = 2
    repeat: int = 1
    instrument: str = "auto"
    writes_per_ms: int = 0
    readers: int = 1
    zipf: bool = False
    addresses: Addresses = "heads"
    memory: Memory = "anon"
    bound_us: int = 0

    def line(self, name: str, dilation: float = 1.0) -> str:
        """Return the line of lab.plan; its times are those of the machine that is modelled."""
        rates = (1000 * rate / dilation for rate in (READS_PER_MS, self.writes_per_ms))
        last = " --verify" if self.channels else ""
        if self.writes_per_ms:
            last = f" --touch={','.join(f'{rate:.0f}' for rate in rates)}"
            last += f",{self.readers}" * (self.readers > 1) + " --zipf" * self.zipf
        if self.addresses != "heads":
            last += f" --addresses={self.addresses}"
        if self.addresses in ("fault", "compaction", "contig"):
            last += " --from=1"  # where nothing else is
        if self.memory != "anon":
            last += f" --memory={self.memory} --dir={_FILES}"
        sizes = ",".join(map(str, self.folio_kib))
        return (
            f"measure {name} {self.design} {self.batch_pages or 0} "
            f"{self.bound_us * dilation:.0f} --folio-kib={sizes} "
            f"--mib={self.mib} --folios-per-call={self.folios_per_call} --moves={self.moves} "
            f"--warmup=1 --repeat={self.repeat} --instrument={self.instrument}{last}"
        )

    def folios(self, kib: int) -> int:
        """Return how many folios of a size there are."""
        return MIXED_FOLIOS if self.memory == "mixed" else self.mib * 1024 // kib


_SAME = ("design", "channels", "batch_pages", "writes_per_ms", "readers", "zipf", "addresses",
         "memory", "bound_us")  # fmt: skip
"""Fields that a key has of a measurement."""


@dataclass(frozen=True)
class Boot:
    """One guest; `channels` is the number of its engine's, or 0 for no engine.

    `memory` is '' for as much as the suite asks for; `append` is for the kernel's command line.
    With several processors, mover, reader, writer and kernel threads have one each.
    """

    name: str
    config: str
    channels: int
    measurements: tuple[Measurement, ...]
    memory: str = ""
    append: tuple[str, ...] = ()
    cpus: int = 1
    quantum_ns: int = QUANTUM_NS

    def plan(self, dilation: float = 1.0) -> str:
        """Return lab.plan."""
        lines = [f"engine {self.channels}"] if self.channels else []
        lines += ["files"] if {job.memory for job in self.measurements} & _ON_FILES else []
        lines += ["cgroup"] if self.tiers else []
        faults = any(job.addresses == "fault" for job in self.measurements)
        lines += [f"look {_LOOK_MS}"] if faults else []
        lines += [job.line(str(number), dilation) for number, job in enumerate(self.measurements)]
        return "\n".join(lines) + "\n"

    @property
    def tiers(self) -> bool:
        """Whether the second node is slower than the first."""
        return any(job.addresses == "reclaim" for job in self.measurements)

    def keys(self, preset: str) -> list[Key]:
        """Return the key of each run that this guest is to measure."""
        return [
            Key(
                kernel=KERNEL[self.config],
                engine=preset if job.channels else None,
                folio_kib=kib,
                move=move,
                total_mib=job.mib,
                folios_per_call=job.folios_per_call or job.folios(kib),
                **{name: getattr(job, name) for name in _SAME},
            )
            for job in self.measurements
            for kib in job.folio_kib
            for move in ((1, 2) if job.moves == 2 else (1,))
        ]


_with_gigantic = partial(Boot, memory="10G", append=("hugepagesz=1G", "hugepages=0:1,1:1"))
"""A guest with a huge page of 1 GB on each node, set aside while the memory is unused."""


def keys(quick: bool, preset: str) -> list[Key]:
    """Return the key of each run that results must have."""
    # In the calibration, traced kernels add latencies to the runs of vanilla ones. And some of
    # the workloads are the same measurement as a row of the baseline.
    boots = [*(boot for boot in vanilla(quick) if boot.config != TRACED), *ours(quick)]
    return list({key.name: key for boot in boots for key in boot.keys(preset)}.values())


def kernels(quick: bool, known: Container[str] = ()) -> list[str]:
    """Return the configurations of kernels to boot, each after what it starts from.

    Guests whose names are `known` do not boot.
    """
    boots = [boot for boot in (*vanilla(quick), *ours(quick)) if boot.name not in known]
    booted = {boot.config for boot in boots}
    return [config for config in KERNEL if config in booted]


def recorded() -> list[Boot]:
    """Return the guests of vanilla kernels in the quick laboratory: all that is recorded."""
    return [boot for boot in (*vanilla(True), *ours(True)) if KERNEL[boot.config] == "vanilla"]


def guests() -> list[Guest]:
    """Return what decides each of them; no time in their plans is the modelled machine's."""
    return [
        Guest(boot.name, boot.config, "lab", "/mm/migrate_bench",
              (boot.plan(), boot.memory, *boot.append))
        for boot in recorded()
    ]  # fmt: skip


def vanilla(quick: bool) -> Iterator[Boot]:
    """Yield what the calibration needs: speeds, and the same with the instrument on."""
    mib = QUICK_MIB if quick else MIB
    sizes = Measurement("off", 0, FOLIO_KIB, mib, repeat=_REPEAT, instrument="off")
    calls = [
        Measurement(
            "off", 0, (row.folio_kib,), max(mib, row.folio_kib * row.folios // 1024),
            folios_per_call=row.folios, moves=1, instrument="off",
        )
        for row in rows(WORKLOAD)
        if not quick or (row.folio_kib, row.folios) in _QUICK_WORKLOAD
    ]  # fmt: skip
    for name, part in (("sizes", [sizes]), ("calls", calls)):
        traced = tuple(replace(job, instrument="only") for job in part)
        yield Boot(f"vanilla-{name}", VANILLA, 0, tuple(part))
        yield Boot(f"traced-{name}", TRACED, 0, traced)


def ours(quick: bool) -> Iterator[Boot]:
    """Yield our kernel switched off, with copies by the CPU, and with an engine.

    A design that is off is measured again where it is compiled out, but not in quick:
    that kernel takes minutes to build. Callers that name every page of a folio, and mbind(2),
    are measured on both kernels.
    """
    mib = QUICK_MIB if quick else MIB
    sizes = QUICK_FOLIO_KIB if quick else FOLIO_KIB
    off = Measurement("off", 0, sizes, mib, repeat=_REPEAT)
    yield Boot("ours-off", OURS, 0, (off,))
    if quick:  # held against its record; no goal is set for it
        yield Boot("ours-cpu", OURS, 0, (replace(off, design="cpu"),))
    else:
        yield Boot("without-off", WITHOUT, 0, (off,))
    named = tuple(
        Measurement("off", 0, those, mib, moves=1, repeat=_REPEAT, instrument="off",
                    addresses=addresses)
        for addresses, those in WORKLOADS.items()
    )  # fmt: skip
    yield Boot("workloads-vanilla", VANILLA, 0, named)
    yield Boot("workloads-ours", OURS, 0, named)
    # The rest is measured once. Large folios go first: small ones leave pages on the
    # processor's free lists, and whichever large one is freed then frees those as well.
    sizes = sizes[::-1]
    yield from _engine(quick, sizes)
    channels = QUICK_CHANNELS if quick else SEGMENT_CHANNELS
    yield from _segments(sizes, channels)
    yield from _live(sizes, channels, default=quick)
    yield from _kinds()
    yield from _callers("reclaim")
    if quick:  # and the whole laboratory with its next record, at both rates of writes
        yield from _callers("fault")
        yield from _touched(WRITES_PER_MS[-1:], _OFF, "touched", 4)
    else:
        # The published design, as it was published: by folio size and channels.
        batch = Measurement("batch", 0, sizes, MIB, SIZE_BATCH_PAGES, moves=1, instrument="off")
        for number in CHANNELS:
            yield Boot(f"heart-{number:02d}", HEART, number, (replace(batch, channels=number),))
        yield from _callers("compaction")
        yield from _callers("contig")
        # A hugetlb folio of 1 GB, of which each node needs one.
        gigantic = Measurement("off", 0, (GIGANTIC_KIB,), 1024, moves=1, memory="hugetlb")
        yield _with_gigantic("gigantic-vanilla", TRACED, 0, (gigantic,))
        yield _with_gigantic("gigantic-16", OURS, 16, (_by_default(gigantic),))
        # Ten thousand folios of several kinds and sizes that move in one call, bounded.
        mixed = Measurement("off", 0, (PAGE_KIB,), MIXED_MIB, moves=1, memory="mixed")
        yield Boot("mixed-16", OURS, 16, (_by_default(mixed),))


def repeated(quick: bool) -> list[Boot]:
    """Return the guests of ours that show that figures repeat: the CPU, and an engine."""
    names = {"ours-off", f"live-{max(SEGMENT_CHANNELS):02d}"}
    return [boot for boot in ours(quick) if boot.name in names]


def _engine(quick: bool, sizes: tuple[int, ...]) -> Iterator[Boot]:
    """Yield the published batch sweep; in quick by folio size as well, where no heart is."""
    for channels in QUICK_CHANNELS if quick else CHANNELS:
        batch = partial(Measurement, "batch", channels)
        jobs = [batch(sizes, _mib(SIZE_BATCH_PAGES), SIZE_BATCH_PAGES)] if quick else []
        jobs += [
            batch((row.folio_kib,), _mib(row.batch_pages), row.batch_pages, moves=1)
            for row in rows(SWEEP)
            if row.channels == channels
            and (not quick or (row.folio_kib, row.batch_pages) in QUICK_SWEEP)
            and not (quick and row.batch_pages == SIZE_BATCH_PAGES and row.folio_kib in sizes)
        ]
        jobs.sort(key=lambda job: -min(job.folio_kib))
        # Long measurements are apart from the rest, so that guests can share the processors.
        small = tuple(job for job in jobs if (job.batch_pages or 0) < _LARGE_PAGES)
        yield Boot(f"engine-{channels:02d}-small", OURS, channels, small)
        if large := tuple(job for job in jobs if job not in small):
            yield Boot(f"engine-{channels:02d}-large", OURS, channels, large)


def _segments(sizes: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Boot]:
    """Yield what dcbm does beyond the published design: folios cut, one descriptor a list.

    With batches as small as vanilla's, with a single folio at a time, and by folio size.
    """
    for channels in counts:
        small = Measurement("segments", channels, FOLIO_KIB[-1:], MIB, moves=1)
        part = [small, replace(small, folios_per_call=1)]
        if channels == max(SEGMENT_CHANNELS):
            part.append(replace(small, folio_kib=sizes, batch_pages=SIZE_BATCH_PAGES))
        yield Boot(f"segments-{channels:02d}", OURS, channels, tuple(part))


def _live(sizes: tuple[int, ...], counts: tuple[int, ...], default: bool) -> Iterator[Boot]:
    """Yield copies of memory that stays mapped: by the CPU, by engines, and by default.

    Where an engine is fast, there are several chunks: their copies and moves overlap.
    """
    live = Measurement("live", 0, sizes, MIB, batch_pages=None, moves=1)
    yield Boot("live-cpu", OURS, 0, (live,))
    parts = {f"live-{number:02d}": [replace(live, channels=number)] for number in counts}
    if default:
        parts["default-16"] = [_by_default(live), _not_live(_by_default(live))]
    for name, jobs in parts.items():
        some = sizes if jobs[0].channels == max(SEGMENT_CHANNELS) else FOLIO_KIB[-1:]
        small = tuple(kib for kib in some if kib < _LIVE_LARGE_KIB)
        large = tuple(kib for kib in some if kib >= _LIVE_LARGE_KIB)
        part = [replace(job, folio_kib=large, mib=_LIVE_MIB) for job in jobs]
        part += [replace(job, folio_kib=small) for job in jobs if small]
        yield Boot(name, OURS, jobs[0].channels, tuple(part))


_OFF = Measurement("off", 0, TOUCHED_KIB, _TOUCHED_MIB, moves=1, bound_us=BOUND_US)


def _touched(rates: tuple[int, ...], off: Measurement, name: str, cpus: int) -> Iterator[Boot]:
    """Yield memory that threads use while it moves, by default: live or not, and switched off."""
    live = _by_default(off)
    for who, jobs in (("cpu", (off, replace(live, channels=0))), ("16", (_not_live(live), live))):
        some = tuple(replace(job, writes_per_ms=rate) for job in jobs for rate in rates)
        yield Boot(f"{name}-{who}", OURS, jobs[0].channels, some, cpus=cpus)


def writers() -> list[Boot]:
    """Return the guests of `make lab WORKLOAD=writers`: each rate of writes, and more threads."""
    zipf = replace(_OFF, folio_kib=ZIPF_KIB, zipf=True, instrument="only")
    vanilla = tuple(replace(zipf, bound_us=0, writes_per_ms=rate) for rate in ZIPF_PER_MS)
    many = replace(_OFF, readers=MANY_READERS)
    return [
        Boot("zipf-vanilla", TRACED, 0, vanilla, cpus=4),
        *_touched(ZIPF_PER_MS, zipf, "zipf", 4),
        *_touched(WRITES_PER_MS[-1:], many, "many", MANY_READERS + 2),
    ]


def other_quanta(boot: Boot) -> list[Boot]:
    """Return the same guest with half and double the quantum."""
    return [replace(boot, name=f"{boot.name}-{ns}ns", quantum_ns=ns) for ns in OTHER_QUANTA_NS]


def _kinds() -> Iterator[Boot]:
    """Yield memory that is not copied live, by default, and what vanilla makes of it."""
    file = Measurement("off", 0, (64, 4), QUICK_MIB, moves=1, memory="file")
    huge = replace(file, folio_kib=(HUGE_KIB,), mib=MIB, memory="hugetlb")
    yield Boot("kinds-vanilla", TRACED, 0, (file, huge))
    shmem = (replace(huge, memory="shmem"), replace(file, folio_kib=(64,), memory="shmem"))
    some = list(map(_by_default, (*shmem, file, huge)))
    some += [replace(_by_default(job), bound_us=LOW_BOUND_US) for job in shmem]
    yield Boot("kinds-16", OURS, 16, tuple(some))


def _callers(addresses: Addresses) -> Iterator[Boot]:
    """Yield what is no system call: vanilla, ours switched off, and with an engine by default."""
    boot = _with_gigantic if addresses == "contig" else Boot
    mib = {"contig": MIB, "fault": _FAULT_MIB}.get(addresses, 32)
    off = Measurement("off", 0, CALLER_KIB, mib, moves=1, addresses=addresses)
    yield boot(f"{addresses}-vanilla", TRACED, 0, (off,))
    yield boot(f"{addresses}-off", OURS, 0, (off,))
    yield boot(f"{addresses}-16", OURS, 16, (_by_default(off),))


def _by_default(job: Measurement) -> Measurement:
    """Return a measurement with all channels of an engine, and what the kernel chooses."""
    return replace(job, design="live", channels=16, batch_pages=None, bound_us=BOUND_US)


def _not_live(job: Measurement) -> Measurement:
    """Return the same by default, but for live copies; a bound is of time, and not of pages."""
    return replace(job, design="segments", batch_pages=VANILLA_BATCH_PAGES)


def _mib(batch_pages: int) -> int:
    """Return how much to move: at least one whole batch."""
    return max(MIB, batch_pages * PAGE_KIB // 1024)
