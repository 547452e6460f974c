"""Presets of the engine model: files in lab/presets, one for each machine that is modelled.

    name, source   what it is, and where its figures come from
    channels       how many the engine has
    latency_ns     fixed time of a descriptor, besides its bytes
    ring_depth     descriptors that a channel takes
    moderation_ns  least time between two completion interrupts of a channel
    [bandwidth]    MB/s (10^6 bytes) of the whole engine by number of active channels; given
                   for 1, for all, and for some in between

All figures are in the modelled machine's time.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.core import schema
from harness.core.errors import HarnessError
from harness.core.paths import ROOT

DIRECTORY = ROOT / "lab" / "presets"

DEFAULT = "zen3-ptdma"

# What dmasim's parameters can be.
_MAX_CHANNELS = 256
_MAX_RING_DEPTH = 1024
_MAX_LATENCY_NS = 10**9  # more than a second is a mistake in the unit


@dataclass(frozen=True)
class Preset:
    """A modelled engine; see the head of this file for units."""

    name: str
    source: str
    channels: int
    latency_ns: int
    ring_depth: int
    moderation_ns: int
    bandwidth: Mapping[str, int]

    def __post_init__(self) -> None:
        """Refuse with a ValueError what dmasim could not be, or what leaves a gap."""
        for name, low, high in (
            ("channels", 1, _MAX_CHANNELS),
            ("latency_ns", 0, _MAX_LATENCY_NS),
            ("ring_depth", 1, _MAX_RING_DEPTH),
            ("moderation_ns", 0, _MAX_LATENCY_NS),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, not in {low} to {high}")
        for key, mbps in self.bandwidth.items():
            if str(key) not in map(str, range(1, self.channels + 1)):
                raise ValueError(f"bandwidth.{key} is for no number of channels it has")
            if mbps < 1:
                raise ValueError(f"bandwidth.{key} is {mbps}, not a speed in MB/s")
        for needed in (1, self.channels):
            if str(needed) not in self.bandwidth:
                raise ValueError(f"bandwidth lacks {needed}: give the speed of 1 and of all")

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
        if not dilation > 0:
            raise HarnessError(f"preset {self.name}: a dilation of {dilation} is impossible")
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
    preset = schema.decode(Preset, document, path.name)
    if preset.name != name:
        raise HarnessError(f"{path.name}: its name is '{preset.name}'")
    return preset
