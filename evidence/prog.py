import json,sys
sys.path.insert(0,'/work/main')
from harness.checks import main,turns
from harness.core.paths import default_paths
p=default_paths(); ch=turns.parse('all'); known=main.every(p,ch); ch2=main.of_turn(known,ch)
cost={}
import glob
for f in sorted(glob.glob('/work/s/log/stages-part*.jsonl')):
    for l in open(f):
        j=json.loads(l); cost[j['stage']]=j['seconds']['busy']/60
done={}
for l in open('/work/s/se/view/up/out/check/stages.jsonl'):
    j=json.loads(l); done[j['stage']]=(j['seconds']['busy']/60,j['seconds']['wall']/60,[c for c in j['cases'] if c[1] not in('passes','skipped','passed')])
tot=0;left=0;unk=[]
for s in known:
    if s.name not in ch2: continue
    if s.name in done: continue
    c=cost.get(s.name)
    if c is None: unk.append(s.name); c=3
    left+=c
print(len(ch2),'done',len(done),'busy',sum(d[0] for d in done.values()),'left',left,'unknown',unk)
for n,d in done.items():
    print(n,'%.1f (%.1f) was %.1f'%(d[0],d[1],cost.get(n,-1)), d[2][:1] if d[2] else '')
