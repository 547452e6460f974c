// SPDX-License-Identifier: GPL-2.0
/*
 * Copy offload for page migration: the registry of migrators, the routes from
 * reasons to migrators, and statistics.
 *
 * mm/migrate.c decides which folios may be handed to a migrator; a migrator
 * decides how to move the bytes.
 */

#include <linux/cleanup.h>
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/migrate.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <trace/events/migrate.h>

#include "migrate_offload.h"

#define MIGRATOR_NAME_MAX	31

/* For calls that find no memory: two at once, with two batches each. */
#define MIGRATOR_RESERVED_BATCHES	4

/* Batches that a CPU keeps for the next call, of any migrator. */
#define CPU_SPARE_BATCHES		1

static DEFINE_PER_CPU(struct migrate_offload_batch *, spares[CPU_SPARE_BATCHES]);

DEFINE_STATIC_KEY_FALSE(migrate_offload_key);

/* Protects migrators, all stores to routes, enabled, and the static key. */
static DEFINE_MUTEX(migrate_offload_mutex);
static LIST_HEAD(migrators);
static bool enabled;

/*
 * Taken before migrate_offload_mutex: orders the calls of &migrator.routed,
 * which may wait for providers of engines.
 */
static DEFINE_MUTEX(migrate_offload_route_mutex);

/* The time that the administrator allows for the copy of a batch. */
static unsigned int timeout_ms = 100;

/* The administrator's choice for a reason. */
struct route_conf {
	struct migrator __rcu *migrator;
};

static struct route_conf routes[MR_TYPES];

struct migrate_offload_counters {
	unsigned long count[MR_TYPES][NR_MIGRATE_OFFLOAD_STATS];
};

static DEFINE_PER_CPU(struct migrate_offload_counters, migrate_offload_counters);

/* Add @nr to a counter of the reason of @route. Any context. */
void migrate_offload_count(const struct migrate_route *route,
			   enum migrate_offload_stat stat, unsigned long nr)
{
	this_cpu_add(migrate_offload_counters.count[route->reason][stat], nr);
}

static unsigned long read_stat(enum migrate_reason reason,
			       enum migrate_offload_stat stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(migrate_offload_counters.count[reason][stat], cpu);

	return sum;
}

static struct migrator *route_locked(const struct route_conf *conf)
{
	return rcu_dereference_protected(conf->migrator,
				lockdep_is_held(&migrate_offload_mutex));
}

static unsigned int nr_routes_locked(const struct migrator *migrator)
{
	unsigned int reason, nr = 0;

	for (reason = 0; reason < MR_TYPES; reason++)
		nr += route_locked(&routes[reason]) == migrator;
	return nr;
}

static void set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

/* The key is on if copy offload is enabled and some reason has a migrator. */
static void update_keys(void)
{
	bool routed = nr_routes_locked(NULL) < MR_TYPES;

	set_key(&migrate_offload_key, enabled && routed);
}

static bool is_name(const char *text, size_t len, const char *name)
{
	return !strncmp(text, name, len) && !name[len];
}

/* The name is the first @len characters of @text. */
static struct migrator *find_migrator(const char *text, size_t len)
{
	struct migrator *migrator;

	lockdep_assert_held(&migrate_offload_mutex);

	list_for_each_entry(migrator, &migrators, list)
		if (is_name(text, len, migrator->name))
			return migrator;

	return NULL;
}

static bool valid_name(const char *name)
{
	const size_t len = name ? strlen(name) : 0;
	size_t i;

	for (i = 0; i < len; i++)
		if (!isgraph(name[i]))
			return false;

	return len && len <= MIGRATOR_NAME_MAX && strcmp(name, "none");
}

