// SPDX-License-Identifier: GPL-2.0
/*
 * Copy offload for page migration: the registry of migrators, the routes from
 * reasons to migrators, and statistics.
 *
 * mm/migrate.c decides which folios may be handed to a migrator; a migrator
 * decides how to move the bytes. See Documentation/mm/migrate_offload.rst.
 */

#define pr_fmt(fmt) "migrate_offload: " fmt

#include <linux/bitops.h>
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
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <kunit/visibility.h>
#include <trace/events/migrate.h>

#include "migrate_offload.h"

#define MIGRATOR_NAME_MAX	31

/*
 * Preallocated batches per migrator: two tasks can offload concurrently without
 * allocating. A task has one batch, or two while it copies live.
 */
#define MIGRATOR_RESERVED_BATCHES	4

DEFINE_STATIC_KEY_FALSE(migrate_offload_key);
DEFINE_STATIC_KEY_FALSE(migrate_required_key);

/* 5 GB/s until it is measured */
unsigned int migrate_cpu_page_ns = 800 * (PAGE_SIZE / SZ_4K);

/* Protects migrators, all stores to routes, enabled, and the static keys. */
static DEFINE_MUTEX(migrate_offload_mutex);
static LIST_HEAD(migrators);
static bool enabled;

/*
 * Taken before migrate_offload_mutex: orders the calls of &migrator.routed,
 * which may wait for providers of engines.
 */
static DEFINE_MUTEX(migrate_offload_route_mutex);

/*
 * What the administrator allows a batch to take, and what is worth a batch. A single
 * folio may be larger than other batches: it may take as much longer, but no batch takes
 * longer than the most that may be allowed.
 */
#define MAX_TIMEOUT_MS	60000
#define TIMEOUT_PAGES	(SZ_64M / PAGE_SIZE)
static unsigned int timeout_ms = 100;

/*
 * For how long memory may be inaccessible; 0: no bound. A CPU takes as long as that to
 * copy 2 MB, which is a batch without copy offload.
 */
VISIBLE_IF_KUNIT unsigned int migrate_max_inaccessible_us = 500;

/* Which routes copy live, and the smallest folio for which that is worth it. */
enum {
	LIVE_NEVER,
	LIVE_ALWAYS,
	LIVE_ASYNCHRONOUS,	/* those to asynchronous migrators */
};

static u32 live = LIVE_ASYNCHRONOUS;
VISIBLE_IF_KUNIT unsigned int migrate_live_min_order = 1;

/*
 * A migrator read from routes[] stays registered until the reader leaves its
 * SRCU read-side section, which lasts as long as its call of migrate_pages():
 * migrate_offload_unregister() waits for that.
 */
DEFINE_STATIC_SRCU(migrate_offload_srcu);

/* What the administrator has chosen for a reason. */
struct route_conf {
	struct migrator __rcu *migrator;
	bool required;
	struct migrate_pace pace;
};

static struct route_conf routes[MR_TYPES];

struct migrate_offload_counters {
	unsigned long count[MR_TYPES][NR_MIGRATE_OFFLOAD_STATS];
};

static DEFINE_PER_CPU(struct migrate_offload_counters, migrate_offload_counters);

/**
 * migrate_offload_count() - add to a counter
 * @route: the route of the call
 * @stat: the counter
 * @nr: the value to add
 *
 * Context: any.
 */
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

static void set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

/*
 * One key is on if and only if copy offload is enabled and some reason has a
 * migrator; the other one if and only if some route requires its migrator, enabled
 * or not.
 */
