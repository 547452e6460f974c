/* SPDX-License-Identifier: GPL-2.0 */
/* Interface between mm/migrate.c and mm/migrate_offload.c. */
#ifndef __MM_MIGRATE_OFFLOAD_H
#define __MM_MIGRATE_OFFLOAD_H

#include <linux/jump_label.h>
#include <linux/migrate_offload.h>
#include <linux/module.h>

/* The route of a call of migrate_pages(), whatever the administrator changes. */
struct migrate_route {
	struct migrator *migrator;	/* NULL if the CPU copies */
	enum migrate_reason reason;
	bool lost;	/* a pair was lost */
};

DECLARE_STATIC_KEY_FALSE(migrate_offload_key);

/* Return whether the main switch is on. */
static inline bool migrate_offload_enabled(void)
{
	return IS_ENABLED(CONFIG_MIGRATION_COPY_OFFLOAD) &&
	       static_branch_unlikely(&migrate_offload_key);
}

void __migrate_route_enter(struct migrate_route *route);

static inline void migrate_route_enter(struct migrate_route *route)
{
	if (migrate_offload_enabled())
		__migrate_route_enter(route);
}

/* An engine with a lost pair may still call the migrator: pin its module. */
static inline void migrate_route_leave(struct migrate_route *route)
{
	if (IS_ENABLED(CONFIG_MIGRATION_COPY_OFFLOAD) && route->migrator && !route->lost)
		module_put(route->migrator->owner);
}

#endif /* __MM_MIGRATE_OFFLOAD_H */
