"""What the laboratory measures: which guests boot, and what each of them runs.

A boot has a kernel, perhaps an engine, and measurements one after the other; the first of
each size warms up the guest's allocator and is dropped by the benchmark itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.lab.bench import VANILLA_BATCH_PAGES
from harness.lab.model.published import PAGE_KIB, Published, order_kib
from harness.lab.results import ENGINE_DESIGNS, Design, Kernel, Key, Setting

VANILLA, TRACED = "lab-vanilla", "lab-traced"
OURS, WITHOUT = "lab", "lab-without"
"""Kernel configurations: nothing of ours, only the tracepoints and probes; everything of ours,
and the same with the feature compiled out.
"""

KERNEL: dict[str, Kernel] = {
    VANILLA: "vanilla",
    TRACED: "vanilla",
    OURS: "ours",
    WITHOUT: "without",
}
"""What results call the kernel of a configuration."""

FOLIO_KIB = (4, 16, 64, 256, 1024, 2048)
CHANNELS = (1, 2, 4, 8, 12, 16)
SEGMENT_CHANNELS = (4, 16)

# By folio size the published work does not say which batch it used; its sweep is flat from
# here on.
SIZE_BATCH_PAGES = 16384

# What is compared to a fraction of a per cent: a timer tick more or less is as much.
_REPEAT = 5

_MIB = 64
_QUICK_MIB = 16
# Measurements of so many pages take long.
_LARGE_PAGES = 32768

QUICK_FOLIO_KIB = (4, 64, 2048)
QUICK_CHANNELS = (16,)
QUICK_SWEEP = ((0, 512), (0, 8192), (9, 512), (9, 2048), (9, 8192))
_QUICK_WORKLOAD = ((0, 2048), (9, 1), (9, 256))


@dataclass(frozen=True)
class Measurement:
    """One call of the benchmark; `channels` is 0 where no engine copies."""

    design: Design
    channels: int
    folio_kib: tuple[int, ...]
    mib: int
    batch_pages: int = VANILLA_BATCH_PAGES
    folios_per_call: int = 0
    moves: int = 2
    warmup: int = 1
    repeat: int = 1
    instrument: str = "auto"

    def line(self, name: str) -> str:
        """Return the line of lab.plan."""
        sizes = ",".join(map(str, self.folio_kib))
        return (
            f"measure {name} {self.design} {self.batch_pages} --folio-kib={sizes} "
            f"--mib={self.mib} --folios-per-call={self.folios_per_call} --moves={self.moves} "
            f"--warmup={self.warmup} --repeat={self.repeat} --instrument={self.instrument}"
        )


@dataclass(frozen=True)
class Boot:
    """One guest; `channels` is the number of its engine's, or 0 for no engine."""

    name: str
    config: str
    channels: int
    measurements: tuple[Measurement, ...]

    def plan(self, engine: str) -> str:
        """Return lab.plan; `engine` are dmasim's parameters."""
        lines = [f"engine {engine}"] if self.channels else []
        lines += [one.line(str(number)) for number, one in enumerate(self.measurements)]
        return "\n".join(lines) + "\n"

    def setting(self, one: Measurement, engine: str) -> Setting:
        """Return what the benchmark cannot know of a measurement; `engine` is a preset."""
        return Setting(
            kernel=KERNEL[self.config],
            design=one.design,
            engine=engine if one.design in ENGINE_DESIGNS else None,
            channels=one.channels,
            batch_pages=one.batch_pages,
        )

    def keys(self, engine: str) -> list[Key]:
        """Return the key of each run that this guest is to measure."""
        return [
            Key(
                **{name: getattr(setting, name) for name in Setting.__struct_fields__},
                folio_kib=kib,
                move=move,
                total_mib=one.mib,
                folios_per_call=one.folios_per_call or one.mib * 1024 // kib,
            )
            for one in self.measurements
            for setting in (self.setting(one, engine),)
            for kib in one.folio_kib
            for move in ((1, 2) if one.moves == 2 else (1,))
        ]


def keys(published: Published, quick: bool, preset: str) -> list[Key]:
    """Return the key of each run that results must have."""
    boots = [
        *vanilla(published, quick),
        *ours(quick),
        *engine(published, quick),
        *segments(quick),
    ]
    # Traced kernels add latencies to the runs of vanilla ones. And some of the workloads are
    # the same measurement as a row of the baseline.
    every = (key for boot in boots if boot.config != TRACED for key in boot.keys(preset))
    return list({key.name: key for key in every}.values())


