"""`make lab`: the real kernel against a modelled engine in virtual time.

Guests boot in pairs; first vanilla, which the clock is fitted to, then ours, and then ours
with an engine whose speed that clock decides.
"""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite, vm
from harness.kernel.arch import PC
from harness.lab import bench as lab_benchmark
from harness.lab import plan
from harness.lab import results as lab_results
from harness.lab.bench import Setting
from harness.lab.model import calibration as lab_calibration
from harness.lab.model import preset as lab_preset
from harness.lab.model import published as lab_published
from harness.lab.plan import Boot, Measurement
from harness.lab.report import report
from harness.lab.report.select import SWEEP_EXPLAINED, SWEEP_FASTER
from harness.lab.results import Calibration, Engine, Results, Run

_PREFIX = "result: "
_GUESTS = 2  # at a time: each has one processor


@dataclass(frozen=True)
class Lab:
    """Kernels that are ready to boot, by configuration, and where results go."""

    paths: Paths
    kernels: dict[str, suite.Ready]
    out: Path


def parse_results(boot: Boot, text: str) -> list[tuple[Measurement, lab_benchmark.Bench]]:
    """Return the `result:` lines of a boot beside what was asked for; all must be there."""
    found: dict[int, lab_benchmark.Bench] = {}
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        number, _, document = line.removeprefix(_PREFIX).partition(" ")
        where = f"lab: {boot.name}: result {number}"
        try:
            found[int(number)] = lab_benchmark.parse(json.loads(document), where)
        except ValueError as error:
            raise HarnessError(f"{where} is no result: {error}") from error
    if missing := [n for n in range(len(boot.measurements)) if n not in found]:
        raise HarnessError(f"lab: {boot.name}: no result of measurement {missing[0]}")
    return [(one, found[number]) for number, one in enumerate(boot.measurements)]


def runs_of(boot: Boot, text: str, preset: str, dilation: float) -> list[Run]:
    """Return a boot's runs from what it printed, in the modelled machine's time."""
    runs: list[Run] = []
    for one, bench in parse_results(boot, text):
        engine = preset if one.channels else None
        setting = Setting(
            plan.KERNEL[boot.config], one.design, engine, one.channels, one.batch_pages
        )
        runs += lab_benchmark.convert(bench, setting, f"lab: {boot.name}", dilation)
    for run in runs:
        if run.folios_failed:
            raise HarnessError(f"lab: {run.folios_failed} folios did not arrive: {run.name}")
    return runs


def with_latencies(runs: Sequence[Run], traced: Sequence[Run]) -> list[Run]:
    """Give runs of the vanilla kernel the latencies that the instrument saw in its double."""
    seen = {run.name: run for run in traced}
    if missing := [run.name for run in runs if run.name not in seen]:
        raise HarnessError(f"lab: nothing measured the latencies of {missing[0]}")
    return [
        replace(
            run,
            first_folio_us=seen[run.name].first_folio_us,
            inaccessible_us=seen[run.name].inaccessible_us,
            phases_us=seen[run.name].phases_us,
        )
        for run in runs
    ]


def _boot(lab: Lab, boot: Boot, parameters: str) -> str:
    """Run one guest and return what it printed; HarnessError if anything went wrong."""
    directory = lab.out / "guests" / boot.name
    files = {"lab.plan": boot.plan(parameters)}
    run = suite.run_in_virtual_time(
        lab.paths, lab.kernels[boot.config], "lab", files, directory
    )
    (directory / "initrd").unlink(missing_ok=True)
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
        lock = threading.Lock()

        def one(boot: Boot) -> tuple[str, str]:
            nonlocal done
            text = _boot(lab, boot, (parameters or {}).get(boot.channels, ""))
            with lock:
                done += 1
                step.progress(f"{done} of {len(boots)} guests, {boot.name}")
            return boot.name, text

        # The longest first, so that none is left over at the end.
        longest = sorted(boots, key=lambda boot: -sum(m.mib for m in boot.measurements))
        printed = dict(pool.map(one, longest))
        step.done(f"{len(boots)} guests")
    return printed


def kernels(paths: Paths) -> dict[str, suite.Ready]:
    """Build the kernels that the laboratory compares, by configuration."""
    return {
        config: suite.prepare(paths, config)
        for config in (
            plan.OURS,
            plan.TRACED,
            plan.VANILLA,
            plan.WITHOUT,
        )
    }


def run(paths: Paths, preset_name: str, quick: bool, out: Path) -> Results:
    """Measure everything, and return it; HarnessError if a guest fails."""
    preset = lab_preset.load(preset_name)
    published = lab_published.load()
    lab = Lab(paths, kernels(paths), out)

    boots = plan.vanilla(published, quick)
    printed = measure(lab, "lab: vanilla", boots)

    def in_virtual_time(part: str) -> list[Run]:
        plain, traced = (
            runs_of(boot, printed[boot.name], preset.name, 1.0)
            for boot in boots
            if boot.name.endswith(part)
        )
        return with_latencies(plain, traced)

    parts = [in_virtual_time(part) for part in ("sizes", "calls")]
    dilation = lab_calibration.fit(lab_calibration.baseline_fit_rows(parts[0], published))
    ui.say(f"lab: {dilation:.3f} virtual ns for one of the published machine")
    sizes, calls = ([run.undilated(dilation) for run in part] for part in parts)
    calibration = Calibration(
        dilation,
        lab_calibration.LIMIT,
        (
            *lab_calibration.baseline_rows(sizes, published),
            *lab_calibration.workload_rows(calls, published),
        ),
    )

    runs = [*sizes, *calls]
    own = plan.ours(quick)
    copied = [*plan.engine(published, quick), *plan.segments(quick)]
    parameters = {
        boot.channels: preset.dmasim_parameters(boot.channels, dilation) for boot in copied
    }
    printed = measure(lab, "lab: ours", [*own, *copied], parameters)
    for boot in [*own, *copied]:
        runs += runs_of(boot, printed[boot.name], preset.name, dilation)
    return Results(
        calibration=calibration,
        engine=Engine(preset.name, True, preset.source),
        # Some of the workloads are the same measurement as a row of the baseline.
        runs=tuple({run.name: run for run in runs}.values()),
        notes=(
            "First-folio latency, inaccessible time and phases of the vanilla kernel are "
            "those of vanilla plus our tracepoints and probes; speeds and instructions are "
            "those of vanilla alone.",
            *(
                f"Does not fit: {table}, {row}, {quantity}: {cause}."
                for table, row, quantity, _, cause in lab_calibration.EXPLAINED
            ),
            f"Does not fit: batch sweep, {SWEEP_EXPLAINED[1]}.",
            f"Does not fit: batch sweep, {SWEEP_FASTER[1]}.",
        ),
        quick=quick,
        kernel_release=lab.kernels[plan.OURS].kernel.release,
        qemu=process.capture([PC.qemu, "--version"]).splitlines()[0],
    )


def main(paths: Paths, preset: str, quick: bool) -> int:
    """Run `make lab`."""
    out = paths.out / "lab"
    results = run(paths, preset, quick, out)
    (out / "results.json").write_text(lab_results.dump(results))
    report.write(results, out)
    ui.say(f"lab: {len(results.runs)} runs; {out}/report.html, {out}/results.json")
    return 0
