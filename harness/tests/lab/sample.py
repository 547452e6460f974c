"""Results for tests: those that are recorded in the tree, and runs made up by hand."""

from typing import Any

from msgspec import structs

from harness.lab.judge import claims
from harness.lab.results import Engine, Inaccessible, Phases, Results, Run

MODEL = Engine(preset="zen3-ptdma", is_model=True, source="made up for a test")
QUICK = claims.recorded(quick=True)
FULL = claims.recorded(quick=False)


def run(**changes: Any) -> Run:
    """Return a valid run: 2 MB folios, first move, 16 channels, changed as wanted."""
    fields: dict[str, Any] = {
        "kernel": "ours", "design": "batch", "engine": MODEL.preset, "channels": 16,
        "folio_kib": 2048, "batch_pages": 8192, "move": 1, "gbps": 60.0, "first_folio_us": 480.0,
        "inaccessible_us": Inaccessible(p50=470.0, p99=500.0, max=510.0),
        "instructions_per_folio": 25000.0,
        "phases_us": Phases(unmap=20.0, flush=2.0, copy=450.0, move=15.0),
        "total_mib": 1024, "folios_per_call": 512, "folios_failed": 0, "folios_split": 0,
        "latency_lost": 0,
    }  # fmt: skip
    return Run(**{**fields, **changes})


def by_cpu(kernel: str, design: str, **changes: Any) -> Run:
    """Return a valid run in which the CPU copies."""
    fields = {"engine": None, "channels": 0, "batch_pages": 512}
    return run(kernel=kernel, design=design, **{**fields, **changes})


def results(*runs: Run, **changes: Any) -> Results:
    """Return results of the lab with these runs alone, changed as wanted."""
    return structs.replace(FULL, engine=MODEL, runs=runs, **changes)


def real_results(**changes: Any) -> Results:
    """Return results of a real machine: two numbers of channels, two batches."""
    runs = [
        by_cpu("vanilla", "off", instructions_per_folio=None),
        by_cpu("ours", "off", instructions_per_folio=None),
        by_cpu("ours", "threads", channels=4, instructions_per_folio=None),
        *(
            run(engine="idxd", design="segments", channels=channels, batch_pages=pages,
                gbps=channels * pages / 1000, instructions_per_folio=None)
            for channels in (4, 8)
            for pages in (512, 2048)
        ),
    ]  # fmt: skip
    whole = Results(
        calibration=None, engine=Engine(preset="idxd", is_model=False, source="a real machine"),
        runs=tuple(runs), notes=("by hand",), quick=False, kernel_release="7.3.4", qemu=None,
        compiler=None,
    )  # fmt: skip
    return structs.replace(whole, **changes)
