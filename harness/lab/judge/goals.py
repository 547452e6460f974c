"""What this project promises of its own: gains over vanilla, speeds of cut folios, no cost.

Ratios are those of two runs of the same workload in the same laboratory.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

from harness.lab.bench import VANILLA_BATCH_PAGES
from harness.lab.judge.claim import Claim, Measured, UnplannedError, ratio, size_name
from harness.lab.model import preset
from harness.lab.model.published import PAGE_KIB
from harness.lab.plan import FOLIO_KIB, SIZE_BATCH_PAGES
from harness.lab.results import Results, Run

OFF_GROUP, GAIN_GROUP, WHOLE_GROUP, SEGMENT_GROUP = (
    "cost of being there", "gain over vanilla", "stays whole", "folios cut into segments",
)  # fmt: skip

FIRST = {4: 1.1, 16: 1.3, 64: 1.5, 256: 1.6, 1024: 1.65}
"""Throughput of first moves over vanilla's, at least, by folio size in KiB."""

BACK = {16: 2.5, 64: 3.5, 256: 4.0, 1024: 4.3}
"""The same on the way back, where vanilla has split all that is less than a PMD."""

OUTSIDE = {64: 0.30, 1024: 0.12}
"""Instructions outside a counted copy over vanilla's, at most."""

COPY_PAGE = 1553
"""Instructions that copying a page takes, page by page: executed ones, counted by function.

The copy phase of a batch takes more: it has reporting, probes and interrupts in it.
"""

OFF = 1.003
"""Instructions of ours switched off over those with the feature compiled out, at most."""

_NO_PIPELINE = (
    "the processor unmaps a batch, waits for the engine and remaps it: neither works while the "
    "other does. That is left to a pipeline"
)
_COPY_PHASE = (
    "the goal was set when the whole copy phase was subtracted, with reporting, probes and "
    "interrupts in it; that flattered the ratio"
)
_HUGE = FOLIO_KIB[-1]

Value = Callable[[], float | None]


def claims_of(results: Results, measured: Measured) -> Iterator[Claim]:
    """Yield every promise that was to be measured."""
    yield from _costs(measured)
    yield from _gains(measured, results.calibration.dilation if results.calibration else None)
    yield from _segments(results, measured)


def _claim(
    group: str, what: str, unit: str, value: Value, *,
    least: float = -math.inf, most: float = math.inf, more: bool = False, cause: str = "",
) -> Iterator[Claim]:  # fmt: skip
    """Yield a claim, or nothing if its runs are not planned; more is better with `least`."""
    try:
        more = more or least > -math.inf
        yield Claim(group, what, unit, value(), more, least, most, cause=cause)
    except UnplannedError:
        return


def _costs(measured: Measured) -> Iterator[Claim]:
    for size in FOLIO_KIB:
        value = partial(
            _quotient, measured, "instructions_per_folio",
            {"kernel": "ours", "design": "off", "folio_kib": size}, {"kernel": "without"},
        )  # fmt: skip
        what = f"{size_name(size)}: instructions off over without"
        yield from _claim(OFF_GROUP, what, "", value, most=OFF)


def _gains(measured: Measured, dilation: float | None) -> Iterator[Claim]:
    for size in FOLIO_KIB:
        name = size_name(size)
        for move, word, table in ((1, "first move", FIRST), (2, "moved back", BACK)):
            ours = {"kernel": "ours", "design": "off", "folio_kib": size, "move": move}
            faster = partial(_quotient, measured, "gbps", ours, {"kernel": "vanilla"})
            yield from _claim(
                GAIN_GROUP, f"{name}: {word}", "times", faster,
                least=table.get(size, -math.inf), more=True,
            )  # fmt: skip
            split = partial(_split, measured, ours)
            yield from _claim(WHOLE_GROUP, f"{name}: folios split, {word}", "", split, most=0)
        if size in OUTSIDE:
            outside = partial(_outside, measured, size, _counted_copy)
            yield from _claim(
                GAIN_GROUP, f"{name}: instructions outside a counted copy, of vanilla's", "",
                outside, most=OUTSIDE[size], cause=_COPY_PHASE,
            )  # fmt: skip
        if size in OUTSIDE and dilation:
            phase = partial(
                _outside, measured, size, partial(copy_instructions, dilation=dilation)
            )
            yield from _claim(
                GAIN_GROUP, f"{name}: instructions outside the copy phase, of vanilla's", "",
                phase,
            )  # fmt: skip


