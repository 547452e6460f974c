"""Figures that lab/goals.toml has goals for: gains over vanilla, cut folios, no cost.

Ratios are those of two runs of the same workload in the same laboratory.
"""

import math
from collections.abc import Iterator
from itertools import product

from harness.lab import plan
from harness.lab.bench import VANILLA_BATCH_PAGES
from harness.lab.judge.claim import Claim, Measured, promise
from harness.lab.model.published import PAGE_KIB
from harness.lab.results import WORKLOAD_NAMES, Addresses, Results, Run, size_name

OFF, GAIN, WHOLE, SEGMENTS, LIVE, KINDS, CALLERS = (
    "cost of being there", "gain over vanilla", "stays whole", "folios cut into segments",
    "copied while it is mapped", "other kinds of memory", "callers",
)  # fmt: skip

COPY_PAGE = 1553
"""Instructions that copying a page takes, page by page: executed ones, counted by function.

A range that is copied at once takes about 16 fewer a page, so that too little is counted as
outside. The copy phase of a batch takes more: it has reporting, probes and interrupts in it.
"""

_HUGE = plan.FOLIO_KIB[-1]
_INSTRUCTIONS = "instructions_per_folio"
_P99 = "inaccessible, 99th percentile"

Wanted = dict[str, object]


def claims_of(results: Results, measured: Measured) -> Iterator[Claim]:
    """Yield every promise that was to be measured."""
    dilation = results.calibration.dilation if results.calibration else None
    for size in plan.FOLIO_KIB:
        off: Wanted = {"design": "off", "folio_kib": size}
        ours, vanilla, without = (
            off | {"kernel": kernel} for kernel in ("ours", "vanilla", "without")
        )
        name = size_name(size)
        cost = _quotient(measured, _INSTRUCTIONS, ours, without)
        yield from promise(OFF, f"{name}: instructions off over without", "", cost)
        for move, word in ((1, "first move"), (2, "moved back")):
            moved = {"move": move}
            faster = _quotient(measured, "gbps", ours | moved, vanilla | moved)
            yield from promise(GAIN, f"{name}: {word}", "times", faster)
            split = measured.figure("folios_split", **ours | moved)
            if split is not None and split < 0:  # it could not be seen
                split = math.nan
            yield from promise(WHOLE, f"{name}: folios split, {word}", "", split)
        for addresses in (one for one, those in plan.WORKLOADS.items() if size in those):
            named: Wanted = {"addresses": addresses}
            word = WORKLOAD_NAMES[addresses]
            faster = _quotient(measured, "gbps", ours | named, vanilla | named)
            yield from promise(GAIN, f"{name}: {word}, first move", "times", faster)
        if size in (64, 1024) and (by_cpu := measured.key(design="cpu", folio_kib=size)):
            run = measured.run(by_cpu)
            counted = COPY_PAGE * size / PAGE_KIB if run else math.nan
            rest = _quotient(measured, _INSTRUCTIONS, ours, vanilla, less=counted)
            word = f"{name}: instructions outside"
            yield from promise(GAIN, f"{word} a counted copy, of vanilla's", "", rest)
            if dilation:
                phase = copy_instructions(run, dilation) if run else math.nan
                rest = _quotient(measured, _INSTRUCTIONS, ours, vanilla, less=phase)
                yield from promise(GAIN, f"{word} the copy phase, of vanilla's", "", rest)
    yield from _segments(measured)
    yield from _live(measured)
    yield from _kinds(measured)
    yield from _callers(measured)


