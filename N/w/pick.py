"""pick.py BASENAME TOPIC...: pick all patches of the topics on the commit of BASENAME (a patch of the stack, or 'pristine'); print conflicts; leave ref pick/TOPIC."""
import subprocess, sys, re, os
R=os.environ.get("ED","/work/s/N/ed/edit"); BR=os.environ.get("BR","series")
env={**os.environ,**{f"GIT_{r}_{k}":v for r in("AUTHOR","COMMITTER") for k,v in dict(NAME="x",EMAIL="x@y",DATE="1767225600 +0000").items()}}
def g(*a,ok=False):
    p=subprocess.run(["git",*a],cwd=R,capture_output=True,text=True,env=env,errors="surrogateescape")
    if p.returncode and not ok: sys.exit(f"git {a}: {p.stderr}")
    return p.stdout if not ok else (p.returncode,p.stdout)
log=g("log","--reverse","--format=%H %T %P%n%B%x01",f"pristine..{BR}").split("\x01")
cs=[]
for e in log:
    e=e.strip("\n")
    if not e: continue
    h,t,p=e.split("\n")[0].split()
    m=re.findall(r"^Patch: (\S+)$",e,re.M); n=m[-1] if m else "joins/new "+e.split("\n")[1]
    cs.append((n,h,p))
base=sys.argv[1]
if base=="pristine": cur=g("rev-parse","pristine").strip()
else: cur=next(h for n,h,p in cs if base in n)
topics=sys.argv[2:]
bad=0
for n,h,p in cs:
    if not any(n.startswith(t) for t in topics): continue
    x=cur if cur==p else g("commit-tree",f"{cur}^{{tree}}","-p",p,"-m","x").strip()
    if cur==p: cur=h; print("ff",n); continue
    rc,out=g("merge-tree","--write-tree",x,h,ok=True)
    tree=out.split("\n")[0]
    if rc:
        bad+=1; print("CONFLICT",n); 
        for l in out.split("\n")[1:]:
            if l.startswith(("CONFLICT","Auto")): print("   ",l)
        for f in dict.fromkeys(l.split("\t")[1] for l in out.split("\n")[1:] if "\t" in l and re.match(r"\d{6} ",l)):
            t=g("show",f"{tree}:{f}")
            ls=t.split("\n"); i=0
            while i<len(ls):
                if ls[i].startswith("<<<<<<<"):
                    j=next(k for k in range(i,len(ls)) if ls[k].startswith(">>>>>>>"))
                    print(f"--- {f}:{i+1}"); print("\n".join(ls[i:j+1])); i=j
                i+=1
        # go on as if theirs hunk dropped: stop
        if not os.environ.get("GO"): break
    else: print("ok",n)
    cur=g("commit-tree",tree,"-p",cur,"-m",n).strip()
g("update-ref",f"refs/heads/pick/{topics[-1].replace('/','-')}",cur)
