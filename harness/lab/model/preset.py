"""Presets of the engine model: files in lab/presets, one for each machine that is modelled.

All figures are in the modelled machine's time.
"""

from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from harness.core.errors import HarnessError
from harness.core.paths import ROOT

DIRECTORY = ROOT / "lab" / "presets"

DEFAULT, OTHER_END = "zen3-ptdma", "zen3-ptdma-unmerged"
"""Published figures contradict each other: both ends of what they leave for the same engine."""

# More than a second is a mistake in the unit.
Nanoseconds = Annotated[int, Meta(ge=0, le=10**9)]
Megabytes = Annotated[int, Meta(ge=1)]


class Preset(Struct, frozen=True, forbid_unknown_fields=True):
    """A modelled engine, within what a device of qemu/ can be: one, with as many `queues`.

    `latency_ns` is the fixed time of a descriptor, besides its bytes. `bandwidth` holds MB/s
    (10^6 bytes) of the whole engine by number of active channels: for 1, for all, and for some
    in between. An interrupt of one processor by another takes both `ipi_ns`, besides its code.
    """

    source: str
    channels: Annotated[int, Meta(ge=1, le=16)]
    latency_ns: Nanoseconds
    bandwidth: dict[str, Megabytes]
    device: str = "ptdma"
    queues: Annotated[int, Meta(ge=1, le=16)] = 1
    ipi_ns: Nanoseconds = 1100

    def __post_init__(self) -> None:
        """Refuse with a ValueError a bandwidth that leaves a gap."""
        known = sorted(map(int, self.bandwidth))
        if not known or (known[0], known[-1]) != (1, self.channels):
            raise ValueError(f"bandwidth is not for 1 to {self.channels} channels")

    def total_mbps(self, active: int) -> float:
        """Return the whole engine's MB/s with that many channels active.

        Linear between the numbers that the preset names. HarnessError if the engine has fewer.
        """
        known = sorted((int(key), mbps) for key, mbps in self.bandwidth.items())
        for (low, slow), (high, fast) in pairwise([(0, 0), *known]):
            if low < active <= high:
                return slow + (fast - slow) * (active - low) / (high - low)
        raise HarnessError(f"the engine has 1 to {self.channels} channels, not {active}")

    def devices(self, channels: int, dilation: float) -> tuple[str, ...]:
        """Return QEMU's options for that many channels of this engine in a slower clock.

        `dilation` is the virtual time of one unit of the modelled machine's time. HarnessError
        if the engine has fewer channels or a figure rounds to nothing.
        """
        self.total_mbps(channels)
        totals = [round(self.total_mbps(n) / dilation) for n in range(1, self.channels + 1)]
        if not all(totals):
            raise HarnessError(f"dilation {dilation} leaves the engine no bandwidth")
        bandwidth = "/".join(f"{n}={mbps}" for n, mbps in enumerate(totals, start=1))
        device = f"{self.device},desc-ns={round(self.latency_ns * dilation)},mbps=0"
        # The channels share what the first one says.
        first = f"{device},bandwidth={bandwidth}"
        return ("-device", first, *("-device", device) * (-(-channels // self.queues) - 1))


def names() -> list[str]:
    """Return the names of all presets."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name: str) -> Preset:
    """Read a preset; HarnessError says what is wrong, or which presets there are."""
    if name not in names():
        raise HarnessError(f"no engine preset '{name}'; there are: {', '.join(names())}")
    try:
        return msgspec.toml.decode((DIRECTORY / f"{name}.toml").read_bytes(), type=Preset)
    except ValueError as error:
        raise HarnessError(f"{name}.toml: {error}") from error
