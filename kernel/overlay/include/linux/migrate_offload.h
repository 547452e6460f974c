/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_MIGRATE_OFFLOAD_H
#define _LINUX_MIGRATE_OFFLOAD_H

#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/migrate_mode.h>
#include <linux/types.h>

struct folio;
struct migrate_route;
struct module;

/**
 * DOC: The contract between migration core and a migrator
 *
 * Core decides which folios may be copied before the move phase, collects them
 * in a batch, and copies with the CPU every folio that the migrator did not
 * copy. A migrator only decides how the bytes move.
 *
 * The migrator owns the pairs of a batch from the call of &migrator.submit to
 * the return of &migrator.wait. Meanwhile src and dst are locked, src is
 * unmapped with the TLBs flushed, and only core and the migrator know dst.
 * The migrator reports the result of each pair with migrate_offload_report().
 * After &migrator.wait has returned, core owns the folios again, and nothing that
 * the migrator started may read or write them. The only exception is a pair that
 * the migrator reported as %MIGRATE_OFFLOAD_LOST.
 *
 * A migrator runs with many folios locked and may run on behalf of reclaim. It
 * must not take a folio lock, and its allocations must not wait for reclaim:
 * preferably it allocates everything before it registers.
 *
 * The CPU's copy survives an uncorrected memory error of src. A migrator that
 * copies poison, or other bytes in its place, must not report the pair as done. An
 * engine's manual says whether a read error ends a descriptor with an error, and
 * error injection (Documentation/firmware-guide/acpi/apei/einj.rst) into src shows
 * whether its driver passes that on. Otherwise nothing may be routed to it.
 */

/**
 * enum migrate_offload_status - result of the copy of one folio
 * @MIGRATE_OFFLOAD_PENDING: not reported; after &migrator.wait core treats it as
 *	@MIGRATE_OFFLOAD_ERROR
 * @MIGRATE_OFFLOAD_DONE: dst holds every byte of src, visible to all CPUs once
 *	&migrator.wait has returned. The migrator has detected uncorrected read
 *	errors, and met none.
 * @MIGRATE_OFFLOAD_ERROR: not copied, and nothing accesses src or dst any more
 * @MIGRATE_OFFLOAD_TIMEOUT: as @MIGRATE_OFFLOAD_ERROR, because of a time-out
 * @MIGRATE_OFFLOAD_UNREACHABLE: as @MIGRATE_OFFLOAD_ERROR, because the migrator cannot
 *	access one of the folios, or only through a bounce buffer
 * @MIGRATE_OFFLOAD_LOST: not copied, and something that cannot be stopped may
 *	still read src or write dst. Core does not migrate the folio, never frees
 *	either folio, and never releases the migrator's module.
 *
 * After @MIGRATE_OFFLOAD_TIMEOUT or @MIGRATE_OFFLOAD_LOST the CPU copies all other
 * folios of the call of migrate_pages(), so that a call waits for one time-out.
 */
enum migrate_offload_status {
	MIGRATE_OFFLOAD_PENDING,
	MIGRATE_OFFLOAD_DONE,
	MIGRATE_OFFLOAD_ERROR,
	MIGRATE_OFFLOAD_TIMEOUT,
	MIGRATE_OFFLOAD_UNREACHABLE,
	MIGRATE_OFFLOAD_LOST,
};

/**
 * struct migrate_offload_pair - one folio of a batch
 * @src: the folio to copy from
 * @dst: the folio to copy to, of the same size
 */
struct migrate_offload_pair {
	struct folio *src;
	struct folio *dst;
	/* private: written by migrate_offload_report(), read by core after wait() */
	enum migrate_offload_status status;
};

/** MIGRATE_OFFLOAD_MAX_PAIRS - maximum number of pairs in a batch */
#define MIGRATE_OFFLOAD_MAX_PAIRS	512

/**
 * struct migrate_offload_batch - folios to copy together
 * @pairs: the folios; constant while the migrator has the batch
 * @nr_pairs: number of @pairs, 1 to %MIGRATE_OFFLOAD_MAX_PAIRS
 * @nr_pages: total size of the folios in base pages
 * @reason: why the folios are migrated
 * @deadline: in jiffies; when the migrator must have given up the pairs that it
 *	has not copied. To stop an engine may take a little longer.
 * @migrator_data: for use by the migrator until wait returns
 */