def _segments(measured: Measured) -> Iterator[Claim]:
    cut: Wanted = {"design": "segments", "channels": 16, "folio_kib": _HUGE}
    small = cut | {"batch_pages": VANILLA_BATCH_PAGES}
    for channels in reversed(plan.SEGMENT_CHANNELS):
        name, wanted = f"{channels} channels, 2 MB, 512 pages", small | {"channels": channels}
        first = measured.figure("first_folio_us", **wanted)
        yield from promise(SEGMENTS, f"{name}: first folio", "us", first)
        speed = measured.figure("gbps", **wanted)
        yield from promise(SEGMENTS, f"{name}: speed", "GB/s", speed)
    for size in (64, 1024):
        large = cut | {"folio_kib": size, "batch_pages": plan.SIZE_BATCH_PAGES}
        name, speed = f"16 channels, {size_name(size)}: speed", measured.figure("gbps", **large)
        yield from promise(SEGMENTS, name, "GB/s", speed)
    page: Wanted = {"folio_kib": PAGE_KIB}
    faster = _quotient(measured, "gbps", cut | page, {"kernel": "vanilla"} | page, alike=False)
    yield from promise(SEGMENTS, "16 channels, 4 KB: speed, over vanilla's", "times", faster)
    one: Wanted = {"folios_per_call": 1}
    vanilla: Wanted = {"kernel": "vanilla", "folio_kib": _HUGE}
    alone = _quotient(measured, "first_folio_us", small | one, vanilla | one, alike=False)
    yield from promise(SEGMENTS, "one 2 MB folio: latency, of vanilla's", "", alone)
    for size in (_HUGE, PAGE_KIB):
        sized: Wanted = {"folio_kib": size}
        left = _quotient(
            measured,
            _INSTRUCTIONS,
            {"design": "segments"} | sized,
            vanilla | sized,
            alike=False,
        )
        name = f"{size_name(size)}: instructions, of vanilla's"
        yield from promise(SEGMENTS, name, "", left)


def _live(measured: Measured) -> Iterator[Claim]:
    vanilla: Wanted = {"kernel": "vanilla"}
    for channels in (max(plan.SEGMENT_CHANNELS), min(plan.SEGMENT_CHANNELS), 0):
        live: Wanted = {"design": "live", "channels": channels}
        who = f"live, {channels} channels" if channels else "live, by the CPU"
        for size in plan.FOLIO_KIB:
            sized = live | {"folio_kib": size}
            name = f"{who}, {size_name(size)}"
            yield from promise(LIVE, f"{name}: speed", "GB/s", measured.figure("gbps", **sized))
            longest = _inaccessible(measured, "p99", sized)
            yield from promise(LIVE, f"{name}: {_P99}", "us", longest)
            other: Wanted = vanilla | {"folio_kib": size}
            faster = _quotient(measured, "gbps", sized, other, alike=False)
            yield from promise(LIVE, f"{name}: speed, over vanilla's", "times", faster)
            cut = sized | {"design": "segments"}
            cost = _quotient(measured, _INSTRUCTIONS, sized, cut, alike=False)
            yield from promise(LIVE, f"{name}: instructions, of not live", "", cost)
        first = measured.figure("first_folio_us", **live, folio_kib=_HUGE)
        yield from promise(LIVE, f"{who}, 2 MB: first folio", "us", first)


def _kinds(measured: Measured) -> Iterator[Claim]:
    """Yield what is not copied live, with an engine and a bound."""
    for size, bound in product((_HUGE, 64), (plan.BOUND_US, *plan.LOW_BOUNDS_US)):
        shmem: Wanted = {"design": "live", "memory": "shmem", "folio_kib": size,
                         "bound_us": bound}  # fmt: skip
        name, speed = f"shmem, {size_name(size)}", measured.figure("gbps", **shmem)
        if bound != plan.BOUND_US:
            name += f", at most {bound} us"
        yield from promise(KINDS, f"{name}: speed", "GB/s", speed)
        p99 = _inaccessible(measured, "p99", shmem)
        yield from promise(KINDS, f"{name}: {_P99}", "us", p99)
    for size in (64, PAGE_KIB):
        file: Wanted = {"memory": "file", "folio_kib": size}
        waits = _waits(measured, file | {"design": "live"}, file | {"design": "off"})
        name = f"ext4, {size_name(size)}: {_P99}, of vanilla's"
        yield from promise(KINDS, name, "", waits)
    for size in (plan.HUGE_KIB, plan.GIGANTIC_KIB):
        huge: Wanted = {"memory": "hugetlb", "folio_kib": size}
        ours = huge | {"design": "live"}
        time = _quotient(measured, "gbps", huge | {"design": "off"}, ours)
        name = f"hugetlb, {size_name(size)}"
        yield from promise(KINDS, f"{name}: time, of vanilla's", "", time)
        p99 = _inaccessible(measured, "p99", ours)
        yield from promise(KINDS, f"{name}: {_P99}", "us", p99)
    longest = _inaccessible(measured, "max", {"memory": "mixed"})
    name = f"mixed memory, at most {plan.MIXED_BOUND_US} us: longest inaccessible"
    yield from promise(KINDS, name, "us", longest)


