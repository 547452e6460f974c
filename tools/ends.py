import sys,re,glob,os,collections
from harness.core.paths import default_paths
from harness.kernel import source,stack,build
from harness.kernel import tree as patches
from harness.series.build import by_least_change, compiled_files
paths=default_paths()
objs=sys.argv[1]
deps=collections.defaultdict(set)
n=0
for root,_,fs in os.walk(objs):
    for f in fs:
        if f.startswith(".") and f.endswith(".o.cmd"):
            t=open(os.path.join(root,f),errors="replace").read()
            n+=1
            o=os.path.join(root,f)
            for m in re.findall(r"(?:^|\s|/tree/|\./)((?:include|arch|mm|kernel|drivers|fs|lib|net|block|init|security|crypto|ipc|sound|virt|io_uring|samples)/\S+\.[ch])\b",t):
                deps[m].add(o)
print("objects",n)
with stack.assemble(paths, source.get(paths)) as made:
    tip=made.files(made.tip)
    topics={t.name:t for t in made.topics}
    files={name: made.files(made.pick_topic(t)[-1]) for name,t in topics.items()}
    def cost(a,b):
        a,b=compiled_files(a),compiled_files(b)
        ch={f for f,_ in a.items()^b.items()}
        o=set()
        for f in ch: o|=deps.get(f,set())
        return len(o),ch
    here=tip; tot=0
    for name in by_least_change(files,tip):
        c,ch=cost(here,files[name]); tot+=c
        print(name,c,[(f,len(deps.get(f,()))) for f in ch if len(deps.get(f,()))>60])
        here=files[name]
    print("total",tot)
    # greedy by real cost
    left=dict(files); here=tip; tot=0; print("greedy")
    while left:
        name=min(left,key=lambda n: cost(here,left[n])[0]); c,_=cost(here,left[name]); tot+=c; here=left.pop(name); print(" ",name,c)
    print("total",tot)
    def walk(weight, agg):
        left={n:compiled_files(f) for n,f in files.items()}; h=compiled_files(tip); tot=0; order=[]
        while left:
            def k(n):
                ch={f for f,_ in h.items()^left[n].items()}
                return agg([weight(f) for f in ch] or [0])
            name=min(left,key=k); o=set()
            for f in {f for f,_ in h.items()^left[name].items()}: o|=deps.get(f,set())
            tot+=len(o); h=left.pop(name); order.append((name,len(o)))
        return tot,order
    print("include/ anywhere", walk(lambda f: 100 if "include/" in f else 1,sum))
    print("max", walk(lambda f: 100 if "include/" in f else 1,max))
    print("real sum", walk(lambda f: len(deps.get(f,())),sum))
    print("real max", walk(lambda f: len(deps.get(f,())),max))
