"""Boots guests of the laboratory with four processors at three quanta, and compares their figures.

In a view: NICE=19 /work/s/run NAME .cache/venv/bin/python /work/s/R3/quantum.py [OUT]
prints a line for each row: its figures at 5 us, and by how much the other two differ, in per cent.
Ends with 1 if throughput, or a p50 longer than the longest quantum, differs by more than 2 % in a
row ("!"); the rest is printed. Nine guests, two at a time: about 5 minutes on two free cores (estimate).
With "plan" as OUT: prints the plans only.
"""
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, ".")  # the view's harness
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import default_paths
from harness.guest import suite, vm
from harness.lab import plan, run
from harness.lab.judge import claims
from harness.lab.model import preset

out = Path(sys.argv[1] if len(sys.argv) > 1 else "/work/s/R3/log/quantum")
paths = default_paths()
dilation = claims.recorded(quick=True).calibration.dilation
engine = preset.load(preset.DEFAULT)
CPUS, QUANTA, LIMIT = 4, (5000, 2500, 10000), 0.02  # the first one is the suites' own
live = plan.Measurement("live", 16, (2048, 64), 128, batch_pages=None, moves=1)
cut = replace(live, design="segments", batch_pages=plan.SIZE_BATCH_PAGES)
off = replace(live, design="off", channels=0, batch_pages=plan.VANILLA_BATCH_PAGES)
boots = [
    plan.Boot(one.design, plan.OURS, one.channels,
              tuple(replace(one, writes_per_ms=rate) for rate in (1, 100)))
    for one in (off, cut, live)
]
if str(out) == "plan":
    for boot in boots:
        print(boot.plan(dilation), engine.devices(boot.channels, dilation)[:2] if boot.channels else "")
    sys.exit()

kernel = suite.prepare(paths, plan.OURS)


def boot_one(which: tuple[plan.Boot, int]) -> list:
    boot, quantum = which
    ended = suite.run_quietly(
        paths, kernel, "lab", out / f"{boot.name}-{quantum}",
        {"lab.plan": boot.plan(dilation).encode()}, cpus=CPUS,
        devices=engine.devices(boot.channels, dilation) if boot.channels else (),
        clock=vm.Clock(quantum_ns=quantum),
    )
    try:
        runs = run.runs_of(boot, run.said(ended, boot.name), preset.DEFAULT, dilation)
    except HarnessError as error:
        print(f"{boot.name} {quantum} ns: {error}\n{ended.results[-2000:]}", flush=True)
        return []
    print(f"{boot.name} {quantum} ns: {len(runs)} rows", flush=True)
    return runs


def figures(one) -> dict[str, float]:
    time = one.inaccessible_us
    found = {"GB/s": one.gbps}
    if time:
        found |= {"p50 us": time.p50, "p99 us": time.p99, "max us": time.max}
    if one.touch:
        found |= {"read us": one.touch.read, "write us": one.touch.write}
    return found


which = [(boot, quantum) for boot in boots for quantum in QUANTA]
with process.Threads(max_workers=2) as pool:
    found = dict(zip(which, pool.map(boot_one, which), strict=True))
bad = 0
for boot in boots:
    at = [{one.name: one for one in found[boot, quantum]} for quantum in QUANTA]
    for name, one in at[0].items():
        parts = []
        for what, value in figures(one).items():
            others = [figures(some[name]).get(what) if name in some else None for some in at[1:]]
            off_by = [value and other is not None and other / value - 1 for other in others]
            said = "/".join(f"{x:+.1%}" if isinstance(x, float) else "?" for x in off_by)
            judged = what == "GB/s" or (what == "p50 us" and value * dilation * 1000 > max(QUANTA))
            wrong = judged and any(not isinstance(x, float) or abs(x) > LIMIT for x in off_by)
            bad += wrong
            parts.append(f"{what} {value:.3f} ({said}){' !' if wrong else ''}")
        written = f"; written {one.touch.copied_twice}" if one.touch else ""
        print(f"{one.design} {one.folio_kib} KiB, {one.writes_per_ms} writes/ms: {', '.join(parts)}{written}")
missing = [f"{boot.name} {quantum}" for (boot, quantum), runs in found.items() if not runs]
print(f"half and double the quantum: {bad} figures beyond {LIMIT:.0%}; failed guests: {missing or 'none'}")
sys.exit(bool(bad or missing))
