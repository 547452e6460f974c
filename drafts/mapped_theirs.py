import re,sys
f=sys.argv[1]; s=open(f).read()
s=re.sub(r"<<<<<<< [^\n]*\n(.*?)=======\n(.*?)>>>>>>> [^\n]*\n", r"\2", s, flags=re.S)
open(f,"w").write(s)
