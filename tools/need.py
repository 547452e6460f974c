import sys
from harness.core import jsonio
from harness.lab import plan
from harness.lab.results import Results
from harness.core.paths import Paths
for q,f in ((True,'quick'),(False,'full')):
    r=jsonio.load(Results, __import__('pathlib').Path(f'lab/recorded/{f}.json'))
    have={x.name for x in r.runs}; want={k.name for k in plan.planned(r)} if False else None
    boots=[*plan.vanilla(q),*plan.ours(q)]
    names=set()
    for b in boots:
        ks={k.name for k in b.keys('zen3-ptdma')}; names|=ks
        miss=ks-have
        if miss: print(f, b.name, b.config, len(miss),'of',len(ks)); [print('    ',m) for m in sorted(miss)]
    print(f,'too many:', *sorted(have-names), sep='\n   ')
    print(f, 'dilation', r.calibration.dilation)
