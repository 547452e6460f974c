"""`make bench-copy`: the kernel's copy primitives on this machine, at native speed.

The benchmark (tools/mm/copy_bench.c) is built from the kernel's own assembly and from the
kernel's own choice among its primitives. It runs as any user.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from harness.bench import native
from harness.bench.native import Quartiles
from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

State = Literal["cold", "hot", "cold_read"]
Use = Literal["reader", "far"]
Loop = Literal["per_page", "per_page_mc"]

STATES: tuple[State, ...] = ("cold", "hot", "cold_read")
# In which states a copy for this use must not lose: nobody reads a far copy here, and its
# destination is not in this processor's cache (the kernel sees to that when it clears memory).
STATES_OF_USE: dict[Use, tuple[State, ...]] = {"reader": STATES, "far": ("cold",)}

PER_PAGE = "per_page"
LEAST = 0.97
"""No copy is slower than the loop's by more than this, wherever the choice is used."""
GOAL, GOAL_KIB = 1.25, 256
"""On processors with ERMS: for cold, far folios from this size up."""

_TITLES = {
    "cold": "cold: both in memory",
    "hot": "hot: both in cache, as far as they fit",
    "cold_read": "cold, then reading all of dst",
}
_FORMAT = 1
_WIDTH = 200  # of a table that does not go to a terminal


@dataclass(frozen=True)
class Result:
    """One primitive, folio size and state of the caches.

    `ns` is for one folio. `ratio` is how many times faster than copying page by page with
    `rep movsq` it was, and `ratio_mc` the same for `rep movsb`.
    """

    kib: int
    state: State
    primitive: str
    ns: Quartiles
    gbps: float
    ratio: Quartiles
    ratio_mc: Quartiles

    def ratio_to(self, loop: Loop) -> Quartiles:
        """Return how many times faster than a loop it was."""
        return self.ratio if loop == PER_PAGE else self.ratio_mc


@dataclass(frozen=True)
class Choice:
    """What the calibration would use for folios from `from_kib` up to the next choice."""

    loop: Loop
    use: Use
    from_kib: int
    primitive: str


@dataclass(frozen=True)
class Cpu:
    """The processor, as it names itself."""

    model: str
    erms: bool
    fsrm: bool


@dataclass(frozen=True)
class Bench:
    """All that copy_bench prints."""

    program: Literal["copy_bench"]
    format: int
    cpu: Cpu
    rounds: int
    step_kib: int
    huge_pages: bool
    results: tuple[Result, ...]
    verdict: tuple[Choice, ...]

    def __post_init__(self) -> None:
        """Refuse results that say nothing, or twice."""
        if self.format != _FORMAT:
            raise ValueError(f"format {self.format} is not known")
        keys = [(one.kib, one.state, one.primitive) for one in self.results]
        if not keys or len(set(keys)) != len(keys):
            raise ValueError("there are no results, or the same twice")
        if not self.verdict:
            raise ValueError("there is no verdict")


@dataclass(frozen=True)
class Used:
    """A result that the choice is answerable for."""

    choice: Choice
    result: Result

    @property
    def ratio(self) -> float:
        """Median of how many times faster than the loop it replaces it was."""
        return self.result.ratio_to(self.choice.loop).median

    @property
    def name(self) -> str:
        """How messages call it."""
        one = self.result
        return (
            f"{one.primitive} for {self.choice.use}, {one.kib} KiB, {one.state}, "
            f"instead of {self.choice.loop}"
        )


def used(bench: Bench) -> Iterator[Used]:
    """Yield every result with a primitive that the calibration would use there."""
    for choice in bench.verdict:
        larger = [
            other.from_kib
            for other in bench.verdict
            if (other.loop, other.use) == (choice.loop, choice.use)
            and other.from_kib > choice.from_kib
        ]
        for one in bench.results:
            if (
                choice.primitive == one.primitive != PER_PAGE
                and choice.from_kib <= one.kib
                and (not larger or one.kib < min(larger))
                and one.state in STATES_OF_USE[choice.use]
            ):
                yield Used(choice, one)


def slower(bench: Bench) -> list[str]:
    """Name every place where the choice loses more than it may."""
    return [
        f"{one.name}: {one.ratio:.2f}, below {LEAST}"
        for one in used(bench)
        if one.ratio < LEAST
    ]


