"""go.py NAME: cherry-pick onto n all of `series` after what n has, up to NAME (substring)."""
from lib import *
have=[n for n,h in commits("pristine..HEAD")]
cs=commits("pristine..series")
if any(sys.argv[1] in n for n in have): sys.exit("has it")
todo=[(n,h) for n,h in cs if n not in have]
end=next(i for i,(n,h) in enumerate(todo) if sys.argv[1] in n) if len(sys.argv)>1 else len(todo)-1
rc,out=g("cherry-pick",*[h for n,h in todo[:end+1]],check=False)
print(rc, "\n".join(l for l in out.splitlines() if "CONFLICT" in l or "error" in l))
print(g("status","--short")[:2000])
