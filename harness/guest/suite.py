"""Running suites in the guest: from the sources to a judged result."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.core import lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import image, ktap, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, programs, qemu
from harness.kernel import tree as patches
from harness.kernel.arch import PC, Architecture, Machine
from harness.kernel.build import Kernel

# The debug kernel is 2 to 6 times slower, and takes 20 s to boot.
_DEBUG_FACTOR = 4
_SETTINGS = re.compile(r"^# qemu:(.*)$", re.MULTILINE)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suite's wishes in comment lines `# qemu: memory=4G cpus=4 timeout=600 erms tiers`.

    `timeout` and `silent` are in seconds. `virtual` is for virtual time (see vm.Clock), in
    which a single processor always runs; two nodes share several. `machine` is '' for the first
    one of the architecture.
    """

    memory: Annotated[str, msgspec.Meta(pattern="^[0-9]+[MG]$")] = "2G"
    cpus: int = 2
    virtual: bool = False
    timeout: int = 900
    silent: int = 120
    append: tuple[str, ...] = ()
    erms: bool = False
    tiers: bool = False
    machine: str = ""

    @property
    def memory_mib(self) -> int:
        """The memory in MiB."""
        return int(self.memory[:-1]) * (1024 if self.memory[-1] == "G" else 1)


@dataclass(frozen=True)
class SuiteResult:
    """A suite that has run; `failure` is '' if all is well, or says what is not."""

    run: vm.Run
    cases: tuple[Case, ...]
    failure: str


def parse_settings(script: str) -> Settings:
    """Read the settings in a suite's comment lines; ValueError says what is wrong."""
    values: dict[str, Any] = {"append": []}
    for word in " ".join(_SETTINGS.findall(script)).split():
        name, _, value = word.partition("=")
        if name == "append":
            values[name].append(value)
        else:
            values[name] = value or True
    values["virtual"] = values.get("virtual") or values.get("cpus") == "1"
    settings = msgspec.convert(values, Settings, strict=False)
    if settings.cpus != 1 and settings.cpus % 2:
        raise ValueError(f"cpus={settings.cpus} cannot be shared by two nodes")
    return settings


def machine_of(architecture: Architecture, settings: Settings) -> Machine:
    """Return the machine on which a suite runs; HarnessError if there is none."""
    for machine in architecture.machines:
        if settings.machine in ("", machine.name):
            return machine
    raise HarnessError(f"no machine '{settings.machine}' for a kernel for {architecture.name}")


def command_line(
    config: str, suite: str, args: str, settings: Settings, machine: Machine = PC
) -> str:
    """Return the guest kernel's command line."""
    words = [f"console={machine.console}", "panic=-1", "oops=panic", *machine.append]
    if config == "debug":
        words += ["panic_on_warn=1", "page_poison=1", "mig.debug=1"]
    if machine != PC:  # what the guest assumes by itself
        words += [f"mig.results={machine.results}", f"mig.engine={machine.engine}"]
    if settings.virtual and machine.qemu == PC.qemu:
        words.append("tsc=reliable")  # the clocks of two processors differ by a quantum
    words += settings.append
    words.append(f"mig.suite={suite}")
    if args:
        words.append(f"mig.args={args}")
    return " ".join(words)


def describe(verdict: vm.Verdict, cases: tuple[Case, ...]) -> str:
    """Say in one line what is wrong with a run, or return ''."""
    if verdict.outcome is not vm.Outcome.FINISHED:
        return verdict.message
    if failed := [case.name for case in cases if case.status is Status.FAILED]:
        tests = "a test" if len(failed) == 1 else f"{len(failed)} tests"
        return f"the guest failed {tests}: {ktap.some(failed)}"
    return f"the suite failed: {verdict.message}" if verdict.status else ""


