"""`make lab WORKLOAD=...`: a program while its memory moves, in virtual time.

A guest boots for each way to move memory and each size of pages. A load generator measures the
program's service, at rest and while its memory moves to the other node and back. A seed varies the
order in which processors run.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, count, product

from msgspec import structs

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import image, suite, vm
from harness.guest.ktap import Case
from harness.kernel import build, debian, qemu
from harness.lab import results
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.lab.model.published import PAGE_KIB
from harness.lab.plan import BOUND_US, HUGE_KIB, OTHER_QUANTA_NS
from harness.lab.report import report
from harness.lab.results import QUANTUM_NS, Program, Results, Way
from harness.lab.run import GUESTS, output_of, tell
from harness.lab.workloads import WORKLOADS, Figures, Workload

_SEEDS = 5
_SEEDED: tuple[Way, ...] = ("vanilla", "off", "dcbm live")  # and the defaults
_SERVED = 0.9
"""A program at rest serves this share of its rate at least; pgbench makes its own chance."""


@dataclass(frozen=True)
class Boot:
    """One guest: the copier, and the size of the program's pages."""

    workload: Workload
    way: Way
    folio_kib: int
    seed: int = 1
    quantum_ns: int = QUANTUM_NS

    @property
    def name(self) -> str:
        """The name of its directory."""
        name = f"{self.workload.name}-{self.way.replace(' ', '-')}-{self.folio_kib}k"
        return f"{name}-seed{self.seed}-{self.quantum_ns}ns"

    def args(self, dilation: float) -> str:
        """Return the arguments of the suite; its times are in virtual time."""
        migrator, _, how = self.way.replace("vanilla", "off").replace("dsa", "dcbm").partition(" ")
        bound = float(how.removesuffix("us")) if how.endswith("us") else BOUND_US
        pages = "2m" if self.folio_kib == HUGE_KIB else f"{self.folio_kib}k"
        words = (migrator, int(how == "live"), round(bound * dilation), pages,
                 self.workload.requests)  # fmt: skip
        due: tuple[int, ...] = ()
        if rate := self.workload.rate:
            late, period = self.workload.late_us, 500_000 if self.folio_kib == PAGE_KIB else 200_000
            due = tuple(map(round, (rate / dilation, late * dilation, period * dilation)))
        return ",".join(map(str, (*words, *due, *self.workload.cases)))


def boots(workload: Workload) -> list[Boot]:
    """Return the guests, in the order in which reports show them.

    The tight bound and another engine are for large pages: batches of single ones are short,
    and the CPU copies them.
    """
    planned = []
    for kib, way in product(workload.folios_kib, workload.ways):
        if kib != PAGE_KIB or way not in ("dcbm 50us", "dsa live"):
            boot = Boot(workload, way, kib)
            seeds = _SEEDS if way in _SEEDED else 1
            planned += [replace(boot, seed=seed) for seed in range(1, seeds + 1)]
            if way in (_SEEDED[0], _SEEDED[-1]):
                planned += [replace(boot, quantum_ns=ns) for ns in OTHER_QUANTA_NS]
    return planned


_CASE = re.compile(r"^case: (\S+) (\w+)$", re.MULTILINE)


def scaled(figures: Figures, dilation: float) -> Figures:
    """Return figures in the time of the machine; each says by its name what it is."""

    def scale(name: str, value: float) -> float:
        if name.endswith("per_s"):
            return value * dilation
        return value / dilation if name.endswith(("_us", "_ms")) else value

    return {name: scale(name, value) for name, value in figures.items()}


