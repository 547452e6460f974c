"""Strips: when one move takes each folio, and gives it back, from the kernel's trace."""

import re
from dataclasses import dataclass

from harness.core.errors import HarnessError
from harness.lab import plan
from harness.lab.results import Strip, StripWay

_SIZES = ((2048, 64), (64, 8))
"""Folio sizes in KiB, and how many MiB move: few enough to be seen apart."""


@dataclass(frozen=True)
class Boot:
    """One guest, which traces one move."""

    way: StripWay
    config: str
    design: str
    bound_us: int
    folio_kib: int
    mib: int

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"strip-{self.design}-{self.folio_kib}k"

    def args(self, dilation: float) -> str:
        """Return the arguments of the suite."""
        words = (self.design, round(self.bound_us * dilation), self.folio_kib, self.mib)
        return ",".join(map(str, words))


def boots() -> list[Boot]:
    """Return the guests, in the order in which the report shows them."""
    ways: tuple[tuple[StripWay, str, str, int], ...] = (
        ("vanilla", plan.TRACED, "off", 0),
        ("batch", plan.HEART, "batch", 0),
        ("dcbm", plan.OURS, "cut", plan.BOUND_US),
        ("dcbm live", plan.OURS, "live", plan.BOUND_US),
    )
    return [Boot(*way, kib, mib) for way in ways for kib, mib in _SIZES]


_EVENT = re.compile(r"^([\d.]+) (unmapped|accessible|protected|copied)(?: (\w+))?$", re.MULTILINE)


def parse(text: str, boot: Boot, dilation: float) -> Strip:
    """Return the strip of a trace; HarnessError if folios are missing.

    Before it moves a chunk, the kernel protects the next one: a chunk is all that is unmapped
    between two that end to be copied, and is read-only since the protection of the same number.
    """
    protected: list[float] = []
    since: dict[str, tuple[float, float]] = {}
    folios, copied = [], 0
    for seconds, event, page in _EVENT.findall(text):
        now = float(seconds) * 1e6 / dilation
        match event:
            case "protected":
                protected.append(now)
            case "copied":
                copied += 1
            case "unmapped":
                live = boot.design == "live" and 0 < copied <= len(protected)
                since[page] = (protected[copied - 1] if live else now, now)
            case "accessible" if page in since:
                folios.append((*since.pop(page), now))
    wanted = boot.mib * 1024 // boot.folio_kib
    if len(folios) != wanted:
        raise HarnessError(f"lab: {boot.name}: {len(folios)} folios of {wanted}", text)
    folios.sort(key=lambda times: (times[0], times[1]))
    first = folios[0][0]
    return Strip(
        way=boot.way, folio_kib=boot.folio_kib,
        folios=tuple((a - first, b - first, c - first) for a, b, c in folios),
    )  # fmt: skip
