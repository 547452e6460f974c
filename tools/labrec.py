"""labrec.py OUT FULLJSON BOOT...: boots anew, merged into the record"""
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from msgspec import structs
from harness.core import jsonio
from harness.core.paths import Paths
from harness.guest import suite
from harness.kernel.build import Kernel
from harness.lab import plan, results
from harness.lab.model import preset
from harness.lab.results import Results
from harness.lab.run import runs_of, said
out, file, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
cold = Path('/work/s/cold')
paths = Paths(cold, cold / '.cache', cold / 'out')
paths = Paths(Path.cwd(), cold / '.cache', cold / 'out')
kernel = Kernel('base', '', '', cold, Path('/work/s/rep/kernel-int'))
old = jsonio.load(Results, file)
dil = old.calibration.dilation
boots = [b for b in plan.ours(False) if b.name in names]
assert len(boots) == len(names) and all(b.config == 'base' for b in boots)
engine = preset.load('zen3-ptdma')
def one(boot):
    devices = engine.devices(boot.channels, dil) if boot.channels else ()
    r = suite.run_quietly(paths, kernel, 'lab', out / boot.name, {'lab.plan': boot.plan(dil).encode()},
        tiers=boot.tiers, memory=boot.memory, append=boot.append, devices=devices)
    print(boot.name, r.verdict.message, flush=True)
    return runs_of(boot, said(r, boot.name), 'zen3-ptdma', dil)
with ThreadPoolExecutor(2) as pool:
    new = {run.name: run for runs in pool.map(one, boots) for run in runs}
planned = [k.name for b in [*plan.vanilla(False), *plan.ours(False)] for k in b.keys('zen3-ptdma')]
have = {r.name: r for r in old.runs} | new
runs = tuple(have[n] for n in dict.fromkeys(planned) if n in have)
order = [r.name for r in old.runs]
res = structs.replace(old, runs=runs)
jsonio.write_text(out / 'full.json', results.dump(res))
print(len(old.runs), len(runs))
