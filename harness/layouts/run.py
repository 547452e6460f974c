"""`make layouts`: random layouts of memory migrate in two kernels, vanilla and ours.

Each boot does a few hundred seeds; a seed that differs is run once more, in boots of its own,
and counts if it differs again. With one processor that is done in virtual time, where it does
so again and again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.layouts import dump
from harness.layouts.dump import Layout

VANILLA, OURS = KERNELS = ("lab-vanilla", "lab")
SUITE = "layouts"
MODULE = "page_state"
COUNT = 500
SEED = 1

_DIRECTORY = f"tools/testing/selftests/migrate_large/{MODULE}"
_PER_BOOT = 250
_GUESTS = 2  # at a time
_ATTEMPTS = 2  # of a seed that differed, before it counts
_REPEATED = 12  # seeds of one boot: where more differ it is no accident
_LISTED = 20
# What `migrate_layouts` says of how far it is.
_WORD = re.compile(r"# (\d+) of \d+ layouts")


@dataclass(frozen=True)
class Machine:
    """Where layouts migrate: one virtual CPU, or two; `exact` is in virtual time."""

    vcpus: int
    exact: bool = False

    @property
    def again(self) -> "Machine":
        """Where to look at a seed that differed."""
        return replace(self, exact=self.vcpus == 1)

    def args(self, first: int, number: int) -> str:
        """Return the suite's arguments."""
        words = [str(first), str(number), *(["threads"] if self.vcpus > 1 else [])]
        return ",".join(words)


@dataclass(frozen=True)
class Kernels:
    """Two kernels that are ready to boot, and the module for each."""

    paths: Paths
    ready: Mapping[str, suite.Ready]
    modules: Mapping[str, bytes]
    out: Path


@dataclass
class Outcome:
    """What a run found: differences that repeat, by seed, and seeds that differed once."""

    seeds: int = 0
    pages: int = 0
    differences: dict[int, list[str]] = field(default_factory=dict)
    unsteady: list[int] = field(default_factory=list)


def spans(first: int, count: int, size: int = _PER_BOOT) -> Iterator[tuple[int, int]]:
    """Split seeds into the first seed and the number of each boot."""
    for start in range(0, count, size):
        yield first + start, min(size, count - start)


def differences(
    vanilla: Mapping[int, Layout], ours: Mapping[int, Layout]
) -> dict[int, list[str]]:
    """Return how the kernels differ, for each seed that they differ in."""
    found = {}
    for seed in sorted(vanilla.keys() | ours.keys()):
        if seed not in vanilla or seed not in ours:
            found[seed] = [f"only {'ours' if seed in ours else 'vanilla'} ran it"]
        elif said := dump.compare(vanilla[seed], ours[seed]):
            found[seed] = said
    return found


def prepare(paths: Paths, out: Path, ours: suite.Ready | None = None) -> Kernels:
    """Build the kernels, ours unless it is given, the guest's programs, and the modules."""
    ready, modules = {}, {}
    with lock.cache(paths):
        for config in KERNELS:
            given = ours if config == OURS else None
            ready[config] = given or suite.prepare(paths, config)
            modules[config] = _module(paths, ready[config].kernel)
    return Kernels(paths, ready, modules, out)


def _module(paths: Paths, kernel: build.Kernel) -> bytes:
    """Return the module that shows page tables, built for a kernel that knows nothing of it."""
    tree = patches.get(paths, source.get(paths))
    objects = kernel.objects.with_name(f"{kernel.objects.name}.{MODULE}")
    record, built = objects / "key.json", objects / f"{MODULE}.ko"
    key = [kernel.key, tree.subset_key(f"^{_DIRECTORY}/")]
    if not (record.exists() and json.loads(record.read_text()) == key):
        objects.mkdir(exist_ok=True)
        process.run_logged(
            ["make", "-C", str(kernel.objects), f"M={tree.path / _DIRECTORY}",
             f"MO={objects}", "modules"],
            paths.logs / f"{objects.name}.log",
            f"module {MODULE} for {kernel.config}",
        )  # fmt: skip
        record.write_text(json.dumps(key))
    return built.read_bytes()


