"""The lab's results.json: what it holds, and what makes it invalid.

All times and speeds are in the time of the machine that is modelled: virtual time divided by
`calibration.dilation`. On real hardware that is the machine itself, and there is neither a
calibration nor a model. A GB is 10^9 bytes, a MiB 2^20.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from harness.core import schema
from harness.core.errors import HarnessError

Kernel = Literal["vanilla", "ours", "without"]
Design = Literal["off", "cpu", "bulk", "batch", "segments", "pipeline"]
Quantity = Literal["gbps", "first_folio_us"]

SHOWN_KERNELS = ("vanilla", "ours")
"""Kernels that figures and tables compare: "without" is ours with the feature compiled out, and
is there only to say what the feature costs when it is off.
"""

ENGINE_DESIGNS = ("batch", "segments", "pipeline")
"""Designs in which an engine copies; in the others the CPU does.

"bulk" is "cpu" with ranges of pages copied by the primitive that the kernel's calibration
chose; in all others the CPU copies page by page, as vanilla does. "batch" is what was
published: a folio to a channel, a descriptor to a folio. With "segments" folios are cut, and
a channel gets one descriptor for all that it copies of a batch.
"""


def relative_error(published: float, lab: float) -> float:
    """Return by how much of the published figure the lab's is larger."""
    return lab / published - 1


@dataclass(frozen=True)
class CalibrationRow:
    """One published figure beside the lab's; `error` is a fraction of the published one."""

    table: str
    row: str
    quantity: Quantity
    published: float
    lab: float
    error: float

    def __post_init__(self) -> None:
        """Refuse figures that do not belong together."""
        if self.published <= 0 or self.lab <= 0:
            raise ValueError("published and lab must be positive")
        if abs(self.error - relative_error(self.published, self.lab)) > 1e-6:
            raise ValueError(f"error {self.error} is not that of published and lab")

    @property
    def name(self) -> str:
        """How messages call this row."""
        return f"{self.table}, {self.row}, {self.quantity}"


@dataclass(frozen=True)
class Calibration:
    """Virtual nanoseconds for each of the modelled machine, and how well that fits."""

    dilation: float
    limit: float
    rows: tuple[CalibrationRow, ...]

    def __post_init__(self) -> None:
        """Refuse an impossible constant."""
        if self.dilation <= 0 or self.limit <= 0:
            raise ValueError("dilation and limit must be positive")


@dataclass(frozen=True)
class Engine:
    """What copied: a preset of the model, or a real engine's name."""

    preset: str
    is_model: bool
    source: str

    @property
    def label(self) -> str:
        """What every figure and table says about it."""
        if self.is_model:
            return f"engine: model '{self.preset}'"
        return f"engine: real hardware, '{self.preset}'"


@dataclass(frozen=True)
class Inaccessible:
    """For how long folios could not be touched, in microseconds."""

    p50: float
    p99: float
    max: float

    def __post_init__(self) -> None:
        """Refuse negative times; p99 may be above max, since it comes from a histogram."""
        if min(self.p50, self.p99, self.max) < 0:
            raise ValueError("a time is negative")


@dataclass(frozen=True)
class Phases:
    """Mean time of each phase of a batch, in microseconds."""

    unmap: float
    flush: float
    copy: float
    move: float

    def __post_init__(self) -> None:
        """Refuse negative times."""
        if min(self.unmap, self.flush, self.copy, self.move) < 0:
            raise ValueError("a time is negative")


