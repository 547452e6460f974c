from lib import *
# required/0001 is HEAD
assert "required/0001" in g("log","-1","--format=%B")
g("checkout","HEAD^","--","mm/migrate_live.c")
C="	/* Not migrated, since the migrator, which is required, has not copied them. */\n	MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED,\n"
sub("mm/migrate_offload.h",C,"")
sub("mm/migrate_offload.h","	MIGRATE_OFFLOAD_STAT_BATCHES,	/*",C+"	MIGRATE_OFFLOAD_STAT_BATCHES,	/*")
B="	bool required;	/* do not migrate what the migrator has not copied */\n"
sub("mm/migrate_offload.h",B,"")
sub("mm/migrate_offload.h","gets nothing more */\n};","gets nothing more */\n"+B+"};")
N='	[MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED] = "required_failed",\n'
sub("mm/migrate_offload.c",N,"")
sub("mm/migrate_offload.c",'	[MIGRATE_OFFLOAD_STAT_BATCHES] = "batches",\n',N+'	[MIGRATE_OFFLOAD_STAT_BATCHES] = "batches",\n')
T="	bool tried_again;		/* failures are retried, and counted then */\n"
sub("mm/migrate.h",T,"")
sub("mm/migrate.h","	enum migrate_reason reason;\n	struct migrate_route route;\n","	enum migrate_reason reason;\n"+T+"	struct migrate_route route;\n")
m=g("log","-1","--format=%B")
m=resub(m,"""min_order of the migrator do not apply. If a thread wrote to a folio during
a live copy, the migrator copies the folio once more, unmapped.
""","""min_order of the migrator do not apply.
""")
amend(m)