def prepare(
    paths: Paths, config: str, tree: patches.Tree | None = None, tools: patches.Tree | None = None,
    *, debian: bool = False,
) -> Kernel:  # fmt: skip
    """Build all that a guest needs: a kernel and programs, of trees of their own if given.

    And QEMU, unless Debian's will do.
    """
    with lock.cache(paths):
        if not debian:
            qemu.get(paths, build.architecture_of(config).emulators)
        tree = tree or build.tree(paths, config)
        kernel = build.get(paths, tree, config)
        if not tools:
            tools = tree if tree.name == patches.ALL else patches.get(paths, tree.source)
        image.build(paths, kernel, programs.get(paths, tools, kernel.architecture))
        for machine in kernel.architecture.machines:
            if machine.device_tree:
                _build_device_tree(paths, kernel, machine)
        return kernel


def _build_device_tree(paths: Paths, kernel: Kernel, machine: Machine) -> None:
    """Compile a device tree, through the preprocessor as the kernel does."""
    source = paths.guest / "machines" / machine.device_tree
    final = _device_tree(kernel, machine)
    plain, fresh = final.with_suffix(".dts"), final.with_suffix(".new")
    cpp = [kernel.architecture.compiler, "-E", "-P", "-undef", "-x", "assembler-with-cpp"]
    for command in (
        [*cpp, "-o", str(plain), str(source)],
        ["dtc", "-I", "dts", "-O", "dtb", "-o", str(fresh), str(plain)],
    ):
        log = paths.logs / f"device-tree-{machine.name}.log"
        process.run_logged(command, log, f"device tree of {machine.name}")
    fresh.replace(final)


def _device_tree(kernel: Kernel, machine: Machine) -> Path:
    return kernel.out / f"{machine.name}.dtb"


def seed() -> int:
    """Return the seed of suites in virtual time: SEED, or 1."""
    text = os.environ.get("SEED") or "1"
    if not text.isdigit():
        raise HarnessError(f"SEED={text} is not a number")
    return int(text)


def settings_of(paths: Paths, suite: str) -> Settings:
    """Return the settings of a suite, which must exist."""
    script = paths.guest / "suites" / suite
    if not script.is_file():
        names = sorted(path.name for path in (paths.guest / "suites").glob("*"))
        raise HarnessError(f"no suite '{suite}': there are {', '.join(names)}")
    try:
        return parse_settings(script.read_text())
    except ValueError as error:
        raise HarnessError(f"guest/suites/{suite}: {error}") from error


def quiet_settings(
    paths: Paths, suite: str, cpus: int = 0, memory: str = "", append: Sequence[str] = (),
    tiers: bool = False,
) -> Settings:  # fmt: skip
    """Return the settings of a suite that run_quietly() runs."""
    settings = settings_of(paths, suite)
    return msgspec.structs.replace(
        settings,
        cpus=cpus or settings.cpus,
        tiers=tiers or settings.tiers,
        virtual=True,
        memory=memory or settings.memory,
        append=(*settings.append, "norandmaps", *append),
    )


def _guest(
    emulators: Path, kernel: Kernel, suite: str, args: str, settings: Settings,
    clock: vm.Clock | None = None, **more: Any,
) -> vm.Guest:  # fmt: skip
    machine = machine_of(kernel.architecture, settings)
    factor = _DEBUG_FACTOR if kernel.config == "debug" else 1
    return vm.Guest(
        kernel=kernel.image,
        initrd=image.path(kernel),
        command_line=command_line(kernel.config, suite, args, settings, machine),
        memory_mib=machine.memory_mib or settings.memory_mib,
        cpus=machine.cpus or settings.cpus,
        clock=clock or vm.Clock() if settings.virtual else None,
        erms=settings.erms,
        tiers=settings.tiers,
        machine=machine,
        qemu=emulators,
        device_tree=_device_tree(kernel, machine) if machine.device_tree else None,
        timeout=settings.timeout * factor,
        silent=settings.silent * factor,
        **more,
    )


