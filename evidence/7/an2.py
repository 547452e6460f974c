import sys,bisect,collections,pickle
name, part, mapf = sys.argv[1:4]
syms=[]
for l in open(mapf):
    a,t,n=l.split()[:3]
    if t in 'tTwW': syms.append((int(a,16),n))
syms.sort(); ad=[s[0] for s in syms]
def sym(p):
    if p<0xffff800000000000: return 'user'
    i=bisect.bisect_right(ad,p)-1; return syms[i][1]
bp=[a for a,n in syms if n=='migrate_misplaced_folio'][0]
pcs=[int(l.split('/')[1],16) for l in open(f'/work/s/B/out/{name}-{part}.exec') if l.startswith('Trace')]
names=[sym(p) for p in pcs]
idx=[i for i,p in enumerate(pcs) if p==bp]
entry={a for a,n in syms if n.startswith(("asm_sysvec","asm_common_interrupt"))}
res=[]
for a,b in zip(idx,idx[1:]):
    keep=[];depth=0;n=0
    i=a
    while i<b:
        s=names[i]
        if s.startswith('asm_sysvec') or s.startswith('asm_common_interrupt'):
            # interrupted: skip until iret of this depth
            if i==a or not names[i-1].startswith(('asm_sysvec','asm_common')) :
                depth+=1
                # find end
                j=i+1; d=1
                while j<b and d:
                    if names[j].startswith(('asm_sysvec','asm_common_interrupt')) and not names[j-1].startswith(('asm_sysvec','asm_common_interrupt')) and names[j-1]!='error_entry' and names[j-1]!='error_return' and pcs[j] in entry: d+=1
                    if names[j] in('native_irq_return_iret',) and names[j+1]!='native_irq_return_iret': d-=1
                    j+=1
                n+=1; i=j; continue
        keep.append(i); i+=1
    f=collections.Counter(names[k] for k in keep)
    res.append((len(keep),n,'task_numa_work' in f or '__schedule' in f,f))
    print(len(keep),'interrupts',n,[k for k in f if k in('task_numa_work','__schedule','schedule')])
good=next(r for r in res if str(r[0])==sys.argv[4]) if len(sys.argv)>4 else min((r for r in res if not r[2]), default=min(res), key=lambda r:r[0])
print('chosen',good[0]); pickle.dump(good,open(f'/work/s/B/out/{name}-{part}.pick','wb'))