static void update_keys(void)
{
	bool routed = false, required = false;
	int reason;

	lockdep_assert_held(&migrate_offload_mutex);

	for (reason = 0; reason < MR_TYPES; reason++) {
		routed |= !!route_locked(&routes[reason]);
		required |= routes[reason].required;
	}

	set_key(&migrate_offload_key, enabled && routed);
	set_key(&migrate_required_key, required);
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
	const char *c;

	if (!name || !*name || !strcmp(name, "none"))
		return false;

	for (c = name; *c; c++)
		if (!isgraph(*c))
			return false;

	return c - name <= MIGRATOR_NAME_MAX;
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
 * @migrator: a registered migrator
 *
 * Reset all routes to the migrator to none, without a call of &migrator.routed.
 * Those that require it stay closed. After this returns, the migrator has no batch,
 * and none of its callbacks runs or will run.
 *
 * Context: process context, waits for copies in flight.
 */
void migrate_offload_unregister(struct migrator *migrator)
{
	int reason;

	guard(mutex)(&migrate_offload_route_mutex);
	scoped_guard(mutex, &migrate_offload_mutex) {
		list_del(&migrator->list);
		for (reason = 0; reason < MR_TYPES; reason++)
			if (route_locked(&routes[reason]) == migrator)
				RCU_INIT_POINTER(routes[reason].migrator, NULL);
		update_keys();
	}

	synchronize_srcu(&migrate_offload_srcu);
	mempool_destroy(migrator->batches);
}
EXPORT_SYMBOL_GPL(migrate_offload_unregister);

static unsigned int nr_routes(const struct migrator *migrator)
{
	unsigned int reason, nr = 0;

	guard(mutex)(&migrate_offload_mutex);
	for (reason = 0; reason < MR_TYPES; reason++)
		nr += route_locked(&routes[reason]) == migrator;
	return nr;
}

/* Callers with the other reasons cannot do without the migration. */
static bool may_require(enum migrate_reason reason)
{
	return IS_ENABLED(CONFIG_MIGRATION_BOUND) &&
	       reason != MR_MEMORY_FAILURE && reason != MR_MEMORY_HOTPLUG &&
	       reason != MR_CONTIG_RANGE && reason != MR_LONGTERM_PIN;
}

/*
 * @text is a migrator's name or "none", and perhaps " required", with or without a
 * final newline.
 */
VISIBLE_IF_KUNIT int migrate_offload_set_route(enum migrate_reason reason,
					       const char *text)
{
	const size_t len = strcspn(text, "\n ");
	const bool required = sysfs_streq(text + len, " required");
	struct route_conf *conf = &routes[reason];
	struct migrator *migrator = NULL, *old;

	if (required ? !may_require(reason) : !sysfs_streq(text + len, ""))
		return -EINVAL;

	guard(mutex)(&migrate_offload_route_mutex);

	scoped_guard(mutex, &migrate_offload_mutex) {
		if (!is_name(text, len, "none")) {
			migrator = find_migrator(text, len);
			if (!migrator)
				return -ENOENT;
		}

		old = route_locked(conf);
		/* What is known of @old says nothing of @migrator. */
		if (migrator != old)
			WRITE_ONCE(conf->pace.page_ns, 0);
		WRITE_ONCE(conf->required, required);
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

#if IS_ENABLED(CONFIG_KUNIT)
/* Return the sum over all reasons. */
unsigned long migrate_offload_read_stat(enum migrate_offload_stat stat)
{
	unsigned long sum = 0;
	int reason;

	for (reason = 0; reason < MR_TYPES; reason++)
		sum += read_stat(reason, stat);

	return sum;
}

struct migrator *migrate_offload_get_route(enum migrate_reason reason)
{
	guard(mutex)(&migrate_offload_mutex);
	return route_locked(&routes[reason]);
}

struct migrate_pace *migrate_offload_pace(enum migrate_reason reason)
{
	return &routes[reason].pace;
}
#endif

static bool route_is_live(const struct migrator *migrator)
{
	if (!IS_ENABLED(CONFIG_MIGRATION_LIVE_COPY))
		return false;

	switch (READ_ONCE(live)) {
	case LIVE_NEVER:
		return false;
	case LIVE_ALWAYS:
		return true;
	default:
		return migrator->asynchronous;
	}
}

/* Return the previous state of the switch. */
VISIBLE_IF_KUNIT bool migrate_offload_set_enabled(bool on)
{
	bool was;

	guard(mutex)(&migrate_offload_mutex);
	was = enabled;
	WRITE_ONCE(enabled, on);
	update_keys();
	return was;
}

/**
 * __migrate_route_enter() - begin to use the migrator of a reason
 * @route: set to the migrator for @reason, if there is one and copy offload is
 *	enabled; a route that requires one and has none lets nothing migrate
 * @reason: why the folios are migrated
 *
 * Neither the migrator nor its module can go away until
 * migrate_route_leave().
 *
 * Context: process context; calls may nest, as migration may in reclaim.
 */
void __migrate_route_enter(struct migrate_route *route,
			   enum migrate_reason reason)
{
	struct route_conf *conf = &routes[reason];
	struct migrator *migrator;
	int srcu_idx;

	route->reason = reason;
	route->required = READ_ONCE(conf->required);
	if (!READ_ONCE(enabled) || !rcu_access_pointer(conf->migrator))
		return;

	srcu_idx = srcu_read_lock(&migrate_offload_srcu);
	migrator = srcu_dereference(conf->migrator, &migrate_offload_srcu);
	if (!migrator || !try_module_get(migrator->owner)) {
		srcu_read_unlock(&migrate_offload_srcu, srcu_idx);
		return;
	}

	route->migrator = migrator;
	route->live = route_is_live(migrator);
	route->max_ns = READ_ONCE(migrate_max_inaccessible_us) * NSEC_PER_USEC;
	route->pace = &conf->pace;
	route->srcu_idx = srcu_idx;
}

/**
 * __migrate_route_leave() - no longer use a migrator
 * @route: a route with a migrator, and without batches
 */
void __migrate_route_leave(struct migrate_route *route)
{
	/* An engine with a lost pair may still call the migrator: pin its module. */
	if (!route->lost)
		module_put(route->migrator->owner);
	srcu_read_unlock(&migrate_offload_srcu, route->srcu_idx);
}

/**
 * migrate_offload_begin() - get an empty batch
 * @route: a route with a migrator
 * @reason: why the folios are migrated
 *
 * Context: process context, folio locks held. Does not wait for memory.
 *
 * Return: the batch; NULL if there is no memory.
 */
struct migrate_offload_batch *migrate_offload_begin(struct migrate_route *route,
						    enum migrate_reason reason)
{
	mempool_t *batches = route->migrator->batches;
	struct migrate_offload_batch *batch;

	batch = mempool_alloc_preallocated(batches);
	if (!batch)
		batch = mempool_alloc(batches, GFP_NOWAIT);
	if (!batch)
		return NULL;

	batch->route = route;
	batch->reason = reason;
	batch->migrator_data = NULL;
	batch->nr_pairs = 0;
	batch->nr_pages = 0;
	return batch;
}

/* Return whether a folio gets a place in a batch: if it is worth it, or must. */
bool migrate_offload_takes(const struct migrate_route *route,
			   const struct folio *src)
{
	return route->required ||
	       folio_order(src) >= READ_ONCE(route->migrator->min_order);
}

/* Return whether a folio is worth a live copy. */
bool migrate_offload_takes_live(const struct migrate_route *route,
				const struct folio *src)
{
	return migrate_offload_takes(route, src) &&
	       folio_order(src) >= READ_ONCE(migrate_live_min_order);
}

/**
 * migrate_offload_add() - add an eligible folio to a batch
 * @batch: a batch that is not full
 * @src: the folio to copy from
 * @dst: the folio to copy to
 *
 * Return: true if the batch is now full.
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

static enum migrate_offload_stat refusal_stat(int error)
{
	switch (error) {
	case -EBUSY:
		return MIGRATE_OFFLOAD_STAT_FALLBACK_BUSY;
	case -EOPNOTSUPP:
		return MIGRATE_OFFLOAD_STAT_FALLBACK_REFUSED;
	default:
		return MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR;
	}
}

/* Somebody has waited for a copy in vain: no other memory of the call shall. */
static void give_up(struct migrate_route *route)
{
	route->late = route->max_ns && !route->required;
}

static void count_pair(struct migrate_offload_batch *batch,
		       struct migrate_offload_pair *pair)
{
	/* Poison came up meanwhile: the move phase copies the folio again, and decides. */
	if (pair->status == MIGRATE_OFFLOAD_DONE &&
	    folio_contain_hwpoisoned_page(pair->src))
		pair->status = MIGRATE_OFFLOAD_ERROR;

	switch (pair->status) {
	case MIGRATE_OFFLOAD_DONE:
		count(batch, MIGRATE_OFFLOAD_STAT_FOLIOS_COPIED, 1);
		count(batch, MIGRATE_OFFLOAD_STAT_PAGES_COPIED,
		      folio_nr_pages(pair->src));
		break;
	case MIGRATE_OFFLOAD_TIMEOUT:
		give_up(batch->route);
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_TIMEOUT, 1);
		break;
	case MIGRATE_OFFLOAD_UNREACHABLE:
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_UNREACHABLE, 1);
		break;
	case MIGRATE_OFFLOAD_LOST:
		batch->route->lost = true;
		give_up(batch->route);
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_LOST, 1);
		break;
	default:
		pair->status = MIGRATE_OFFLOAD_ERROR;
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR, 1);
		break;
	}
}