struct migrate_offload_batch {
	unsigned int nr_pairs;
	unsigned long nr_pages;
	enum migrate_reason reason;
	unsigned long deadline;
	void *migrator_data;

	/* private: core's own */
	struct migrate_route *route;

	/* public: */
	struct migrate_offload_pair pairs[MIGRATE_OFFLOAD_MAX_PAIRS];
};

/**
 * struct migrator - a provider of folio copies
 * @name: the name for routes: 1 to 31 printable characters without blanks, not
 *	"none", and unique among migrators; constant while registered
 * @min_pages: the smallest batch worth offloading, in base pages; the CPU copies
 *	smaller ones. 0 for no limit. It may change at any time.
 * @min_order: the order of the smallest folio worth offloading; the CPU copies
 *	smaller ones, however many there are. It may change at any time.
 */
struct migrator {
	const char *name;
	unsigned int min_pages;
	unsigned int min_order;

	/**
	 * @submit: Start to copy every pair of @batch. Return without waiting
	 * for the copies if possible; a synchronous migrator copies here.
	 * Expect concurrent calls for different batches.
	 *
	 * If @submit returns an error, nothing of the batch may be in flight,
	 * and core ignores all reports. A migrator that gets stuck half-way
	 * returns 0 and reports pair by pair.
	 *
	 * Context: process context, may sleep. Both folios of every pair are
	 * locked. The same task calls @submit and @wait, and has one batch in
	 * flight at a time.
	 *
	 * Return: 0 if the batch is accepted, in which case core calls @wait;
	 * -EBUSY if there is no capacity now; -EOPNOTSUPP if the migrator cannot
	 * copy these folios; another negative errno if something failed. On any
	 * error the CPU copies the batch.
	 */
	int (*submit)(struct migrator *migrator, struct migrate_offload_batch *batch);

	/**
	 * @wait: Wait until every pair of an accepted @batch is reported, and
	 * stop what is not done by its deadline. Core calls it exactly once for
	 * every accepted batch.
	 *
	 * Context: process context, may sleep, but never on a folio lock.
	 */
	void (*wait)(struct migrator *migrator, struct migrate_offload_batch *batch);

	/**
	 * @routed: The administrator routed the first reason to the migrator,
	 * or none is left. A place to acquire and give back what only batches
	 * need. Batches may already arrive, or may still be in flight. Optional.
	 *
	 * Context: process context, may sleep. Core holds a lock that orders
	 * calls, and no other.
	 */
	void (*routed)(struct migrator *migrator, bool routed);

	/* private: core's own */
	struct module *owner;
	struct list_head list;
	mempool_t *batches;
};

int __migrate_offload_register(struct migrator *migrator, struct module *owner);

/**
 * migrate_offload_register() - register a migrator
 * @migrator: the migrator, with its public fields set
 *
 * Register last in the module's init function: the calling module cannot be
 * unloaded while the migrator has a batch. No reason is routed to the migrator
 * until the administrator sets a route.
 *
 * Context: process context, may sleep.
 *
 * Return: 0; -EINVAL if a mandatory field is missing or the name is not valid;
 * -EBUSY if the name is taken; -ENOMEM.
 */
#define migrate_offload_register(migrator) \
	__migrate_offload_register(migrator, THIS_MODULE)

void migrate_offload_unregister(struct migrator *migrator);

/**
 * migrate_offload_report() - report the result of one pair to core
 * @pair: a pair of a batch that the migrator has
 * @status: any status but %MIGRATE_OFFLOAD_PENDING
 *
 * Report pairs in any order, each of them once.
 *
 * Context: any, until &migrator.wait returns. The migrator must order its
 * reports before the return of &migrator.wait.
 */
static inline void migrate_offload_report(struct migrate_offload_pair *pair,
					  enum migrate_offload_status status)
{
	pair->status = status;
}

#endif /* _LINUX_MIGRATE_OFFLOAD_H */
