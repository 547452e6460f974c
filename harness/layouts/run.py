"""`make layouts`: random layouts of memory migrate in two kernels, vanilla and ours.

With one processor guests run in virtual time, where every run is the same: a seed that differs
is a failure. With two, a seed that differs in flags is run again, alone; one whose contents are
wrong fails at first sight.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import recorded, suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.layouts import dump
from harness.layouts.dump import Finding, Layout

TWINS = {"base": "lab-vanilla", "arm64": "", "debug": ""}
"""Kernels that layouts run on, and what each is compared with; '' is its own rules alone."""

SUITE = "layouts"
MODULE = "page_state"
SEED = 1

RECORDED = range(SEED, SEED + 120)
"""Seeds whose twins in virtual time are recorded."""

_DIRECTORY = f"tools/testing/selftests/migrate_large/{MODULE}"
_PER_BOOT = 250
_GUESTS = 2  # at a time
_ATTEMPTS = 2  # of a seed that differed with two processors, before it counts
_LISTED = 20
_PROGRESS = re.compile(r"# (\d+) of \d+ layouts")
_TOTAL = re.compile(r"^total: (\w+) (-?\d+)$", re.MULTILINE)
# Pages that slabs, page tables and the allocator's lists make no account of.
_LOST_PAGES = 100
# Of 100 seeds, how many must have had several large folios unmapped at a time.
_TOGETHER = 9


@dataclass(frozen=True)
class Machine:
    """Where layouts migrate: one virtual CPU in virtual time, or two.

    `offload` has an engine copy; with `pressure` the node that memory goes to is full, and
    layouts cannot be compared with vanilla's. `clock` has the seed of how two run.
    """

    vcpus: int
    config: str = "base"
    offload: bool = False
    pressure: bool = False
    clock: vm.Clock | None = None

    @property
    def configs(self) -> tuple[str, ...]:
        """The kernels to boot: ours first."""
        twin = "" if self.pressure else TWINS[self.config]
        return (self.config, twin) if twin else (self.config,)

    @property
    def forgiven(self) -> int:
        """Of 25 seeds, how many may differ in flags in one run and not in the next."""
        return 0 if self.vcpus == 1 else 1

    def args(self, seeds: range, config: str) -> str:
        """Return the suite's arguments on a kernel."""
        offload = self.offload and config == self.config
        words = {"threads": self.vcpus > 1, "offload": offload, "pressure": self.pressure}
        given = (word for word in words if words[word])
        return ",".join([str(seeds[0]), str(len(seeds)), *given])

    def __str__(self) -> str:
        """Return the machine as part of a case's name."""
        words = [self.config, f"{self.vcpus} vCPU"]
        words += ["an engine copies"] if self.offload else []
        words += ["little memory"] if self.pressure else []
        return ", ".join(words)


@dataclass(frozen=True)
class Boot:
    """The output of a guest: layouts by seed, and its totals."""

    layouts: Mapping[int, Layout]
    totals: Mapping[str, int]


@dataclass(frozen=True)
class Kernels:
    """Kernels that are ready to boot, and the module for each.

    `known` are layouts of the twin in virtual time, by the first seed of their guest. What ran
    before a layout decides how memory lies: only guests that begin alike print the same.
    """

    paths: Paths
    ready: Mapping[str, build.Kernel]
    modules: Mapping[str, bytes]
    out: Path
    known: dict[int, Mapping[int, Layout]] = field(default_factory=dict)

    def instead(self, ours: build.Kernel) -> "Kernels":
        """Return these kernels with another one of ours."""
        module = {ours.config: _module(self.paths, ours)}
        ready = {**self.ready, ours.config: ours}
        return replace(self, ready=ready, modules={**self.modules, **module})


