from dataclasses import replace
from pathlib import Path
from harness.cli import default_paths
from harness.guest import suite, vm
from harness.lab import plan, run as lab
from harness.lab.model import preset
D=4.91851
paths = default_paths()
for boot in plan.ours(False):
    if boot.name == "touched-live":
        one = replace(boot.measurements[0], mib=128, writes_per_ms=100, folio_kib=(2048,))
        for b in (replace(boot, measurements=(one,)), *plan.other_quanta(replace(boot, measurements=(one,)))):
            kernel = suite.prepare(paths, b.config)
            r = suite.run_quietly(paths, kernel, "lab", Path("/work/s/X/trial")/b.name, {"lab.plan": b.plan(D).encode()}, devices=preset.load("zen3-ptdma").devices(16, D), cpus=b.cpus, clock=vm.Clock(quantum_ns=b.quantum_ns))
            print("RESULT", b.name, r.verdict)
            for x in lab.runs_of(b, lab.said(r, b.name), "zen3-ptdma", D): print(x)
