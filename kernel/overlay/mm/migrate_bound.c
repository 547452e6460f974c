// SPDX-License-Identifier: GPL-2.0
/*
 * A bound for the time for which memory is inaccessible that is unmapped before
 * it is copied: how large a batch may be, by what earlier batches took.
 */

#include <linux/cache.h>
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sysfs.h>
#include <linux/timekeeping.h>

#include "internal.h"
#include "migrate.h"

/*
 * For how long memory may be inaccessible; 0: no bound. A CPU takes as long as that to
 * copy 2 MB, which is a batch without copy offload.
 */
static unsigned int migrate_max_inaccessible_us = 500;

/*
 * Calls of one reason learn, and calls of others read routes: each pace has a cache
 * line.
 */
static struct {
	struct migrate_pace pace;
} ____cacheline_aligned_in_smp paces[MR_TYPES];

/* What it takes the CPU to copy a base page, on average: 5 GB/s until it is measured. */
static unsigned int migrate_cpu_page_ns __cacheline_aligned_in_smp =
	800 * (PAGE_SIZE / SZ_4K);

static ssize_t max_inaccessible_us_show(struct kobject *kobj,
					struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(migrate_max_inaccessible_us));
}

static ssize_t max_inaccessible_us_store(struct kobject *kobj,
					 struct kobj_attribute *attr,
					 const char *buf, size_t count)
{
	unsigned int us;
	int error = kstrtouint(buf, 0, &us);

	if (error)
		return error;
	if (us > USEC_PER_SEC)
		return -EINVAL;

	WRITE_ONCE(migrate_max_inaccessible_us, us);
	return count;
}

struct kobj_attribute migrate_max_inaccessible_us_attr =
	__ATTR_RW(max_inaccessible_us);

void migrate_route_set_bound(struct migrate_route *route)
{
	route->max_ns = READ_ONCE(migrate_max_inaccessible_us) * NSEC_PER_USEC;
	route->pace = &paces[route->reason].pace;
}

/* A pace that one migrator has shown says nothing of another migrator. */
void migrate_pace_forget(enum migrate_reason reason)
{
	WRITE_ONCE(paces[reason].pace.page_ns, 0);
}

/* A folio of one page that is mapped once: some 190 instructions are 1 */
#define MIGRATE_PAGE_WORK		19

/*
 * Return how much work it is to unmap and move a folio. Each process that maps it is
 * 6, a PTE of a large folio 1, so that what is learned from some holds for others.
 */
unsigned int migrate_folio_work(const struct folio *folio)
{
	const unsigned int mapcount = folio_mapcount(folio);

	if (!folio_test_large(folio))
		return 13 + 6 * mapcount;
	return 16 + 6 * DIV_ROUND_UP(mapcount, folio_nr_pages(folio)) + mapcount;
}

/* No more is unmapped together, however fast it is copied. */
#define MIGRATE_BATCH_PAGES		(SZ_64M / PAGE_SIZE)

/*
 * One sample counts little: another task may have had the CPU. All CPUs read the
 * average: leave it if it hardly changes.
 */
static void migrate_learn(unsigned int *average, u64 ns, unsigned int nr)
{
	const unsigned int last = READ_ONCE(*average);
	unsigned int now = min_t(u64, div_u64(ns, nr), UINT_MAX / 8);

	if (last)
		now = last - last / 4 + min(now, 4 * last) / 4;
	now = max(now, 4);
	if (abs_diff(now, last) > last / 64)
		WRITE_ONCE(*average, now);
}

/* What it takes to unmap and move a page, if nothing is known. */
#define MIGRATE_FOLIO_NS		600

static u64 migrate_work_ns(const struct migrate_route *route, unsigned int work)
{
	const unsigned int folio_ns = READ_ONCE(route->pace->folio_ns) ?: MIGRATE_FOLIO_NS;

	return div_u64((u64)work * folio_ns, MIGRATE_PAGE_WORK);
}

/*
 * Return whether memory of a batch of @nr_pages would be inaccessible with @next for
 * longer than the route allows. A migrator gets as much as it takes at least.
 */
