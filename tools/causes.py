import re,tomllib
from harness.lab.judge import claims, goals
from harness.lab.judge.claims import judged, recorded
from harness.guest.ktap import Status
g=tomllib.load(open('lab/goals.toml','rb'))
miss=[]
from pathlib import Path
from harness.core import jsonio
from harness.lab.results import Results
for f in sorted(Path('lab/recorded').glob('*.json')):
    try: r=jsonio.load(Results,f)
    except Exception as e: print(f,e); continue
    for claim,case in judged(r):
        if case and case.status is Status.KNOWN: miss.append(case.name)
print(len(miss))
for p in g['cause']:
    n=sum(bool(re.search(p,m)) for m in miss)
    first=0
    if not n: print('UNUSED', p)
