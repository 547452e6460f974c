// SPDX-License-Identifier: GPL-2.0
/*
 * Copy offload for page migration: the registry of migrators, the routes from
 * reasons to migrators, statistics, and the copy phase of a batch.
 */

#include <linux/debugfs.h>
#include <linux/migrate.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <trace/events/migrate.h>

#include "migrate_offload.h"

DEFINE_STATIC_KEY_FALSE(migrate_offload_key);

/* Protects migrators and stores to routes. Held while &migrator.routed is called. */
static DEFINE_MUTEX(migrate_offload_mutex);
static LIST_HEAD(migrators);
static struct migrator __rcu *routes[MR_TYPES];

/* The time that the administrator allows for the copy of a batch. */
static unsigned int timeout_ms = 100;

static DEFINE_PER_CPU(unsigned long [MR_TYPES][NR_MIGRATE_OFFLOAD_STATS], counters);

/* Add @nr to a counter of the reason of @route. Any context. */
void migrate_offload_count(const struct migrate_route *route, unsigned int stat,
			   unsigned long nr)
{
	this_cpu_add(counters[route->reason][stat], nr);
}

static unsigned long read_stat(enum migrate_reason reason, unsigned int stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(counters[reason][stat], cpu);
	return sum;
}

static struct migrator *route_locked(enum migrate_reason reason)
{
	return rcu_dereference_protected(routes[reason],
				lockdep_is_held(&migrate_offload_mutex));
}

static struct migrator *find_migrator(const char *text)
{
	struct migrator *migrator;

	list_for_each_entry(migrator, &migrators, list)
		if (sysfs_streq(text, migrator->name))
			return migrator;
	return NULL;
}

int __migrate_offload_register(struct migrator *migrator, struct module *owner)
{
	const char *name = migrator->name;

	/* In sysfs blanks separate names, and "none" is no migrator. */
	if (!name || !*name || strpbrk(name, "\n ") || !strcmp(name, "none") ||
	    !migrator->submit || !migrator->wait)
		return -EINVAL;

	guard(mutex)(&migrate_offload_mutex);
	if (find_migrator(name))
		return -EBUSY;

	migrator->owner = owner;
	migrator->nr_routes = 0;
	list_add_tail(&migrator->list, &migrators);
	return 0;
}
EXPORT_SYMBOL_GPL(__migrate_offload_register);

/**
 * migrate_offload_unregister() - unregister a migrator
 * @migrator: a registered migrator, without a batch
 *
 * Reset all routes to the migrator to none, without a call of &migrator.routed.
 * Afterwards none of its callbacks runs. Call this from the module's exit function:
 * a call of migrate_pages() that has the migrator holds a reference to its module.
 * So this waits for a grace period, and for no copy.
 */
void migrate_offload_unregister(struct migrator *migrator)
{
	int reason;

	scoped_guard(mutex, &migrate_offload_mutex) {
		list_del(&migrator->list);
		for (reason = 0; reason < MR_TYPES; reason++)
			if (route_locked(reason) == migrator)
				RCU_INIT_POINTER(routes[reason], NULL);
	}

	/* A call that has read the route fails to get the module. */
	synchronize_rcu();
	kfree(xchg(&migrator->spare, NULL));
}
EXPORT_SYMBOL_GPL(migrate_offload_unregister);

/* @text is a migrator's name or "none", with or without a final newline. */
static int migrate_offload_set_route(enum migrate_reason reason, const char *text)
{
	struct migrator *migrator, *old;

	guard(mutex)(&migrate_offload_mutex);
	migrator = find_migrator(text);
	if (!migrator && !sysfs_streq(text, "none"))
		return -ENOENT;

	old = route_locked(reason);
	if (migrator == old)
		return 0;
	rcu_assign_pointer(routes[reason], migrator);

	if (migrator && !migrator->nr_routes++ && migrator->routed)
		migrator->routed(migrator, true);
	if (old && !--old->nr_routes && old->routed)
		old->routed(old, false);
	return 0;
}

/*
 * Set @route to the migrator for its reason, if there is one. Its module cannot go
 * away until migrate_route_leave(). Calls may nest, as migration may in reclaim.
 */
