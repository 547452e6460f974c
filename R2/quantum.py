"""A guest of the lab with four processors, at three quanta: figures in the machine's scale."""
import sys
from dataclasses import replace
from pathlib import Path
from harness.core.paths import default_paths
from harness.guest import suite, vm
from harness.lab import plan, run
from harness.lab.judge import claims
from harness.lab.model import preset
paths = default_paths()
kernel = suite.prepare(paths, "base")
dilation = claims.recorded(quick=True).calibration.dilation
engine = preset.load(preset.DEFAULT)
out = Path("/work/s/R2/log/quantum")
one = plan.Measurement("live", 16, (2048, 64), 128, batch_pages=None, moves=1, instrument="auto")
boots = [
    plan.Boot("live", "base", 16, tuple(replace(one, writes_per_ms=r) for r in (1, 500))),
    plan.Boot("segments", "base", 16, (replace(one, design="segments", batch_pages=plan.SIZE_BATCH_PAGES, writes_per_ms=500),)),
]
for boot in boots:
    for quantum in (5000, 2500, 10000):
        d = out / f"{boot.name}-{quantum}"
        done = suite.run_quietly(paths, kernel, "lab", d, {"lab.plan": boot.plan(dilation).encode()},
            cpus=4, memory=boot.memory, append=boot.append, devices=engine.devices(16, dilation),
            clock=vm.Clock(quantum_ns=quantum))
        try:
            runs = run.runs_of(boot, run.said(done, boot.name), preset.DEFAULT, dilation)
        except Exception as error:
            print(boot.name, quantum, "ERROR", error, flush=True)
            print(done.results[-2000:])
            continue
        for r in runs:
            t = r.inaccessible_us
            print(boot.name, quantum, r.folio_kib, f"writes/ms {r.writes_per_ms}", f"{r.gbps:.3f} GB/s p50 {t and t.p50:.3f} p99 {t and t.p99:.3f} max {t and t.max:.3f} first {r.first_folio_us}", r.readers if hasattr(r,'readers') else "", flush=True)
