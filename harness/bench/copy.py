"""`make bench-copy`: the kernel's copy primitives on this machine, at native speed.

The benchmark is tools/mm/copy_bench.c.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from harness.bench import native
from harness.bench.native import NotEmpty, Quartiles
from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

State = Literal["cold", "hot", "cold_read"]
Use = Literal["reader", "far"]
Loop = Literal["per_page", "per_page_mc"]

STATES: dict[State, str] = {
    "cold": "cold: both in memory",
    "hot": "hot: both in cache, as far as they fit",
    "cold_read": "cold, then reading all of dst",
}
# In which states a copy for this use must not lose: nobody reads a far copy here, and its
# destination is not in this processor's cache (the kernel sees to that when it clears memory).
STATES_OF_USE: dict[Use, tuple[State, ...]] = {"reader": tuple(STATES), "far": ("cold",)}

PER_PAGE = "per_page"
LEAST = 0.97
"""No copy is slower than the loop's by more than this, wherever the choice is used."""
GOAL, GOAL_KIB = 1.25, 256
"""On processors with ERMS: for cold, far folios from this size up."""


@dataclass(frozen=True)
class Result:
    """One primitive, folio size and state of the caches.

    `ratio` is how many times faster than copying page by page with `rep movsq` it was, and
    `ratio_mc` the same for `rep movsb`.
    """

    kib: int
    state: State
    primitive: str
    ratio: Quartiles
    ratio_mc: Quartiles


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


@dataclass(frozen=True)
class Bench:
    """All that copy_bench prints, as far as it is used here."""

    program: Literal["copy_bench"]
    format: Literal[1]
    cpu: Cpu
    rounds: int
    results: Annotated[tuple[Result, ...], NotEmpty]
    verdict: Annotated[tuple[Choice, ...], NotEmpty]


@dataclass(frozen=True)
class Used:
    """A result that the choice is answerable for."""

    choice: Choice
    result: Result

    @property
    def ratio(self) -> float:
        """Median of how many times faster than the loop it replaces it was."""
        one = self.result
        return (one.ratio if self.choice.loop == PER_PAGE else one.ratio_mc).median

    def below(self, least: float) -> str:
        """Say that it is slower than it may be."""
        return (
            f"{self.result.primitive} for {self.choice.use}, {self.result.kib} KiB, "
            f"{self.result.state}, instead of {self.choice.loop}: {self.ratio:.2f}, "
            f"below {least}"
        )


def used(bench: Bench) -> Iterator[Used]:
    """Yield every result with a primitive that the calibration would use there."""
    for choice in bench.verdict:
        same = [o for o in bench.verdict if (o.loop, o.use) == (choice.loop, choice.use)]
        larger = (o.from_kib for o in same if o.from_kib > choice.from_kib)
        end = min(larger, default=math.inf)
        for one in bench.results:
            if (
                choice.primitive == one.primitive != PER_PAGE
                and choice.from_kib <= one.kib < end
                and one.state in STATES_OF_USE[choice.use]
            ):
                yield Used(choice, one)


def slower(bench: Bench) -> list[str]:
    """Name every place where the choice loses more than it may."""
    return [one.below(LEAST) for one in used(bench) if one.ratio < LEAST]


def below_goal(bench: Bench) -> list[str]:
    """Name every large, cold, far copy that is not as much faster as it should be."""
    return [
        f"from {choice.from_kib} KiB, {choice.loop}: nothing was chosen"
        for choice in bench.verdict
        if choice.use == "far" and choice.from_kib >= GOAL_KIB and choice.primitive == PER_PAGE
    ] + [
        one.below(GOAL)
        for one in used(bench)
        if one.choice.use == "far" and one.result.kib >= GOAL_KIB and one.ratio < GOAL
    ]


def show(bench: Bench) -> None:
    """Print the ratios to the per-page loop, and what the calibration would choose."""
    names = list(dict.fromkeys(one.primitive for one in bench.results))[1:]
    columns = [(state, name) for state in STATES for name in names]
    table = {(one.kib, one.state, one.primitive): one.ratio.median for one in bench.results}
    native.show(
        f"times faster than copying page by page (rep movsq), {bench.cpu.model}: "
        f"median of {bench.rounds} rounds",
        [],
        ["folio, KiB", *(f"{state}\n{name}" for state, name in columns)],
        [
            [str(kib), *(f"{table[kib, state, name]:.2f}" for state, name in columns)]
            for kib in dict.fromkeys(one.kib for one in bench.results)
        ],
    )
    sizes = sorted({choice.from_kib for choice in bench.verdict})
    chosen = {(one.use, one.loop, one.from_kib): one.primitive for one in bench.verdict}
    native.show(
        "what the calibration would choose here",
        ["use", "instead of", *(f"from {kib} KiB" for kib in sizes)],
        [],
        [
            [use, loop, *(chosen.get((use, loop, kib), "-") for kib in sizes)]
            for use, loop in dict.fromkeys((one.use, one.loop) for one in bench.verdict)
        ],
    )


def main(paths: Paths) -> int:
    """Run `make bench-copy`; HarnessError if a choice would make a copy slower."""
    from harness.bench import plot  # noqa: PLC0415 (imports matplotlib)

    bench, document, results = native.run(paths, "bench-copy", "copy_bench", Bench)
    show(bench)
    lost, missed = slower(bench), below_goal(bench)
    claims = {"slower": lost, "below_goal": missed, "least": LEAST, "goal": GOAL}
    jsonio.write(results, document | {"claims": claims})
    panels = {
        title: [
            (one.primitive, one.kib, one.ratio) for one in bench.results if one.state == state
        ]
        for state, title in STATES.items()
    }
    footer = f"{bench.cpu.model}, user space, medians and quartiles of {bench.rounds} rounds"
    plot.draw(results.with_name("ratios.png"), panels, footer)
    ui.say(f"bench-copy: {results}, {results.with_name('ratios.png')}")

    goal = f"cold far folios of {GOAL_KIB} KiB and more {GOAL} times as fast"
    for problem in missed:
        ui.plain(f"    {problem}")
    answer = "no" if missed else "yes"
    ui.say(f"bench-copy: {goal}: {answer}{'' if bench.cpu.erms else ' (no ERMS: no claim)'}")
    for words, problems in (
        ("places where the choice loses", lost),
        ("choices below the goal; was this machine busy?", missed if bench.cpu.erms else []),
    ):
        if problems:
            raise HarnessError(f"bench-copy: {len(problems)} {words}", "\n".join(problems))
    ui.say(f"bench-copy: no choice is below {LEAST} of the loop where it is used")
    return 0
