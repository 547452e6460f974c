"""`make bench-copy`: the kernel's routines for ranges of pages, at this machine's native speed.

The benchmark is harness/bench/copy_bench.c.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from harness.bench import native
from harness.bench.native import NotEmpty, Quartiles
from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

State = Literal["cold", "hot", "cold_read"]
Routine = Literal["movsq", "movsb", "nontemporal", "per_page", "per_page_mc"]

STATES: dict[State, str] = {
    "cold": "cold: both in memory",
    "hot": "hot: both in cache, as far as they fit",
    "cold_read": "cold, then reading all of dst",
}
CHOICES: dict[Routine, tuple[State, ...]] = {
    "movsq": ("cold", "hot", "cold_read"),
    "nontemporal": ("cold",),
}
"""The values of copy_pages=, and in which states: the kernel keeps the latter to far copies."""

LEAST = 0.97
"""In a quarter of the rounds at least, a copy by default is as fast as vanilla's loop."""
FROM_KIB = 16
"""The least folio of several pages, and the least range that bypasses the cache."""


@dataclass(frozen=True)
class Result:
    """One way to copy, folio size and state of the caches.

    `ratio` is how many times faster than `rep movsq` page by page it was, and `ratio_mc` the
    same for `rep movsb`.
    """

    kib: int
    state: State
    routine: Routine
    ratio: Quartiles
    ratio_mc: Quartiles


@dataclass(frozen=True)
class Bench:
    """All that copy_bench prints, as far as it is used here."""

    program: Literal["copy_bench"]
    format: Literal[2]
    rounds: int
    results: Annotated[tuple[Result, ...], NotEmpty]


def slower(bench: Bench) -> list[str]:
    """Name each copy by default (`rep movsb`) that is slower than vanilla's loop."""
    return [
        f"{one.kib} KiB, {one.state}: {one.ratio_mc.upper:.2f}, below {LEAST}"
        for one in bench.results
        if one.routine == "movsb" and one.kib >= FROM_KIB and one.ratio_mc.upper < LEAST
    ]


def gains(bench: Bench, routine: Routine) -> list[float]:
    """Return how many times faster than by default a routine is where the kernel uses it."""
    default = {(one.kib, one.state): one for one in bench.results if one.routine == "movsb"}
    return [
        one.ratio_mc.median / default[one.kib, one.state].ratio_mc.median
        for one in bench.results
        if one.routine == routine and one.kib >= FROM_KIB and one.state in CHOICES[routine]
    ]


def show(bench: Bench, processor: str) -> None:
    """Print the ratios to the per-page loop."""
    names = [name for name in dict.fromkeys(one.routine for one in bench.results)
             if name != "per_page"]  # fmt: skip
    columns = [(state, name) for state in STATES for name in names]
    table = {(one.kib, one.state, one.routine): one.ratio.median for one in bench.results}
    native.show(
        f"times faster than copying page by page (rep movsq), {processor}: "
        f"median of {bench.rounds} rounds",
        ["folio, KiB", *(f"{state}\n{name}" for state, name in columns)],
        [
            [str(kib), *(f"{table[kib, state, name]:.2f}" for state, name in columns)]
            for kib in dict.fromkeys(one.kib for one in bench.results)
        ],
    )


def main(paths: Paths) -> int:
    """Run `make bench-copy`; HarnessError if a copy by default is slower than vanilla's."""
    from harness.bench import plot  # noqa: PLC0415 (imports matplotlib)

    bench, document, results = native.run(paths, "bench-copy", "copy_bench", Bench)
    processor = native.processor()
    show(bench, processor)
    lost = slower(bench)
    jsonio.write(results, document | {"cpu": processor, "slower": lost, "least": LEAST})
    panels = {
        title: [
            (str(one.routine), one.kib, one.ratio)
            for one in bench.results
            if one.state == state
        ]
        for state, title in STATES.items()
    }
    footer = f"{processor}, user space, medians and quartiles of {bench.rounds} rounds"
    plot.draw(results.with_name("ratios.png"), panels, footer)
    ui.say(f"bench-copy: {results}, {results.with_name('ratios.png')}")
    for routine in CHOICES:
        found = gains(bench, routine)
        ui.say(
            f"bench-copy: copy_pages={routine}: {min(found):.2f} to {max(found):.2f} times as "
            "fast as by default (rep movsb) where the kernel uses it"
        )
    if lost:
        raise HarnessError(
            f"bench-copy: {len(lost)} copies by default are slower than page by page; was this "
            "machine busy?",
            "\n".join(lost),
        )
    ui.say(f"bench-copy: no copy by default is below {LEAST} of the loop")
    return 0