static void trace_copied(struct migrate_offload_batch *batch,
			 unsigned int nr_copied)
{
	trace_mm_migrate_batch_copied(batch->route->migrator->name,
				      batch->nr_pairs, nr_copied,
				      batch->nr_pages, batch->reason);
}

/**
 * migrate_offload_start() - hand a batch to its migrator
 * @batch: a batch with at least one pair
 *
 * Context: process context, folio locks held. The caller must not sleep on a
 * folio lock until migrate_offload_finish().
 *
 * Return: true if the migrator accepted the batch; false if it did not, in which
 * case the status of each pair is final.
 */
bool migrate_offload_start(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;
	unsigned long ms;
	unsigned int i;
	int error;

	if (batch->nr_pages < READ_ONCE(migrator->min_pages) &&
	    !batch->route->required) {
		count(batch, MIGRATE_OFFLOAD_STAT_FALLBACK_SMALL, batch->nr_pairs);
		goto refused;
	}

	ms = READ_ONCE(timeout_ms) * max(batch->nr_pages / TIMEOUT_PAGES, 1UL);
	batch->deadline = jiffies + msecs_to_jiffies(min(ms, MAX_TIMEOUT_MS));
	error = migrator->submit(migrator, batch);
	if (!error)
		return true;
	count(batch, refusal_stat(error), batch->nr_pairs);

refused:
	/* Discard reports that the migrator made before it refused. */
	for (i = 0; i < batch->nr_pairs; i++)
		batch->pairs[i].status = MIGRATE_OFFLOAD_ERROR;
	trace_copied(batch, 0);
	return false;
}

