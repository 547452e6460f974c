import json,sys
from harness.lab.judge import claims
out={}
for q in (True,False):
    for c,k in claims.judged(claims.recorded(q)):
        out[f"{q} {c.name}"]=[round(c.value,9) if c.value==c.value else None,c.low,c.high,c.published,c.fitted,k.name if k else None, k.status.value if k else None]
json.dump(out,open(sys.argv[1],"w"),indent=0)
print(len(out))
