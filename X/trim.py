from pathlib import Path
from msgspec import structs
from harness.core import jsonio
from harness.lab import results, plan
from harness.lab.results import Results
R=Path("lab/recorded")
def keep(name, ok):
    p=R/f"{name}.json"; d=jsonio.load(Results,p)
    d=structs.replace(d, programs=tuple(x for x in d.programs if ok(x)))
    p.write_text(results.dump(d))
keep("redis", lambda x: x.case=="GET, pipeline of 1" and x.state!="busy")
keep("postgres", lambda x: x.case=="select-only" and x.state!="busy")
keep("compaction", lambda x: x.case=="first writes")
p=R/"full.json"; d=jsonio.load(Results,p)
names={k.name for k in plan.keys(False, d.engine.preset)}
have={r.name for r in d.runs}
print("planned not recorded", names-have); print("not planned", len(have-names))
p.write_text(results.dump(structs.replace(d, runs=tuple(r for r in d.runs if r.name in names))))
