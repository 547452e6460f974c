import sys, msgspec
from pathlib import Path
from harness.core.paths import default_paths
from harness.guest import suite
from harness.lab import strips, plan
from harness.lab.judge import claims
from harness.lab.model import preset
from harness.lab.run import said
paths = default_paths()
d = claims.recorded(quick=False).calibration.dilation
engine = preset.load("zen3-ptdma")
out = []
for boot in strips.boots():
    if boot.config == plan.HEART and "heart" not in sys.argv: continue
    kernel = suite.prepare(paths, boot.config)
    ended = suite.run_quietly(paths, kernel, "strip", Path("/work/s/X3/trial") / boot.name, {}, args=boot.args(d),
        devices=() if boot.design == "off" else engine.devices(engine.channels, d))
    s = strips.parse(said(ended, boot.name), boot, d)
    out.append(s); print(boot.name, max(f[2] for f in s.folios), max(f[2]-f[1] for f in s.folios), flush=True)
Path("/work/s/X3/strips.json").write_bytes(msgspec.json.encode(out))
