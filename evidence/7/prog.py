import json
t=0;n=0
for l in open('/work/s/se/view/up/out/check/stages.jsonl'):
    d=json.loads(l); t+=d['seconds']['busy']; n+=1
    bad=[c[0] for c in d['cases'] if c[1]=='failed']
    if bad: print(d['stage'],bad[:3], round(d['seconds']['wall']))
print(n,'stages',round(t/60,1),'core-min')
