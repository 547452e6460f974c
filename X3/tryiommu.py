from pathlib import Path
from harness.core.paths import default_paths
from harness.guest import suite
paths = default_paths()
kernel = suite.prepare(paths, "debug")
files = {"suites/iommu": Path("/work/s/X3/iommu-suite").read_bytes()}
r = suite.run_quietly(paths, kernel, "iommu", Path("/work/s/X3/trial/iommu"), files, cpus=2)
print("RESULT", r.verdict); print(r.results[:6000])
