"""`make lab`: the real kernel against a modelled engine in virtual time.

Guests boot in pairs: first vanilla, which the clock is fitted to, then ours, and then ours
with an engine whose speed that clock decides.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from harness.core import jsonio, lock, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import ktap, suite, vm
from harness.guest.ktap import Status
from harness.kernel.arch import PC
from harness.kernel.build import Kernel
from harness.lab import bench, plan, results
from harness.lab.judge import claims
from harness.lab.model import calibration, preset, published
from harness.lab.plan import Boot, Measurement
from harness.lab.report import report
from harness.lab.results import Calibration, Engine, Results, Run

_PREFIX = "result: "
_GUESTS = 2  # at a time: each has one processor


@dataclass(frozen=True)
class Lab:
    """Kernels that are ready to boot, by configuration, and where results go."""

    paths: Paths
    kernels: dict[str, Kernel]
    out: Path


def parse_results(boot: Boot, text: str) -> list[tuple[Measurement, bench.Bench]]:
    """Return the `result:` lines of a boot beside what was asked for; all must be there."""
    found: dict[int, bench.Bench] = {}
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        number, _, document = line.removeprefix(_PREFIX).partition(" ")
        where = f"lab: {boot.name}: result {number}"
        found[int(number)] = jsonio.decode(bench.Bench, document, where)
    if missing := [n for n in range(len(boot.measurements)) if n not in found]:
        raise HarnessError(f"lab: {boot.name}: no result of measurement {missing[0]}")
    return [(one, found[number]) for number, one in enumerate(boot.measurements)]


def runs_of(boot: Boot, text: str, engine: str, dilation: float) -> list[Run]:
    """Return a boot's runs from what it printed, in the modelled machine's time."""
    runs: list[Run] = []
    for one, measured in parse_results(boot, text):
        setting, where = boot.setting(one, engine), f"lab: {boot.name}"
        told = bench.setting_of(measured.offload, where)
        for name in ("design", "channels", "batch_pages"):
            if (saw := getattr(told, name)) != (wanted := getattr(setting, name)):
                raise HarnessError(f"{where}: the benchmark saw {name} {saw}, not {wanted}")
        runs += bench.runs_of(measured, setting, where, dilation)
    for run in runs:
        if run.folios_failed:
            raise HarnessError(f"lab: {run.folios_failed} folios did not arrive: {run.name}")
    return runs


def with_latencies(runs: Sequence[Run], traced: Sequence[Run]) -> list[Run]:
    """Give runs of the vanilla kernel the latencies that the instrument saw in its double."""
    seen = {run.name: run for run in traced}
    if missing := [run.name for run in runs if run.name not in seen]:
        raise HarnessError(f"lab: nothing measured the latencies of {missing[0]}")
    names = ("first_folio_us", "inaccessible_us", "phases_us", "latency_lost")
    return [
        structs.replace(run, **{name: getattr(seen[run.name], name) for name in names})
        for run in runs
    ]


def _boot(lab: Lab, boot: Boot, parameters: str) -> str:
    """Run one guest and return what it printed; HarnessError if anything went wrong."""
    directory = lab.out / "guests" / boot.name
    files = {"lab.plan": boot.plan(parameters).encode()}
    run = suite.run_quietly(lab.paths, lab.kernels[boot.config], "lab", directory, files)
    if run.verdict.outcome is not vm.Outcome.FINISHED:
        raise HarnessError(f"lab: {boot.name}: {run.verdict.message}", run.what_happened)
    if run.verdict.status:
        words = [line for line in run.results.splitlines() if not line.startswith(_PREFIX)]
        raise HarnessError(f"lab: {boot.name}: {words[0]}", "\n".join(words))
    return run.results


def measure(
    lab: Lab, title: str, boots: Sequence[Boot], parameters: dict[int, str] | None = None
) -> dict[str, str]:
    """Run guests, two at a time, and return what each of them printed.

    `parameters` are dmasim's, by number of channels.
    """
    with ui.step(title) as step, ThreadPoolExecutor(max_workers=_GUESTS) as pool:
        done = 0
        counting = threading.Lock()

        def one(boot: Boot) -> tuple[str, str]:
            nonlocal done
            text = _boot(lab, boot, (parameters or {}).get(boot.channels, ""))
            with counting:
                done += 1
                step.progress(f"{done} of {len(boots)} guests, {boot.name}")
            return boot.name, text

        # The longest first, so that none is left over at the end.
        longest = sorted(boots, key=lambda boot: -sum(m.mib for m in boot.measurements))
        printed = dict(pool.map(one, longest))
        step.done(f"{len(boots)} guests")
    return printed


def kernels(paths: Paths) -> dict[str, Kernel]:
    """Build the kernels that the laboratory compares, by configuration."""
    with lock.cache(paths):
        return {config: suite.prepare(paths, config) for config in plan.KERNEL}


def run(paths: Paths, preset_name: str, quick: bool, out: Path) -> Results:
    """Measure everything, and return it; HarnessError if a guest fails."""
    engine = preset.load(preset_name)
    tables = published.load()
    lab = Lab(paths, kernels(paths), out)

    boots = plan.vanilla(tables, quick)
    vanilla = measure(lab, "lab: vanilla", boots)

    def runs_in(part: str, dilation: float) -> list[Run]:
        plain, traced = (
            runs_of(boot, vanilla[boot.name], engine.name, dilation)
            for boot in boots
            if boot.name.endswith(part)
        )
        return with_latencies(plain, traced)

    dilation = calibration.fit(runs_in("sizes", 1.0), tables)
    ui.say(f"lab: {dilation:.3f} virtual ns for one of the published machine")
    sizes, calls = (runs_in(part, dilation) for part in ("sizes", "calls"))

    runs = [*sizes, *calls]
    own = plan.ours(quick)
    copied = [*plan.engine(tables, quick), *plan.segments(quick)]
    parameters = {
        boot.channels: engine.dmasim_parameters(boot.channels, dilation) for boot in copied
    }
    printed = measure(lab, "lab: ours", [*own, *copied], parameters)
    for boot in [*own, *copied]:
        runs += runs_of(boot, printed[boot.name], engine.name, dilation)
    return Results(
        calibration=Calibration(
            dilation=dilation,
            limit=calibration.LIMIT,
            rows=tuple(calibration.rows(sizes, calls, tables)),
        ),
        engine=Engine(preset=engine.name, is_model=True, source=engine.source),
        # Some of the workloads are the same measurement as a row of the baseline.
        runs=tuple({run.name: run for run in runs}.values()),
        notes=(
            "First-folio latency, inaccessible time and phases of the vanilla kernel are "
            "those of vanilla plus our tracepoints and probes; speeds and instructions are "
            "those of vanilla alone.",
        ),
        quick=quick,
        kernel_release=lab.kernels[plan.OURS].release,
        qemu=process.capture([PC.qemu, "--version"]).splitlines()[0],
    )


def main(paths: Paths, preset_name: str, quick: bool) -> int:
    """Run `make lab`; 1 if a claim fails."""
    out = paths.out / "lab"
    found = run(paths, preset_name, quick, out)
    jsonio.write_text(out / "results.json", results.dump(found))
    report.write(found, out)
    cases = claims.judge(found)
    for case in cases:
        if case.status in (Status.FAILED, Status.KNOWN):
            ui.plain(f"{case.status.value}: {case.name}: {case.detail}")
    ui.say(f"lab: {len(found.runs)} runs; {out}/report.html, {out}/results.json")
    counts = ktap.count(cases)
    ui.plain(str(counts))
    return 1 if counts[Status.FAILED] else 0
