/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MIGRATE_LIVE_DELAY_H
#define MIGRATE_LIVE_DELAY_H

/* Steps of a live copy before which migration waits, if a test says so. */
enum migrate_live_step {
	MIGRATE_LIVE_PROTECT,		/* a folio; its page table is locked */
	MIGRATE_LIVE_FLUSH,		/* the TLBs of a protected chunk */
	MIGRATE_LIVE_UNMAP,		/* a folio that was copied */
	MIGRATE_LIVE_JUDGE,		/* whether an unmapped folio was written */
	MIGRATE_LIVE_GROUP_FLUSH,	/* the TLBs of an unmapped group */
	MIGRATE_LIVE_MOVE,		/* the group */
	NR_MIGRATE_LIVE_STEPS
};

void __migrate_live_delay(enum migrate_live_step step);

static inline void migrate_live_delay(enum migrate_live_step step)
{
	if (IS_ENABLED(CONFIG_MIGRATE_LIVE_DELAY))
		__migrate_live_delay(step);
}

#endif /* MIGRATE_LIVE_DELAY_H */
