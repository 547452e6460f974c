"""Figures that lab/goals.toml has goals for: gains over vanilla, cut folios, no cost.

Ratios are those of two runs of the same workload in the same laboratory.
"""

import math
from collections.abc import Iterator
from itertools import product

from harness.lab import plan
from harness.lab.bench import VANILLA_BATCH_PAGES
from harness.lab.judge.claim import Claim, Measured, Promised, Wanted, promises
from harness.lab.model.published import PAGE_KIB
from harness.lab.results import WORKLOAD_NAMES, size_name

OFF, GAIN, WHOLE, SEGMENTS, LIVE, TOUCHED, KINDS, CALLERS = (
    "cost of being there", "gain over vanilla", "stays whole", "folios cut into segments",
    "copied while it is mapped", "copied while it is written", "other kinds of memory", "callers",
)  # fmt: skip

COPY_PAGE = 1553
"""Instructions that copying a page takes, page by page; in a range copied at once 16 fewer."""

_HUGE = plan.FOLIO_KIB[-1]
_INSTRUCTIONS = "instructions_per_folio"
P99 = "inaccessible, 99th percentile"


def claims_of(measured: Measured) -> Iterator[Claim]:
    """Yield every promise that was to be measured."""
    for part in (_without_an_engine, _segments, _live, _touched, _kinds, _callers):
        yield from promises(part(measured))


def _without_an_engine(measured: Measured) -> Iterator[Promised]:
    """Yield what the feature costs and brings where it is off, and where the CPU copies."""
    for size in plan.FOLIO_KIB:
        off: Wanted = {"design": "off", "folio_kib": size}
        ours, vanilla, without = (
            off | {"kernel": kernel} for kernel in ("ours", "vanilla", "without")
        )
        name = size_name(size)
        cost = measured.over(_INSTRUCTIONS, ours, without)
        yield OFF, f"{name}: instructions off over without", "", cost
        for move, word in ((1, "first move"), (2, "moved back")):
            moved: Wanted = {"move": move}
            faster = measured.over("gbps", ours | moved, vanilla | moved)
            yield GAIN, f"{name}: {word}", "times", faster
            split = measured.figure("folios_split", **ours | moved)
            if split is not None and split < 0:  # it could not be seen
                split = math.nan
            yield WHOLE, f"{name}: folios split, {word}", "", split
        for addresses in (kind for kind, those in plan.WORKLOADS.items() if size in those):
            named: Wanted = {"addresses": addresses}
            faster = measured.over("gbps", ours | named, vanilla | named)
            yield GAIN, f"{name}: {WORKLOAD_NAMES[addresses]}, first move", "times", faster
        if size in (64, 1024):
            rest = measured.over(_INSTRUCTIONS, ours, vanilla, less=COPY_PAGE * size / PAGE_KIB)
            yield GAIN, f"{name}: instructions outside a counted copy, of vanilla's", "", rest


def _segments(measured: Measured) -> Iterator[Promised]:
    cut: Wanted = {"design": "segments", "channels": 16, "folio_kib": _HUGE}
    small = cut | {"batch_pages": VANILLA_BATCH_PAGES}
    for channels in reversed(plan.SEGMENT_CHANNELS):
        name, wanted = f"{channels} channels, 2 MB, 512 pages", small | {"channels": channels}
        yield (SEGMENTS, f"{name}: first folio", "us", measured.figure("first_folio_us", **wanted))
        yield SEGMENTS, f"{name}: speed", "GB/s", measured.figure("gbps", **wanted)
    for size in (64, 1024):
        large = cut | {"folio_kib": size, "batch_pages": plan.SIZE_BATCH_PAGES}
        name, speed = f"16 channels, {size_name(size)}: speed", measured.figure("gbps", **large)
        yield SEGMENTS, name, "GB/s", speed
    vanilla: Wanted = {"kernel": "vanilla", "folio_kib": _HUGE}
    page: Wanted = {"folio_kib": PAGE_KIB}
    faster = measured.over("gbps", cut | page, vanilla | page, alike=False)
    yield SEGMENTS, "16 channels, 4 KB: speed, over vanilla's", "times", faster
    single: Wanted = {"folios_per_call": 1}
    alone = measured.over("first_folio_us", small | single, vanilla | single, alike=False)
    yield SEGMENTS, "one 2 MB folio: latency, of vanilla's", "", alone
    for size in (_HUGE, PAGE_KIB):
        sized: Wanted = {"folio_kib": size}
        ours = {"design": "segments"} | sized
        left = measured.over(_INSTRUCTIONS, ours, vanilla | sized, alike=False)
        yield SEGMENTS, f"{size_name(size)}: instructions, of vanilla's", "", left


def _live(measured: Measured) -> Iterator[Promised]:
    for channels, bound in ((16, plan.BOUND_US), (16, 0), (4, 0), (0, 0)):
        live: Wanted = {"design": "live", "channels": channels, "bound_us": bound}
        who = f"live, {channels} channels" if channels else "live, by the CPU"
        who = who.replace("live", "by default") if bound else who
        for size in plan.FOLIO_KIB:
            sized = live | {"folio_kib": size}
            name = f"{who}, {size_name(size)}"
            yield LIVE, f"{name}: {P99}", "us", measured.inaccessible("p99", **sized)
            if channels:  # virtual time does not know how fast the CPU copies
                vanilla: Wanted = {"kernel": "vanilla", "folio_kib": size}
                faster = measured.over("gbps", sized, vanilla, alike=False)
                yield LIVE, f"{name}: speed", "GB/s", measured.figure("gbps", **sized)
                yield LIVE, f"{name}: speed, over vanilla's", "times", faster
            cut = sized | {"design": "segments"}
            cost = measured.over(_INSTRUCTIONS, sized, cut, alike=False)
            yield LIVE, f"{name}: instructions, of not live", "", cost
        first = measured.figure("first_folio_us", **live, folio_kib=_HUGE)
        yield LIVE, f"{who}, 2 MB: first folio", "us", first


