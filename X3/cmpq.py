import json
a=json.load(open('/work/s/X3/tree/lab/recorded/quick.json')); b=json.load(open('/work/s/X3/quick-results.json'))
def flat(x,p=''):
    if isinstance(x,dict):
        for k,v in x.items(): yield from flat(v,p+'/'+k)
    elif isinstance(x,list):
        for i,v in enumerate(x): yield from flat(v,f'{p}[{i}]')
    else: yield p,x
KEY=("kernel","design","channels","folio_kib","move","addresses","memory","bound_us","batch_pages","total_mib","folios_per_call")
A={tuple(r.get(k) for k in KEY):r for r in a['runs']}; B={tuple(r.get(k) for k in KEY):r for r in b['runs']}
print(len(A),len(B),set(A)^set(B)); n=d=0
for k in A:
    fa,fb=dict(flat(A[k])),dict(flat(B[k]))
    for f in fa:
        n+=1
        if fa[f]!=fb.get(f):
            d+=1
            if isinstance(fa[f],(int,float)) and fa[f] and abs(fb[f]/fa[f]-1)>.005: print([x for x in k if x is not None],f,fa[f],fb[f])
print(n,d)
