"""`make check`: the quick tests, in an order that tells bad news early, or some of them.

Groups that it leaves out have their turn in continuous integration (see turns.py). If arm64 is
the first group of a turn, the debug kernel and its suites are left out instead.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from harness import demo
from harness.checks import clock, compare, heads, stages, turns
from harness.checks.lint import run as lint
from harness.checks.stages import Run, Stage
from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, vm
from harness.guest import suite as guest
from harness.guest.ktap import Case, Status
from harness.kernel import build, qemu, source, tree
from harness.kernel.build import Kernel
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.layouts import run as layouts
from harness.layouts.run import Machine
from harness.series import ends, export

KERNELS = ("base", "debug", "arm64")
"""Kernels that suites may name in their heads, in the order in which they run."""

SEEDS = 3
"""With how many seeds suites in virtual time run if TURN is `all`."""

_FIRST = "kunit"  # of the suites: the quickest news

# How many random layouts, and where: a kernel, and the group in whose turn. Vanilla for arm64
# would take minutes to build: rules that need none judge that kernel, and the debug kernel.
LAYOUTS = {
    ("base", ""): {
        Machine(vcpus=1): 120,
        Machine(vcpus=1, offload=True): 20,
        Machine(vcpus=1, pressure=True): 20,
        Machine(vcpus=1, offload=True, pressure=True): 10,
    },
    ("debug", ""): {Machine(vcpus=1, config="debug", offload=True): 4},
    ("base", "layouts"): {Machine(vcpus=2): 25},
    ("arm64", "arm64"): {Machine(vcpus=1, config="arm64"): 40},
}


def every(paths: Paths, turn: Sequence[str]) -> list[Stage]:
    """Return the stages of all groups, those aside last; `turn` has the groups that run."""
    return sorted([*tests(paths, turn), *builds(paths)], key=lambda stage: stage.aside)


def builds(paths: Paths) -> list[Stage]:
    """Return what runs in the background, in the order in which it is needed.

    What others need goes first, then what no load of the machine can change: the laboratory
    counts instructions, and layouts of memory have no time limits.
    """

    def background(name: str, run: Run, needs: str = "", group: str = "") -> Stage:
        return Stage(name, run, needs, background=True, group=group)

    def emulator(name: str, config: str) -> Stage:
        programs = build.architecture_of(config).emulators
        return background(name, lambda *_: qemu.get(paths, programs))

    def kernel(config: str) -> Stage:
        needs = "qemu-arm64" if config == "arm64" else "qemu"
        return background(f"kernel-{config}", lambda *_: guest.prepare(paths, config), needs)

    def layouts_of(config: str, group: str) -> Stage:
        run = partial(_layouts, paths, config, LAYOUTS[config, group])
        name = f"layouts-{config}" if group in ("", config) else f"layouts-{config}-vcpus"
        needs = {"base": "kernels-lab"}.get(config, f"kernel-{config}")
        return background(name, run, needs, group)

    return [
        emulator("qemu", "base"),
        kernel("base"),
        kernel("debug"),
        background("kernels-lab", partial(_kernels, paths), "kernel-base"),
        emulator("qemu-arm64", "arm64"),
        kernel("arm64"),
        background("lint", lambda *_: lint.run_lint(paths, tree.get(paths, source.get(paths)))),
        background("series", lambda *_: _series(paths)),
        *(layouts_of(*which) for which in LAYOUTS),
        background("lab", _lab, "kernels-lab"),
        background("vanilla", partial(_vanilla, paths), "kernel-base", "layouts"),
        background("series-ends", lambda *_: ends.main(paths), "kernel-base", turns.ALL),
    ]


def tests(paths: Paths, turn: Sequence[str]) -> list[Stage]:
    """Return what runs in the foreground, in this order; `turn` has the groups that run."""

    def show(engine: demo.Engine, group: str = "") -> Stage:
        name = demo.directory_of(paths, engine).name
        run = partial(demo.run, paths, engine)
        needs = f"kernel-{engine.config}"
        return Stage(name, lambda kernel, _: run(kernel).cases, needs, group=group)

    all_heads = heads.read(paths.guest / "suites", KERNELS, turns.GROUPS)

    def suites(config: str) -> list[Stage]:
        names = [name for name, head in all_heads.items() if config in head.kernels]
        names.sort(key=lambda name: (name != _FIRST, name))
        return [stage for name in names for stage in runs(config, name)]

    def runs(config: str, name: str) -> list[Stage]:
        settings, head = guest.settings_of(paths, name), all_heads[name]
        counts = () if settings.virtual else head.counts
        run = partial(_suite, paths, name, turn=",".join(turn))
        needs, group = f"kernel-{config}", head.kernels[config]
        stage = Stage(f"{config}-{name}", run, needs, False, counts, group, settings.virtual)
        once = head.once or settings.cpus == 1 or config != next(iter(head.kernels))
        return [stage] if once else interleaved(stage, by_the_wall=config == "base")

    def interleaved(first: Stage, by_the_wall: bool = False) -> list[Stage]:
        """Return a stage, and if TURN is `all` how else it may interleave, but no long one."""
        if not first.virtual or turns.ALL not in turn:
            return [first]

        def other(suffix: str, **how: Any) -> Stage:
            return replace(first, name=f"{first.name}-{suffix}", run=partial(first.run, **how))

        seeds = range(guest.seed() + 1, guest.seed() + (1 if first.group else SEEDS))
        seeded = [other(f"seed-{seed}", turn="", clock=vm.Clock(seed)) for seed in seeds]
        untimed = replace(other("untimed", turn="", wall=True), counts=("*",), virtual=False)
        # By the wall, mm's selftests and a debug kernel fail by being slow.
        return [first, *seeded, *([untimed] if by_the_wall else [])]

    others = [engine for engine in demo.ENGINES.values() if engine != demo.DMASIM]
    return [
        Stage("unit", lambda _, out: _unit_tests(paths, out)),
        show(demo.DMASIM),
        *suites("base"),
        Stage(clock.SUITE, partial(clock.run, paths), "kernel-base", virtual=True),
        *interleaved(Stage("mm-selftests", partial(_mm, paths), "kernel-base", virtual=True)),
        *suites("debug"),
        *(show(engine, "arm64" if engine.config == "arm64" else engine.name) for engine in others),
        *suites("arm64"),
    ]


def of_turn(known: Sequence[Stage], turn: tuple[str, ...]) -> set[str]:
    """Return the names of the stages that run in a turn, besides those that they need."""
    missing = "kernel-debug" if turn[:1] == ("arm64",) else None
    return {
        stage.name
        for stage in known
        if stage.group in ("", *turn)
        and stage.needs != missing
        and not stage.name.startswith(("kernel", "qemu"))  # if nothing needs them
    }


def suite_cases(result: guest.SuiteResult) -> list[Case]:
    """Return a suite's cases, with one more that fails if the guest or the suite did."""
    finished = result.run.verdict.outcome is vm.Outcome.FINISHED
    wrong = result.failure
    if finished and any(case.status is Status.FAILED for case in result.cases):
        wrong = ""
    elif not wrong and not result.cases:
        wrong = "the suite printed no test results"
    detail = f"{wrong}\n{result.run.what_happened}"
    return [*result.cases, *([Case("guest", Status.FAILED, detail)] if wrong else [])]


