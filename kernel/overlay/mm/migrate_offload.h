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
 * before the move phase. REQUIRED_FAILED: not migrated, since the route requires
 * its migrator, which has not copied the folio. LIVE: of routes that copy folios
 * before they are unmapped; WRITTEN are copied twice, LIVE_DECLINED after they are
 * unmapped.
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
	MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED,
	MIGRATE_OFFLOAD_STAT_LIVE_COPIED,
	MIGRATE_OFFLOAD_STAT_LIVE_WRITTEN,
	MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_MAPPING,
	MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_REFERENCES,
	MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_SHARED,
	MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_TYPE,
	NR_MIGRATE_OFFLOAD_STATS
};

/**
 * struct migrate_pace - how long memory of a route is inaccessible, on average
 * @page_ns: for each base page, while a migrator copies
 * @folio_ns: for each folio of a page, while core unmaps and moves; a large one
 *	      counts as several, see migrate_folio_work()
 *
 * Of all calls, without a lock: an update may be lost.
 */
struct migrate_pace {
	unsigned int page_ns;
	unsigned int folio_ns;
};

/**
 * struct migrate_route - the migrator of a call of migrate_pages()
 * @migrator: the migrator; NULL if the CPU copies
 * @reason: why the folios are migrated
 * @live: copy folios before they are unmapped
 * @required: do not migrate what the migrator has not copied
 * @max_ns: for how long memory that is unmapped may be inaccessible; 0: no bound
 * @pace: what is known of that; set if @max_ns is
 * @lost: a pair was lost
 * @late: a copy has timed out, on a route with a bound: the CPU copies the rest
 *
 * A change of the route by the administrator does not affect the call.
 */
struct migrate_route {
	struct migrator *migrator;
	enum migrate_reason reason;
	bool live;
	bool required;
	bool lost;
	bool late;
	unsigned int max_ns;
	struct migrate_pace *pace;
	/* private: */
	int srcu_idx;
};

#ifdef CONFIG_MIGRATION_COPY_OFFLOAD

DECLARE_STATIC_KEY_FALSE(migrate_offload_key);
DECLARE_STATIC_KEY_FALSE(migrate_required_key);

/* What it takes the CPU to copy a base page, on average; see struct migrate_pace. */
extern unsigned int migrate_cpu_page_ns;

/* True only if the main switch is on and some reason has a route. */
static inline bool migrate_offload_enabled(void)
{
	return static_branch_unlikely(&migrate_offload_key);
}

void __migrate_route_enter(struct migrate_route *route,
			   enum migrate_reason reason);
void __migrate_route_leave(struct migrate_route *route);
struct migrate_offload_batch *migrate_offload_begin(struct migrate_route *route,
						    enum migrate_reason reason);
bool migrate_offload_takes(const struct migrate_route *route,
			   const struct folio *src);
bool migrate_offload_takes_live(const struct migrate_route *route,
				const struct folio *src);
bool migrate_offload_add(struct migrate_offload_batch *batch, struct folio *src,
			 struct folio *dst);
bool migrate_offload_start(struct migrate_offload_batch *batch);
void migrate_offload_poll(struct migrate_offload_batch *batch);
void migrate_offload_finish(struct migrate_offload_batch *batch);
void migrate_offload_end(struct migrate_offload_batch *batch);
void migrate_offload_count(const struct migrate_route *route,
			   enum migrate_offload_stat stat, unsigned long nr);

/* @route is zeroed. */
static inline void migrate_route_enter(struct migrate_route *route,
				       enum migrate_reason reason)
{
	if (migrate_offload_enabled() ||
	    static_branch_unlikely(&migrate_required_key))
		__migrate_route_enter(route, reason);
}

static inline void migrate_route_leave(struct migrate_route *route)
{
	if (route->migrator)
		__migrate_route_leave(route);
}

/* Return whether a folio that the migrator has not copied must not migrate. */
static inline bool migrate_route_requires(const struct migrate_route *route)
{
	return unlikely(route->required);
}

/* Count folios that are not migrated, since the migrator has not copied them. */
static inline void migrate_route_count_refused(const struct migrate_route *route,
					       unsigned long nr)
{
	migrate_offload_count(route, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, nr);
}

#else /* !CONFIG_MIGRATION_COPY_OFFLOAD */

static inline bool migrate_offload_enabled(void)
{
	return false;
}

static inline void migrate_route_enter(struct migrate_route *route,
				       enum migrate_reason reason)
{
}

static inline void migrate_route_leave(struct migrate_route *route)
{
}

static inline bool migrate_route_requires(const struct migrate_route *route)
{
	return false;
}

static inline void migrate_route_count_refused(const struct migrate_route *route,
					       unsigned long nr)
{
}

#endif /* CONFIG_MIGRATION_COPY_OFFLOAD */

#if IS_ENABLED(CONFIG_KUNIT) && defined(CONFIG_MIGRATION_COPY_OFFLOAD)
bool folio_content_is_bytes(struct folio *folio);
bool migrate_folio_was_mapped(struct folio *dst);
bool migrate_folio_may_copy_early(struct folio *src, bool was_mapped,
				  enum migrate_offload_stat *why);
struct migrator *migrate_offload_get_route(enum migrate_reason reason);
int migrate_offload_set_route(enum migrate_reason reason, const char *text);
struct migrate_pace *migrate_offload_pace(enum migrate_reason reason);
bool migrate_offload_set_enabled(bool on);
unsigned long migrate_offload_read_stat(enum migrate_offload_stat stat);
extern unsigned int migrate_live_min_order;
extern unsigned int migrate_max_inaccessible_us;
#endif

#endif /* __MM_MIGRATE_OFFLOAD_H */
