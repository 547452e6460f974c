"""Name mutants of kernel files whose lines the tip of the edit tree has not exactly once."""
import subprocess,sys,re
from pathlib import Path
sys.path.insert(0,'/work/s/D/tree')
from harness.mutants import mutant as m
E='/work/s/D/tree/.cache/linux/7.3.4-1-bpo13+1/edit'
ref=sys.argv[1] if len(sys.argv)>1 else 'series'
cache={}
def show(f):
    if f not in cache:
        r=subprocess.run(['git','-C',E,'show',f'{ref}:{f}'],capture_output=True,text=True)
        cache[f]=r.stdout
    return cache[f]
n=0
for one in m.load(Path('/work/s/D/tree/mutants')):
    if one.tree!='kernel':
        continue
    n+=1
    t=show(one.file)
    for old,new in one.edits:
        k=len(re.findall(rf'^{re.escape(old)}\n',t,flags=re.M))
        if k!=1: print(one.room,one.name,k,repr(old.strip().split('\n')[0]))
print(n,'kernel mutants')
