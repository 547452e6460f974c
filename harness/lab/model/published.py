"""The published tables in lab/published: other people's figures, never printed as ours.

Whose they are: lab/published/README.md. A GB is 10^9 bytes, times are in microseconds unless
a name says otherwise, and all of it is in the published machine's time.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_type_hints

from harness.core.errors import HarnessError
from harness.core.paths import ROOT

DIRECTORY = ROOT / "lab" / "published"

BASELINE = "baseline-move-pages"
WORKLOAD = "vanilla-workload-sweep"
SWEEP = "batch-sweep"
OFFLOAD = "dma-offload-move-pages"
PREP = "dmaengine-prep"

PAGE_KIB = 4


def order_kib(order: int) -> int:
    """Return the size of a folio of that order in KiB."""
    return PAGE_KIB << order


@dataclass(frozen=True)
class Baseline:
    """move_pages(2) on an unmodified kernel."""

    folio_kib: int
    gbps: float
    sd: float

    @property
    def name(self) -> str:
        """The row's name in results.json."""
        return f"{self.folio_kib} KiB"


@dataclass(frozen=True)
class Workload:
    """The same by how many folios one call moves."""

    order: int
    folios: int
    gbps: float
    first_us: float

    @property
    def name(self) -> str:
        """The row's name in results.json."""
        return f"order {self.order}, {self.folios} folios"


@dataclass(frozen=True)
class Sweep:
    """Offloaded copies by batch limit; one folio is copied by one channel."""

    order: int
    batch_pages: int
    channels: int
    gbps: float
    first_us: float


@dataclass(frozen=True)
class Offload:
    """Offloaded copies by folio size, 1 GB in one batch."""

    channels: int
    folio_kib: int
    gbps: float
    sd: float


@dataclass(frozen=True)
class Prep:
    """Bare dmaengine without any migration, 512 MB for each channel.

    `run_ms` is the time of the whole run; the others are sums over channels.
    """

    mode: str
    channels: int
    folio_kib: int
    batch_sge: int
    run_ms: float
    run_sd: float
    prep_ms: float
    submit_ms: float
    issue_ms: float
    wait_ms: float
    prep_calls: int


@dataclass(frozen=True)
class Published:
    """All published tables that the lab uses."""

    baseline: tuple[Baseline, ...]
    workload: tuple[Workload, ...]
    sweep: tuple[Sweep, ...]
    offload: tuple[Offload, ...]
    prep: tuple[Prep, ...]


Row = TypeVar("Row", Baseline, Workload, Sweep, Offload, Prep)


def load(directory: Path = DIRECTORY) -> Published:
    """Read the tables; HarnessError names the file and line that cannot be read."""
    return Published(
        baseline=_read(Baseline, directory / f"{BASELINE}.csv"),
        workload=_read(Workload, directory / f"{WORKLOAD}.csv"),
        sweep=_read(Sweep, directory / f"{SWEEP}.csv"),
        offload=_read(Offload, directory / f"{OFFLOAD}.csv"),
        prep=_read(Prep, directory / f"{PREP}.csv"),
    )


def _read(row: type[Row], path: Path) -> tuple[Row, ...]:
    columns = get_type_hints(row)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames is None or list(reader.fieldnames) != list(columns):
                raise HarnessError(f"{path}: its columns are not {', '.join(columns)}")
            rows = []
            for item in reader:
                try:
                    values = {name: kind(item[name]) for name, kind in columns.items()}
                    if None in item:
                        raise ValueError("has too many columns")
                except (TypeError, ValueError) as error:
                    raise HarnessError(f"{path}:{reader.line_num}: {error}") from error
                rows.append(row(**values))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    return tuple(rows)
