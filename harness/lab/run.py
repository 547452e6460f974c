"""`make lab`: the real kernel against a modelled engine in virtual time.

Guests boot in pairs: first vanilla, which the clock is fitted to, then ours, and then ours
with an engine whose speed that clock decides: PTDMA as a device of QEMU, with its own driver.
Its memory is compared, byte by byte, after each move that is timed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from msgspec import structs

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, recorded, suite, vm
from harness.guest.ktap import Case, Status
from harness.kernel import build, qemu
from harness.kernel.build import Kernel
from harness.lab import bench, plan, results, strips
from harness.lab.judge import claims, compare
from harness.lab.model import calibration, preset, published
from harness.lab.plan import Boot
from harness.lab.report import report
from harness.lab.results import Calibration, Engine, Results, Run, Strip

_PREFIX = "result: "
GUESTS = 2  # at a time: the processors of each take turns on one of the host's


@dataclass(frozen=True)
class Lab:
    """Kernels that are ready to boot, by configuration, and where results go.

    `known` is the output of guests that need not boot, by name.
    """

    paths: Paths
    kernels: Mapping[str, Kernel]
    out: Path
    known: Mapping[str, str] = field(default_factory=dict)


def runs_of(boot: Boot, text: str, engine: str, dilation: float) -> list[Run]:
    """Return a boot's runs from its `result:` lines, in the modelled machine's time.

    HarnessError if they are not the runs that were planned, or if a folio did not arrive.
    """
    runs: list[Run] = []
    where = f"lab: {boot.name}"
    for line in text.splitlines():
        if line.startswith(_PREFIX):
            number, pages, document = line.removeprefix(_PREFIX).split(" ", 2)
            parsed = jsonio.decode(bench.Bench, document, f"{where}: result {number}")
            kernel = plan.KERNEL[boot.config]
            if kernel == "heart" and parsed.offload:  # dcbm does not tell: it holds all
                offload = structs.replace(parsed.offload, channels=boot.channels)
                parsed = structs.replace(parsed, offload=offload)
            runs += bench.runs_of(parsed, where, dilation, kernel, engine, int(pages))
    planned, seen = ({item.name for item in some} for some in (boot.keys(engine), runs))
    for word, names in (("planned, not seen", planned - seen), ("not planned", seen - planned)):
        if names:
            raise HarnessError(f"{where}: {word}: {min(names)}", "\n".join(sorted(names)))
    for run in runs:
        # The kernel chooses the folios that are demoted, or make way.
        if run.folios_failed and run.addresses not in plan.BY_KERNEL:
            raise HarnessError(f"lab: {run.folios_failed} folios did not arrive: {run.name}")
    return runs


def with_latencies(runs: Sequence[Run], traced: Sequence[Run]) -> list[Run]:
    """Give runs of the vanilla kernel the latencies that the instrument saw in its double."""
    seen = {run.name: run for run in traced}
    names = ("first_folio_us", "inaccessible_us", "phases_us", "latency_lost")
    return [
        structs.replace(run, **{name: getattr(seen[run.name], name) for name in names})
        for run in runs
    ]


def output_of(run: vm.Run, where: str) -> str:
    """Return what a guest printed; HarnessError if anything went wrong."""
    if run.finished(where).verdict.status:
        words = [line for line in run.results.splitlines() if not line.startswith(_PREFIX)]
        words.sort(key=lambda line: not line.startswith("# "))  # what a suite says of failures
        raise HarnessError(f"{where}: {words[0]}", "\n".join(words))
    return run.results


def measure(
    lab: Lab, title: str, boots: Sequence[Boot], devices: dict[int, tuple[str, ...]],
    dilation: float = 1.0, ipi_ns: int = vm.Clock.ipi_ns,
) -> dict[str, str]:  # fmt: skip
    """Run guests, two at a time, and return what each printed; HarnessError if one fails.

    `devices` are QEMU's options for the engine, by number of channels; `dilation` is known
    once vanilla was measured.
    """
    with ui.step(title) as step, process.Threads(max_workers=GUESTS) as pool:
        done = count(1)

        def measure_boot(boot: Boot) -> tuple[str, str]:
            if boot.name in lab.known:
                return boot.name, lab.known[boot.name]
            ended = suite.run_quietly(
                lab.paths, lab.kernels[boot.config], "lab", lab.out / "guests" / boot.name,
                {"lab.plan": boot.plan(dilation).encode()}, tiers=boot.tiers,
                memory=boot.memory, append=boot.append, devices=devices.get(boot.channels, ()),
                cpus=boot.cpus, clock=vm.Clock(quantum_ns=boot.quantum_ns, ipi_ns=ipi_ns),
            )  # fmt: skip
            step.progress(f"{next(done)} of {len(boots)} guests, {boot.name}")
            return boot.name, output_of(ended, f"lab: {boot.name}")

        # The longest first, so that none is left over at the end.
        longest = sorted(boots, key=lambda boot: -sum(m.mib for m in boot.measurements))
        printed = dict(pool.map(measure_boot, longest))
        step.done(f"{len(boots)} guests")
    return printed


def prepare(paths: Paths, out: Path, quick: bool) -> Lab:
    """Build the kernels that the laboratory compares; the quick one has vanilla's record."""
    with lock.cache(paths):
        ready = {plan.OURS: suite.prepare(paths, plan.OURS)}
        known = recorded.known(paths, plan.guests()) if quick else {}
        more = [config for config in plan.kernels(quick, known) if config not in ready]
        ready |= {config: suite.prepare(paths, config) for config in more}
        return Lab(paths, ready, out, known)


