from lib import *
assert "neighbours/0001" in g("log","-1","--format=%B")
g("checkout","HEAD^","--","mm/migrate_live.c","mm/migrate.h")
sub("mm/migrate.c","\nenum ttu_flags migrate_ttu_flags(","\nstatic enum ttu_flags migrate_ttu_flags(")
s=open(R+"/mm/migrate.c").read(); i=s.index("static enum ttu_flags migrate_ttu_flags("); print(s[i:i+120])
sub("mm/rmap.c"," * @flags: 0, or TTU_BATCH_FLUSH and TTU_BATCH_FLUSH_LOCAL\n"," * @flags: 0, or TTU_BATCH_FLUSH\n")
m=g("log","-1","--format=%B")
m=resub(m,"""A group of a live copy decides in the same way.

""","")
amend(m)