def below_goal(bench: Bench) -> list[str]:
    """Name every large, cold, far copy that is not as much faster as it should be."""
    found = []
    for choice in bench.verdict:
        if choice.use == "far" and choice.from_kib >= GOAL_KIB and choice.primitive == PER_PAGE:
            found.append(f"from {choice.from_kib} KiB, {choice.loop}: nothing was chosen")
    for one in used(bench):
        if one.choice.use == "far" and one.result.kib >= GOAL_KIB and one.ratio < GOAL:
            found.append(f"{one.name}: {one.ratio:.2f}, below {GOAL}")
    return found


def ratios(bench: Bench) -> Table:
    """Return the table of ratios to the per-page loop."""
    shown = Table(
        title=f"times faster than copying page by page (rep movsq), {bench.cpu.model}: "
        f"median of {bench.rounds} rounds"
    )
    shown.add_column("folio, KiB", justify="right")
    names = list(dict.fromkeys(one.primitive for one in bench.results))
    for state in STATES:
        for name in names[1:]:
            shown.add_column(f"{state}\n{name}", justify="right", no_wrap=True)
    table = {(one.kib, one.state, one.primitive): one for one in bench.results}
    for kib in dict.fromkeys(one.kib for one in bench.results):
        cells = [table[kib, state, name].ratio for state in STATES for name in names[1:]]
        shown.add_row(str(kib), *(f"{ratio.median:.2f}" for ratio in cells))
    return shown


def curves(bench: Bench) -> dict[str, dict[str, dict[int, Quartiles]]]:
    """Return the ratios as the figure shows them, by state, primitive and size."""
    found: dict[str, dict[str, dict[int, Quartiles]]] = {}
    for one in bench.results:
        panel = found.setdefault(_TITLES[one.state], {})
        panel.setdefault(one.primitive, {})[one.kib] = one.ratio
    return found


def verdict(bench: Bench) -> Table:
    """Return the table of what the calibration would choose."""
    sizes = sorted({choice.from_kib for choice in bench.verdict})
    shown = Table(title="what the calibration would choose here")
    for heading in ("use", "instead of", *(f"from {kib} KiB" for kib in sizes)):
        shown.add_column(heading)
    chosen = {(one.use, one.loop, one.from_kib): one.primitive for one in bench.verdict}
    for use, loop in dict.fromkeys((one.use, one.loop) for one in bench.verdict):
        shown.add_row(use, loop, *(chosen.get((use, loop, kib), "-") for kib in sizes))
    return shown


def main(paths: Paths) -> int:
    """Run `make bench-copy`; HarnessError if a choice would make a copy slower."""
    from harness.bench import plot  # noqa: PLC0415 (imports matplotlib)

    out = paths.out / "bench-copy"
    program = native.build(paths, "copy_bench", out)
    with ui.step("bench-copy") as step:
        load = os.getloadavg()[0]
        bench = native.measure(Bench, program, out, [])
        step.done(f"{len(bench.results)} results, load {load:.1f} before")
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(ratios(bench))
    console.print(verdict(bench))

    lost, missed = slower(bench), below_goal(bench)
    more = {
        "load_before": load,
        "claims": {"slower": lost, "below_goal": missed, "least": LEAST, "goal": GOAL},
    }
    results = native.keep(program, out, more)
    footer = f"{bench.cpu.model}, user space, medians and quartiles of {bench.rounds} rounds"
    plot.draw(out / "ratios.png", curves(bench), footer)
    ui.say(f"bench-copy: {results}, {out / 'ratios.png'}")

    goal = f"cold far folios of {GOAL_KIB} KiB and more {GOAL} times as fast"
    for problem in missed:
        ui.plain(f"    {problem}")
    answer = "no" if missed else "yes"
    ui.say(f"bench-copy: {goal}: {answer}{'' if bench.cpu.erms else ' (no ERMS: no claim)'}")
    if lost:
        raise HarnessError(
            f"bench-copy: the choice loses in {len(lost)} places", "\n".join(lost)
        )
    if missed and bench.cpu.erms:
        raise HarnessError(
            f"bench-copy: {len(missed)} choices are below the goal; was this machine busy?",
            "\n".join(missed),
        )
    ui.say(f"bench-copy: no choice is below {LEAST} of the loop where it is used")
    return 0