/**
 * migrate_offload_poll() - let a migrator go on with an accepted batch
 * @batch: the batch
 *
 * Context: process context; does not wait for copies.
 */
void migrate_offload_poll(struct migrate_offload_batch *batch)
{
	struct migrator *migrator = batch->route->migrator;

	if (migrator->poll)
		migrator->poll(migrator, batch);
}

/**
 * migrate_offload_finish() - wait for an accepted batch
 * @batch: the batch
 *
 * After this returns, the status of each pair is final, and the migrator may
 * still access only pairs that are %MIGRATE_OFFLOAD_LOST.
 *
 * Context: process context, folio locks held; the migrator bounds the wait.
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

/**
 * migrate_offload_end() - release a batch
 * @batch: a batch from migrate_offload_begin()
 */
void migrate_offload_end(struct migrate_offload_batch *batch)
{
	mempool_free(batch, batch->route->migrator->batches);
}

/*
 * The migrator "cpu" copies the folios of a batch with the CPU, as core would
 * otherwise do in the move phase. It needs no hardware: it shows the cost of
 * batching alone, and is the shortest example of a synchronous migrator.
 */
static int cpu_submit(struct migrator *migrator,
		      struct migrate_offload_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr_pairs; i++) {
		struct migrate_offload_pair *pair = &batch->pairs[i];
		int error = folio_mc_copy(pair->dst, pair->src);

		/* Poison: the move phase copies the folio again, and decides. */
		migrate_offload_report(pair, error ? MIGRATE_OFFLOAD_ERROR :
						     MIGRATE_OFFLOAD_DONE);
		cond_resched();
	}

	return 0;
}

