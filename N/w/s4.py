from lib import *
assert "neighbours/0003" in g("log","-1","--format=%B")
g("checkout","HEAD^","--","mm/migrate_live.c")
sub("mm/migrate.h","void migrate_done_flush(struct migrate_done *done);\n","",1) if "void migrate_done_flush" in open(R+"/mm/migrate.h").read() else None
s=open(R+"/mm/migrate.h").read()
s=s.replace("			struct migrate_pages_stats *stats,\n			struct migrate_done *done);","			struct migrate_pages_stats *stats);")
open(R+"/mm/migrate.h","w").write(s)
sub("mm/migrate.c","\nvoid migrate_done_flush(","\nstatic void migrate_done_flush(")
sub("mm/migrate.c","""/*
 * Cleanup src folio upon migration success. A live group frees when all folios are
 * accessible again: freeing a small one may free thousands that are on the CPU's lists.
 */
static void migrate_folio_done(""","""/* Cleanup src folio upon migration success */
static void migrate_folio_done(""")
L="""/* Copy live all folios of @from that may be; the others stay in @from. */
static noinline void migrate_live(struct migrate_call *call, struct list_head *from,
				  struct migrate_pages_stats *stats)
{
	struct migrate_done done;

	migrate_done_init(&done);
	migrate_pages_live(call, from, stats, &done);
}

"""
sub("mm/migrate.c",L,"")
sub("mm/migrate.c","		migrate_live(&call, from, &stats);","		migrate_pages_live(&call, from, &stats);")
m=g("log","-1","--format=%B")
m=resub(m,"""Live copies free the folios of several groups together: freeing one small
folio may free thousands of pages on the CPU's lists, which took 120 us.

""","")
amend(m)
