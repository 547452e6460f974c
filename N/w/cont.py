from lib import *
g("checkout","--ours","--",*sys.argv[1:]) if sys.argv[1:] else None
g("add","-A"); rc,out=g("cherry-pick","--continue",check=False); print(rc,out[-300:])