bool migrate_batch_takes_too_long(struct migrate_call *call, unsigned int work,
				  unsigned int nr_pages, const struct folio *next)
{
	const struct migrate_route *route = &call->route;
	unsigned int page_ns = 0;

	if (nr_pages >= MIGRATE_BATCH_PAGES)
		return true;
	if (!call->unhelped && !call->slow && !call->route.late) {
		if (nr_pages < READ_ONCE(route->migrator->min_pages))
			return false;
		page_ns = READ_ONCE(route->pace->page_ns);
	}
	page_ns = page_ns ?: READ_ONCE(migrate_cpu_page_ns);

	nr_pages += folio_nr_pages(next);
	work += migrate_folio_work(next);
	call->full = migrate_work_ns(route, work) + (u64)nr_pages * page_ns > route->max_ns;
	return call->full;
}

/*
 * Arrange what the migrator has left to the CPU, which copies it after the other
 * folios have moved: as much as there is time for, but one folio at least. The rest
 * is mapped again.
 */
void migrate_batch_put_off(struct migrate_batch *b)
{
	const unsigned int page_ns = READ_ONCE(migrate_cpu_page_ns);
	struct migrate_call *call = b->call;
	struct folio *src, *src2, *dst, *dst2;
	LIST_HEAD(src_folios);
	LIST_HEAD(dst_folios);
	LIST_HEAD(cpu_src_folios);
	LIST_HEAD(cpu_dst_folios);
	u64 ns;

	/* Half of what the CPU does for each folio is still to come. */
	ns = ktime_get_ns() - b->start + migrate_work_ns(&call->route, b->work) / 2;
	dst = list_first_entry(&b->dst_folios, struct folio, lru);
	dst2 = list_next_entry(dst, lru);
	list_for_each_entry_safe(src, src2, &b->src_folios, lru) {
		bool first = list_empty(&cpu_src_folios);

		if (!migrate_folio_is_copied(dst)) {
			ns += (u64)folio_nr_pages(src) * page_ns;
			if (first || ns <= call->route.max_ns) {
				list_move_tail(&src->lru, &cpu_src_folios);
				list_move_tail(&dst->lru, &cpu_dst_folios);
			} else {
				list_move_tail(&src->lru, &src_folios);
				list_move_tail(&dst->lru, &dst_folios);
			}
		}
		dst = dst2;
		dst2 = list_next_entry(dst, lru);
	}
	list_splice_tail(&cpu_src_folios, &b->src_folios);
	list_splice_tail(&cpu_dst_folios, &b->dst_folios);
	migrate_batch_undo(b, &src_folios, &dst_folios, &call->put_off);
}

/* Learn from a batch how long the migrator and the CPU take. */
void migrate_batch_learn(struct migrate_batch *b)
{
	struct migrate_pace *pace = b->call->route.pace;
	u64 ns = ktime_get_ns() - b->start;

	b->call->unhelped = !b->nr_copied;
	/* A call for one folio, as for a NUMA hint, stores nothing that others read. */
	if (b->nr_folios == 1 && !b->call->full)
		return;

	/* A batch that is small for another reason tells nothing of larger ones. */
	if ((b->call->full || ns > b->call->route.max_ns) &&
	    b->nr_copied > b->nr_pages / 2)
		migrate_learn(&pace->page_ns, b->copy_ns, b->nr_copied);

	if (b->nr_uncopied)
		migrate_learn(&migrate_cpu_page_ns, b->cpu_copy_ns, b->nr_uncopied);

	ns -= min(ns, b->copy_ns + b->cpu_copy_ns);
	migrate_learn(&pace->folio_ns, ns, DIV_ROUND_UP(b->work, MIGRATE_PAGE_WORK));
}

/* Count a folio that has been unmapped, on a route with a bound. */
void migrate_batch_count_work(struct migrate_batch *b, unsigned int work,
			      unsigned int nr_pages)
{
	if (!b->start) {
		b->start = ktime_get_ns();
		b->start_jiffies = jiffies;
	}
	b->work += work;
	b->nr_pages += nr_pages;
	b->nr_folios++;
}

/* Return whether there is no time for more: the allocation of dst may have slept. */
bool migrate_batch_is_late(struct migrate_batch *b)
{
	b->late = b->start && time_after(jiffies, b->start_jiffies) &&
		  ktime_get_ns() - b->start > b->call->route.max_ns;
	return b->late;
}