def _segments(results: Results, measured: Measured) -> Iterator[Claim]:
    def small(channels: int, **more: object) -> dict[str, object]:
        return {"design": "segments", "channels": channels, "folio_kib": _HUGE,
                "batch_pages": VANILLA_BATCH_PAGES, **more}  # fmt: skip

    claim = partial(_claim, SEGMENT_GROUP)
    for channels, latency in ((16, 40), (4, 100)):
        name = f"{channels} channels, 2 MB, 512 pages"
        speed = partial(measured.figure, "gbps", **small(channels))
        first = partial(measured.figure, "first_folio_us", **small(channels))
        yield from claim(f"{name}: first folio", "us", first, most=latency)
        limit = engine_gbps(results, channels)
        if channels == 16:
            yield from claim(f"{name}: speed", "GB/s", speed, least=58, cause=_NO_PIPELINE)
        elif limit:
            yield from claim(f"{name}: speed", "GB/s", speed, least=0.85 * limit)
    for size, goal in ((64, 30), (1024, 50)):
        speed = partial(measured.figure, "gbps", design="segments", channels=16, folio_kib=size,
                        batch_pages=SIZE_BATCH_PAGES)  # fmt: skip
        yield from claim(f"16 channels, {size_name(size)}: speed", "GB/s", speed, least=goal,
                         cause=_NO_PIPELINE)  # fmt: skip
    alone = partial(
        _quotient, measured, "first_folio_us", small(16, folios_per_call=1),
        {"kernel": "vanilla", "folio_kib": _HUGE, "folios_per_call": 1}, alike=False,
    )  # fmt: skip
    yield from claim("one 2 MB folio: latency, of vanilla's", "", alone, most=0.35)
    for size, share in ((_HUGE, 0.05), (PAGE_KIB, 0.80)):
        left = partial(
            _quotient, measured, "instructions_per_folio",
            {"design": "segments", "folio_kib": size}, {"kernel": "vanilla", "folio_kib": size},
            alike=False,
        )  # fmt: skip
        yield from claim(f"{size_name(size)}: instructions, of vanilla's", "", left, most=share)


def _quotient(
    measured: Measured, name: str, over: dict[str, object], under: dict[str, object],
    alike: bool = True,
) -> float | None:  # fmt: skip
    """Return a figure of one run over that of another, of the same workload if `alike`."""
    if alike:
        key = measured.key(**over)
        under = {**over, "total_mib": key.total_mib, "folios_per_call": key.folios_per_call,
                 **under}  # fmt: skip
    return ratio(measured.figure(name, **over), measured.figure(name, **under))


def _split(measured: Measured, ours: dict[str, object]) -> float | None:
    count = measured.figure("folios_split", **ours)
    return None if count is None or count < 0 else count


def _outside(
    measured: Measured, size: int, copy_of: Callable[[Run], float | None]
) -> float | None:
    """Return instructions outside the copy, ours over vanilla's, of a first move.

    `copy_of` returns the instructions of the copy, given a run in which the CPU copied page
    by page.
    """
    key = measured.key(kernel="ours", design="off", folio_kib=size)
    own, theirs = (
        measured.figure(
            "instructions_per_folio", kernel=kernel, design="off", folio_kib=size,
            total_mib=key.total_mib, folios_per_call=key.folios_per_call,
        )
        for kernel in ("ours", "vanilla")
    )  # fmt: skip
    run = measured.run(design="cpu", folio_kib=size)
    copy = copy_of(run) if run else None
    if copy is None or own is None or theirs is None:
        return None
    return ratio(own - copy, theirs - copy)


def _counted_copy(run: Run) -> float:
    return COPY_PAGE * run.folio_kib / PAGE_KIB


def copy_instructions(run: Run, dilation: float) -> float | None:
    """Return the instructions per folio of the copy phase of a run in virtual time."""
    if run.phases_us is None or not run.batch_pages:
        return None
    folios = run.batch_pages * PAGE_KIB / run.folio_kib
    return run.phases_us.copy * 1000 * dilation / folios


def engine_gbps(results: Results, channels: int) -> float | None:
    """Return what so many channels of the modelled engine move; None if it is no preset."""
    if not results.engine or results.engine.preset not in preset.names():
        return None
    return preset.load(results.engine.preset).total_mbps(channels) / 1000