def vanilla_again(paths: Paths, out: Path) -> dict[str, str]:
    """Boot each guest that is recorded, and return the results that it printed."""
    boots = plan.recorded()
    with lock.cache(paths):
        ready = {config: suite.prepare(paths, config) for config in {boot.config for boot in boots}}
    printed = measure(Lab(paths, ready, out), "lab: vanilla, for the record", boots, {})
    return {
        name: "".join(line for line in text.splitlines(True) if line.startswith(_PREFIX))
        for name, text in printed.items()
    }


def unlike(boot: Boot, recorded: str, now: str) -> list[str]:
    """Return how far apart two outputs of a recorded guest are, in words."""
    calibration = claims.recorded(quick=True).calibration
    dilation = calibration.dilation if calibration else 1.0
    old, new = (runs_of(boot, text, preset.DEFAULT, dilation) for text in (recorded, now))
    return [
        f"{run.name}: {gap}"
        for run, other in zip(old, new, strict=True)
        for gap in compare.apart(compare.figures(run), compare.figures(other))
    ]


def _ours(
    lab: Lab, boots: Sequence[Boot], engine: preset.Preset, preset_name: str, dilation: float
) -> list[Run]:
    """Run guests whose clock is known, and return their runs."""
    channels = {boot.channels for boot in boots} - {0}
    devices = {number: engine.devices(number, dilation) for number in channels}
    ipi_ns = round(engine.ipi_ns * dilation)
    printed = measure(lab, "lab: ours", boots, devices, dilation, ipi_ns)
    return [
        run for boot in boots for run in runs_of(boot, printed[boot.name], preset_name, dilation)
    ]


