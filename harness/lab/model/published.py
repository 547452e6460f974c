"""The published tables in lab/published: other people's figures, never printed as ours.

Whose they are: lab/published/README.md. A GB is 10^9 bytes, times are in microseconds unless
a name says otherwise, and all of it is in the published machine's time.
"""

import csv
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from harness.core.errors import HarnessError
from harness.core.paths import ROOT

DIRECTORY = ROOT / "lab" / "published"

BASELINE = "baseline-move-pages"
WORKLOAD = "vanilla-workload-sweep"
SWEEP = "batch-sweep"
OFFLOAD = "dma-offload-move-pages"

PAGE_KIB = 4


def order_kib(order: int) -> int:
    """Return the size of a folio of that order in KiB."""
    return PAGE_KIB << order


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a table; its fields are the columns."""


class Baseline(_Row, frozen=True):
    """move_pages(2) on an unmodified kernel."""

    folio_kib: int
    gbps: float
    sd: float

    @property
    def name(self) -> str:
        """The row's name in results.json."""
        return f"{self.folio_kib} KiB"


class Workload(_Row, frozen=True):
    """The same by how many folios one call moves."""

    order: int
    folios: int
    gbps: float
    first_us: float

    @property
    def name(self) -> str:
        """The row's name in results.json."""
        return f"order {self.order}, {self.folios} folios"


class Sweep(_Row, frozen=True):
    """Offloaded copies by batch limit; one folio is copied by one channel."""

    order: int
    batch_pages: int
    channels: int
    gbps: float
    first_us: float


class Offload(_Row, frozen=True):
    """Offloaded copies by folio size, 1 GB in one batch."""

    channels: int
    folio_kib: int
    gbps: float
    sd: float


class Published(Struct, frozen=True):
    """All published tables that the lab uses."""

    baseline: tuple[Baseline, ...]
    workload: tuple[Workload, ...]
    sweep: tuple[Sweep, ...]
    offload: tuple[Offload, ...]


Row = TypeVar("Row", bound=_Row)


def load(directory: Path = DIRECTORY) -> Published:
    """Read the tables; HarnessError names the file and line that cannot be read."""
    return Published(
        baseline=_read(Baseline, directory / f"{BASELINE}.csv"),
        workload=_read(Workload, directory / f"{WORKLOAD}.csv"),
        sweep=_read(Sweep, directory / f"{SWEEP}.csv"),
        offload=_read(Offload, directory / f"{OFFLOAD}.csv"),
    )


def _read(row: type[Row], path: Path) -> tuple[Row, ...]:
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, item in enumerate(csv.DictReader(file, restkey="too many"), start=2):
                try:
                    rows.append(msgspec.convert(item, row, strict=False))
                except msgspec.ValidationError as error:
                    raise HarnessError(f"{path}:{number}: {error}") from error
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    if not rows:
        raise HarnessError(f"{path}: has no rows")
    return tuple(rows)