@dataclass
class Outcome:
    """Results of seeds from `first` on; `unsteady` are those that differed only once."""

    machine: Machine
    first: int = SEED
    seeds: int = 0
    pages: int = 0
    together: int = 0
    contiguous: int = 0
    wrong: dict[int, list[str]] = field(default_factory=dict)
    differences: dict[int, list[str]] = field(default_factory=dict)
    unsteady: list[int] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the figures of a run in one line."""
        return (
            f"{self.seeds} layouts, {self.pages} pages, {len(self.wrong)} wrong, "
            f"{len(self.differences)} differ, {len(self.unsteady)} differed only once"
        )


TWIN = recorded.Guest(
    SUITE,
    TWINS["base"],
    SUITE,
    rf"/(layout_\w+\.c|layout\.h|migrate_layouts\.c)$|/{MODULE}/|/migrate_lib/",
    (f"{RECORDED[0]},{len(RECORDED)}",),
)
"""The guest whose layouts are recorded."""


def prepare(paths: Paths, out: Path, config: str = "base", seeds: range | None = None) -> Kernels:
    """Build the kernels, the guest's programs, and the modules.

    `seeds` are all that run, if they run in virtual time alone: a twin is not built then whose
    record begins with them.
    """
    ready, modules = {}, {}
    known: dict[int, Mapping[int, Layout]] = {}
    with lock.cache(paths):
        for name in filter(None, (config, TWINS[config])):
            begins = name == TWIN.config and seeds and seeds == RECORDED[: len(seeds)]
            if begins and (record := recorded.known(paths, [TWIN])):
                known[RECORDED[0]] = dump.parse(record[TWIN.name])
                continue
            ready[name] = suite.prepare(paths, name)
            modules[name] = _module(paths, ready[name])
    return Kernels(paths, ready, modules, out, known)


def _module(paths: Paths, kernel: build.Kernel) -> bytes:
    """Return the module that shows page tables, built for a kernel that knows nothing of it."""
    tree = patches.get(paths, source.get(paths))
    objects = kernel.out / MODULE
    record, built = objects / "key.json", objects / f"{MODULE}.ko"
    key = [kernel.key, tree.subset_key(f"^{_DIRECTORY}/")]
    if jsonio.recall(list[str], record) != key:
        objects.mkdir(exist_ok=True)
        words = (f"M={tree.path / _DIRECTORY}", f"MO={objects}", "modules")
        make = build.make(kernel.tree, kernel.objects, *words, architecture=kernel.architecture)
        log = paths.logs / f"{MODULE}-{kernel.config}.log"
        process.run_logged(make, log, f"module {MODULE} for {kernel.config}")
        jsonio.write(record, key)
    return built.read_bytes()


def parse_boot(results: str) -> Boot:
    """Return what the suite printed; ValueError if that is not whole."""
    totals = {name: int(value) for name, value in _TOTAL.findall(results)}
    return Boot(dump.parse(dump.unpack(results)), totals)


def _boot(
    kernels: Kernels, config: str, machine: Machine, seeds: range, directory: Path,
    progress: Callable[[str], None],
) -> Boot:  # fmt: skip
    """Run some seeds on one kernel; HarnessError if anything but a layout goes wrong."""
    run = suite.run_quietly(
        kernels.paths, kernels.ready[config], SUITE, directory,
        {f"{MODULE}.ko": kernels.modules[config]}, args=machine.args(seeds, config),
        cpus=machine.vcpus, clock=machine.clock, progress=progress,
    )  # fmt: skip
    where = f"layouts: {config}, {len(seeds)} seeds from {seeds[0]}"
    try:
        boot = parse_boot(run.finished(where).results)
    except ValueError as error:
        raise HarnessError(f"{where}: {error}") from error
    if len(boot.layouts) != len(seeds):
        raise HarnessError(f"{where}: {len(boot.layouts)} ran", process.tail(run.results))
    return boot


def twin_again(paths: Paths, out: Path) -> str:
    """Boot the twin, and return the layouts that are recorded of it."""
    kernels = prepare(paths, out)
    directory = kernels.out / "guests" / f"{TWIN.config}-recorded"
    with ui.step(f"layouts: {TWIN.config}") as step:
        boot = _boot(kernels, TWIN.config, Machine(1), RECORDED, directory, step.progress)
        step.done(f"{len(RECORDED)} layouts")
    return dump.text_of(boot.layouts.values())


def unlike(recorded: str, now: str) -> list[str]:
    """Return how two outputs of the twin differ, in words."""
    old, new = map(dump.parse, (recorded, now))
    wrong = [f"seed {seed} is there once" for seed in sorted(old.keys() ^ new.keys())]
    for seed in sorted(old.keys() & new.keys()):
        wrong += [f"seed {seed}: {line}" for line in dump.changes(old[seed], new[seed])]
    return wrong


def judge(ours: Boot, vanilla: Boot | None = None, *, live: bool = False) -> dict[int, Finding]:
    """Return what is wrong or differs, by seed; `live` as in dump.judge()."""
    twins = vanilla.layouts if vanilla else {}
    findings = {
        seed: dump.judge(layout, twins.get(seed), live) for seed, layout in ours.layouts.items()
    }
    return {seed: finding for seed, finding in sorted(findings.items()) if finding}


def run(kernels: Kernels, machine: Machine, first: int, count: int) -> Outcome:
    """Judge seeds; with two processors, those that differ in flags up to twice more."""
    outcome = Outcome(machine, first)
    with ui.step(f"layouts: {machine}") as step, process.Threads(max_workers=_GUESTS) as pool:

        def look(seeds: range, what: str = "all") -> tuple[Boot, dict[int, Finding]]:
            def told(line: str) -> None:
                if match := _PROGRESS.fullmatch(line.strip()):
                    step.progress(f"{outcome.seeds + int(match[1])} of {count} seeds")

            def boot(config: str) -> Boot:
                twin = machine.vcpus == 1 and config != machine.config
                known = kernels.known.get(seeds[0], {})
                if twin and known.keys() >= {*seeds}:
                    return Boot({seed: known[seed] for seed in seeds}, {})
                directory = kernels.out / "guests" / f"{config}-{what}-{seeds[0]}"
                booted = _boot(kernels, config, machine, seeds, directory, told)
                if twin:
                    kernels.known[seeds[0]] = booted.layouts
                return booted

            ours, *vanilla = pool.map(boot, machine.configs)
            return ours, judge(ours, *vanilla, live=machine.offload)

        for start in range(first, first + count, _PER_BOOT):
            seeds = range(start, min(start + _PER_BOOT, first + count))
            boot, findings = look(seeds)
            layouts = boot.layouts.values()
            outcome.seeds += len(seeds)
            moved = (dump.parse_stage(layout.stages.get("there", ())) for layout in layouts)
            outcome.pages += sum(len(stage.pages) for stage in moved)
            outcome.together += sum(map(dump.moved_together, layouts))
            outcome.contiguous += sum(map(dump.contiguous, layouts))
            outcome.totals += wrong_totals(boot.totals, machine)
            for seed, at_first in findings.items():
                finding = at_first
                for attempt in range(_ATTEMPTS if machine.forgiven else 0):
                    if finding and not finding.wrong:
                        _, again = look(range(seed, seed + 1), f"again{attempt}")
                        finding = again.get(seed, Finding())
                if finding.wrong:
                    outcome.wrong[seed] = finding.wrong
                elif finding:
                    outcome.differences[seed] = finding.different
                else:
                    outcome.unsteady.append(seed)
        step.done(str(outcome))
    return outcome


def wrong_totals(totals: Mapping[str, int], machine: Machine) -> list[str]:
    """Return what is wrong with the totals of a boot of ours."""
    wrong = [
        f"{name} is {totals.get(name, 'missing')}, not 0"
        for name in ("anon", "anon_thp", "shmem", "file_mapped", "unevictable")
        if totals.get(name) != 0
    ]
    if totals.get("lost_pages", _LOST_PAGES) >= _LOST_PAGES:
        wrong.append(f"{totals.get('lost_pages')} pages are lost, not less than {_LOST_PAGES}")
    # Only an allocation that may reclaim stalls: one page, after none came in bulk.
    if machine.pressure and not totals.get("allocstall_movable"):
        wrong.append("no allocation stalled: there was memory")
    if machine.offload and not totals.get("folios_copied"):
        wrong.append("the engine copied nothing")
    if machine.offload and not totals.get("live_copied"):
        wrong.append("nothing was copied while it was mapped")
    return wrong


def cases(outcome: Outcome) -> list[Case]:
    """Return the outcome as tests, whose names carry their bounds."""
    machine, number = outcome.machine, outcome.seeds
    limit = number * machine.forgiven // 25
    # Memory that is hardly there is moved in no batches.
    together = 0 if machine.pressure else number * _TOGETHER // 100
    checks = [
        ("contents are right at first sight", not outcome.wrong, _told(outcome.wrong)),
        ("none differs twice", not outcome.differences, _told(outcome.differences)),
    ]
    unsteady = " ".join(map(str, outcome.unsteady))
    checks.append((f"at most {limit} differed once", len(outcome.unsteady) <= limit, unsteady))
    name = f"no folio or charge stays, less than {_LOST_PAGES} pages lost"
    checks.append((name, not outcome.totals, "\n".join(outcome.totals)))
    name = f"several large folios in a batch at least {together} times"
    checks.append((name, outcome.together >= together, f"{outcome.together} times"))
    if machine.config == "arm64":
        name = f"contiguous PTEs map at least {number} pages that moved"
        checks.append((name, outcome.contiguous >= number, f"{outcome.contiguous} pages"))
    last = outcome.first + number - 1
    where = f"{machine}: {number} layouts, seeds {outcome.first} to {last}"
    return [Case.judged(f"{where}: {name}", passed, detail) for name, passed, detail in checks]


def _told(findings: Mapping[int, Sequence[str]]) -> str:
    lines = []
    for seed in list(findings)[:_LISTED]:
        lines += [f"seed {seed}:", *(f"  {line}" for line in findings[seed])]
    if more := list(findings)[_LISTED:]:
        lines.append(f"also: {' '.join(map(str, more))}")
    return "\n".join(lines)


def main(paths: Paths, machine: Machine, first: int, count: int) -> int:
    """Run `make layouts`."""
    if count < 1:
        raise HarnessError("layouts: COUNT is at least 1")
    seeds = range(first, first + count) if machine.vcpus == 1 else None
    kernels = prepare(paths, paths.out / SUITE, machine.config, seeds)
    outcome = run(kernels, machine, first, count)
    failed = [case for case in cases(outcome) if case.status is Status.FAILED]
    for case in failed:
        ui.plain(f"{case.name}: FAILED\n{case.detail}")
    ui.say(f"layouts: {machine}, seeds {first} to {first + count - 1}: {outcome}")
    return 1 if failed else 0
