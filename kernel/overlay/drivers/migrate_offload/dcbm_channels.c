// SPDX-License-Identifier: GPL-2.0
/*
 * The channels that dcbm holds while a reason is routed to it: acquiring them,
 * handing them to jobs, and releasing them. The administrator selects providers
 * and the number of channels; providers may appear and disappear at any time.
 *
 * A claimed lane is released by the function that claimed it, and by no other. No
 * job gets it, and the job that has it, if any, ends by its deadline.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* Longest time that a job takes after its deadline, to stop its channels. */
#define DCBM_STOP		(5 * HZ)

/* Longer than core lets a batch take, and a job to stop its channels. */
#define DCBM_LEAVE		(70 * HZ)

/* Some drivers finish a channel only after they have registered it. */
#define DCBM_SETTLE		(HZ / 10)

/*
 * Held while calling dmaengine, thus outside of the locks of providers. The
 * notifier of dmaengine may be called inside of them: it never takes it.
 */
static DEFINE_MUTEX(dcbm_mutex);
static bool wanted, asleep;
/* A channel may have been requested that has no lane yet. */
static bool acquiring;

/* By these, callbacks find the lane of a token. Written under dcbm_lock. */
struct dcbm_lane __rcu *dcbm_by_id[DCBM_MAX_LANES];
static unsigned long last_uses[DCBM_MAX_LANES];

/* Protects the free lists, and the assignment of lanes and jobs. */
static DEFINE_SPINLOCK(dcbm_lock);
static LIST_HEAD(free_lanes);
static unsigned int nr_free_lanes;
static LIST_HEAD(free_jobs);
static unsigned int nr_jobs;

/* Woken when a job returns a lane, and when nobody acquires or claims it any more. */
static DECLARE_WAIT_QUEUE_HEAD(lane_returned);

static void rescan(struct work_struct *work);
static DECLARE_DELAYED_WORK(rescan_work, rescan);
static struct dentry *debugfs_dir;

static bool segments = true;
module_param(segments, bool, 0644);
MODULE_PARM_DESC(segments, "Cut folios so that one large folio can use several channels (default: Y)");

static unsigned int segment_bytes = SZ_64K;
module_param(segment_bytes, uint, 0644);
MODULE_PARM_DESC(segment_bytes, "Fewest bytes worth using one more channel (default: 65536)");

static unsigned int channels;
static char providers[256];
static struct kparam_string providers_string = {
	.maxlen = sizeof(providers), .string = providers,
};

static void reconsider(void);

static int set_channels(const char *val, const struct kernel_param *kp)
{
	int error;

	guard(mutex)(&dcbm_mutex);
	error = param_set_uint_minmax(val, kp, 0, DCBM_MAX_LANES);
	reconsider();
	return error;
}

static const struct kernel_param_ops channels_ops = {
	.set = set_channels,
	.get = param_get_uint,
};
module_param_cb(channels, &channels_ops, &channels, 0644);
MODULE_PARM_DESC(channels, "Maximum number of channels to hold, 0 to 64 (default: 0 = all available, up to 64)");

VISIBLE_IF_KUNIT int dcbm_set_providers(const char *val,
					const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	if (strlen(val) >= sizeof(providers))
		return -ENOSPC;
	strscpy(providers, val);
	strim(providers);
	reconsider();
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_set_providers);

static const struct kernel_param_ops providers_ops = {
	.set = dcbm_set_providers,
	.get = param_get_string,
};
module_param_cb(providers, &providers_ops, &providers_string, 0644);
MODULE_PARM_DESC(providers, "Comma-separated drivers or devices whose channels to hold (default: none)");

static void give_lane(struct dcbm_job *job, struct dcbm_lane *lane)
{
	lockdep_assert_held(&dcbm_lock);

	WRITE_ONCE(lane->job, job);
	list_move_tail(&lane->node, &job->lanes);
	nr_free_lanes--;
}

static bool is_near(const struct dcbm_lane *lane, int src_nid, int dst_nid)
{
	const int nid = dev_to_node(lane->dev);

	return nid == NUMA_NO_NODE || nid == src_nid || nid == dst_nid;
}

/*
 * Return a job with as many free channels as the batch can use, preferably near
 * the source or destination node of its first folio, or NULL if none is free.
 */
struct dcbm_job *dcbm_get_job(struct migrate_offload_batch *batch)
{
	const int src_nid = folio_nid(batch->pairs[0].src);
	const int dst_nid = folio_nid(batch->pairs[0].dst);
	struct dcbm_lane *lane, *next;
	struct dcbm_job *job;
	unsigned int n;

	guard(spinlock)(&dcbm_lock);