_WRITTEN: tuple[tuple[str, Wanted, tuple[int, ...], tuple[int, ...]], ...] = (
    ("", {}, plan.WRITES_PER_MS, plan.TOUCHED_KIB),
    ("Zipf, ", {"zipf": True}, plan.ZIPF_PER_MS, plan.ZIPF_KIB),
    ("8 processors, ", {"readers": plan.MANY_READERS}, plan.WRITES_PER_MS, plan.TOUCHED_KIB),
)
"""Names of what is written, with the fields that its runs have, rates, and sizes."""


def _touched(measured: Measured) -> Iterator[Promised]:
    """Yield memory that is written meanwhile, against what copies it not live, or does nothing."""
    for (kind, fields, rates, sizes), channels in product(_WRITTEN, (16, 0)):
        who, others = (
            ("engine", (("segments", "ours", "not live"),)) if channels else
            ("no engine", (("off", "ours", "switched off"), ("off", "vanilla", "vanilla")))
        )  # fmt: skip
        for rate, size in product(rates, sizes):
            live: Wanted = fields | {"design": "live", "channels": channels, "kernel": "ours",
                                     "folio_kib": size, "writes_per_ms": rate}  # fmt: skip
            name = f"{kind}{who}, {size_name(size)}, {rate:,} pages a ms"
            if channels:
                yield TOUCHED, f"{name}: speed", "GB/s", measured.figure("gbps", **live)
            yield TOUCHED, f"{name}: {P99}", "us", measured.inaccessible("p99", **live)
            for design, kernel, word in others:
                rest = live | {"design": design, "kernel": kernel}
                faster, waits = measured.over("gbps", live, rest), measured.waits(live, rest)
                yield TOUCHED, f"{name}: speed, over {word}", "times", faster
                yield TOUCHED, f"{name}: {P99}, of {word}", "", waits


def _kinds(measured: Measured) -> Iterator[Promised]:
    """Yield what is not copied live, with an engine and a bound."""
    for size, bound in product((_HUGE, 64), (plan.BOUND_US, plan.LOW_BOUND_US)):
        shmem: Wanted = {"design": "live", "memory": "shmem", "folio_kib": size,
                         "bound_us": bound}  # fmt: skip
        name = f"shmem, {size_name(size)}"
        if bound != plan.BOUND_US:
            name += f", at most {bound} us"
        yield KINDS, f"{name}: speed", "GB/s", measured.figure("gbps", **shmem)
        yield KINDS, f"{name}: {P99}", "us", measured.inaccessible("p99", **shmem)
    for size in (64, PAGE_KIB):
        file: Wanted = {"memory": "file", "folio_kib": size}
        waits = measured.waits(file | {"design": "live"}, file | {"design": "off"})
        yield KINDS, f"ext4, {size_name(size)}: {P99}, of vanilla's", "", waits
    for size in (plan.HUGE_KIB, plan.GIGANTIC_KIB):
        huge: Wanted = {"memory": "hugetlb", "folio_kib": size}
        ours, name = huge | {"design": "live"}, f"hugetlb, {size_name(size)}"
        time = measured.over("gbps", huge | {"design": "off"}, ours)
        yield KINDS, f"{name}: time, of vanilla's", "", time
        median = measured.inaccessible("p50", **ours)  # of few folios, p99 is the longest
        yield KINDS, f"{name}: inaccessible, median", "us", median
    name = "mixed memory: longest inaccessible"
    yield KINDS, name, "us", measured.inaccessible("max", memory="mixed")


def _callers(measured: Measured) -> Iterator[Promised]:
    """Yield what is no system call: CPU time and speed over vanilla's, and huge pages."""
    for addresses, size in product((*plan.BY_KERNEL, "fault"), plan.CALLER_KIB):
        called: Wanted = {"addresses": addresses, "folio_kib": size}
        vanilla = called | {"kernel": "vanilla"}
        for design, word in (("off", "switched off"), ("live", "with an engine")):
            ours = called | {"kernel": "ours", "design": design}
            name = f"{WORKLOAD_NAMES[addresses]}, {size_name(size)}, {word}"
            cost = measured.over(_INSTRUCTIONS, ours, vanilla)
            yield CALLERS, f"{name}: CPU time, of vanilla's", "", cost
            faster = measured.over("gbps", ours, vanilla)
            yield CALLERS, f"{name}: speed, over vanilla's", "times", faster
            waits = measured.waits(ours, vanilla)
            yield CALLERS, f"{name}: {P99}, of vanilla's", "", waits
            if addresses not in ("reclaim", "fault"):
                missing, known = (
                    measured.figure("huge_pages_missing", **side) for side in (ours, vanilla)
                )
                more = None if missing is None or known is None else missing - known
                yield CALLERS, f"{name}: huge pages missed", "", more
