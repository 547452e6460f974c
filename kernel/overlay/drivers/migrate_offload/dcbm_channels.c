// SPDX-License-Identifier: GPL-2.0
/*
 * The channels that dcbm holds while a reason is routed to it: acquiring them,
 * handing them to jobs, and releasing them. The administrator selects providers
 * and the number of channels.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/vmalloc.h>

#include "dcbm.h"

/* Fewest bytes worth using one more channel. */
#define DCBM_SEGMENT_BYTES	SZ_64K

/* Longest time that a job takes after its deadline, to stop its channels. */
#define DCBM_STOP		(5 * HZ)

/* Held while calling dmaengine, thus outside of the locks of providers. */
static DEFINE_MUTEX(dcbm_mutex);
static bool wanted, asleep, slept;

/* Lets callbacks find the channel of a token. Written under dcbm_lock. */
struct dcbm_chan __rcu *dcbm_by_id[DCBM_MAX_CHANS];

/* Protects the free lists, and the assignment of channels and jobs. */
static DEFINE_SPINLOCK(dcbm_lock);
static LIST_HEAD(free_chans);
static unsigned int nr_free_chans;
/* Of channels that reach memory, and of those that do not, and get no share. */
static unsigned int nr_held[2];
static LIST_HEAD(free_jobs);
static unsigned int nr_jobs;

/* Woken when a job returns its channels. */
static DECLARE_WAIT_QUEUE_HEAD(chan_returned);

static unsigned int channels;
static char providers[256];
static struct kparam_string dcbm_providers = {
	.maxlen = sizeof(providers), .string = providers,
};

static void reconsider(void);

static int dcbm_set_parameter(const char *val, const struct kernel_param *kp)
{
	int error;

	guard(mutex)(&dcbm_mutex);
	if (kp->arg == &channels)
		error = param_set_uint_minmax(val, kp, 0, DCBM_MAX_CHANS);
	else
		error = param_set_copystring(val, kp);
	strim(providers);
	reconsider();
	return error;
}

static const struct kernel_param_ops channels_ops = {
	.set = dcbm_set_parameter,
	.get = param_get_uint,
};
module_param_cb(channels, &channels_ops, &channels, 0644);
MODULE_PARM_DESC(channels, "Maximum number of channels to hold, 0 to 64 (default: 0 = all available, up to 64)");

static const struct kernel_param_ops providers_ops = {
	.set = dcbm_set_parameter,
	.get = param_get_string,
};
module_param_cb(providers, &providers_ops, &dcbm_providers, 0644);
MODULE_PARM_DESC(providers, "Comma-separated drivers or devices whose channels to hold (default: none)");

/*
 * Return a job with as many free channels as the batch can use, or NULL if none is
 * free.
 */
struct dcbm_job *dcbm_get_job(struct migrate_offload_batch *batch)
{
	struct dcbm_chan *dch;
	struct dcbm_job *job;
	unsigned int n;

	guard(spinlock)(&dcbm_lock);

	job = list_first_entry_or_null(&free_jobs, struct dcbm_job, node);
	if (READ_ONCE(asleep) || !job ||
	    (list_empty(&free_chans) && (nr_held[false] || !nr_held[true])))
		return NULL;
	list_del_init(&job->node);
	job->batch = batch;
	job->unreachable = list_empty(&free_chans);

	n = clamp(batch->nr_pages * PAGE_SIZE / DCBM_SEGMENT_BYTES, 1,
		  nr_free_chans);
	nr_free_chans -= n;
	while (n--) {
		dch = list_first_entry(&free_chans, struct dcbm_chan, node);
		WRITE_ONCE(dch->job, job);
		list_move_tail(&dch->node, &job->chans);
	}
	return job;
}

