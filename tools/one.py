"""one.py PRESET OUT BOOT...: boot single guests of the quick (or full) laboratory; print and keep their runs."""
import sys, msgspec, pathlib, time
from harness.core.paths import Paths
from harness.core import lock
from harness.guest import suite
from harness.lab import plan, run
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.core import paths as P
name, which, out, *names = sys.argv[1:]
from harness import cli
paths = P.default_paths()
boots=[b for b in plan.ours(which=="quick") if b.name in names]
boots=list({b.name:b for b in boots}.values())
d=claims.recorded(which=="quick").calibration.dilation
with lock.cache(paths):
    ready={c: suite.prepare(paths,c) for c in {b.config for b in boots}}
lab=run.Lab(paths, ready, paths.out/"lab"/("G"+which+name))
eng=preset.load(name)
t=time.time()
runs=run._ours(lab, boots, eng, name, d)
print("seconds", time.time()-t)
pathlib.Path(out).write_text("[\n"+",\n".join(msgspec.json.encode(r).decode() for r in runs)+"\n]\n")
for r in runs:
    i=r.inaccessible_us; t=r.touch
    print(f"{r.kernel} {r.design:8} {r.channels:2} {r.folio_kib:5} b{r.bound_us} w{r.writes_per_ms:4} {r.memory} {r.addresses} {r.gbps:7.3f} GB/s p50 {i and i.p50:.2f} p99 {i and i.p99:.2f} max {i and i.max:.2f} instr {r.instructions_per_folio:.0f}", t and f"read {t.read:.1f} write {t.write:.1f} twice {t.copied_twice} lost {r.latency_lost} failed {r.folios_failed}")