void __migrate_route_enter(struct migrate_route *route)
{
	struct migrator *migrator;

	/* With a reference to its module, a migrator stays registered. */
	guard(rcu)();
	migrator = rcu_dereference(routes[route->reason]);
	if (migrator && try_module_get(migrator->owner))
		route->migrator = migrator;
}

/* Return an empty batch, or NULL. Folio locks are held: do not wait for memory. */
struct migrate_offload_batch *migrate_offload_begin(struct migrate_route *route)
{
	struct migrate_offload_batch *batch;

	batch = xchg(&route->migrator->spare, NULL) ?: kmalloc_obj(*batch, GFP_NOWAIT);
	if (!batch)
		return NULL;

	memset(batch, 0, offsetof(struct migrate_offload_batch, pairs));
	batch->route = route;
	return batch;
}

/* Add a folio to a batch that is not full. Return true if the batch is now full. */
bool migrate_offload_add(struct migrate_offload_batch *batch, struct folio *src,
			 struct folio *dst)
{
	struct migrate_offload_pair *pair = &batch->pairs[batch->nr_pairs++];

	pair->src = src;
	pair->dst = dst;
	pair->status = MIGRATE_OFFLOAD_PENDING;
	batch->nr_pages += folio_nr_pages(src);

	return batch->nr_pairs == MIGRATE_OFFLOAD_MAX_PAIRS;
}

/*
 * Make the status of each pair final, and count it. @refused is 0, or the status of
 * all pairs of a batch that was not accepted, whatever was reported.
 */
static void migrate_offload_settle(struct migrate_offload_batch *batch,
				   unsigned int refused)
{
	struct migrate_route *route = batch->route;
	unsigned int i, nr_copied = 0;

	for (i = 0; i < batch->nr_pairs; i++) {
		struct migrate_offload_pair *pair = &batch->pairs[i];

		/* After poison the move phase copies the folio again, and decides. */
		if (pair->status == MIGRATE_OFFLOAD_PENDING ||
		    pair->status > MIGRATE_OFFLOAD_LOST ||
		    (pair->status == MIGRATE_OFFLOAD_DONE &&
		     folio_contain_hwpoisoned_page(pair->src)))
			pair->status = MIGRATE_OFFLOAD_ERROR;
		if (refused)
			pair->status = refused;

		migrate_offload_count(route, pair->status, 1);
		if (pair->status == MIGRATE_OFFLOAD_DONE) {
			nr_copied++;
			migrate_offload_count(route, MIGRATE_OFFLOAD_STAT_PAGES_COPIED,
					      folio_nr_pages(pair->src));
		}
		/* These are never put: the move fails, and neither folio is freed. */
		if (pair->status == MIGRATE_OFFLOAD_LOST) {
			folio_get(pair->src);
			folio_get(pair->dst);
			route->lost = true;
		}
		route->late |= route->lost || pair->status == MIGRATE_OFFLOAD_TIMEOUT;
	}

	trace_mm_migrate_batch_copied(route->migrator->name, batch->nr_pairs,
				      nr_copied, batch->nr_pages, route->reason);
}

/*
 * Hand a batch to its migrator. The caller must not sleep on a folio lock until
 * migrate_offload_finish(). Return false if the migrator did not accept the batch:
 * the status of each pair is final.
 */
bool migrate_offload_start(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;
	int error;

	if (batch->nr_pages < READ_ONCE(migrator->min_pages)) {
		migrate_offload_settle(batch, MIGRATE_OFFLOAD_STAT_SMALL);
		return false;
	}

	batch->deadline = jiffies + msecs_to_jiffies(READ_ONCE(timeout_ms));
	error = migrator->submit(migrator, batch);
	if (error)
		migrate_offload_settle(batch,
				       error == -EBUSY ? MIGRATE_OFFLOAD_STAT_BUSY :
				       error == -EOPNOTSUPP ? MIGRATE_OFFLOAD_UNREACHABLE :
							      MIGRATE_OFFLOAD_ERROR);
	return !error;
}

/*
 * Wait for an accepted batch; the migrator bounds the wait. Then the status of each
 * pair is final, and the migrator may still access only %MIGRATE_OFFLOAD_LOST ones.
 */