def vanilla(published: Published, quick: bool) -> list[Boot]:
    """Return what the calibration needs: speeds, and the same with the instrument on."""
    mib = _QUICK_MIB if quick else _MIB
    sizes = [Measurement("off", 0, FOLIO_KIB, mib, repeat=_REPEAT, instrument="off")]
    rows = [
        Measurement(
            "off", 0, (kib,), max(mib, kib * row.folios // 1024),
            folios_per_call=row.folios, moves=1, instrument="off",
        )
        for row in published.workload
        if not quick or (row.order, row.folios) in _QUICK_WORKLOAD
        for kib in (order_kib(row.order),)
    ]  # fmt: skip
    found = []
    for name, part in (("sizes", sizes), ("calls", rows)):
        traced = tuple(replace(one, instrument="only") for one in part)
        found.append(Boot(f"vanilla-{name}", VANILLA, 0, tuple(part)))
        found.append(Boot(f"traced-{name}", TRACED, 0, traced))
    return found


def ours(quick: bool) -> list[Boot]:
    """Return our kernel without an engine: switched off, and with copies by the CPU.

    The CPU copies page by page, and again by the primitive that the calibration chose. What
    is switched off is measured again where it is compiled out.
    """
    mib = _QUICK_MIB if quick else _MIB
    sizes = QUICK_FOLIO_KIB if quick else FOLIO_KIB
    rows: tuple[tuple[str, str, Design], ...] = (
        ("ours-off", OURS, "off"),
        ("without-off", WITHOUT, "off"),
        ("ours-cpu", OURS, "cpu"),
        ("ours-bulk", OURS, "bulk"),
    )
    return [
        Boot(name, config, 0, (Measurement(design, 0, sizes, mib, repeat=_REPEAT),))
        for name, config, design in rows
    ]


def segments(quick: bool) -> list[Boot]:
    """Return what dcbm does beyond the published design: folios cut, one descriptor a list.

    With batches as small as vanilla's, with a single folio at a time, and by folio size.
    """
    sizes = QUICK_FOLIO_KIB if quick else FOLIO_KIB
    boots = []
    for channels in SEGMENT_CHANNELS:
        small = Measurement("segments", channels, FOLIO_KIB[-1:], _MIB, moves=1)
        part = [small, replace(small, folios_per_call=1)]
        if channels == max(SEGMENT_CHANNELS):
            part.append(replace(small, folio_kib=sizes, batch_pages=SIZE_BATCH_PAGES))
        boots.append(Boot(f"segments-{channels:02d}", OURS, channels, tuple(part)))
    return boots


def engine(published: Published, quick: bool) -> list[Boot]:
    """Return everything that an engine copies: by folio size, and the batch sweep."""
    sizes = QUICK_FOLIO_KIB if quick else FOLIO_KIB
    by_channels: dict[int, list[Measurement]] = {
        channels: [
            Measurement("batch", channels, sizes, _mib(SIZE_BATCH_PAGES), SIZE_BATCH_PAGES)
        ]
        for channels in (QUICK_CHANNELS if quick else CHANNELS)
    }
    for row in published.sweep:
        kib = order_kib(row.order)
        wanted = not quick or (
            row.channels in QUICK_CHANNELS and (row.order, row.batch_pages) in QUICK_SWEEP
        )
        measured = row.batch_pages == SIZE_BATCH_PAGES and kib in sizes
        if wanted and not measured:
            by_channels.setdefault(row.channels, []).append(
                Measurement(
                    "batch", row.channels, (kib,), _mib(row.batch_pages), row.batch_pages,
                    moves=1,
                )
            )  # fmt: skip
    return [
        Boot(f"engine-{channels:02d}-{kind}", OURS, channels, tuple(part))
        for channels, measurements in by_channels.items()
        for kind, part in _halves(measurements)
        if part
    ]


def _halves(
    measurements: Sequence[Measurement],
) -> list[tuple[str, list[Measurement]]]:
    """Divide what takes long from the rest, so that guests can share the processors."""
    return [
        ("small", [one for one in measurements if one.batch_pages < _LARGE_PAGES]),
        ("large", [one for one in measurements if one.batch_pages >= _LARGE_PAGES]),
    ]


def _mib(batch_pages: int) -> int:
    """Return how much to move: at least one whole batch."""
    return max(_MIB, batch_pages * PAGE_KIB // 1024)
