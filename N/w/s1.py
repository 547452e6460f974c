from lib import *
g("checkout","-q","-B","n","edit")
sub("mm/migrate_offload.c","} else if (folio_order(src) < READ_ONCE(route->migrator->min_order)) {","} else if (!migrate_route_is_worth(route, src)) {")
sub("mm/migrate_offload.h","""			   unsigned long nr);

static inline void migrate_route_enter(""","""			   unsigned long nr);

/* Return whether a folio is worth a place in a batch. */
static inline bool migrate_route_is_worth(const struct migrate_route *route,
					  const struct folio *src)
{
	return folio_order(src) >= READ_ONCE(route->migrator->min_order);
}

static inline void migrate_route_enter(""")
m=g("log","-1","--format=%B")
m=resub(m,"""structs are in mm/migrate.h, for a second file that works with batches.
""","""structs are in mm/migrate.h, for a second file that works with batches.
migrate_route_is_worth() gets a test that other series need as well.
""")
amend(m)