void migrate_offload_finish(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;

	migrator->wait(migrator, batch);
	migrate_offload_count(batch->route, MIGRATE_OFFLOAD_STAT_BATCHES, 1);
	migrate_offload_settle(batch, 0);
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", static_key_enabled(&migrate_offload_key));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;
	int error = kstrtobool(buf, &on);

	if (error)
		return error;

	if (on)
		static_branch_enable(&migrate_offload_key);
	else
		static_branch_disable(&migrate_offload_key);
	return count;
}

static ssize_t migrators_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	struct migrator *migrator;
	int len = 0;

	guard(mutex)(&migrate_offload_mutex);
	list_for_each_entry(migrator, &migrators, list)
		len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "",
				     migrator->name);
	len += sysfs_emit_at(buf, len, "\n");
	return len;
}

static struct kobj_attribute migrators_attr = __ATTR_RO(migrators);
static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

/* No folio is migrated for MR_NEVER. */
static struct kobj_attribute route_attrs[MR_NEVER];
static struct attribute *route_list[MR_NEVER + 1];

static const struct attribute_group route_group = {
	.name		= "routes",
	.attrs		= route_list,
};

static ssize_t route_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	struct migrator *migrator;

	guard(mutex)(&migrate_offload_mutex);
	migrator = route_locked(attr - route_attrs);
	return sysfs_emit(buf, "%s\n", migrator ? migrator->name : "none");
}

static ssize_t route_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	int error = migrate_offload_set_route(attr - route_attrs, buf);

	return error ?: count;
}

static int __init create_sysfs(void)
{
	struct kobject *top;
	int reason, error;

	for (reason = 0; reason < MR_NEVER; reason++) {
		route_attrs[reason] = (struct kobj_attribute)
			__ATTR(, 0644, route_show, route_store);
		route_attrs[reason].attr.name = migrate_reason_names[reason];
		route_list[reason] = &route_attrs[reason].attr;
	}

	top = kobject_create_and_add("migrate_offload", mm_kobj);
	if (!top)
		return -ENOMEM;

	/* The main switch comes last: user space that sees it sees all files. */
	error = sysfs_create_group(top, &route_group) ?:
		sysfs_create_file(top, &migrators_attr.attr) ?:
		sysfs_create_file(top, &enabled_attr.attr);
	if (error)
		kobject_put(top);
	return error;
}

static const char * const stat_names[NR_MIGRATE_OFFLOAD_STATS] = {
	[MIGRATE_OFFLOAD_DONE] = "folios_copied",
	[MIGRATE_OFFLOAD_ERROR] = "fallback_error",
	[MIGRATE_OFFLOAD_TIMEOUT] = "fallback_timeout",
	[MIGRATE_OFFLOAD_UNREACHABLE] = "fallback_unreachable",
	[MIGRATE_OFFLOAD_LOST] = "fallback_lost",
	[MIGRATE_OFFLOAD_STAT_BUSY] = "fallback_busy",
	[MIGRATE_OFFLOAD_STAT_SMALL] = "fallback_small",
	[MIGRATE_OFFLOAD_STAT_DECLINED] = "declined",
	[MIGRATE_OFFLOAD_STAT_BATCHES] = "batches",
	[MIGRATE_OFFLOAD_STAT_PAGES_COPIED] = "pages_copied",
};

/* Counters since boot, a line for each. */
static int stats_show(struct seq_file *file, void *data)
{
	unsigned int reason, stat;

	for (reason = 0; reason < MR_NEVER; reason++)
		for (stat = MIGRATE_OFFLOAD_DONE; stat < NR_MIGRATE_OFFLOAD_STATS; stat++)
			seq_printf(file, "%s %s %lu\n", migrate_reason_names[reason],
				   stat_names[stat], read_stat(reason, stat));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int __init migrate_offload_init(void)
{
	struct dentry *dir = debugfs_create_dir("migrate_offload", NULL);

	debugfs_create_file("stats", 0444, dir, NULL, &stats_fops);
	debugfs_create_u32("timeout_ms", 0644, dir, &timeout_ms);
	return create_sysfs();
}
late_initcall(migrate_offload_init);
