"""The laboratory's claims as test cases.

It repeats, it reproduces what was published, off costs nothing, folios migrate as fast as
promised, and no figure is worse than the one recorded in lab/recorded.
"""

from collections.abc import Iterator

from msgspec import structs

from harness.core import jsonio
from harness.core.paths import ROOT
from harness.guest.ktap import Case, Status
from harness.lab import plan
from harness.lab.judge import compare, goals, programs, reproduced
from harness.lab.judge.claim import SLACK, Claim, Measured, verdict
from harness.lab.results import Key, Program, Results
from harness.lab.workloads import WORKLOADS

WRITERS = ROOT / "lab/recorded/writers.json"


def planned(results: Results) -> list[Key]:
    """Return the runs that the lab was to make; of a real machine, those that it made.

    Where a workload alone was measured, there are none, or its own.
    """
    if results.calibration is None or results.engine is None:
        return list(results.runs)
    if results.programs and not results.runs:
        return []
    written = [key for boot in plan.writers() for key in boot.keys(results.engine.preset)]
    if results.runs and {run.name for run in results.runs} <= {key.name for key in written}:
        return written
    return plan.keys(results.quick, results.engine.preset)


def claims_of(results: Results) -> list[Claim]:
    """Return every claim about what the lab was to measure."""
    measured = Measured(planned(results), results.runs)
    return [
        *reproduced.claims_of(results, measured),
        *goals.claims_of(measured),
        *programs.claims_of(results.programs),
    ]


def recorded(quick: bool) -> Results:
    """Return the results that bounds are taken from."""
    return jsonio.load(Results, ROOT / "lab/recorded" / f"{'quick' if quick else 'full'}.json")


def recorded_programs() -> tuple[Program, ...]:
    """Return what bounds of workloads are taken from, of those that are recorded."""
    files = [ROOT / f"lab/recorded/{name}.json" for name in WORKLOADS]
    parts = [jsonio.load(Results, file).programs for file in files if file.exists()]
    return tuple(program for some in parts for program in some)


def judged(results: Results) -> list[tuple[Claim, Case | None]]:
    """Judge every claim; fitted figures, a real machine and other presets have no case."""
    claims, known = claims_of(results), recorded(results.quick)
    presets = {side.engine.preset for side in (results, known) if side.engine}
    if results.calibration is None or len(presets) > 1:
        return [(claim, None) for claim in claims]
    earlier = [*claims_of(known), *programs.claims_of(recorded_programs())]
    if WRITERS.exists():
        earlier += claims_of(jsonio.load(Results, WRITERS))
    figures = {claim.name: claim.value for claim in earlier}
    groups = {workload.group for workload in WORKLOADS.values()}
    spread = programs.spread(recorded_programs())

    def case(claim: Claim) -> Case:
        slack = SLACK
        if claim.group in groups:
            slack = programs.RARE_SLACK if programs.RARE in claim.what else programs.SLACK
            slack = spread.get(claim.name, slack)
        elif claim.group == goals.TOUCHED and goals.P99 in claim.what:
            slack = programs.RARE_SLACK
        return verdict(claim, figures.get(claim.name), slack)

    return [(claim, None if claim.fitted else case(claim)) for claim in claims]


def judge(results: Results, again: Results | None = None) -> list[Case]:
    """Judge results of the lab, and whether a part that was measured `again` is the same."""
    repeats = []
    if again:
        names = {run.name for run in again.runs}
        runs = tuple(run for run in results.runs if run.name in names)
        part = structs.replace(results, runs=runs)
        both = map(compare.all_figures, (part, again))
        apart = [gap for gap in compare.differences(*both) if gap.relative]
        name = f"repeats: every figure of {len(names)} runs is the same"
        repeats = [Case.judged(name, not apart, "; ".join(map(str, apart[:3])))]
    cases = [case for _, case in judged(results) if case]
    return [*repeats, *cases, *(_runs(results) if cases else ())]


def _runs(results: Results) -> Iterator[Case]:
    """Compare each run that was planned with the recorded one, in every figure."""
    known = {run.name: run for run in recorded(results.quick).runs}
    runs = {run.name: run for run in results.runs}
    for name in dict.fromkeys((*(key.name for key in planned(results)), *runs)):
        case = f"{name}: no figure {100 * SLACK:g} % worse than recorded"
        if name not in runs:
            yield Case(case, Status.FAILED, "nothing was measured")
        elif name not in known:
            yield Case(case, Status.FAILED, "no run is recorded")
        else:
            both = map(compare.figures, (known[name], runs[name]))
            worse = [gap for gap in compare.differences(*both) if gap.is_worse(SLACK)]
            yield Case.judged(case, not worse, "; ".join(map(str, worse)))
