"""usage: python lists_measure.py CONFIG OUT [prepare]: runs the lab suite, feature off, prints instructions per folio."""
import sys, json
from pathlib import Path
sys.path.insert(0, "/work/wt/mapped")
from harness.core.paths import default_paths
from harness.guest import suite
paths = default_paths()
config, out = sys.argv[1:3]
kernel = suite.prepare(paths, config)
plan = "".join(f"measure {n} off 512 --folio-kib={kib} --mib={mib} --folios-per-call=0 --moves=2 --warmup=1 --repeat=2 --instrument=off\n"
   for n, kib, mib in ((0, 4, 16), (1, 16, 16), (2, 64, 16), (3, 1024, 32), (4, 2048, 32), (5, 256, 32)))
run = suite.run_quietly(paths, kernel, "lab", Path(out), {"lab.plan": plan.encode()})
print(run.verdict)
vanilla = {4: (6855, 6852), 16: (18468, 34820), 64: (52161, 130492), 256: (192699, 516767), 1024: (754800, 2055232), 2048: (839549, 855559)}
for line in run.results.splitlines():
    if not line.startswith("result: "):
        print(line); continue
    doc = json.loads(line[line.index("{"):line.rindex("}")+1])
    for r in doc["runs"]:
        n = sum(r["cpu_ns"]) / len(r["cpu_ns"]) / r["folios"]
        k = r["folio_kib"]
        print(f"{k:5} KB move {r['move']}: {n:10.0f}  vanilla {vanilla[k][r['move']-1]}  speed {vanilla[k][r['move']-1]/n:.3f}  failed {r['folios_failed']} split {r['folios_split']}")