def run_quietly(
    paths: Paths, kernel: Kernel, suite: str, directory: Path, files: Mapping[str, bytes], *,
    args: str = "", cpus: int = 0, tiers: bool = False, memory: str = "",
    append: Sequence[str] = (), devices: Sequence[str] = (), clock: vm.Clock | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> vm.Run:  # fmt: skip
    """Run one suite with additional files in virtual time, and print nothing.

    `devices` are options that QEMU gets besides; `cpus`, `tiers` (see vm.Guest) and `memory` are
    as the suite asks if they are false; `append` is for the kernel's command line.
    """
    settings = quiet_settings(paths, suite, cpus, memory, append, tiers)
    emulators, extra = qemu.programs(paths), image.archive(files)
    guest = _guest(emulators, kernel, suite, args, settings, clock, extra=extra)
    machine = replace(guest.machine, options=(*guest.machine.options, *devices))
    shutil.rmtree(directory, ignore_errors=True)
    run = vm.run(replace(guest, machine=machine), directory, progress)
    (directory / "initrd").unlink(missing_ok=True)
    return run


def run_suite(
    paths: Paths, kernel: Kernel, suite: str, args: str, directory: Path, machine: str = "", *,
    turn: str = "", enough: Callable[[str], bool] = lambda _: False, debian: bool = False,
    clock: vm.Clock | None = None, wall: bool = False,
) -> SuiteResult:  # fmt: skip
    """Run one suite, with its logs in `directory`; a failure does not raise.

    `machine` is the one to run it on, or '' for the one that it asks for; `turn` names groups
    of `make check`, a comma between them; for `enough` see vm.Guest; `debian` is for Debian's
    QEMU instead of ours; `clock` is for a suite in virtual time, with the seed that SEED names
    by default, unless it runs by the clock on the `wall`, without what it asserts of times.
    """
    settings = settings_of(paths, suite)
    more = [*([f"mig.turn={turn}"] if turn else []), *(["mig.untimed=1"] if wall else [])]
    settings = msgspec.structs.replace(
        settings,
        machine=machine or settings.machine,
        virtual=settings.virtual and not wall,
        append=(*settings.append, *more),
    )
    emulators = vm.DEBIAN if debian else qemu.programs(paths)
    time = clock or vm.Clock(seed())
    guest = _guest(emulators, kernel, suite, args, settings, time, enough=enough)
    shutil.rmtree(directory, ignore_errors=True)
    return watch(guest, directory, f"guest {kernel.config} {suite} {args}".rstrip())


def watch(guest: vm.Guest, directory: Path, title: str) -> SuiteResult:
    """Run a guest that prints test results, as a step of the work."""
    with ui.step(title) as step:
        run = vm.run(guest, directory, step.progress)
        cases = tuple(ktap.parse(run.results))
        failure = describe(run.verdict, cases)
        counts = str(ktap.count(cases)) if cases else "finished"
        step.done(f"FAILED: {failure}" if failure else counts)
    return SuiteResult(run, cases, failure)


def show_failure(result: SuiteResult, directory: Path) -> None:
    """Print what helps to understand a failed run: the tests' words, the console's end."""
    failed = [case for case in result.cases if case.status is Status.FAILED]
    for case in failed:
        ui.plain(f"  not ok {case.name}")
        for line in case.detail.splitlines():
            ui.plain(f"      {line}")
    results = [] if failed else [("results", process.tail(result.run.results))]
    for log, end in [*results, ("console", result.run.console_end)]:
        ui.plain(f"  end of {directory}/{log}.log:")
        for line in end.splitlines():
            ui.plain(f"    | {line}")


def main(paths: Paths, config: str, suite: str, args: str, machine: str, turn: str) -> int:
    """Run one suite and print what it said; `machine` and `turn` as for run_suite()."""
    directory = paths.out / "guest" / "-".join(filter(None, (config, suite, machine)))
    kernel = prepare(paths, config)
    result = run_suite(paths, kernel, suite, args, directory, machine, turn=turn)
    ui.plain(result.run.results.rstrip())
    if result.failure:
        show_failure(result, directory)
        raise HarnessError(f"suite {suite} on the {config} kernel: {result.failure}")
    return 0


def shell(paths: Paths, config: str) -> int:
    """Boot a guest with a shell on this terminal."""
    kernel = prepare(paths, config)
    guest = _guest(qemu.programs(paths), kernel, "shell", "", settings_of(paths, "shell"))
    ui.say("shell: 'exit' powers the guest off, Ctrl-A X kills it")
    return vm.interact(guest, paths.out / "shell" / "results.log")
