"""`make layouts`: random layouts of memory migrate in two kernels, vanilla and ours.

With one processor guests run in virtual time, where every run is the same: a seed that differs
is a failure. With two, a seed that differs in flags is run again, alone; one whose contents are
wrong fails at first sight.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.layouts import dump
from harness.layouts.dump import Finding, Layout

TWINS = {"lab": "lab-vanilla", "base": "base-vanilla", "arm64": "", "debug": ""}
"""Kernels that layouts run on, and what each is compared with; '' is its own rules alone."""

SUITE = "layouts"
MODULE = "page_state"
COUNT = 500
SEED = 1

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
    layouts cannot be compared with vanilla's.
    """

    vcpus: int
    config: str = "lab"
    offload: bool = False
    pressure: bool = False

    @property
    def configs(self) -> tuple[str, ...]:
        """The kernels to boot: ours first."""
        twin = "" if self.pressure else TWINS[self.config]
        return (self.config, twin) if twin else (self.config,)

    @property
    def forgiven(self) -> int:
        """Of 25 seeds, how many may differ in flags in one run and not in the next."""
        return 0 if self.vcpus == 1 else 1

    def args(self, first: int, number: int, config: str) -> str:
        """Return the suite's arguments on a kernel."""
        offload = self.offload and config == self.config
        words = [("threads", self.vcpus > 1), ("offload", offload), ("pressure", self.pressure)]
        return ",".join([str(first), str(number), *(word for word, given in words if given)])

    def __str__(self) -> str:
        """Return the machine as part of a case's name."""
        words = [self.config, f"{self.vcpus} vCPU"]
        words += ["an engine copies"] if self.offload else []
        words += ["little memory"] if self.pressure else []
        return ", ".join(words)


@dataclass(frozen=True)
class Kernels:
    """Kernels that are ready to boot, and the module for each."""

    paths: Paths
    ready: Mapping[str, build.Kernel]
    modules: Mapping[str, bytes]
    out: Path


@dataclass(frozen=True)
class Boot:
    """What a guest printed: layouts by seed, and its totals."""

    layouts: Mapping[int, Layout]
    totals: Mapping[str, int]


@dataclass
class Outcome:
    """What a run found, by seed; `unsteady` are seeds that differed once."""

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


def spans(first: int, count: int, size: int = _PER_BOOT) -> Iterator[tuple[int, int]]:
    """Split seeds into the first seed and the number of each boot."""
    for start in range(0, count, size):
        yield first + start, min(size, count - start)


def prepare(
    paths: Paths, out: Path, config: str = "lab", ours: build.Kernel | None = None
) -> Kernels:
    """Build the kernels, ours unless it is given, the guest's programs, and the modules."""
    ready, modules = {}, {}
    with lock.cache(paths):
        for name in filter(None, (config, TWINS[config])):
            given = ours if name == config else None
            ready[name] = given or suite.prepare(paths, name)
            modules[name] = _module(paths, ready[name])
    return Kernels(paths, ready, modules, out)


def _module(paths: Paths, kernel: build.Kernel) -> bytes:
    """Return the module that shows page tables, built for a kernel that knows nothing of it."""
    tree = patches.get(paths, source.get(paths))
    objects = kernel.objects.with_name(f"{kernel.objects.name}.{MODULE}")
    record, built = objects / "key.json", objects / f"{MODULE}.ko"
    key = [kernel.key, tree.subset_key(f"^{_DIRECTORY}/")]
    if jsonio.recall(list[str], record) != key:
        objects.mkdir(exist_ok=True)
        process.run_logged(
            ["make", "-C", str(kernel.objects), *kernel.architecture.make_variables,
             f"M={tree.path / _DIRECTORY}", f"MO={objects}", "modules"],
            paths.logs / f"{objects.name}.log",
            f"module {MODULE} for {kernel.config}",
        )  # fmt: skip
        jsonio.write(record, key)
    return built.read_bytes()


def parse_boot(results: str) -> Boot:
    """Return what the suite printed; ValueError if that is not whole."""
    totals = {name: int(value) for name, value in _TOTAL.findall(results)}
    return Boot(dump.parse(dump.unpack(results)), totals)


def _boot(
    kernels: Kernels,
    config: str,
    machine: Machine,
    span: tuple[int, int],
    directory: Path,
    progress: Callable[[str], None],
) -> Boot:
    """Run some seeds on one kernel; HarnessError if anything but a layout goes wrong."""
    run = suite.run_quietly(
        kernels.paths, kernels.ready[config], SUITE, directory,
        {f"{MODULE}.ko": kernels.modules[config]},
        args=machine.args(*span, config),
        cpus=machine.vcpus,
        progress=progress,
    )  # fmt: skip
    where = f"layouts: {config}, {span[1]} seeds from {span[0]}"
    if run.verdict.outcome is not vm.Outcome.FINISHED:
        raise HarnessError(f"{where}: {run.verdict.message}", run.what_happened)
    try:
        boot = parse_boot(run.results)
    except ValueError as error:
        raise HarnessError(f"{where}: {error}") from error
    if len(boot.layouts) != span[1]:
        raise HarnessError(f"{where}: {len(boot.layouts)} ran", process.tail(run.results))
    return boot


