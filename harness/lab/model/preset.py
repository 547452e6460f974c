"""Presets of the engine model: files in lab/presets, one for each machine that is modelled.

All figures are in the modelled machine's time.
"""

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from harness.core.errors import HarnessError
from harness.core.paths import ROOT
from harness.lab.results import convert

DIRECTORY = ROOT / "lab" / "presets"

DEFAULT = "zen3-ptdma"

# More than a second is a mistake in the unit.
Nanoseconds = Annotated[int, Meta(ge=0, le=10**9)]
Megabytes = Annotated[int, Meta(ge=1)]


class Preset(Struct, frozen=True, forbid_unknown_fields=True):
    """A modelled engine, within what dmasim can be.

    `latency_ns` is the fixed time of a descriptor, besides its bytes; a channel takes
    `ring_depth` descriptors, and `moderation_ns` pass at least between two of its completion
    interrupts. `bandwidth` holds MB/s (10^6 bytes) of the whole engine by number of active
    channels: for 1, for all, and for some in between.
    """

    name: str
    source: str
    channels: Annotated[int, Meta(ge=1, le=256)]
    latency_ns: Nanoseconds
    ring_depth: Annotated[int, Meta(ge=1, le=1024)]
    moderation_ns: Nanoseconds
    bandwidth: dict[str, Megabytes]

    def __post_init__(self) -> None:
        """Refuse with a ValueError a bandwidth that leaves a gap."""
        possible = [str(number) for number in range(1, self.channels + 1)]
        if unknown := [key for key in self.bandwidth if key not in possible]:
            raise ValueError(f"bandwidth.{unknown[0]} is for no number of channels it has")
        if not {"1", str(self.channels)} <= set(self.bandwidth):
            raise ValueError("bandwidth lacks the speed of 1 channel, or of all")

    def total_mbps(self, active: int) -> float:
        """Return the whole engine's MB/s with that many channels active.

        Linear between the numbers that the preset names. ValueError if the engine has not
        so many.
        """
        known = sorted((int(key), mbps) for key, mbps in self.bandwidth.items())
        if known[0][0] == active:
            return known[0][1]
        for (low, slow), (high, fast) in pairwise(known):
            if low < active <= high:
                return slow + (fast - slow) * (active - low) / (high - low)
        raise ValueError(f"{self.name} has {self.channels} channels, not {active}")

    def dmasim_parameters(self, channels: int, dilation: float) -> str:
        """Return module parameters that make dmasim this engine in a slower clock.

        `dilation` is the virtual time of one unit of the modelled machine's time, `channels`
        how many of the engine's channels there shall be. HarnessError if it has not so many
        or a figure rounds to nothing.
        """
        if not 1 <= channels <= self.channels:
            raise HarnessError(
                f"preset {self.name}: has 1 to {self.channels} channels, not {channels}"
            )
        totals = [round(self.total_mbps(n) / dilation) for n in range(1, self.channels + 1)]
        if not all(totals):
            raise HarnessError(f"preset {self.name}: dilation {dilation} leaves no bandwidth")
        return " ".join(
            (
                "timing=1",
                f"channels={channels}",
                f"ring_depth={self.ring_depth}",
                f"latency_ns={round(self.latency_ns * dilation)}",
                f"moderation_ns={round(self.moderation_ns * dilation)}",
                f"total_mbps={','.join(map(str, totals))}",
            )
        )


def names(directory: Path = DIRECTORY) -> list[str]:
    """Return the names of all presets."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def load(name: str, directory: Path = DIRECTORY) -> Preset:
    """Read a preset; HarnessError says what is wrong, or which presets there are."""
    known = names(directory)
    if name not in known:
        raise HarnessError(f"no engine preset '{name}'; there are: {', '.join(known)}")
    path = directory / f"{name}.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise HarnessError(f"{path.name}: {error}") from error
    preset = convert(document, Preset, path.name)
    if preset.name != name:
        raise HarnessError(f"{path.name}: its name is '{preset.name}'")
    return preset
