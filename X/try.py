import sys
from pathlib import Path
from harness.cli import default_paths
from harness.guest import suite, vm
from harness.lab.model import preset
suite_name, config, args, engine, out, cpus = sys.argv[1:7]
quantum = int(sys.argv[7]) if len(sys.argv) > 7 else 5000
seed = int(sys.argv[8]) if len(sys.argv) > 8 else 1
paths = default_paths()
kernel = suite.prepare(paths, config)
d = 4.91851
devices = preset.load("zen3-ptdma").devices(16, d) if engine == "1" else ()
r = suite.run_quietly(paths, kernel, suite_name, Path("/work/s/X/trial")/out, {}, args=args, devices=devices, cpus=int(cpus), clock=vm.Clock(seed, quantum))
print("RESULT", out, r.verdict); print(r.results[:1500])
