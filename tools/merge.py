"""merge.py RECORD RUNS.json: put runs into a record, in the order of the plan, without what is not planned."""
import sys, msgspec, pathlib
from msgspec import structs
from harness.lab.results import Results, Run, dump
from harness.lab import plan
rec=pathlib.Path(sys.argv[1]); R=msgspec.json.decode(rec.read_bytes(),type=Results)
new=msgspec.json.decode(pathlib.Path(sys.argv[2]).read_bytes(),type=list[Run])
by={r.name:r for r in R.runs}|{r.name:r for r in new}
keys=[k.name for k in plan.keys(R.quick,R.engine.preset)]
miss=[k for k in keys if k not in by]; gone=[n for n in by if n not in keys]
print(len(R.runs),"->",len(keys)-len(miss),"missing",miss,"gone",gone)
rec.write_text(dump(structs.replace(R,runs=tuple(by[k] for k in keys if k in by))))