def _callers(measured: Measured) -> Iterator[Claim]:
    """Yield what is no system call: CPU time and speed over vanilla's, and huge pages."""
    demotion: dict[str, str] = {"off": "switched off", "live": "with an engine"}
    within = demotion | {"segments": "with an engine, not live"}
    callers: dict[Addresses, dict[str, str]] = {
        "reclaim": demotion,
        "compaction": within,
        "contig": within,
    }
    for addresses, size in product(callers, plan.CALLER_KIB):
        called: Wanted = {"addresses": addresses, "folio_kib": size}
        vanilla = called | {"kernel": "vanilla"}
        for design, word in callers[addresses].items():
            ours = called | {"kernel": "ours", "design": design}
            name = f"{WORKLOAD_NAMES[addresses]}, {size_name(size)}, {word}"
            cost = _quotient(measured, _INSTRUCTIONS, ours, vanilla)
            yield from promise(CALLERS, f"{name}: CPU time, of vanilla's", "", cost)
            faster = _quotient(measured, "gbps", ours, vanilla)
            yield from promise(CALLERS, f"{name}: speed, over vanilla's", "times", faster)
            waits = _waits(measured, ours, vanilla)
            yield from promise(CALLERS, f"{name}: {_P99}, of vanilla's", "", waits)
            if addresses != "reclaim":
                missing, known = (
                    measured.figure("huge_pages_missing", **one) for one in (ours, vanilla)
                )
                more = None if missing is None or known is None else missing - known
                yield from promise(CALLERS, f"{name}: huge pages missed", "", more)


def _inaccessible(measured: Measured, part: str, wanted: Wanted) -> float | None:
    """Return a part of the inaccessible time of a run: NaN if not measured."""
    times = measured.figure("inaccessible_us", **wanted)
    return getattr(times, part, times)


def _waits(measured: Measured, over: Wanted, under: Wanted) -> float | None:
    """Return the 99th percentile of the inaccessible time of one run over another's."""
    first, second = (_inaccessible(measured, "p99", one) for one in (over, under))
    return None if first is None or second is None else first / second


def _quotient(
    measured: Measured, name: str, over: Wanted, under: Wanted, *, alike: bool = True,
    less: float = 0,
) -> float | None:  # fmt: skip
    """Return a figure of one run over that of another, of the same workload.

    Unless both must be `alike`, another workload does if that was not planned. `less` is what
    to leave out of both. NaN if a run was not measured, None if not planned.
    """
    if key := measured.key(**over):
        same = {"total_mib": key.total_mib, "folios_per_call": key.folios_per_call}
        if alike or measured.key(**under | same):
            under = under | same
    first, second = measured.figure(name, **over), measured.figure(name, **under)
    if first is None or second is None:
        return None
    return (first - less) / (second - less) if second != less else math.nan


def copy_instructions(run: Run, dilation: float) -> float:
    """Return the instructions per folio of the copy phase of a run in virtual time, or NaN."""
    if run.phases_us is None or not run.batch_pages:
        return math.nan
    folios = run.batch_pages * PAGE_KIB / run.folio_kib
    return run.phases_us.copy * 1000 * dilation / folios
