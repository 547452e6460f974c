"""Run guests of the lab n times and compare. rep.py OUT N NAME"""
import json, sys, hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from harness.core.paths import Paths
from harness.guest import suite
from harness.kernel.build import Kernel
from harness.lab import plan
from harness.lab.model import preset
from harness.lab.bench import runs_of as _  # noqa
out, n, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
cold = Path('/work/s/cold')
paths = Paths(cold, cold / '.cache', cold / 'out')
kernel = Kernel('base', '', '', cold, Path('/work/s/rep/kernel'))
DIL = 4.912
(boot,) = [b for b in plan.ours(True) if b.name == name]
devices = preset.load('zen3-ptdma').devices(boot.channels, DIL) if boot.channels else ()
def one(i):
    r = suite.run_quietly(paths, kernel, 'lab', out / f'{name}-{i}', {'lab.plan': boot.plan(DIL).encode()},
        tiers=boot.tiers, memory=boot.memory, append=boot.append, devices=devices)
    return r.digest, hashlib.sha256(r.console.encode()).hexdigest()[:8], hashlib.sha256(r.results.encode()).hexdigest()[:8], r.verdict.message
with ThreadPoolExecutor(2) as pool:
    for x in pool.map(one, range(n)): print(*x)
