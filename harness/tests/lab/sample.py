"""Made-up results for tests of the lab's report: published figures, a little off."""

from dataclasses import replace
from typing import Any

from harness.lab.model import calibration, published
from harness.lab.results import (
    Calibration,
    Engine,
    Inaccessible,
    Phases,
    Results,
    Run,
)

PUBLISHED = published.load()
MODEL = Engine("zen3-ptdma", is_model=True, source="made up for a test")
OFF_BY = 1.05
DILATION = 4.75
BULK = Phases(20.0, 2.0, 150.0, 15.0)


def run(**changes: Any) -> Run:
    """Return a valid run: 2 MB folios, first move, 16 channels, changed as wanted."""
    fields: dict[str, Any] = {
        "kernel": "ours",
        "design": "batch",
        "engine": MODEL.preset,
        "channels": 16,
        "folio_kib": 2048,
        "batch_pages": 8192,
        "move": 1,
        "gbps": 60.0,
        "first_folio_us": 480.0,
        "inaccessible_us": Inaccessible(470.0, 500.0, 510.0),
        "instructions_per_folio": 25000.0,
        "phases_us": Phases(20.0, 2.0, 450.0, 15.0),
        "total_mib": 1024,
        "folios_per_call": 512,
        "folios_failed": 0,
        "folios_split": 0,
    }
    return Run(**{**fields, **changes})


def by_cpu(kernel: str, design: str, **changes: Any) -> Run:
    """Return a valid run in which the CPU copies."""
    fields = {"engine": None, "channels": 0, "batch_pages": 512}
    return run(kernel=kernel, design=design, **{**fields, **changes})


def instructions(folio_kib: int) -> float:
    """Return what a folio of that size costs."""
    return 1000.0 + 10 * folio_kib


def vanilla_runs() -> list[Run]:
    """Return a run for each row of both vanilla tables."""
    baseline = [
        by_cpu("vanilla", "off", folio_kib=row.folio_kib, gbps=row.gbps * OFF_BY,
               instructions_per_folio=instructions(row.folio_kib),
               first_folio_us=None, inaccessible_us=None, phases_us=None, total_mib=384,
               folios_per_call=384 * 1024 // row.folio_kib)
        for row in PUBLISHED.baseline
    ]  # fmt: skip
    return baseline + [
        by_cpu("vanilla", "off", folio_kib=published.order_kib(row.order),
               gbps=row.gbps * OFF_BY, first_folio_us=row.first_us * OFF_BY,
               folios_per_call=row.folios,
               total_mib=row.folios * published.order_kib(row.order) / 1024)
        for row in PUBLISHED.workload
    ]  # fmt: skip


def sweep_runs() -> list[Run]:
    """Return a run for each row of the batch sweep."""
    return [
        run(folio_kib=published.order_kib(row.order), batch_pages=row.batch_pages,
            channels=row.channels, gbps=row.gbps * OFF_BY,
            first_folio_us=row.first_us / OFF_BY)
        for row in PUBLISHED.sweep
    ]  # fmt: skip


def size_runs() -> list[Run]:
    """Return runs of all sizes and configurations, to and fro."""
    runs = []
    for row in PUBLISHED.baseline:
        size = {
            "folio_kib": row.folio_kib,
            "total_mib": 384,
            "folios_per_call": 384 * 1024 // row.folio_kib,
            "first_folio_us": None,
            "instructions_per_folio": instructions(row.folio_kib),
        }
        for move in (1, 2):
            back = {"move": move, "folios_split": (move == 2) * 64}
            speed = row.gbps / move
            runs += [
                by_cpu("ours", "off", gbps=speed * 1.03, phases_us=None, **back, **size),
                by_cpu("ours", "cpu", gbps=speed * 0.98, **back, **size),
                by_cpu("ours", "bulk", gbps=speed, phases_us=BULK, **back, **size),
            ]
    for offload in PUBLISHED.offload:
        runs += [
            run(folio_kib=offload.folio_kib, channels=offload.channels, batch_pages=512,
                gbps=offload.gbps * OFF_BY, total_mib=384, move=move,
                folios_per_call=384 * 1024 // offload.folio_kib)
            for move in (1, 2)
        ]  # fmt: skip
    return runs


def without_runs() -> list[Run]:
    """Return our kernel with the feature compiled out: speeds that no other run has."""
    return [
        by_cpu("without", "off", folio_kib=row.folio_kib, gbps=123.0, move=move,
               instructions_per_folio=instructions(row.folio_kib), first_folio_us=7.0,
               phases_us=Phases(1.0, 2.0, 3.0, 4.0), total_mib=384, folios_split=7,
               folios_per_call=384 * 1024 // row.folio_kib)
        for row in PUBLISHED.baseline
        for move in (1, 2)
    ]  # fmt: skip


def segment_runs() -> list[Run]:
    """Return runs in which folios are cut, with a small batch."""
    return [
        run(design="segments", batch_pages=512, channels=channels, first_folio_us=50.0)
        for channels in (4, 16)
    ]


def results(**changes: Any) -> Results:
    """Return complete results of the lab, changed as wanted."""
    vanilla = vanilla_runs()
    baseline, workload = vanilla[: len(PUBLISHED.baseline)], vanilla[len(PUBLISHED.baseline) :]
    rows = calibration.baseline_rows(baseline, PUBLISHED)
    rows += calibration.workload_rows(workload, PUBLISHED)
    whole = Results(
        calibration=Calibration(DILATION, calibration.LIMIT, tuple(rows)),
        engine=MODEL,
        runs=(
            *baseline,
            *workload,
            *size_runs(),
            *without_runs(),
            *sweep_runs(),
            *segment_runs(),
        ),
        notes=("made up for a test",),
        quick=False,
        kernel_release="7.3.4-lab",
        qemu="QEMU 7.2",
    )
    return replace(whole, **changes)


def real_results(**changes: Any) -> Results:
    """Return results of a real machine."""
    engine = Engine("idxd", is_model=False, source="a real machine")
    runs = (
        by_cpu("vanilla", "off", instructions_per_folio=None),
        by_cpu("ours", "off", instructions_per_folio=None),
        run(engine="idxd", channels=None, batch_pages=None, instructions_per_folio=None),
    )
    whole = Results(None, engine, runs, ("by hand",), False, "7.3.4", None)
    return replace(whole, **changes)
