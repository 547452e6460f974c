"""prog.py WORKLOAD way folio_kib seed quantum: boot one guest, append its Programs to progs.json lines"""
import sys, time, msgspec
from pathlib import Path
from harness.core.paths import default_paths
from harness.guest import suite, vm, image
from harness.kernel import debian, qemu
from harness.lab import programs
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.lab.run import said
from harness.lab.workloads import WORKLOADS
paths = default_paths()
w = WORKLOADS[sys.argv[1]]
boot = programs.Boot(w, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1, int(sys.argv[5]) if len(sys.argv) > 5 else 5000)
d = claims.recorded(quick=False).calibration.dilation
engine = preset.load("zen3-ptdma")
kernel = suite.prepare(paths, w.kernels[boot.way == "vanilla"])
files = {}
if w.packages:
    root = debian.userland(paths, "amd64", w.packages, qemu.SUITE)
    files = image.programs(root, w.programs, "debian", w.files)
t = time.time()
print(boot.name, boot.args(d), flush=True)
ended = suite.run_quietly(paths, kernel, w.name, Path("/work/s/X3/trial") / boot.name, files, args=boot.args(d), cpus=w.cpus, tiers=w.tiers,
    devices=engine.devices(engine.channels, d) if "dcbm" in boot.way else (), clock=vm.Clock(boot.seed, boot.quantum_ns))
print(f"{time.time()-t:.0f} s", ended.verdict)
with open("/work/s/X3/progs.jsonl", "a") as f:
    for p in programs.cases_of(said(ended, boot.name), boot, d):
        line = msgspec.json.encode(p).decode()
        print(line); f.write(line + "\n")