/* See migrate_offload_register(). */
int __migrate_offload_register(struct migrator *migrator, struct module *owner)
{
	mempool_t *batches;

	if (!valid_name(migrator->name) || !migrator->submit || !migrator->wait)
		return -EINVAL;

	batches = mempool_create_kmalloc_pool(MIGRATOR_RESERVED_BATCHES,
					      sizeof(struct migrate_offload_batch));
	if (!batches)
		return -ENOMEM;

	scoped_guard(mutex, &migrate_offload_mutex) {
		if (!find_migrator(migrator->name, strlen(migrator->name))) {
			migrator->owner = owner;
			migrator->batches = batches;
			list_add_tail(&migrator->list, &migrators);
			return 0;
		}
	}

	mempool_destroy(batches);
	return -EBUSY;
}
EXPORT_SYMBOL_GPL(__migrate_offload_register);

/**
 * migrate_offload_unregister() - unregister a migrator
 * @migrator: a registered migrator, without a batch
 *
 * Reset all routes to the migrator to none, without a call of &migrator.routed.
 * After this returns, none of its callbacks runs or will run.
 *
 * A call of migrate_pages() that has the migrator holds a reference to its module.
 * So call this from the module's exit function: while a batch exists, the module
 * is not unloaded.
 *
 * Context: process context, waits for an RCU grace period and for no copy.
 */
void migrate_offload_unregister(struct migrator *migrator)
{
	int reason;

	/* Waits for &migrator.routed. */
	scoped_guard(mutex, &migrate_offload_route_mutex) {
		guard(mutex)(&migrate_offload_mutex);
		list_del(&migrator->list);
		for (reason = 0; reason < MR_TYPES; reason++)
			if (route_locked(&routes[reason]) == migrator)
				RCU_INIT_POINTER(routes[reason].migrator, NULL);
		update_keys();
	}

	/* A call that has read the route fails to get the module. */
	synchronize_rcu();
	mempool_destroy(migrator->batches);
}
EXPORT_SYMBOL_GPL(migrate_offload_unregister);

static unsigned int nr_routes(const struct migrator *migrator)
{
	guard(mutex)(&migrate_offload_mutex);
	return nr_routes_locked(migrator);
}

/* @text is a migrator's name or "none", with or without a final newline. */
static int migrate_offload_set_route(enum migrate_reason reason, const char *text)
{
	const size_t len = strcspn(text, "\n ");
	struct route_conf *conf = &routes[reason];
	struct migrator *migrator = NULL, *old;

	if (!sysfs_streq(text + len, ""))
		return -EINVAL;

	guard(mutex)(&migrate_offload_route_mutex);

	scoped_guard(mutex, &migrate_offload_mutex) {
		if (!is_name(text, len, "none")) {
			migrator = find_migrator(text, len);
			if (!migrator)
				return -ENOENT;
		}

		old = route_locked(conf);
		rcu_assign_pointer(conf->migrator, migrator);
		update_keys();
	}

	if (migrator == old)
		return 0;
	/* Neither is unregistered while the mutex of routes is held. */
	if (migrator && migrator->routed && nr_routes(migrator) == 1)
		migrator->routed(migrator, true);
	if (old && old->routed && !nr_routes(old))
		old->routed(old, false);
	return 0;
}

/*
 * Set @route to the migrator for its reason, if there is one and copy offload is
 * enabled. Its module cannot go away until migrate_route_leave(). Calls may nest,
 * as migration may in reclaim.
 */
void __migrate_route_enter(struct migrate_route *route)
{
	struct migrator *migrator;

	if (!READ_ONCE(enabled))
		return;

	/* With a reference to its module, a migrator stays registered. */
	guard(rcu)();
	migrator = rcu_dereference(routes[route->reason].migrator);
	if (migrator && try_module_get(migrator->owner))
		route->migrator = migrator;
}

/* @route has a migrator, and no batches. */
void __migrate_route_leave(struct migrate_route *route)
{
	/* An engine with a lost pair may still call the migrator: pin its module. */
	if (!route->lost)
		module_put(route->migrator->owner);
}

/*
 * Return an empty batch for the migrator of @route, or NULL. Folio locks are held: do
 * not wait for memory. The reserve of the migrator, which has a lock, comes last.
 */
