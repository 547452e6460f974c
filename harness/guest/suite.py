"""Running suites in the guest: from the sources to a judged result."""

import functools
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import image, ktap, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, programs
from harness.kernel import tree as patches
from harness.kernel.arch import PC, Architecture, Machine

# The debug kernel is 2 to 6 times slower, and takes 20 s to boot.
_DEBUG_FACTOR = 4
_KVM_PROBE = vm.Limits(total=10, silent=10)
_SETTINGS = re.compile(r"^# qemu:(.*)$", re.MULTILINE)
_NUMBERS = ("cpus", "timeout", "silent")
_FLAGS = ("erms", "virtual_time")
_FAILURES_NAMED = 5
MOST_RERUNS = 4


@dataclass(frozen=True)
class Settings:
    """What a suite asks for in comment lines `# qemu: memory=4G cpus=4 timeout=600 erms`.

    `machine` is '' for the first machine of the kernel's architecture; `virtual_time` is
    described in vm.Guest.
    """

    memory_mib: int = 2048
    cpus: int = 2
    timeout: int = 900
    silent: int = 120
    append: tuple[str, ...] = ()
    erms: bool = False
    virtual_time: bool = False
    machine: str = ""


@dataclass(frozen=True)
class Ready:
    """A kernel and an initramfs that can be booted together.

    `device_trees` has those of its machines that need one, by the name of the machine.
    """

    kernel: build.Kernel
    initrd: Path
    device_trees: Mapping[str, Path] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SuiteResult:
    """A suite that has run; `failure` is '' if all is well, or says what is not."""

    suite: str
    run: vm.Run
    cases: tuple[Case, ...]
    failure: str


def parse_size(text: str) -> int:
    """Return a size such as 512M or 4G in MiB."""
    match = re.fullmatch(r"(\d+)([MG])", text)
    if not match:
        raise ValueError(f"{text} is not a size such as 512M or 4G")
    return int(match[1]) * (1024 if match[2] == "G" else 1)


def parse_settings(script: str) -> Settings:
    """Read the settings in a suite's comment lines; an unknown one raises ValueError."""
    found: dict[str, Any] = {"append": ()}
    for line in _SETTINGS.findall(script):
        for word in line.split():
            name, equals, value = word.partition("=")
            if name == "append":
                found["append"] += (value,)
            elif name == "memory":
                found["memory_mib"] = parse_size(value)
            elif name in _NUMBERS:
                found[name] = int(value)
            elif name == "machine":
                found[name] = value
            elif name in _FLAGS and not equals:
                found[name] = True
            else:
                raise ValueError(f"unknown QEMU setting '{word}'")
    settings = Settings(**found)
    if settings.cpus < 2 or settings.cpus % 2:
        raise ValueError(f"cpus={settings.cpus} cannot be shared by two nodes")
    return settings


def machine_of(architecture: Architecture, settings: Settings) -> Machine:
    """Return the machine on which a suite runs; ValueError if there is none."""
    for machine in architecture.machines:
        if settings.machine in ("", machine.name):
            return machine
    raise ValueError(f"no machine '{settings.machine}' for a kernel for {architecture.name}")


def command_line(
    config: str, suite: str, args: str, settings: Settings, machine: Machine = PC
) -> str:
    """Return the guest kernel's command line."""
    words = [f"console={machine.console}", "panic=-1", "oops=panic", *machine.append]
    if config == "debug":
        words += ["panic_on_warn=1", "page_poison=1", "mig.debug=1"]
    if machine != PC:  # what the guest assumes by itself
        words += [f"mig.results={machine.results}", f"mig.engine={machine.engine}"]
    words += settings.append
    words.append(f"mig.suite={suite}")
    if args:
        words.append(f"mig.args={args}")
    return " ".join(words)


def limits(config: str, settings: Settings) -> vm.Limits:
    """Return how long a suite may take on a configuration."""
    factor = _DEBUG_FACTOR if config == "debug" else 1
    return vm.Limits(total=settings.timeout * factor, silent=settings.silent * factor)


