from lib import *
assert "joins/0006" in g("log","-1","--format=%B")
old={n:h for n,h in commits("pristine..oldtip")}
def oldc(x): return next(h for n,h in old.items() if x in n)
d=g("diff",oldc("required/0001")+"^",oldc("required/0001"),"--","mm/migrate_live.c")
g("apply","--recount","-",inp=d)
g("add","-A")
A="""mm/migrate: let live copies obey routes that require their migrator

The series live and required know nothing of each other. The CPU copies
live all folios that the migrator does not copy, and the pages that a
thread wrote to meanwhile, also where a route requires its migrator.

On such a route, leave these folios uncopied. Then they migrate as folios
that are not copied live: the migrator copies a folio that a thread wrote
to once more, unmapped, and a folio that the migrator does not copy stays
where it is. Count failures in that second attempt only. After a copy that
timed out, protect no further folio, since the rest of the call fails.

The cost is a test of the flag of the route for each folio.
"""
g("commit","-q","-F","-",inp=A,*())
h1=g("rev-parse","HEAD").strip()
d=g("diff",oldc("neighbours/0001")+"^",oldc("neighbours/0004"),"--","mm/migrate_live.c")
g("apply","--recount","-",inp=d)
sub("mm/migrate.c","\nstatic enum ttu_flags migrate_ttu_flags(","\nenum ttu_flags migrate_ttu_flags(")
sub("mm/migrate.c","\nstatic void migrate_done_flush(","\nvoid migrate_done_flush(")
sub("mm/migrate.c","""/* Cleanup src folio upon migration success */
static void migrate_folio_done(""","""/*
 * Cleanup src folio upon migration success. A live group frees when all folios are
 * accessible again: freeing a small one may free thousands that are on the CPU's lists.
 */
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
sub("mm/migrate.c","static int migrate_pages_sync(",L+"static int migrate_pages_sync(")
sub("mm/migrate.c","		migrate_pages_live(&call, from, &stats);","		migrate_live(&call, from, &stats);")
sub("mm/migrate.c","""/*
 * Cleanup src folio upon migration success. A live""","""/* Return whether @nr more folios fit in until migrate_done_flush(). */
bool migrate_done_has_space(struct migrate_done *done, unsigned int nr)
{
	return folio_batch_space(&done->fbatch) >= nr;
}

/*
 * Cleanup src folio upon migration success. A live""")
s=open(R+"/mm/migrate.h").read()
for a,b in [("/* mm/migrate.c */\n","/* mm/migrate.c */\nenum ttu_flags migrate_ttu_flags(enum migrate_mode mode, unsigned int nr_flush);\n"),
 ("void migrate_batch_undo(struct migrate_batch *b);\n","void migrate_batch_undo(struct migrate_batch *b);\nbool migrate_done_has_space(struct migrate_done *done, unsigned int nr);\nvoid migrate_done_flush(struct migrate_done *done);\n"),
 ("			struct migrate_pages_stats *stats);\n\n#endif","			struct migrate_pages_stats *stats,\n			struct migrate_done *done);\n\n#endif")]:
    assert s.count(a)==1,a
    s=s.replace(a,b)
open(R+"/mm/migrate.h","w").write(s)
B="""mm/migrate: finish folios that were copied live together

With the series neighbours, a batch has a struct migrate_done, in which
migrate_folio_move() leaves folios that are to be freed and added to the
LRU together. A group of a live copy is a batch, too, and has none.

Give all groups of a call the same struct migrate_done. Free the folios of
several groups together, with all of them accessible: freeing one small
folio may free thousands of pages on the CPU's lists, which took 120 us.
Let protection, and the unmap of a group, defer flushes as the unmap of a
batch does.

A call of migrate_pages() with a live route uses 280 bytes more of the
stack. The gain was not measured apart from that of neighbours.
"""
g("add","-A")
g("commit","-q","-F","-",inp=B)