struct migrate_offload_batch *migrate_offload_begin(struct migrate_route *route)
{
	struct migrate_offload_batch *batch = NULL;
	unsigned int i;

	for (i = 0; i < CPU_SPARE_BATCHES && !batch; i++)
		batch = this_cpu_xchg(spares[i], NULL);
	if (!batch)
		batch = mempool_alloc(route->migrator->batches, GFP_NOWAIT);
	if (!batch)
		return NULL;

	batch->route = route;
	batch->reason = route->reason;
	batch->migrator_data = NULL;
	batch->nr_pairs = 0;
	batch->nr_pages = 0;
	return batch;
}

/*
 * Add a folio that may be copied early to a batch that is not full. Return true if
 * the batch is now full.
 */
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

static void count(struct migrate_offload_batch *batch, enum migrate_offload_stat stat,
		  unsigned long nr)
{
	migrate_offload_count(batch->route, stat, nr);
}

static const enum migrate_offload_stat pair_stats[] = {
	[MIGRATE_OFFLOAD_DONE] = MIGRATE_OFFLOAD_STAT_FOLIOS_COPIED,
	[MIGRATE_OFFLOAD_ERROR] = MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR,
	[MIGRATE_OFFLOAD_TIMEOUT] = MIGRATE_OFFLOAD_STAT_FALLBACK_TIMEOUT,
	[MIGRATE_OFFLOAD_UNREACHABLE] = MIGRATE_OFFLOAD_STAT_FALLBACK_UNREACHABLE,
	[MIGRATE_OFFLOAD_LOST] = MIGRATE_OFFLOAD_STAT_FALLBACK_LOST,
};

static void count_pair(struct migrate_offload_batch *batch,
		       struct migrate_offload_pair *pair)
{
	/* After poison the move phase copies the folio again, and decides. */
	if (pair->status == MIGRATE_OFFLOAD_PENDING ||
	    pair->status >= ARRAY_SIZE(pair_stats) ||
	    (pair->status == MIGRATE_OFFLOAD_DONE &&
	     folio_contain_hwpoisoned_page(pair->src)))
		pair->status = MIGRATE_OFFLOAD_ERROR;

	if (pair->status == MIGRATE_OFFLOAD_DONE)
		count(batch, MIGRATE_OFFLOAD_STAT_PAGES_COPIED,
		      folio_nr_pages(pair->src));
	count(batch, pair_stats[pair->status], 1);

	batch->route->lost |= pair->status == MIGRATE_OFFLOAD_LOST;
	batch->route->late |= pair->status == MIGRATE_OFFLOAD_LOST ||
			      pair->status == MIGRATE_OFFLOAD_TIMEOUT;
}

static void trace_copied(struct migrate_offload_batch *batch,
			 unsigned int nr_copied)
{
	trace_mm_migrate_batch_copied(batch->route->migrator->name,
				      batch->nr_pairs, nr_copied,
				      batch->nr_pages, batch->reason);
}

/*
 * Hand a batch to its migrator. The caller must not sleep on a folio lock until
 * migrate_offload_finish().
 *
 * Return: true if the migrator accepted the batch; false if it did not, in which
 * case the status of each pair is final.
 */
bool migrate_offload_start(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;
	unsigned int i;
	int error;

	if (batch->nr_pages < READ_ONCE(migrator->min_pages)) {
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_SMALL, batch->nr_pairs);
		goto refused;
	}

	batch->deadline = jiffies + msecs_to_jiffies(READ_ONCE(timeout_ms));
	error = migrator->submit(migrator, batch);
	if (!error)
		return true;
	count(batch, error == -EBUSY ? MIGRATE_OFFLOAD_STAT_FALLBACK_BUSY :
		     error == -EOPNOTSUPP ? MIGRATE_OFFLOAD_STAT_FALLBACK_REFUSED :
					    MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR,
	      batch->nr_pairs);