	job = list_first_entry_or_null(&free_jobs, struct dcbm_job, node);
	if (READ_ONCE(asleep) || !job || list_empty(&free_lanes))
		return NULL;
	list_del_init(&job->node);
	job->batch = batch;
	job->deadline = batch->deadline;

	job->whole = !READ_ONCE(segments);
	if (job->whole)
		n = min(batch->nr_pairs, nr_free_lanes);
	else
		n = dcbm_nr_lanes(batch->nr_pages * PAGE_SIZE,
				  max(READ_ONCE(segment_bytes), 1), nr_free_lanes);

	list_for_each_entry_safe(lane, next, &free_lanes, node) {
		if (n && is_near(lane, src_nid, dst_nid)) {
			give_lane(job, lane);
			n--;
		}
	}
	while (n--)
		give_lane(job, list_first_entry(&free_lanes, struct dcbm_lane,
						node));
	return job;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_get_job);

/* Only quarantined channels of the job may have anything in flight. */
void dcbm_put_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane, *next;

	scoped_guard(spinlock, &dcbm_lock) {
		list_for_each_entry_safe(lane, next, &job->lanes, node) {
			WRITE_ONCE(lane->job, NULL);
			list_del_init(&lane->node);
			if (lane->quarantined || lane->retiring)
				continue;
			list_add_tail(&lane->node, &free_lanes);
			nr_free_lanes++;
		}
		if (job->leaked) {
			nr_jobs--;
			schedule_delayed_work(&rescan_work, 0);
		} else {
			list_add(&job->node, &free_jobs);
		}
	}
	wake_up_all(&lane_returned);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_put_job);

/* Return true if @name, up to a comma or its end, names @dev or its driver. */
static bool names_device(const char *name, struct device *dev)
{
	const size_t len = strcspn(name, ",");
	const char *driver = dev_driver_string(dev);

	return (len == strlen(driver) && !strncmp(name, driver, len)) ||
	       (len == strlen(dev_name(dev)) &&
		!strncmp(name, dev_name(dev), len));
}

/* The administrator answers for the engines that @providers names. */
static bool allowed(struct dma_chan *chan, void *unused)
{
	const char *name;

	lockdep_assert_held(&dcbm_mutex);

	for (name = providers; *name; name += *name == ',') {
		name = skip_spaces(name);
		if (names_device(name, chan->device->dev))
			return true;
		name += strcspn(name, ",");
	}
	return false;
}

static struct dcbm_lane *lane_by_id(unsigned int id)
{
	return rcu_dereference_protected(dcbm_by_id[id],
					 lockdep_is_held(&dcbm_lock));
}

typedef bool (*lane_filter)(const struct dcbm_lane *lane, const void *arg);

/* Keep what is quarantined: nobody may use it, and dcbm must not forget that. */
static bool is_sound(const struct dcbm_lane *lane, const void *arg)
{
	return !lane->quarantined;
}

static bool is_unwanted(const struct dcbm_lane *lane, const void *arg)
{
	return !lane->quarantined && !allowed(lane->chan, NULL);
}

static bool is_of_channel(const struct dcbm_lane *lane, const void *chan)
{
	return lane->chan == chan;
}

static bool is_any(const struct dcbm_lane *lane, const void *arg)
{
	return true;
}

static unsigned int count(lane_filter filter, const void *arg)
{
	unsigned int i, nr = 0;

	guard(spinlock)(&dcbm_lock);
	for (i = 0; i < DCBM_MAX_LANES; i++)
		nr += lane_by_id(i) && filter(lane_by_id(i), arg);
	return nr;
}

/* A bounce buffer would make two copies of one. */
static bool may_bounce(struct device *dev)
{
	return dma_addressing_limited(dev) ||
	       dma_max_mapping_size(dev) != SIZE_MAX;
}

/* Return false without memory or a free id, or if the channel is leaving. */
static bool add_lane(struct dma_chan *chan)
{
	struct device *dev = dmaengine_get_dma_device(chan);
	struct dcbm_lane *lane;
	unsigned int i;

	lane = vzalloc_node(sizeof(*lane), dev_to_node(dev));
	if (!lane)
		return false;

	lane->chan = chan;
	lane->dev = dev;
	lane->bounces = may_bounce(dev);
	strscpy(lane->name, dma_chan_name(chan));
	strscpy(lane->provider, dev_driver_string(chan->device->dev));
	lane->max_len = DCBM_MAX_MERGED;
	lane->nr_free = DCBM_MAX_SLOTS;
	for (i = 0; i < DCBM_MAX_SLOTS; i++)
		lane->free[i] = i;

	scoped_guard(spinlock, &dcbm_lock) {
		while (lane->id < DCBM_MAX_LANES && lane_by_id(lane->id))
			lane->id++;
		/* From here on the notifier finds the lane. */
		if (lane->id == DCBM_MAX_LANES || chan->removing)
			break;
		for (i = 0; i < DCBM_MAX_SLOTS; i++)
			lane->slots[i].lane = lane->id;
		lane->uses = last_uses[lane->id];
		rcu_assign_pointer(dcbm_by_id[lane->id], lane);
		list_add_tail(&lane->node, &free_lanes);
		nr_free_lanes++;
		return true;
	}
	vfree(lane);
	return false;
}

