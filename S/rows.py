"""In a view: build base, boot the guests of ours that are off, print instructions per folio. rows.py NAME"""
import json, sys
from dataclasses import replace
from pathlib import Path
from harness.core.paths import default_paths
from harness.core import lock
from harness.guest import suite
from harness.lab import plan, run as lab
from harness.lab.plan import Boot, Measurement, OURS
paths = default_paths(); name = sys.argv[1]
out = paths.out if hasattr(paths, "out") else Path("out")
if name == "build":
    with lock.cache(paths):
        suite.prepare(paths, OURS)
    sys.exit()
with lock.cache(paths):
    ready = {OURS: suite.prepare(paths, OURS)}
off = Measurement("off", 0, (4, 16, 64, 2048), 16, repeat=1, moves=2, instrument="off")
named = tuple(Measurement("off", 0, those, 16, moves=1, repeat=1, instrument="off", addresses=a) for a, those in plan.WORKLOADS.items())
reclaim = tuple(Measurement("off", 0, (kib,), 32, moves=1, instrument="off", addresses="reclaim") for kib in (64, 4))
boots = [Boot("ours-off", OURS, 0, (off,)), Boot("workloads-ours", OURS, 0, named), Boot("reclaim-off", OURS, 0, reclaim)]
done = lab.Lab(paths, ready, Path(out) / "gains" / name)
printed = lab.measure(done, name, boots, {})
rows = {}
for boot in boots:
    for r in lab.runs_of(boot, printed[boot.name], "none", 4.9):
        rows[f"{r.folio_kib} KB, move {r.move}, {r.addresses}"] = r.instructions_per_folio
Path(f"/work/s/S/gain-{name}.json").write_text(json.dumps(rows, indent=1))
for k, v in rows.items(): print(k, v)