/* Only lost channels of the job may have anything in flight. */
void dcbm_put_job(struct dcbm_job *job)
{
	struct dcbm_chan *dch, *next;

	scoped_guard(spinlock, &dcbm_lock) {
		list_for_each_entry_safe(dch, next, &job->chans, node) {
			WRITE_ONCE(dch->job, NULL);
			list_del_init(&dch->node);
			if (dch->lost || dch->retiring)
				continue;
			list_add_tail(&dch->node, &free_chans);
			nr_free_chans++;
		}
		list_add(&job->node, &free_jobs);
	}
	wake_up_all(&chan_returned);
}

/* Return true if @name stands between two commas of @providers. */
static bool named(const char *name)
{
	const size_t len = strlen(name);
	const char *word;

	lockdep_assert_held(&dcbm_mutex);

	for (word = providers; *word; word += *word == ',') {
		word = skip_spaces(word);
		if (len && strcspn(word, ",") == len && !strncmp(word, name, len))
			return true;
		word += strcspn(word, ",");
	}
	return false;
}

/* The administrator answers for the engines that are named. */
static bool allowed(struct dma_chan *chan, void *unused)
{
	struct device *dev = chan->device->dev;

	/* A PCI engine without PM callbacks may have lost its state in a suspend. */
	if (slept && dev_is_pci(dev) && dev->driver && !dev->driver->pm)
		return false;
	return named(dev_driver_string(dev)) || named(dev_name(dev));
}

static struct dcbm_chan *chan_by_id(unsigned int id)
{
	return rcu_dereference_protected(dcbm_by_id[id],
					 lockdep_is_held(&dcbm_lock));
}

/* With bounce buffers the CPU would copy each page as well. */
static bool may_bounce(struct device *dev)
{
	return dma_addressing_limited(dev) || dma_max_mapping_size(dev) != SIZE_MAX;
}

/* Request one more channel. Return false if there is none, or no memory or id for it. */
static bool add_chan(void)
{
	struct dcbm_chan *dch;
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	chan = dma_request_channel(mask, allowed, NULL);
	if (!chan)
		return false;
	dch = vzalloc_node(sizeof(*dch), dev_to_node(dmaengine_get_dma_device(chan)));
	if (!dch)
		goto release;

	dch->chan = chan;
	dch->dev = dmaengine_get_dma_device(chan);
	dch->bounces = may_bounce(dch->dev);
	strscpy(dch->name, dma_chan_name(chan));

	scoped_guard(spinlock, &dcbm_lock) {
		while (dch->id < DCBM_MAX_CHANS && chan_by_id(dch->id))
			dch->id++;
		if (dch->id == DCBM_MAX_CHANS)
			break;
		rcu_assign_pointer(dcbm_by_id[dch->id], dch);
		INIT_LIST_HEAD(&dch->node);
		nr_held[dch->bounces]++;
		if (!dch->bounces) {
			list_add_tail(&dch->node, &free_chans);
			nr_free_chans++;
		}
		return true;
	}
	vfree(dch);
release:
	dma_release_channel(chan);
	return false;
}

static bool add_job(void)
{
	struct dcbm_job *job = vzalloc(sizeof(*job));

	if (!job)
		return false;

	INIT_LIST_HEAD(&job->chans);
	init_waitqueue_head(&job->wait);
	sg_init_table(job->src_sg, DCBM_MAX_ENTRIES);
	sg_init_table(job->dst_sg, DCBM_MAX_ENTRIES);
	guard(spinlock)(&dcbm_lock);
	list_add(&job->node, &free_jobs);
	nr_jobs++;
	return true;
}

/* A callback that has already counted may still access its job. */
static void free_idle_jobs(void)
{
	struct dcbm_job *job, *next;

	guard(spinlock)(&dcbm_lock);
	list_for_each_entry_safe(job, next, &free_jobs, node) {
		list_del(&job->node);
		kvfree_rcu(job, rcu);
		nr_jobs--;
	}
}

/*
 * Release a retiring channel, if its job ends in time and does not lose it.
 * Nothing that an engine knows points to a channel: a late callback finds none.
 */