static void cpu_wait(struct migrator *migrator,
		     struct migrate_offload_batch *batch)
{
}

static struct migrator cpu_migrator = {
	.name	= "cpu",
	.submit	= cpu_submit,
	.wait	= cpu_wait,
};

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

	migrate_offload_set_enabled(on);
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

static struct kobj_attribute migrators_attr = __ATTR_RO(migrators);
static struct kobj_attribute max_inaccessible_us_attr =
	__ATTR_RW(max_inaccessible_us);
static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

/* The main switch comes last: user space that sees it sees all files. */
static struct attribute *top_attrs[] = {
	&migrators_attr.attr,
	&max_inaccessible_us_attr.attr,
	&enabled_attr.attr,
	NULL
};

static umode_t top_visible(struct kobject *kobj, struct attribute *attr, int n)
{
	if (attr == &max_inaccessible_us_attr.attr &&
	    !IS_ENABLED(CONFIG_MIGRATION_BOUND))
		return 0;
	return attr->mode;
}

static const struct attribute_group top_group = {
	.attrs		= top_attrs,
	.is_visible	= top_visible,
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
	return sysfs_emit(buf, "%s%s\n", migrator ? migrator->name : "none",
			  conf->required ? " required" : "");
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

static const char * const stat_names[NR_MIGRATE_OFFLOAD_STATS] = {
	[MIGRATE_OFFLOAD_STAT_BATCHES] = "batches",
	[MIGRATE_OFFLOAD_STAT_FOLIOS_COPIED] = "folios_copied",
	[MIGRATE_OFFLOAD_STAT_PAGES_COPIED] = "pages_copied",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_BUSY] = "fallback_busy",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_ERROR] = "fallback_error",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_LOST] = "fallback_lost",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_NO_MEMORY] = "fallback_no_memory",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_REFUSED] = "fallback_refused",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_SMALL] = "fallback_small",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_TIMEOUT] = "fallback_timeout",
	[MIGRATE_OFFLOAD_STAT_FALLBACK_UNREACHABLE] = "fallback_unreachable",
	[MIGRATE_OFFLOAD_STAT_DECLINED_MAPPING] = "declined_mapping",
	[MIGRATE_OFFLOAD_STAT_DECLINED_METADATA] = "declined_metadata",
	[MIGRATE_OFFLOAD_STAT_DECLINED_POISON] = "declined_poison",
	[MIGRATE_OFFLOAD_STAT_DECLINED_REFERENCES] = "declined_references",
	[MIGRATE_OFFLOAD_STAT_DECLINED_TYPE] = "declined_type",
	[MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED] = "required_failed",
	[MIGRATE_OFFLOAD_STAT_LIVE_COPIED] = "live_copied",
	[MIGRATE_OFFLOAD_STAT_LIVE_WRITTEN] = "live_written",
	[MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_MAPPING] = "live_declined_mapping",
	[MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_REFERENCES] = "live_declined_references",
	[MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_SHARED] = "live_declined_shared",
	[MIGRATE_OFFLOAD_STAT_LIVE_DECLINED_TYPE] = "live_declined_type",
};

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

static void __init create_debugfs(void)
{
	struct dentry *dir = debugfs_create_dir("migrate_offload", NULL);

	debugfs_create_file("stats", 0444, dir, NULL, &stats_fops);
	debugfs_create_u32("timeout_ms", 0644, dir, &timeout_ms);
	if (!IS_ENABLED(CONFIG_MIGRATION_LIVE_COPY))
		return;
	debugfs_create_u32("live", 0644, dir, &live);
	debugfs_create_u32("live_min_order", 0644, dir, &migrate_live_min_order);
}

static int __init migrate_offload_init(void)
{
	int error = migrate_offload_register(&cpu_migrator);

	if (error)
		return error;

	create_debugfs();
	error = create_sysfs();
	if (error) {
		pr_err("cannot create the sysfs files: %d\n", error);
		migrate_offload_unregister(&cpu_migrator);
	}

	return error;
}
late_initcall(migrate_offload_init);
