import sys
from harness.lab import plan
from harness.lab.run import runs_of
name, f = sys.argv[1], sys.argv[2]
(boot,) = [b for b in plan.ours(True) if b.name == name]
for r in runs_of(boot, open(f).read(), 'zen3-ptdma', 4.912):
    if r.folio_kib == 4: print(r)
