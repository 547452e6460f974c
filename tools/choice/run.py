import sys
from pathlib import Path
from harness.core import lock
from harness.core.paths import default_paths
from harness.guest import suite, vm
from harness.lab.model import preset
paths = default_paths(); channels, factor = int(sys.argv[1]), float(sys.argv[2])
dilation = 4.91243
engine = preset.load(preset.DEFAULT)
with lock.cache(paths):
    kernel = suite.prepare(paths, "base")
devices = engine.devices(channels, dilation * factor)
done = suite.run_quietly(paths, kernel, "choice", paths.out / "choice", {}, args=f"{channels} {round(100 * dilation)}", cpus=1, devices=devices)
print("\n".join(l for l in done.results.splitlines() if l.startswith("case") or "no " in l or "fail" in l))
print(done.verdict)