refused:
	/* Discard reports that the migrator made before it refused. */
	for (i = 0; i < batch->nr_pairs; i++)
		batch->pairs[i].status = MIGRATE_OFFLOAD_ERROR;
	trace_copied(batch, 0);
	return false;
}

/*
 * Wait for an accepted batch; the migrator bounds the wait. After this returns, the
 * status of each pair is final, and the migrator may still access only pairs that
 * are %MIGRATE_OFFLOAD_LOST.
 */
void migrate_offload_finish(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;
	unsigned int i, nr_copied = 0;

	migrator->wait(migrator, batch);

	count(batch, MIGRATE_OFFLOAD_STAT_BATCHES, 1);
	for (i = 0; i < batch->nr_pairs; i++) {
		count_pair(batch, &batch->pairs[i]);
		nr_copied += batch->pairs[i].status == MIGRATE_OFFLOAD_DONE;
	}
	trace_copied(batch, nr_copied);
}

void migrate_offload_end(struct migrate_offload_batch *batch)
{
	mempool_t *batches = batch->route->migrator->batches;
	unsigned int i;

	for (i = 0; i < CPU_SPARE_BATCHES && batch; i++)
		batch = this_cpu_xchg(spares[i], batch);
	mempool_free(batch, batches);
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(enabled));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;
	int error = kstrtobool(buf, &on);

	if (error)
		return error;

	guard(mutex)(&migrate_offload_mutex);
	WRITE_ONCE(enabled, on);
	update_keys();
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

/* The main switch comes last: user space that sees it sees all files. */
static struct attribute *top_attrs[] = {
	&migrators_attr.attr,
	&enabled_attr.attr,
	NULL
};

static const struct attribute_group top_group = {
	.attrs		= top_attrs,
};

/* No folio is migrated for MR_NEVER. */
static struct kobj_attribute route_attrs[MR_NEVER];
static struct attribute *route_list[MR_NEVER + 1];

static const struct attribute_group route_group = {
	.name		= "routes",
	.attrs		= route_list,
};

static const struct attribute_group *groups[] = {
	&route_group,
	&top_group,
	NULL
};

static ssize_t route_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	const struct route_conf *conf = &routes[attr - route_attrs];
	struct migrator *migrator;

	guard(mutex)(&migrate_offload_mutex);
	migrator = route_locked(conf);
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
		sysfs_attr_init(&route_attrs[reason].attr);
		route_attrs[reason].attr.name = migrate_reason_names[reason];
		route_list[reason] = &route_attrs[reason].attr;
	}

	top = kobject_create_and_add("migrate_offload", mm_kobj);
	if (!top)
		return -ENOMEM;

	error = sysfs_create_groups(top, groups);
	if (error)
		kobject_put(top);
	return error;
}

/* In the order of enum migrate_offload_stat. */
static const char * const stat_names[] = {
	"batches", "folios_copied", "pages_copied",
	"fallback_busy", "fallback_error", "fallback_lost", "fallback_no_memory",
	"fallback_refused", "fallback_small", "fallback_timeout",
	"fallback_unreachable",
	"declined_mapping", "declined_metadata", "declined_poison",
	"declined_references", "declined_type",
};

static_assert(ARRAY_SIZE(stat_names) == NR_MIGRATE_OFFLOAD_STATS);

/* A line for each reason, and a column for each counter, since boot. */
static int stats_show(struct seq_file *file, void *data)
{
	int reason, stat;

	seq_printf(file, "%-17s", "reason");
	for (stat = 0; stat < NR_MIGRATE_OFFLOAD_STATS; stat++)
		seq_printf(file, " %s", stat_names[stat]);
	seq_putc(file, '\n');

	for (reason = 0; reason < MR_NEVER; reason++) {
		seq_printf(file, "%-17s", migrate_reason_names[reason]);
		for (stat = 0; stat < NR_MIGRATE_OFFLOAD_STATS; stat++)
			seq_printf(file, " %*lu", (int)strlen(stat_names[stat]),
				   read_stat(reason, stat));
		seq_putc(file, '\n');
	}

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