static void release(struct dcbm_chan *dch)
{
	unsigned long end = jiffies;
	bool leaves;

	scoped_guard(spinlock, &dcbm_lock)
		if (dch->job)
			end = dch->job->batch->deadline + DCBM_STOP;
	wait_event_timeout(chan_returned, !READ_ONCE(dch->job),
			   max((long)(end - jiffies), 0));
	scoped_guard(spinlock, &dcbm_lock) {
		if (dch->job)
			pr_err("%s is still in use: not released\n", dch->name);
		leaves = !dch->job && !dch->lost;
		dch->retiring = leaves;
	}
	if (leaves) {
		dma_release_channel(dch->chan);
		scoped_guard(spinlock, &dcbm_lock) {
			RCU_INIT_POINTER(dcbm_by_id[dch->id], NULL);
			nr_held[dch->bounces]--;
		}
		kvfree_rcu(dch, rcu);
	}
}

/* Adapt to changed parameters and routes. */
static void reconsider(void)
{
	const unsigned int most = wanted && !asleep ? channels ?: DCBM_MAX_CHANS : 0;
	struct dcbm_chan *dch, *surplus[DCBM_MAX_CHANS];
	unsigned int i, nr = 0, nr_surplus = 0;

	lockdep_assert_held(&dcbm_mutex);

	if (wanted && !*providers)
		pr_info_once("the parameter \"providers\" names no engine: the CPU copies\n");
	scoped_guard(spinlock, &dcbm_lock) {
		for (i = 0; i < DCBM_MAX_CHANS; i++) {
			dch = chan_by_id(i);
			if (!dch || dch->lost)
				continue;
			if (nr < most && allowed(dch->chan, NULL)) {
				nr++;
				continue;
			}
			dch->retiring = true;
			if (!dch->job && !list_empty(&dch->node)) {
				list_del_init(&dch->node);
				nr_free_chans--;
			}
			surplus[nr_surplus++] = dch;
		}
	}
	while (nr_surplus)
		release(surplus[--nr_surplus]);

	while (nr < most && add_chan())
		nr++;
	while (nr_jobs < min(DIV_ROUND_UP(nr, DCBM_CHANS_PER_JOB), DCBM_MAX_JOBS) &&
	       add_job())
		;
	if (!nr)
		free_idle_jobs();
}

static void set(bool *state, bool on)
{
	guard(mutex)(&dcbm_mutex);
	WRITE_ONCE(*state, on);
	reconsider();
}

/*
 * Hold all available channels, or none. Call it outside of all locks that
 * providers take.
 */
void dcbm_routed(struct migrator *migrator, bool routed)
{
	set(&wanted, routed);
}

/* No engine may write to memory that the next kernel owns. */
static int dcbm_reboot_event(struct notifier_block *nb, unsigned long event,
			     void *data)
{
	set(&asleep, true);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_notifier = {
	.notifier_call = dcbm_reboot_event,
};

/* A suspended engine copies nothing and may lose the state of its channels. */
static int dcbm_pm_event(struct notifier_block *nb, unsigned long event,
			 void *data)
{
	bool sleep = event == PM_SUSPEND_PREPARE ||
		     event == PM_HIBERNATION_PREPARE ||
		     event == PM_RESTORE_PREPARE;

	if (sleep)
		slept = true;
	set(&asleep, sleep);
	return NOTIFY_DONE;
}

static struct notifier_block pm_notifier = {
	.notifier_call = dcbm_pm_event,
};

void dcbm_channels_init(void)
{
	/* These fail only if called twice. */
	register_reboot_notifier(&reboot_notifier);
	register_pm_notifier(&pm_notifier);
}

/* Release all channels. No job exists, and none can start. */
void dcbm_channels_exit(void)
{
	unregister_pm_notifier(&pm_notifier);
	unregister_reboot_notifier(&reboot_notifier);
	/* For good: parameters stay writable until the module is gone. */
	set(&asleep, true);
	/* No callback runs any more. */
	synchronize_rcu();
}