def judge(ours: Boot, vanilla: Boot | None) -> dict[int, Finding]:
    """Return what is wrong or differs, by seed."""
    twins = vanilla.layouts if vanilla else {}
    found = {seed: dump.judge(layout, twins.get(seed)) for seed, layout in ours.layouts.items()}
    return {seed: finding for seed, finding in sorted(found.items()) if finding}


def run(
    kernels: Kernels, machine: Machine, first: int, count: int, per_boot: int = _PER_BOOT
) -> Outcome:
    """Judge seeds; with two processors, those that differ in flags up to twice more."""
    outcome = Outcome()
    with (
        ui.step(f"layouts: {machine}") as step,
        ThreadPoolExecutor(max_workers=_GUESTS) as pool,
    ):

        def look(span: tuple[int, int], what: str) -> tuple[dict[int, Finding], Boot]:
            def told(line: str) -> None:
                if match := _PROGRESS.fullmatch(line.strip()):
                    step.progress(f"{outcome.seeds + int(match[1])} of {count} seeds")

            def boot(config: str) -> Boot:
                directory = kernels.out / "guests" / f"{config}-{what}-{span[0]}"
                return _boot(kernels, config, machine, span, directory, told)

            ours, *rest = pool.map(boot, machine.configs)
            return judge(ours, rest[0] if rest else None), ours

        for number, size in spans(first, count, per_boot):
            found, boot = look((number, size), "all")
            outcome.seeds += size
            outcome.pages += sum(map(dump.pages_moved, boot.layouts.values()))
            outcome.together += sum(map(dump.moved_together, boot.layouts.values()))
            outcome.contiguous += sum(map(dump.contiguous, boot.layouts.values()))
            outcome.totals += wrong_totals(boot.totals, machine)
            for seed, first_finding in found.items():
                finding = first_finding
                for attempt in range(_ATTEMPTS if machine.forgiven else 0):
                    if finding and not finding.wrong:
                        again, _ = look((seed, 1), f"again{attempt}")
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
    said = [
        f"{name} is {totals.get(name, 'missing')}, not 0"
        for name in ("anon", "anon_thp", "shmem", "file_mapped", "unevictable")
        if totals.get(name) != 0
    ]
    if totals.get("lost_pages", _LOST_PAGES) >= _LOST_PAGES:
        said.append(f"{totals.get('lost_pages')} pages are lost, not less than {_LOST_PAGES}")
    # Only an allocation that may reclaim stalls: one page, after none came in bulk.
    if machine.pressure and not totals.get("allocstall_movable"):
        said.append("no allocation stalled: there was memory")
    if machine.offload and not totals.get("folios_copied"):
        said.append("the engine copied nothing")
    return said


def cases(outcome: Outcome, machine: Machine, first: int) -> list[Case]:
    """Return the outcome as tests, whose names carry their bounds."""
    last = first + outcome.seeds - 1
    limit = outcome.seeds * machine.forgiven // 25
    # Memory that is hardly there is moved in no batches.
    together = 0 if machine.pressure else outcome.seeds * _TOGETHER // 100
    seeds = f"{machine}: {outcome.seeds} layouts, seeds {first} to {last}"
    checks: list[tuple[str, Mapping[int, list[str]] | Sequence[object], int]] = [
        ("contents are right at first sight", outcome.wrong, 0),
        ("none differs twice", outcome.differences, 0),
        (f"at most {limit} differed once", outcome.unsteady, limit),
        (f"no folio or charge stays, less than {_LOST_PAGES} pages lost", outcome.totals, 0),
    ]
    found = [
        Case(f"{seeds}: {name}", *_judged(len(what) <= most, _told(what)))
        for name, what, most in checks
    ]
    name = f"{seeds}: several large folios in a batch at least {together} times"
    said = f"{outcome.together} times"
    found.append(Case(name, *_judged(outcome.together >= together, [said])))
    if machine.config == "arm64":
        name = f"{seeds}: contiguous PTEs map at least {outcome.seeds} pages that moved"
        said = f"{outcome.contiguous} pages"
        found.append(Case(name, *_judged(outcome.contiguous >= outcome.seeds, [said])))
    return found


def _judged(passed: bool, lines: Sequence[str]) -> tuple[Status, str]:
    return (Status.PASSED, "") if passed else (Status.FAILED, "\n".join(lines))


def _told(found: Mapping[int, list[str]] | Sequence[object]) -> list[str]:
    if not isinstance(found, Mapping):
        return [str(one) for one in found]
    lines = []
    for seed in list(found)[:_LISTED]:
        lines += [f"seed {seed}:", *(f"  {line}" for line in found[seed])]
    if more := list(found)[_LISTED:]:
        lines.append(f"also: {' '.join(map(str, more))}")
    return lines


def main(paths: Paths, machine: Machine, first: int, count: int) -> int:
    """Run `make layouts`."""
    if count < 1:
        raise HarnessError("layouts: COUNT is at least 1")
    kernels = prepare(paths, paths.out / SUITE, machine.config)
    outcome = run(kernels, machine, first, count)
    failed = [case for case in cases(outcome, machine, first) if case.status is Status.FAILED]
    for case in failed:
        ui.plain(f"{case.name}: FAILED\n{case.detail}")
    ui.say(f"layouts: {machine}, seeds {first} to {first + count - 1}: {outcome}")
    return 1 if failed else 0