def describe(verdict: vm.Verdict, cases: tuple[Case, ...]) -> str:
    """Say in one line what is wrong with a run, or return ''."""
    if verdict.outcome is not vm.Outcome.FINISHED:
        return verdict.message
    failed = [case.name for case in cases if case.status is Status.FAILED]
    if failed:
        more = (
            f" and {len(failed) - _FAILURES_NAMED} more"
            if len(failed) > _FAILURES_NAMED
            else ""
        )
        names = ", ".join(failed[:_FAILURES_NAMED])
        tests = "a test" if len(failed) == 1 else f"{len(failed)} tests"
        return f"the guest failed {tests}: {names}{more}"
    if verdict.status:
        return f"the suite failed: {verdict.message}"
    return ""


def kernel(
    paths: Paths, config: str, tree: patches.Tree | None = None
) -> tuple[patches.Tree, build.Kernel]:
    """Return a patched tree, the configuration's own by default, and a kernel built from it."""
    with lock.cache(paths):
        tree = tree or build.tree(paths, config)
        return tree, build.get(paths, tree, config)


def prepare(paths: Paths, config: str, mutated: patches.Tree | None = None) -> Ready:
    """Build all that a guest needs."""
    with lock.cache(paths):
        tree, built = kernel(paths, config, mutated)
        if tree.name != patches.ALL and not mutated:
            tree = patches.get(paths, tree.source)
        ours = programs.get(paths, tree, built.architecture)
        return Ready(built, image.build(paths, built, ours), _device_trees(paths, built))


def _device_trees(paths: Paths, kernel: build.Kernel) -> dict[str, Path]:
    """Compile the device trees of a kernel's machines."""
    trees = {}
    for machine in kernel.architecture.machines:
        if machine.device_tree:
            trees[machine.name] = kernel.out / f"{machine.name}.dtb"
            process.run_logged(
                ["dtc", "-I", "dts", "-O", "dtb", "-o", str(trees[machine.name]),
                 str(paths.guest / "machines" / machine.device_tree)],
                paths.logs / f"dtc-{machine.name}.log",
                f"device tree of {machine.name}",
            )  # fmt: skip
    return trees


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


def _guest(
    ready: Ready, suite: str, args: str, settings: Settings, accelerator: str
) -> vm.Guest:
    try:
        machine = machine_of(ready.kernel.architecture, settings)
    except ValueError as error:
        raise HarnessError(f"suite {suite}: {error}") from error
    return vm.Guest(
        kernel=ready.kernel.image,
        initrd=ready.initrd,
        command_line=command_line(ready.kernel.config, suite, args, settings, machine),
        memory_mib=machine.memory_mib or settings.memory_mib,
        cpus=machine.cpus or settings.cpus,
        accelerator="tcg" if settings.virtual_time else accelerator,
        erms=settings.erms,
        virtual_time=settings.virtual_time,
        machine=machine,
        device_tree=ready.device_trees.get(machine.name),
    )


@functools.cache
def accelerator(paths: Paths, ready: Ready) -> str:
    """Return 'kvm' if a probe guest has really run with it on this boot, or else 'tcg'."""
    if not ready.kernel.architecture.native or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    record = paths.cache / "kvm.json"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = jsonio.recall(dict[str, str], record) or {}
    if known.get("boot") != boot:
        with ui.step("KVM probe") as step:
            guest = _guest(ready, "hello", "", Settings(), "kvm")
            try:
                run = vm.run(guest, paths.out / "kvm-probe", _KVM_PROBE, step.progress)
                works = run.verdict.status == 0
                step.done("works" if works else f"not used: {run.verdict.message}")
            except HarnessError as error:
                works = False
                step.done(f"not used: {error}")
        known = {"boot": boot, "accelerator": "kvm" if works else "tcg"}
        jsonio.write(record, known)
    return known.get("accelerator", "tcg")


_reruns: list[Case] = []
_reruns_lock = threading.Lock()


def reruns() -> list[Case]:
    """Return a case for each guest that this process ran twice."""
    return list(_reruns)


def _run(
    guest: vm.Guest, directory: Path, bounds: vm.Limits, progress: Callable[[str], None]
) -> vm.Run:
    """Run a guest, and once more if the emulator made a mistake that we know.

    Then the processors take turns, where it cannot happen, and tests of what several do at a
    time ask for less (mig.turns). The first run's logs stay, and the second run is counted (see
    reruns()). A process has MOST_RERUNS of them; after that processors take turns from the
    start.
    """
    in_turns = replace(guest, parallel=False, command_line=f"{guest.command_line} mig.turns=1")
    if len(_reruns) >= MOST_RERUNS:
        guest = in_turns
    run = vm.run(guest, directory, bounds, progress)
    if guest.accelerator != "tcg" or not (guest.parallel and vm.is_emulators_mistake(run)):
        return run
    with _reruns_lock:
        _reruns.append(Case(str(directory), Status.RERUN, run.verdict.message))
    for log in ("console.log", "results.log"):
        (directory / log).rename(directory / f"first-{log}")
    ui.say(f"{directory}: once more: QEMU ran code that was patched away (first-console.log)")
    return vm.run(in_turns, directory, bounds, progress)


