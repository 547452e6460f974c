"""small.py PRESET OUT: live and not live, by default, for small folios; idle and written."""
import sys, msgspec, pathlib, time
from dataclasses import replace
from harness.core import lock, paths as P
from harness.guest import suite
from harness.lab import plan, run
from harness.lab.plan import Boot, Measurement, OURS
from harness.lab.judge import claims
from harness.lab.model import preset
name,out=sys.argv[1:3]
paths=P.default_paths()
sizes=(32,16)
live=plan._by_default(Measurement("live",16,sizes,64,batch_pages=None,moves=1))
boots=[Boot("small-16",OURS,16,(live,plan._not_live(live)))]
off=Measurement("off",0,sizes,64,moves=1,bound_us=plan.BOUND_US)
lv=plan._by_default(off)
for n,jobs in (("cpu",(off,replace(lv,channels=0))),("16",(plan._not_live(lv),lv))):
    boots.append(Boot(f"smalltouched-{n}",OURS,jobs[0].channels,tuple(replace(j,writes_per_ms=plan.WRITES_PER_MS[-1]) for j in jobs),cpus=4))
d=claims.recorded(True).calibration.dilation
with lock.cache(paths):
    ready={c: suite.prepare(paths,c) for c in {b.config for b in boots}}
lab=run.Lab(paths, ready, paths.out/"lab"/"small")
eng=preset.load(name)
runs=run._ours(lab,boots,eng,name,d)
pathlib.Path(out).write_text("[\n"+",\n".join(msgspec.json.encode(r).decode() for r in runs)+"\n]\n")
for r in runs:
    i=r.inaccessible_us; t=r.touch
    print(f"{r.kernel} {r.design:8} {r.channels:2} {r.folio_kib:5} b{r.bound_us} w{r.writes_per_ms:4} {r.gbps:7.3f} GB/s p50 {i and i.p50:.2f} p99 {i and i.p99:.2f} max {i and i.max:.2f} instr {r.instructions_per_folio:.0f}", t and f"read {t.read:.1f} write {t.write:.1f} twice {t.copied_twice} lost {r.latency_lost} failed {r.folios_failed}")
