/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface between mm/migrate.c and mm/migrate_offload.c.
 */
#ifndef __MM_MIGRATE_OFFLOAD_H
#define __MM_MIGRATE_OFFLOAD_H

#include <linux/jump_label.h>
#include <linux/migrate_offload.h>

/*
 * One counter per cause, and one column of a table per counter. FALLBACK: the migrator
 * could have copied the folio, but did not. DECLINED: the folio must not be copied
 * before the move phase.
 */
enum migrate_offload_stat {
	MIGRATE_OFFLOAD_STAT_BATCHES,
	MIGRATE_OFFLOAD_STAT_FOLIOS_COPIED,
	MIGRATE_OFFLOAD_STAT_PAGES_COPIED,
	MIGRATE_OFFLOAD_STAT_FALLBACK_BUSY,
	MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR,
	MIGRATE_OFFLOAD_STAT_FALLBACK_LOST,
	MIGRATE_OFFLOAD_STAT_FALLBACK_NO_MEMORY,
	MIGRATE_OFFLOAD_STAT_FALLBACK_REFUSED,
	MIGRATE_OFFLOAD_STAT_FALLBACK_SMALL,
	MIGRATE_OFFLOAD_STAT_FALLBACK_TIMEOUT,
	MIGRATE_OFFLOAD_STAT_FALLBACK_UNREACHABLE,
	MIGRATE_OFFLOAD_STAT_DECLINED_MAPPING,
	MIGRATE_OFFLOAD_STAT_DECLINED_METADATA,
	MIGRATE_OFFLOAD_STAT_DECLINED_POISON,
	MIGRATE_OFFLOAD_STAT_DECLINED_REFERENCES,
	MIGRATE_OFFLOAD_STAT_DECLINED_TYPE,
	NR_MIGRATE_OFFLOAD_STATS
};

/**
 * struct migrate_route - the migrator of a call of migrate_pages()
 * @migrator: the migrator; NULL if the CPU copies
 * @reason: why the folios are migrated
 * @lost: a pair was lost
 * @late: a copy has timed out: the CPU copies the rest of the call
 *
 * A change of the route by the administrator does not affect the call.
 */
struct migrate_route {
	struct migrator *migrator;
	enum migrate_reason reason;
	bool lost;
	bool late;
};

DECLARE_STATIC_KEY_FALSE(migrate_offload_key);

/* True only if the main switch is on and some reason has a route. */
static inline bool migrate_offload_enabled(void)
{
	return IS_ENABLED(CONFIG_MIGRATION_COPY_OFFLOAD) &&
	       static_branch_unlikely(&migrate_offload_key);
}

void __migrate_route_enter(struct migrate_route *route);
void __migrate_route_leave(struct migrate_route *route);
struct migrate_offload_batch *migrate_offload_begin(struct migrate_route *route);
bool migrate_offload_add(struct migrate_offload_batch *batch, struct folio *src,
			 struct folio *dst);
bool migrate_offload_start(struct migrate_offload_batch *batch);
void migrate_offload_finish(struct migrate_offload_batch *batch);
void migrate_offload_end(struct migrate_offload_batch *batch);
void migrate_offload_count(const struct migrate_route *route,
			   enum migrate_offload_stat stat, unsigned long nr);

/* @route has nothing but a reason. */
static inline void migrate_route_enter(struct migrate_route *route)
{
	if (migrate_offload_enabled())
		__migrate_route_enter(route);
}

static inline void migrate_route_leave(struct migrate_route *route)
{
	if (IS_ENABLED(CONFIG_MIGRATION_COPY_OFFLOAD) && route->migrator)
		__migrate_route_leave(route);
}

#endif /* __MM_MIGRATE_OFFLOAD_H */
