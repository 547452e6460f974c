"""old.json new.json: rows apart by more than 1 %"""
import json,sys
a,b=(json.load(open(f)) for f in sys.argv[1:3])
K=('kernel','design','engine','channels','batch_pages','folio_kib','move','total_mib','folios_per_call','writes_per_ms','addresses','memory','bound_us')
def key(r): return tuple(str(r.get(k)) for k in K)
A={key(r):r for r in a['runs']}; B={key(r):r for r in b['runs']}
print(len(A),len(B),len(A.keys()&B.keys()))
for k in sorted(A.keys()^B.keys()): print('only', 'old' if k in A else 'new', k)
for k in A.keys()&B.keys():
    x,y=A[k],B[k]; d=[]
    def c(n,u,v):
        if u and v is not None and abs(u-v)>0.01*abs(u): d.append(f"{n} {u:.4g}->{v:.4g}")
    c('gbps',x['gbps'],y['gbps']); c('instr',x['instructions_per_folio'],y['instructions_per_folio']); c('p99',(x.get('inaccessible_us') or {}).get('p99'),(y.get('inaccessible_us') or {}).get('p99')); c('first',x.get('first_folio_us'),y.get('first_folio_us'))
    if d: print(' '.join(v for v in k if v!='None'), ':', '; '.join(d))