static bool add_job(void)
{
	struct dcbm_job *job = vzalloc(sizeof(*job));

	if (!job)
		return false;

	INIT_LIST_HEAD(&job->lanes);
	init_llist_head(&job->completed);
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

static void acquire(void)
{
	const unsigned int most = channels ?: DCBM_MAX_LANES;
	struct dma_chan *chan;
	dma_cap_mask_t mask;
	unsigned int nr;

	lockdep_assert_held(&dcbm_mutex);

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	WRITE_ONCE(acquiring, true);
	for (nr = count(is_sound, NULL); nr < most; nr++) {
		chan = dma_request_channel(mask, allowed, NULL);
		if (!chan)
			break;
		if (!add_lane(chan)) {
			dma_release_channel(chan);
			break;
		}
	}
	/* Pairs with channel_leaves(), which then sees the last lane. */
	smp_store_release(&acquiring, false);
	wake_up_all(&lane_returned);

	while (nr_jobs < min(DIV_ROUND_UP(nr, DCBM_LANES_PER_JOB), DCBM_MAX_JOBS))
		if (!add_job())
			break;
}

/*
 * Claim a lane that @filter selects, if possible one without a job, or return NULL.
 * Afterwards no job can get it.
 */
static struct dcbm_lane *claim(lane_filter filter, const void *arg)
{
	struct dcbm_lane *lane, *found = NULL;
	unsigned int i;

	guard(spinlock)(&dcbm_lock);
	for (i = 0; i < DCBM_MAX_LANES; i++) {
		lane = lane_by_id(i);
		if (lane && !lane->retiring && filter(lane, arg) &&
		    (!found || !lane->job))
			found = lane;
	}
	if (!found)
		return NULL;

	found->retiring = true;
	if (!found->job && !list_empty(&found->node)) {
		list_del_init(&found->node);
		nr_free_lanes--;
	}
	return found;
}

/* Return false if the job that has the lane does not end. */
static bool wait_for_job(struct dcbm_lane *lane)
{
	unsigned long end = jiffies;

	scoped_guard(spinlock, &dcbm_lock)
		if (lane->job && time_after(lane->job->deadline, end))
			end = lane->job->deadline;
	return wait_event_timeout(lane_returned, !READ_ONCE(lane->job),
				  end - jiffies + DCBM_STOP);
}

/*
 * Release up to @max lanes that @filter selects, and still does once no job has
 * them: a job may quarantine its lanes. Those whose job does not end come last.
 * Nothing that an engine knows points to a lane: a late callback finds none.
 */
static void release(lane_filter filter, const void *arg, unsigned int max)
{
	struct dcbm_lane *lane;
	bool idle = true, leaves;

	while (idle && max-- && (lane = claim(filter, arg))) {
		idle = wait_for_job(lane);
		if (!idle)
			pr_err("%s is still in use: not released\n", lane->name);
		leaves = idle && filter(lane, arg);
		if (leaves)
			dma_release_channel(lane->chan);
		scoped_guard(spinlock, &dcbm_lock) {
			lane->retiring = false;
			if (leaves) {
				last_uses[lane->id] = lane->uses;
				RCU_INIT_POINTER(dcbm_by_id[lane->id], NULL);
				kvfree_rcu(lane, rcu);
			}
		}
		wake_up_all(&lane_returned);
	}
}

/* Adapt to changed parameters and routes, and to providers that came or went. */
static void reconsider(void)
{
	unsigned int nr;

	lockdep_assert_held(&dcbm_mutex);

	if (!wanted || asleep) {
		release(is_sound, NULL, DCBM_MAX_LANES);
		free_idle_jobs();
		return;
	}

	if (!*providers)
		pr_info_once("the parameter \"providers\" names no engine: the CPU copies\n");
	release(is_unwanted, NULL, DCBM_MAX_LANES);
	nr = count(is_sound, NULL);
	if (channels && nr > channels)
		release(is_sound, NULL, nr - channels);
	acquire();
}

static void rescan(struct work_struct *work)
{
	guard(mutex)(&dcbm_mutex);
	reconsider();
}

static void set(bool *state, bool on)
{
	guard(mutex)(&dcbm_mutex);
	WRITE_ONCE(*state, on);
	reconsider();
}

/*
 * Hold all available channels and future ones, or none. Call it outside of all
 * locks that providers take.
 */
void dcbm_routed(struct migrator *migrator, bool routed)
{
	set(&wanted, routed);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_routed);

/*
 * Release a channel whose provider is being removed: the provider is stopped after
 * this returns, which also stops quarantined channels.
 */
static void channel_leaves(const struct dma_chan *chan)
{
	const unsigned long end = jiffies + DCBM_LEAVE;

	do {
		release(is_of_channel, chan, 1);
		/* Somebody else may just have requested it, or be releasing it. */
	} while (!wait_event_timeout(lane_returned,
				     /* Pairs with the release in acquire(). */
				     !smp_load_acquire(&acquiring) &&
				     !count(is_of_channel, chan), HZ / 10) &&
		 time_before(jiffies, end));
}

static int channel_event(struct notifier_block *nb, unsigned long event,
			 void *chan)
{
	if (event == DMA_CHAN_REMOVING)
		channel_leaves(chan);
	/* Another channel may take its place. */
	mod_delayed_work(system_percpu_wq, &rescan_work, DCBM_SETTLE);
	return NOTIFY_OK;
}

static struct notifier_block channel_notifier = {
	.notifier_call = channel_event,
};

/* No engine may write to memory that the next kernel owns. */
VISIBLE_IF_KUNIT int dcbm_reboot_event(struct notifier_block *nb,
				       unsigned long event, void *data)
{
	set(&asleep, true);
	return NOTIFY_DONE;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_reboot_event);

static struct notifier_block reboot_notifier = {
	.notifier_call = dcbm_reboot_event,
};

/* A suspended engine copies nothing and may lose the state of its channels. */
VISIBLE_IF_KUNIT int dcbm_pm_event(struct notifier_block *nb,
				   unsigned long event, void *data)
{
	bool sleep = event == PM_SUSPEND_PREPARE ||
		     event == PM_HIBERNATION_PREPARE ||
		     event == PM_RESTORE_PREPARE;

	set(&asleep, sleep);
	return NOTIFY_DONE;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_pm_event);

static struct notifier_block pm_notifier = {
	.notifier_call = dcbm_pm_event,
};

static const char *states_of(const struct dma_device *device)
{
	if (device->reliable_result)
		return device->reliable_terminate ? "result,terminate" : "result";
	return device->reliable_terminate ? "terminate" : "nothing";
}

static int channels_show(struct seq_file *m, void *v)
{
	struct dcbm_lane *lane;
	unsigned int i;

	guard(spinlock)(&dcbm_lock);

	seq_puts(m, "channel provider node state descriptors lists bytes errors timeouts states\n");
	for (i = 0; i < DCBM_MAX_LANES; i++) {
		lane = lane_by_id(i);
		if (!lane)
			continue;
		seq_printf(m, "%s %s %d %s %lu %lu %lu %lu %lu %s\n",
			   lane->name, lane->provider, dev_to_node(lane->dev),
			   lane->quarantined ? "quarantined" :
			   lane->job ? "busy" : "idle",
			   READ_ONCE(lane->descriptors), READ_ONCE(lane->lists),
			   READ_ONCE(lane->bytes), READ_ONCE(lane->errors),
			   READ_ONCE(lane->timeouts),
			   states_of(lane->chan->device));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(channels);

void dcbm_channels_init(void)
{
	/* These fail only if called twice. */
	dma_register_notifier(&channel_notifier);
	register_reboot_notifier(&reboot_notifier);
	register_pm_notifier(&pm_notifier);

	debugfs_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("channels", 0444, debugfs_dir, NULL,
			    &channels_fops);
}

/* Release all channels. No job exists, and none can start. */
void dcbm_channels_exit(void)
{
	debugfs_remove_recursive(debugfs_dir);
	unregister_pm_notifier(&pm_notifier);
	unregister_reboot_notifier(&reboot_notifier);
	/* For good: parameters stay writable until the module is gone. */
	set(&asleep, true);
	/* Quarantined ones as well, since no folio is lost. */
	release(is_any, NULL, DCBM_MAX_LANES);
	/* Until here a provider that goes must wait for its channels. */
	dma_unregister_notifier(&channel_notifier);
	cancel_delayed_work_sync(&rescan_work);
	/* No callback runs any more. */
	synchronize_rcu();
}
