// SPDX-License-Identifier: GPL-2.0
/*
 * Delays before the steps of a live copy, which open wide what is a race of a
 * few instructions otherwise. debugfs has a file for each, in microseconds, and
 * "reached", which counts the delays that have begun.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>

#include "migrate_live_delay.h"

static const char * const names[NR_MIGRATE_LIVE_STEPS] = {
	[MIGRATE_LIVE_PROTECT]		= "protect",
	[MIGRATE_LIVE_FLUSH]		= "flush",
	[MIGRATE_LIVE_UNMAP]		= "unmap",
	[MIGRATE_LIVE_JUDGE]		= "judge",
	[MIGRATE_LIVE_GROUP_FLUSH]	= "group_flush",
	[MIGRATE_LIVE_MOVE]		= "move",
};

static u32 delays[NR_MIGRATE_LIVE_STEPS];
static atomic_t reached;

void __migrate_live_delay(enum migrate_live_step step)
{
	u32 us = READ_ONCE(delays[step]);

	if (!us)
		return;
	atomic_inc(&reached);
	if (step != MIGRATE_LIVE_PROTECT) {
		fsleep(us);
		return;
	}
	/* The page table lock is held, and udelay() has a limit. */
	while (us--)
		udelay(1);
}

static int __init migrate_live_delay_init(void)
{
	struct dentry *dir = debugfs_create_dir("migrate_live_delay", NULL);
	unsigned int step;

	for (step = 0; step < NR_MIGRATE_LIVE_STEPS; step++)
		debugfs_create_u32(names[step], 0600, dir, &delays[step]);
	debugfs_create_atomic_t("reached", 0400, dir, &reached);
	return 0;
}
late_initcall(migrate_live_delay_init);