def _boot(
    kernels: Kernels,
    config: str,
    machine: Machine,
    span: tuple[int, int],
    what: str,
    progress: Callable[[str], None],
) -> dict[int, Layout]:
    """Run some seeds on one kernel; HarnessError if anything but a layout goes wrong."""
    directory = kernels.out / "guests" / f"{config}-{what}-{span[0]}"
    run = suite.run_quietly(
        kernels.paths, kernels.ready[config], SUITE, directory,
        args=machine.args(*span),
        files={f"{MODULE}.ko": kernels.modules[config]},
        virtual_time=machine.exact,
        cpus=machine.vcpus,
        progress=progress,
    )  # fmt: skip
    where = f"layouts: {config}, {span[1]} seeds from {span[0]}"
    if run.verdict.outcome is not vm.Outcome.FINISHED:
        raise HarnessError(f"{where}: {run.verdict.message}", run.what_happened)
    try:
        found = dump.parse(dump.unpack(run.results))
    except ValueError as error:
        raise HarnessError(f"{where}: {error}") from error
    if len(found) != span[1]:
        raise HarnessError(f"{where}: {len(found)} ran", process.tail(run.results))
    return found


def run(
    kernels: Kernels, machine: Machine, first: int, count: int, per_boot: int = _PER_BOOT
) -> Outcome:
    """Compare seeds, and those that differ once more."""
    outcome = Outcome()
    with (
        ui.step(f"layouts: {machine.vcpus} vCPU") as step,
        ThreadPoolExecutor(max_workers=_GUESTS) as pool,
    ):

        def pair(
            span: tuple[int, int], where: Machine, what: str
        ) -> tuple[dict[int, list[str]], int]:
            def told(line: str) -> None:
                if match := _WORD.fullmatch(line.strip()):
                    done = outcome.seeds + int(match[1])
                    step.progress(f"{done} of {count} seeds, {_counts(outcome)}")

            def boot(config: str) -> dict[int, Layout]:
                return _boot(kernels, config, where, span, what, told)

            vanilla, ours = pool.map(boot, KERNELS)
            pages = sum(_pages(layout) for layout in ours.values())
            return differences(vanilla, ours), pages

        for span in spans(first, count, per_boot):
            found, pages = pair(span, machine, "all")
            outcome.seeds += span[1]
            outcome.pages += pages
            for seed, said in found.items():
                again = said
                for attempt in range(_ATTEMPTS if len(found) <= _REPEATED else 0):
                    if again:
                        once = pair((seed, 1), machine.again, f"again{attempt}")
                        again = once[0].get(seed, [])
                if again:
                    outcome.differences[seed] = again
                else:
                    outcome.unsteady.append(seed)
            step.progress(f"{outcome.seeds} of {count} seeds, {_counts(outcome)}")
        step.done(summary(outcome))
    return outcome


def _counts(outcome: Outcome) -> str:
    return f"{len(outcome.differences)} differ, {len(outcome.unsteady)} differed once"


def _pages(layout: Layout) -> int:
    return len(dump.parse_stage(layout.stages.get("there", ())).pages)


def summary(outcome: Outcome) -> str:
    """Return the figures of a run in one line."""
    return (
        f"{outcome.seeds} layouts, {outcome.pages} pages, {len(outcome.differences)} "
        f"layouts differ, {len(outcome.unsteady)} did not when they were run again"
    )


def cases(outcome: Outcome, machine: Machine, first: int) -> list[Case]:
    """Return the outcome as a test; layouts that often need a second run are no proof."""
    last = first + outcome.seeds - 1
    name = f"{outcome.seeds} layouts, {machine.vcpus} vCPU, seeds {first} to {last}"
    lines = list(_told(outcome))
    limit = max(1, outcome.seeds // 100) if machine.vcpus == 1 else outcome.seeds // 10
    if outcome.differences or len(outcome.unsteady) > limit:
        return [Case(name, Status.FAILED, "\n".join(lines))]
    return [Case(name, Status.PASSED)]


def _told(outcome: Outcome) -> Iterator[str]:
    for seed, lines in list(outcome.differences.items())[:_LISTED]:
        yield f"seed {seed}:"
        yield from (f"  {line}" for line in lines)
    if len(outcome.differences) > _LISTED:
        yield "also: " + _numbers(list(outcome.differences)[_LISTED:])
    if outcome.unsteady:
        yield "differed only once: " + _numbers(outcome.unsteady)


def _numbers(seeds: Sequence[int]) -> str:
    return " ".join(map(str, seeds))


def main(paths: Paths, first: int, count: int, vcpus: int) -> int:
    """Run `make layouts`."""
    if vcpus not in (1, 2) or count < 1:
        raise HarnessError("layouts: VCPUS is 1 or 2, and COUNT at least 1")
    machine = Machine(vcpus)
    outcome = run(prepare(paths, paths.out / SUITE), machine, first, count)
    for line in _told(outcome):
        ui.plain(line)
    ui.say(f"layouts: seeds {first} to {first + count - 1}: {summary(outcome)}")
    (case,) = cases(outcome, machine, first)
    return 1 if case.status is Status.FAILED else 0
