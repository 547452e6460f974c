import json,sys
a,b=(json.load(open(f)) for f in sys.argv[1:3])
def key(r): return (r['kernel'],r['design'],r.get('channels'),r['folio_kib'],r['batch_pages'],r['move'],r.get('caller'),r.get('memory'),r.get('bound_us'),json.dumps(r.get('touch',{}) and r['touch'].get('writes_per_ms')) if r.get('touch') else '', r['folios_per_call'], r['total_mib'],r.get('live_by'))
A={}; 
for i,r in enumerate(a['runs']): A[i]=r
for i,(r,s) in enumerate(zip(a['runs'],b['runs'])):
    out=[]
    for k in ('gbps','instructions_per_folio'):
        if r.get(k) and s.get(k) and abs(s[k]/r[k]-1)>.008: out.append(f"{k} {r[k]:.5g}->{s[k]:.5g}")
    for q in ('p50','p99','max'):
        x,y=(z.get('inaccessible_us') or {} for z in (r,s))
        if x.get(q) and y.get(q) and abs(y[q]/x[q]-1)>.02: out.append(f"{q} {x[q]:.4g}->{y[q]:.4g}")
    if out: print({k:v for k,v in s.items() if k in('kernel','design','channels','folio_kib','memory','caller','bound_us','move','folios_per_call')},'; '.join(out))