def by_quantum(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """Tell runs in which threads used the memory how far runs with other quanta are apart."""

    def told(run: Run) -> Run:
        speeds = [other.gbps for other in others if other.name == run.name]
        if not (run.touch and speeds):
            return run
        apart = max(abs(gbps / run.gbps - 1) for gbps in speeds)
        return structs.replace(run, touch=structs.replace(run.touch, by_quantum=apart))

    return [told(run) for run in runs]


def _other_end(lab: Lab, boots: Sequence[Boot], dilation: float) -> dict[str, float]:
    """Measure the published design with the preset at the other end."""
    heart = [boot for boot in boots if boot.config == plan.HEART]
    runs = _ours(lab, heart, preset.load(preset.OTHER_END), preset.OTHER_END, dilation)
    return {
        row.name: run.gbps
        for row in published.rows(published.OFFLOAD)
        for run in runs
        if (run.folio_kib, run.channels) == (row.folio_kib, row.channels)
    }


def _strips(lab: Lab, engine: preset.Preset, dilation: float) -> Iterator[Strip]:
    """Trace one move each way, one after the other: they are short."""
    with ui.step("lab: strips") as step:
        for boot in strips.boots():
            step.progress(boot.name)
            ended = suite.run_quietly(
                lab.paths, lab.kernels[boot.config], "strip", lab.out / "guests" / boot.name, {},
                args=boot.args(dilation),
                devices=() if boot.design == "off" else engine.devices(engine.channels, dilation),
            )  # fmt: skip
            yield strips.parse(output_of(ended, f"lab: {boot.name}"), boot, dilation)
        step.done(f"{len(strips.boots())} guests")


def run(lab: Lab, preset_name: str, quick: bool) -> Results:
    """Measure everything, write results.json and the report, and return what was measured.

    HarnessError if a guest fails.
    """
    engine = preset.load(preset_name)
    pairs = list(plan.vanilla(quick))
    vanilla = measure(lab, "lab: vanilla", pairs, {})

    def vanilla_runs(part: str, dilation: float) -> list[Run]:
        plain, traced = (
            runs_of(boot, vanilla[boot.name], preset_name, dilation)
            for boot in pairs
            if boot.name.endswith(part)
        )
        return with_latencies(plain, traced)

    dilation = calibration.fit(vanilla_runs("sizes", 1.0))
    ui.say(f"lab: {dilation:.3f} virtual ns for one of the published machine")
    sizes, calls = (vanilla_runs(part, dilation) for part in ("sizes", "calls"))

    boots = list(plan.ours(quick))
    runs = [*sizes, *calls, *_ours(lab, boots, engine, preset_name, dilation)]
    measured = Results(
        calibration=Calibration(dilation=dilation),
        engine=Engine(preset=preset_name, is_model=True, source=engine.source),
        # Some of the workloads are the same measurement as a row of the baseline.
        runs=tuple({run.name: run for run in runs}.values()),
        notes=("First-folio latency, inaccessible time and phases of the vanilla kernel are "
               "those of vanilla plus our tracepoints and probes; speeds and instructions are "
               "those of vanilla alone.",),
        quick=quick, kernel_release=lab.kernels[plan.OURS].release,
        qemu=qemu.version(lab.paths), compiler=build.compiler(),
        strips=() if quick else tuple(_strips(lab, engine, dilation)),
        other_end={} if quick else _other_end(lab, boots, dilation),
    )  # fmt: skip
    jsonio.write_text(lab.out / "results.json", results.dump(measured))
    report.write(measured, lab.out)
    return measured


def again(lab: Lab, first: Results) -> Results:
    """Measure a part of results once more, to see that figures repeat."""
    assert first.calibration and first.engine
    name, boots = first.engine.preset, plan.repeated(first.quick)
    runs = _ours(lab, boots, preset.load(name), name, first.calibration.dilation)
    return structs.replace(first, runs=tuple(runs))


def tell(cases: Sequence[Case], where: str) -> int:
    """Say which claims fail or are known misses, and where results are; 1 if one fails."""
    for case in cases:
        if case.status in (Status.FAILED, Status.KNOWN):
            ui.plain(f"{case.status.value}: {case.name}: {case.detail}")
    ui.say(f"lab: {where}")
    counts = ktap.count(cases)
    ui.plain(str(counts))
    return 1 if counts[Status.FAILED] else 0


def writers(paths: Paths, preset_name: str) -> int:
    """Run `make lab WORKLOAD=writers`, by the clock that was fitted last; 1 if a claim fails."""
    known, out = claims.recorded(quick=True), paths.out / "lab"
    assert known.calibration
    boots, engine = plan.writers(), preset.load(preset_name)
    with lock.cache(paths):
        ready = {config: suite.prepare(paths, config) for config in {boot.config for boot in boots}}
    lab, dilation = Lab(paths, ready, out), known.calibration.dilation
    quanta = plan.other_quanta(boots[-1])
    runs, others = (_ours(lab, some, engine, preset_name, dilation) for some in (boots, quanta))
    measured = structs.replace(
        known, runs=tuple(by_quantum(runs, others)), notes=(), quick=False,
        kernel_release=ready[plan.OURS].release,
        engine=Engine(preset=preset_name, is_model=True, source=engine.source),
    )  # fmt: skip
    jsonio.write_text(out / "writers.json", results.dump(measured))
    report.write(measured, out)
    cases = [case for _, case in claims.judged(measured) if case]
    return tell(cases, f"{len(runs)} runs; {out}/report.html, {out}/writers.json")


def main(paths: Paths, preset_name: str, quick: bool) -> int:
    """Run `make lab`; 1 if a claim fails."""
    out = paths.out / "lab"
    lab = prepare(paths, out, quick)
    measured = run(lab, preset_name, quick)
    where = f"{len(measured.runs)} runs; {out}/report.html, {out}/results.json"
    second = None if quick else again(replace(lab, out=out / "again"), measured)
    return tell(claims.judge(measured, second), where)
