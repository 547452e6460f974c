"""recite.py OLD.json: in int tree, replace figures in cited texts: what OLD rendered by what quick.json renders now."""
import re,sys,msgspec,pathlib,tomllib,jinja2
from functools import partial
sys.path.insert(0,'.')
from harness.tests.lab import test_cited as t
from harness.tests.lab import sample
from harness.lab.results import Results
old=msgspec.json.decode(open(sys.argv[1]).read(),type=Results) if not hasattr(sample,'load') else None
def recs(q): return {l:{run:partial(t.figures,r,fits) for run,fits in t.CITED["runs"].items()} for l,r in (("q",q),("f",t.FULL))}
lang=jinja2.Environment(undefined=jinja2.StrictUndefined); lang.filters|=t.FILTERS
sizes=(4,16,64,256,1024,2048)
for name,entries in t.CITED["texts"].items():
    p=pathlib.Path(name); s=p.read_text()
    for e in entries:
        a=" ".join(lang.from_string(e).render(recs(old),sizes=sizes).split()); b=" ".join(lang.from_string(e).render(recs(t.QUICK),sizes=sizes).split())
        ta,tb=a.split(),b.split(); assert len(ta)==len(tb)
        rx=re.compile(r'(?<![\d.,])'+r'(\s+)'.join(map(re.escape,ta))+r'(?![.,]?\d)')
        m=rx.search(s)
        if a==b:
            if not m: print("MISSING",name,a)
            continue
        if not m: print("CANNOT",name,a,'->',b); continue
        seps=list(m.groups())+['']
        out=''
        for i,(x,y) in enumerate(zip(ta,tb)):
            sep=seps[i] if i<len(seps)-1 else ''
            d=len(y)-len(x)
            if i>0 and d and len(sep)==0: pass
            out+=y
            if i<len(ta)-1: out+=seps[i]
        # keep columns: adjust spaces before a token whose length changed
        parts=[]; 
        out=''
        for i,(x,y) in enumerate(zip(ta,tb)):
            if i:
                sep=seps[i-1]; d=len(y)-len(x)
                if '\n' not in sep and len(sep)>1: sep=' '*max(1,len(sep)-d)
                out+=sep
            out+=y
        s=s[:m.start()]+out+s[m.end():]; print(name,':',a,'->',b)
    p.write_text(s)
