from pathlib import Path
from harness.core.paths import default_paths
from harness.guest import suite
from harness.lab.model import preset
paths = default_paths()
kernel = suite.prepare(paths, "base")
devices = preset.load("zen3-ptdma").devices(16, 4.91851)
files = {"suites/strip": Path("/work/s/X3/report-suite").read_bytes(), "suites/migrate-offload-report": Path("/work/s/X3/tree/deb/migrate-offload-report").read_bytes()}
r = suite.run_quietly(paths, kernel, "strip", Path("/work/s/X3/trial/report"), files, devices=devices, cpus=4)
print("RESULT report", r.verdict); print(r.results[:3000])