@dataclass(frozen=True)
class Run:
    """One measurement.

    `channels` is 0 where no engine copies; it and `batch_pages` are None where a real
    machine did not tell. `move` is 1 for the first move and 2 for the way back, and
    `folios_split` is -1 where it could not be seen.
    """

    kernel: Kernel
    design: Design
    engine: str | None
    channels: int | None
    folio_kib: int
    batch_pages: int | None
    move: Literal[1, 2]
    gbps: float
    first_folio_us: float | None
    inaccessible_us: Inaccessible | None
    instructions_per_folio: float | None
    phases_us: Phases | None
    total_mib: float
    folios_per_call: int
    folios_failed: int
    folios_split: int

    def __post_init__(self) -> None:
        """Refuse combinations that no measurement can have."""
        if self.kernel != "ours" and self.design != "off":
            raise ValueError(f"design '{self.design}' on the kernel '{self.kernel}'")
        if (self.engine is not None) != (self.design in ENGINE_DESIGNS):
            raise ValueError(f"design '{self.design}' with engine {self.engine!r}")
        if self.engine is None and self.channels != 0:
            raise ValueError(f"{self.channels} channels without an engine")
        if self.engine is not None and self.channels == 0:
            raise ValueError("an engine without channels")
        at_least: tuple[tuple[str, float], ...] = (
            ("channels", 0),
            ("folio_kib", 4),
            ("batch_pages", 1),
            ("first_folio_us", 0),
            ("instructions_per_folio", 0),
            ("folios_per_call", 1),
            ("folios_failed", 0),
            ("folios_split", -1),
        )
        for name, low in at_least:
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValueError(f"{name} is {value}, less than {low:g}")
        for name in ("gbps", "total_mib"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is not positive")

    @property
    def name(self) -> str:
        """What identifies this run, for people and for comparisons."""
        channels = "?" if self.channels is None else self.channels
        batch = "?" if self.batch_pages is None else self.batch_pages
        engine = f", engine {self.engine}, {channels} channels" if self.engine else ""
        return (
            f"{self.kernel}/{self.design}{engine}, {self.folio_kib} KiB, batch {batch} pages, "
            f"move {self.move}, {self.total_mib:g} MiB, {self.folios_per_call} folios per call"
        )

    def undilated(self, dilation: float) -> "Run":
        """Return a run measured in virtual time in the modelled machine's time.

        Instructions stay what they are.
        """
        seen, phases = self.inaccessible_us, self.phases_us
        first = self.first_folio_us
        return replace(
            self,
            gbps=self.gbps * dilation,
            first_folio_us=None if first is None else first / dilation,
            inaccessible_us=seen
            and Inaccessible(**{k: v / dilation for k, v in asdict(seen).items()}),
            phases_us=phases and Phases(**{k: v / dilation for k, v in asdict(phases).items()}),
        )


@dataclass(frozen=True)
class Results:
    """A whole results.json; `qemu` is None on a real machine."""

    calibration: Calibration | None
    engine: Engine | None
    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    quick: bool
    kernel_release: str
    qemu: str | None

    def __post_init__(self) -> None:
        """Refuse a model without calibration, hardware with one, and ambiguous runs."""
        if self.engine and self.engine.is_model and not self.calibration:
            raise ValueError("the engine is a model, but there is no calibration")
        if self.engine and not self.engine.is_model and self.calibration:
            raise ValueError("the engine is real, but there is a calibration")
        known = self.engine.preset if self.engine else None
        for run in self.runs:
            if run.engine not in (None, known):
                raise ValueError(f"a run has engine '{run.engine}', the results '{known}'")
        counts = Counter(run.name for run in self.runs)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"there twice: {twice[0]}")

    @property
    def label(self) -> str:
        """What every figure and table says about where it comes from."""
        if self.engine:
            return self.engine.label
        return "no engine; virtual time" if self.calibration else "no engine; real hardware"


def parse(document: object, where: str) -> Results:
    """Check a parsed results.json; HarnessError tells in one line what is wrong and where."""
    return schema.decode(Results, document, where)


def load(path: Path) -> Results:
    """Read results.json; HarnessError tells in one line what is wrong and where."""
    return parse(schema.load_json(path), str(path))


def dump(results: Results) -> str:
    """Return results as JSON, unrounded; parse() gets back an equal object.

    HarnessError if a figure is no finite number, which JSON cannot hold.
    """
    try:
        return json.dumps(asdict(results), indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise HarnessError(f"results: {error}") from error
