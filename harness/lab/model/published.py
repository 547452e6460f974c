"""The published tables in lab/published: other people's figures, never printed as ours.

Whose they are: lab/published/README.md. A GB is 10^9 bytes, times are in microseconds unless
a name says otherwise, and all of it is in the published machine's time.
"""

import csv
from functools import cache

import msgspec
from msgspec import Struct

from harness.core.paths import ROOT
from harness.lab.results import size_name

DIRECTORY = ROOT / "lab" / "published"

BASELINE = "baseline-move-pages"
"""move_pages(2) on an unmodified kernel, by folio size."""
WORKLOAD = "vanilla-workload-sweep"
"""The same by how many folios one call moves."""
SWEEP = "batch-sweep"
"""Offloaded copies by batch limit; one folio is copied by one channel."""
OFFLOAD = "dma-offload-move-pages"
"""Offloaded copies by folio size, 1 GB in one batch."""

PAGE_KIB = 4


class Row(Struct, frozen=True):
    """A row of a table; 0 is what the table has no column for."""

    table: str
    gbps: float
    folio_kib: int
    first_us: float = 0
    folios: int = 0
    batch_pages: int = 0
    channels: int = 0
    sd: float = 0

    @property
    def name(self) -> str:
        """The row's name in results.json and in claims."""
        if self.folios:
            order = (self.folio_kib // PAGE_KIB).bit_length() - 1
            return f"order {order}, {self.folios} folios"
        if not self.channels:
            return f"{self.folio_kib} KiB"
        batch = f"{self.batch_pages} pages, " if self.batch_pages else ""
        return f"{size_name(self.folio_kib)}, {batch}{self.channels} channels"


@cache
def rows(table: str) -> tuple[Row, ...]:
    """Read a table."""
    path, kept = DIRECTORY / f"{table}.csv", []
    with path.open(newline="", encoding="utf-8") as file:
        for item in csv.DictReader(file):
            if order := item.get("order"):
                item["folio_kib"] = str(PAGE_KIB << int(order))
            kept.append(msgspec.convert({**item, "table": table}, Row, strict=False))
    return tuple(kept)
