// SPDX-License-Identifier: GPL-2.0
/* The core of copy offload for page migration: see <linux/migrate_offload.h>. */

#include <linux/migrate.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "migrate_offload.h"

DEFINE_STATIC_KEY_FALSE(migrate_offload_key);

/* Protects migrators and stores to routes. Held while &migrator.routed is called. */
static DEFINE_MUTEX(migrate_offload_mutex);
static LIST_HEAD(migrators);
static struct migrator __rcu *routes[MR_TYPES];

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
	list_add_tail_rcu(&migrator->list, &migrators);
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
		list_del_rcu(&migrator->list);
		for (reason = 0; reason < MR_TYPES; reason++)
			if (route_locked(reason) == migrator)
				RCU_INIT_POINTER(routes[reason], NULL);
	}

	/* A call that has read the route fails to get the module. */
	synchronize_rcu();
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

	guard(rcu)();
	list_for_each_entry_rcu(migrator, &migrators, list)
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

	guard(rcu)();
	migrator = rcu_dereference(routes[attr - route_attrs]);
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

late_initcall(create_sysfs);
