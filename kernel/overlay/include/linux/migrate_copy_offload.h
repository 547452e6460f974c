/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_MIGRATE_COPY_OFFLOAD_H
#define _LINUX_MIGRATE_COPY_OFFLOAD_H

#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/migrate_mode.h>
#include <linux/types.h>

struct folio;
struct module;

/**
 * DOC: The contract between migration core and a migrator
 *
 * Core decides which folios may be copied before the move phase, gathers them
 * in a batch and falls back to the CPU for every folio that a migrator did not
 * copy. A migrator decides how the bytes move, and nothing else.
 *
 * From &migrator.submit to the return of &migrator.wait the pairs of a batch
 * are the migrator's to read: src and dst are locked, src is unmapped with the
 * TLBs flushed, so that src does not change and nobody else sees dst. What the
 * migrator learns about a pair it tells with migrate_offload_report(). When
 * &migrator.wait has returned, core takes everything back, and nothing that the
 * migrator started may read or write these folios any more. The one exception
 * is a pair that was reported as %MIGRATE_COPY_LOST.
 *
 * A migrator runs with many folios locked and may run on behalf of reclaim. It
 * must not take a folio lock, and must not allocate memory in a way that waits
 * for reclaim: what it needs is best set aside before it registers.
 */

/**
 * enum migrate_copy_status - what became of the copy of one folio
 * @MIGRATE_COPY_PENDING: nothing was reported; after &migrator.wait core takes
 *	it for @MIGRATE_COPY_ERROR
 * @MIGRATE_COPY_DONE: dst holds every byte of src, visible to this and all
 *	other CPUs once &migrator.wait has returned
 * @MIGRATE_COPY_ERROR: not copied, nothing writes to dst any more
 * @MIGRATE_COPY_TIMEOUT: as @MIGRATE_COPY_ERROR, because the time was up
 * @MIGRATE_COPY_UNREACHABLE: as @MIGRATE_COPY_ERROR, because the migrator cannot
 *	reach one of the folios, or only by way of a bounce buffer
 * @MIGRATE_COPY_LOST: not copied, and something that cannot be stopped may
 *	still read src or write dst. Core will not migrate the folio, will never
 *	give either folio back to the allocator, and never lets the migrator's
 *	module go.
 */
enum migrate_copy_status {
	MIGRATE_COPY_PENDING,
	MIGRATE_COPY_DONE,
	MIGRATE_COPY_ERROR,
	MIGRATE_COPY_TIMEOUT,
	MIGRATE_COPY_UNREACHABLE,
	MIGRATE_COPY_LOST,
};

/**
 * struct migrate_copy_pair - one folio of a batch
 * @src: the folio to copy from
 * @dst: the folio to copy to, of the same size
 */
struct migrate_copy_pair {
	struct folio *src;
	struct folio *dst;
	/* private: written by migrate_offload_report(), read by core after wait() */
	enum migrate_copy_status status;
};

/**
 * MIGRATE_COPY_MAX_PAIRS - the most pairs that one batch can hold
 *
 * A migrator that wants its bookkeeping set aside sizes it by this.
 */
#define MIGRATE_COPY_MAX_PAIRS	512

/**
 * struct migrate_copy_batch - folios to be copied together
 * @pairs: the folios; constant while the migrator has the batch
 * @nr_pairs: number of @pairs, 1 to %MIGRATE_COPY_MAX_PAIRS
 * @nr_pages: their size in base pages
 * @reason: why these folios are migrated
 * @migrator_data: for the migrator, from submit to the return of wait
 */
struct migrate_copy_batch {
	unsigned int nr_pairs;
	unsigned long nr_pages;
	enum migrate_reason reason;
	void *migrator_data;

	/* private: core's own */
	struct migrator *migrator;
	int srcu_idx;
	bool lost;

	/* public: */
	struct migrate_copy_pair pairs[MIGRATE_COPY_MAX_PAIRS];
};

/**
 * struct migrator - a provider of folio copies
 * @name: how the administrator routes to it: 1 to 31 printable characters
 *	without blanks, not "none", not the name of another migrator
 * @owner: the module that must stay while copies may be in flight: it
 *	cannot be unloaded while the migrator has a batch
 * @min_pages: the smallest batch worth its while, in base pages; the CPU copies
 *	smaller ones. 0 for no bound.
 *
 * All fields above are constant while the migrator is registered.
 */
struct migrator {
	const char *name;
	struct module *owner;
	unsigned int min_pages;

	/**
	 * @preferred_pages: Return how many base pages core should unmap and
	 * hand over together, or 0 to leave that to core. A larger batch keeps
	 * more channels busy, and keeps its folios inaccessible for longer.
	 * Optional. Asked once for each call of migrate_pages(); the answer may
	 * change at any time.
	 *
	 * Context: process context, must not sleep.
	 */
	unsigned int (*preferred_pages)(struct migrator *migrator);

	/**
	 * @submit: Start to copy every pair of @batch, and return without
	 * waiting for the copies where that is possible. A synchronous migrator
	 * copies here. Concurrent calls for different batches are the rule.
	 *
	 * On any error the migrator must be done with the batch: no report will
	 * be read, and nothing may be in flight. A migrator that got stuck half
	 * way returns 0 and reports pair by pair.
	 *
	 * Context: process context, may sleep. Both folios of every pair are
	 * locked. Called and waited for by the same task.
	 *
	 * Return: 0 if the batch was accepted, and core must call @wait;
	 * -EBUSY if there is no capacity now; -EOPNOTSUPP if the migrator cannot
	 * copy these folios; another negative errno if something failed. The
	 * CPU copies what was not accepted.
	 */
	int (*submit)(struct migrator *migrator, struct migrate_copy_batch *batch);

	/**
	 * @wait: Wait until every pair of an accepted @batch is reported. The
	 * time this may take must be bounded. Called exactly once for every
	 * accepted batch.
	 *
	 * Context: process context, may sleep, but never on a folio lock.
	 */
	void (*wait)(struct migrator *migrator, struct migrate_copy_batch *batch);

	/* private: core's own */
	struct list_head list;
	mempool_t *batches;
};

int migrate_offload_register(struct migrator *migrator);
void migrate_offload_unregister(struct migrator *migrator);

/**
 * migrate_offload_report() - tell core what became of one pair
 * @pair: a pair of a batch that the migrator has
 * @status: anything but %MIGRATE_COPY_PENDING
 *
 * Pairs may be reported in any order, each once.
 *
 * Context: any, from &migrator.submit to the return of &migrator.wait. The
 * migrator orders its reports before the return of wait.
 */
static inline void migrate_offload_report(struct migrate_copy_pair *pair,
					  enum migrate_copy_status status)
{
	pair->status = status;
}

#endif /* _LINUX_MIGRATE_COPY_OFFLOAD_H */
