from lib import *
assert "neighbours/0004" in g("log","-1","--format=%B")
g("checkout","HEAD^","--","mm/migrate_live.c","mm/migrate.h")
sub("mm/migrate.c","""/* Return whether @nr more folios fit in until migrate_done_flush(). */
bool migrate_done_has_space(struct migrate_done *done, unsigned int nr)
{
	return folio_batch_space(&done->fbatch) >= nr;
}

""","")
amend()