def _unit_tests(paths: Paths, out: Path) -> list[Case]:
    """Run the host's unit tests, apart from us, since they replace parts of the harness."""
    out.mkdir()
    xml = out / "junit.xml"
    with ui.step("host unit tests") as step:
        status, text = process.attempt(
            [sys.executable, "-m", "pytest", f"--junitxml={xml}"], paths.root
        )
        (out / "pytest.log").write_text(text)
        if not xml.exists():
            raise HarnessError(f"pytest ended with status {status}", process.tail(text))
        cases = ktap.parse_junit(xml.read_text())
        step.done(str(ktap.count(cases)))
    return cases


def _series(paths: Paths) -> list[Case]:
    export.main(paths)
    return [Case("each topic applies, and all are the tree that was tested", Status.PASSED)]


def _suite(paths: Paths, name: str, kernel: Kernel, directory: Path, **how: Any) -> list[Case]:
    result = guest.run_suite(paths, kernel, name, "", directory, **how)
    if result.failure:
        guest.show_failure(result, directory)
    return suite_cases(result)


def _mm(paths: Paths, kernel: Kernel, out: Path, **how: Any) -> list[Case]:
    """Run the tree's mm selftests with the offload, and those that do not pass without it."""

    def run(mode: str, programs: Sequence[str] = ()) -> list[Case]:
        args = ",".join([mode, *programs])
        result = guest.run_suite(paths, kernel, "mm-selftests", args, out / mode, **how)
        if result.run.verdict.outcome is not vm.Outcome.FINISHED or not result.cases:
            guest.show_failure(result, out / mode)
            raise HarnessError(f"offload {mode}: {result.failure or 'no test results'}")
        return compare.without_mode(result.cases, mode)

    on = run("on")
    programs = compare.programs(on)
    return compare.once(run("off", programs), on) if programs else on


def _laboratory() -> ModuleType:
    from harness.lab import run  # noqa: PLC0415 (imports matplotlib, which takes a while)

    return run


def _kernels(paths: Paths, _: object, out: Path) -> Any:
    """Build what the quick laboratory compares, as far as it is not recorded."""
    return _laboratory().prepare(paths, out, quick=True)


def _lab(prepared: Any, out: Path) -> list[Case]:
    """Run the quick laboratory, a part of it twice, and judge what it says."""
    lab = _laboratory()
    first = lab.run(replace(prepared, out=out / "1"), preset.DEFAULT, True)
    second = lab.again(replace(prepared, out=out / "2"), first)
    return claims.judge(first, second)


def _vanilla(paths: Paths, _: object, out: Path) -> list[Case]:
    """Build vanilla, and compare what is recorded of it."""
    from harness.checks import record  # noqa: PLC0415 (imports matplotlib)

    return record.judge(paths, out)


def _layouts(
    paths: Paths, config: str, machines: Mapping[Machine, int], _: object, directory: Path
) -> list[Case]:
    """Compare random layouts of memory with vanilla, always the same, by the clock of SEED."""
    seeds = range(layouts.SEED, layouts.SEED + max(machines.values()))
    single = all(machine.vcpus == 1 for machine in machines)
    kernels = layouts.prepare(paths, directory, config, seeds if single else None)
    clock = vm.Clock(guest.seed())
    return [
        case
        for machine, count in machines.items()
        for case in layouts.cases(
            layouts.run(kernels, replace(machine, clock=clock), layouts.SEED, count)
        )
    ]


def main(paths: Paths, only: str = "", turn: str = "") -> int:
    """Run the tests of a turn, or those that `only` names; the last line counts them."""
    chosen = turns.parse(turn)
    known = every(paths, chosen)
    wanted = stages.select(known, of_turn(known, chosen), only)
    ui.say(f"check: seed {guest.seed()}, turn of {', '.join(chosen) or 'no group'}")
    with lock.cache(paths):
        return stages.run(paths.out / "check", wanted)
