/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_MIGRATE_OFFLOAD_H
#define _LINUX_MIGRATE_OFFLOAD_H

#include <linux/list.h>

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
 * Afterwards nothing that the migrator started may read or write them. The only
 * exception is a pair that the migrator reported as %MIGRATE_OFFLOAD_LOST.
 *
 * A migrator may run on behalf of reclaim: it must not take a folio lock, and its
 * allocations must not wait for reclaim.
 *
 * The CPU's copy survives an uncorrected memory error of src. A migrator that
 * copies poison, or other bytes in its place, must not report the pair as done.
 * Error injection (firmware-guide/acpi/apei/einj.rst) shows whether an engine does.
 */

/**
 * enum migrate_offload_status - result of the copy of one folio
 * @MIGRATE_OFFLOAD_PENDING: not reported, in the end an error
 * @MIGRATE_OFFLOAD_DONE: dst holds every byte of src, visible to all CPUs once
 *	&migrator.wait has returned, and no uncorrected read error was met
 * @MIGRATE_OFFLOAD_ERROR: not copied, and nothing accesses src or dst any more
 * @MIGRATE_OFFLOAD_TIMEOUT: as @MIGRATE_OFFLOAD_ERROR, because of a time-out, so
 *	that the CPU copies the rest of the call
 * @MIGRATE_OFFLOAD_UNREACHABLE: as @MIGRATE_OFFLOAD_ERROR: the migrator cannot
 *	access one of the folios, or only through a bounce buffer
 * @MIGRATE_OFFLOAD_LOST: as @MIGRATE_OFFLOAD_TIMEOUT, but something that cannot be
 *	stopped may still read src or write dst. Core does not migrate the folio,
 *	never frees either folio, and never releases the migrator's module.
 */
enum migrate_offload_status {
	MIGRATE_OFFLOAD_PENDING,
	MIGRATE_OFFLOAD_DONE,
	MIGRATE_OFFLOAD_ERROR,
	MIGRATE_OFFLOAD_TIMEOUT,
	MIGRATE_OFFLOAD_UNREACHABLE,
	MIGRATE_OFFLOAD_LOST,
};

/* One folio of a batch. */
struct migrate_offload_pair {
	struct folio *src;
	struct folio *dst;
	enum migrate_offload_status status;	/* see migrate_offload_report() */
};

#define MIGRATE_OFFLOAD_MAX_PAIRS	512

/**
 * struct migrate_offload_batch - folios to copy together
 * @nr_pairs: number of @pairs, 1 to %MIGRATE_OFFLOAD_MAX_PAIRS
 * @nr_pages: total size of the folios in base pages
 * @deadline: in jiffies; when the migrator must give up what it has not copied
 * @migrator_data: for use by the migrator until wait returns
 * @pairs: the folios; constant while the migrator has the batch
 */
struct migrate_offload_batch {
	unsigned int nr_pairs;
	unsigned long nr_pages;
	unsigned long deadline;
	void *migrator_data;

	/* private: */
	struct migrate_route *route;
	/* public: */
	struct migrate_offload_pair pairs[MIGRATE_OFFLOAD_MAX_PAIRS];
};

/**
 * struct migrator - a provider of folio copies
 * @name: the name for routes: without blanks, not "none", and unique among
 *	migrators; constant while registered
 * @min_pages: the smallest batch worth offloading, in base pages; may change
 * @min_order: the order of the smallest folio worth offloading; may change
 */
struct migrator {
	const char *name;
	unsigned int min_pages;
	unsigned int min_order;

	/**
	 * @submit: Start to copy every pair of @batch, without waiting for the
	 * copies if possible. Expect concurrent calls for different batches.
	 *
	 * May sleep. A task has one batch in flight at a time.
	 *
	 * Return: 0 if the batch is accepted; -EBUSY if there is no capacity now;
	 * -EOPNOTSUPP if the migrator cannot copy these folios; another negative
	 * errno if something failed. On any error nothing of the batch may be in
	 * flight; core ignores all reports, and the CPU copies the batch.
	 */
	int (*submit)(struct migrator *migrator, struct migrate_offload_batch *batch);

	/**
	 * @wait: Wait until every pair of an accepted @batch is reported, and
	 * stop the copies that miss its deadline. Called once, may sleep.
	 */
	void (*wait)(struct migrator *migrator, struct migrate_offload_batch *batch);

	/**
	 * @routed: The administrator routed the first reason to the migrator,
	 * or none is left: acquire or give back what only batches need. Batches
	 * may already arrive, or may still be in flight. Optional. May sleep;
	 * calls do not overlap.
	 */
	void (*routed)(struct migrator *migrator, bool routed);

	/* private: */
	struct module *owner;
	struct list_head list;
	unsigned int nr_routes;
};

int __migrate_offload_register(struct migrator *migrator, struct module *owner);

/**
 * migrate_offload_register() - register a migrator
 * @migrator: the migrator, with its public fields set
 *
 * Register last in the module's init function.
 *
 * Return: 0; -EINVAL if a mandatory field is missing or the name is not valid;
 * -EBUSY if the name is taken.
 */
#define migrate_offload_register(migrator) \
	__migrate_offload_register(migrator, THIS_MODULE)

void migrate_offload_unregister(struct migrator *migrator);

/* Report the result of @pair, once, in any context, before &migrator.wait returns. */
static inline void migrate_offload_report(struct migrate_offload_pair *pair,
					  enum migrate_offload_status status)
{
	pair->status = status;
}

#endif /* _LINUX_MIGRATE_OFFLOAD_H */