def run_quietly(
    paths: Paths,
    ready: Ready,
    suite: str,
    directory: Path,
    *,
    args: str = "",
    files: Mapping[str, bytes],
    virtual_time: bool,
    cpus: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> vm.Run:
    """Run one suite with additional files, and without a word, in emulated processors.

    `cpus` may be 1, of which no suite can tell that it is enough; 0 is what it asks for.
    """
    settings = settings_of(paths, suite)
    shutil.rmtree(directory, ignore_errors=True)
    guest = replace(
        _guest(ready, suite, args, settings, "tcg"),
        virtual_time=virtual_time,
        extra=image.archive(files),
    )
    if cpus:
        guest = replace(guest, cpus=cpus)
    guest = replace(guest, command_line=f"{guest.command_line} norandmaps")
    bounds = limits(ready.kernel.config, settings)
    run = _run(guest, directory, bounds, progress)
    (directory / "initrd").unlink(missing_ok=True)
    return run


def run_in_virtual_time(
    paths: Paths, ready: Ready, suite: str, files: Mapping[str, str], directory: Path
) -> vm.Run:
    """Run one suite with additional files in virtual time, where every run is the same."""
    contents = {name: text.encode() for name, text in files.items()}
    return run_quietly(paths, ready, suite, directory, files=contents, virtual_time=True)


def run_suite(
    paths: Paths, ready: Ready, suite: str, args: str, directory: Path, machine: str = ""
) -> SuiteResult:
    """Run one suite, with its logs in `directory`; a failure does not raise.

    `machine` is the one to run it on, or '' for the one that it asks for.
    """
    settings = settings_of(paths, suite)
    settings = replace(settings, machine=machine or settings.machine)
    config = ready.kernel.config
    shutil.rmtree(directory, ignore_errors=True)
    guest = _guest(ready, suite, args, settings, accelerator(paths, ready))
    with ui.step(f"guest {config} {suite}" + (f" {args}" if args else "")) as step:
        run = _run(guest, directory, limits(config, settings), step.progress)
        cases = tuple(ktap.parse(run.results))
        failure = describe(run.verdict, cases)
        counts = str(ktap.count(cases)) if cases else "finished"
        step.done(f"FAILED: {failure}" if failure else counts)
    return SuiteResult(suite=suite, run=run, cases=cases, failure=failure)


def show_failure(result: SuiteResult, directory: Path) -> None:
    """Print what helps to understand a failed run: the tests' words, the console's end."""
    for case in result.cases:
        if case.status is Status.FAILED:
            ui.plain(f"  not ok {case.name}")
            for line in case.detail.splitlines():
                ui.plain(f"      {line}")
    if all(case.status is not Status.FAILED for case in result.cases):
        ui.plain(f"  end of the results ({directory}/results.log):")
        for line in process.tail(result.run.results).splitlines():
            ui.plain(f"    | {line}")
    ui.plain(f"  end of the console log ({directory}/console.log):")
    for line in result.run.console_end.splitlines():
        ui.plain(f"    | {line}")


def main(paths: Paths, config: str, suite: str, args: str) -> int:
    """Run one suite and print what it said."""
    directory = paths.out / "guest" / f"{config}-{suite}"
    result = run_suite(paths, prepare(paths, config), suite, args, directory)
    ui.plain(result.run.results.rstrip())
    if result.failure:
        show_failure(result, directory)
        raise HarnessError(f"suite {suite} on the {config} kernel: {result.failure}")
    return 0


def shell(paths: Paths, config: str) -> int:
    """Boot a guest with a shell on this terminal."""
    ready = prepare(paths, config)
    settings = settings_of(paths, "shell")
    guest = _guest(ready, "shell", "", settings, accelerator(paths, ready))
    ui.say("shell: 'exit' powers the guest off, Ctrl-A X kills it")
    return vm.interact(guest, paths.out / "shell" / "results.log")