def cases_of(text: str, boot: Boot, dilation: float) -> Iterator[Program]:
    """Yield what the load generator measured in each case, in the modelled machine's time.

    HarnessError if they are not the cases that were planned, or one lacks a figure.
    """
    workload = boot.workload
    _, *parts = _CASE.split(text)
    cases = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    planned = list(product(workload.cases, workload.states))
    if [(case, state) for case, state, _ in cases] != planned:
        raise HarnessError(f"lab: {boot.name}: not the cases that were planned", text)
    for case, state, words in cases:
        figures, moved = workload.figures(words), workload.moved(words)
        if not figures or (state == "moving") != bool(moved):
            raise HarnessError(f"lab: {boot.name}: {case} {state}: no figures", words)
        told = scaled({**figures, **(moved or {})}, dilation)
        if state == "rest" and told["per_s"] < _SERVED * workload.rate:
            raise HarnessError(f"lab: {boot.name}: {case}: too slow at rest for its rate", words)
        counts = {name: told[name] for name in told if name not in Program.__struct_fields__}
        document = {
            "workload": workload.name, "way": boot.way, "folio_kib": boot.folio_kib,
            "case": workload.cases[case], "state": state, "counts": counts,
            "seed": boot.seed, "quantum_ns": boot.quantum_ns,
            **{name: told[name] for name in told.keys() - counts.keys()},
        }  # fmt: skip
        yield results.convert(document, Program, boot.name)


def run(paths: Paths, preset_name: str, workload: Workload) -> tuple[Results, Case]:
    """Measure the workload, and vanilla's guest and the last one twice.

    The clock is the one that was fitted when figures were recorded.
    """
    calibration = claims.recorded(quick=False).calibration
    assert calibration
    dilation, engine, dsa = calibration.dilation, preset.load(preset_name), preset.load("spr-dsa")
    ipi_ns = round(engine.ipi_ns * dilation)
    ours, vanilla = (suite.prepare(paths, config) for config in workload.kernels)
    files = {}
    if workload.packages:
        root = debian.userland(paths, "amd64", workload.packages, qemu.SUITE)
        files = image.programs(root, workload.programs, "debian", workload.files)
    planned, done = boots(workload), count(1)
    with ui.step(f"lab: {workload.name}") as step, ThreadPoolExecutor(GUESTS) as pool:

        def measure(boot: Boot) -> list[Program]:
            copier = {"dcbm": engine, "dsa": dsa}.get(boot.way.partition(" ")[0])
            devices = copier.devices(copier.channels, dilation) if copier else ()
            kernel = vanilla if boot.way == "vanilla" else ours
            ended = suite.run_quietly(
                paths, kernel, workload.name, paths.out / "lab/guests" / boot.name, files,
                args=boot.args(dilation), devices=devices,
                clock=vm.Clock(boot.seed, boot.quantum_ns, ipi_ns),
            )  # fmt: skip
            rows = list(cases_of(output_of(ended, f"lab: {boot.name}"), boot, dilation))
            step.progress(f"{next(done)} of {len(planned)} guests, {boot.name}")
            return rows

        *rows, first, last = pool.map(measure, [*planned, planned[0], planned[-1]])
        step.done(f"{len(planned)} guests")
    alike = [first, last] == [rows[0], rows[-1]]
    same = Case.judged("repeats: the first guest and the last", alike, "not the same")
    return Results(
        calibration=calibration,
        engine=results.Engine(preset=preset_name, is_model=True, source=engine.source),
        runs=(), programs=tuple(chain(*rows)), notes=(), quick=False,
        kernel_release=ours.release, qemu=qemu.version(paths), compiler=build.compiler(),
    ), same  # fmt: skip


def main(paths: Paths, preset_name: str, name: str) -> int:
    """Run `make lab WORKLOAD=...`; 1 if a claim fails. The report has the last `make lab`, too."""
    workload = WORKLOADS.get(name)
    if not workload:
        raise HarnessError(f"no workload '{name}': there are writers, {', '.join(WORKLOADS)}")
    out = paths.out / "lab"
    fresh, same = run(paths, preset_name, workload)
    shown = fresh
    jsonio.write_text(out / f"{name}.json", results.dump(fresh))
    known = jsonio.recall(Results, out / "results.json")
    if known and (known.kernel_release, known.engine) == (fresh.kernel_release, fresh.engine):
        shown = structs.replace(known, programs=fresh.programs)
    report.write(shown, out)
    cases = [case for claim, case in claims.judged(fresh) if case and claim.group == workload.group]
    return tell([same, *cases], f"{name}: {out}/report.html, {out}/{name}.json")
