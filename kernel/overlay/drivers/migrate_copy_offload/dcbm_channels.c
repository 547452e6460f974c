// SPDX-License-Identifier: GPL-2.0
/*
 * The channels that dcbm holds: acquiring them, handing them to jobs, and
 * releasing them. The administrator selects providers and the number of
 * channels; providers may appear and disappear at any time.
 *
 * release() removes an idle lane from the free list at once. It waits for a
 * busy lane until its job is done, and dcbm_put_job() then keeps the lane off
 * the free list. The lanes of a job never change while it runs.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/iommu-dma.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/reboot.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/swiotlb.h>
#include <linux/workqueue.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* An engine slower than this is considered hung. */
#define DCBM_MIN_BYTES_PER_MS	SZ_16K
#define DCBM_MAX_TIMEOUT_MS	(60 * 60 * 1000)

#define DCBM_MAX_SEGMENT_BYTES	SZ_1G
#define DCBM_PROVIDERS_SIZE	256

/*
 * Delay before a terminated channel is released and requested again. It doubles
 * up to 6.4 s, and starts over after a minute without a termination.
 */
#define DCBM_REOPEN_MS		100
#define DCBM_REOPEN_DOUBLINGS	6
#define DCBM_REOPEN_FORGET_S	60

/* A new channel is measured with this many small copies and one large copy. */
#define DCBM_SMALL		17
#define DCBM_LARGE_ORDER	6
#define DCBM_ROUNDS		3

/* Protects lanes[], nr_lanes, live, and channels, providers and exclusive. */
static DEFINE_MUTEX(dcbm_mutex);
static struct dcbm_lane *lanes[DCBM_MAX_LANES];
static unsigned int nr_lanes;
static bool live;

/* By these, callbacks find the lane of a token. */
struct dcbm_lane __rcu *dcbm_by_id[DCBM_MAX_LANES];
static unsigned long last_uses[DCBM_MAX_LANES];

/* Protects the free lists and the assignment of lanes and jobs. */
static DEFINE_SPINLOCK(dcbm_lock);
static LIST_HEAD(free_lanes);
static unsigned int nr_free_lanes;
static LIST_HEAD(free_jobs);
static struct dcbm_job *jobs;

/* Woken when a job returns a lane that is to be released. */
static DECLARE_WAIT_QUEUE_HEAD(lane_returned);

static void rescan(struct work_struct *work);
static DECLARE_WORK(rescan_work, rescan);
static DECLARE_DELAYED_WORK(reopen_work, rescan);
static struct dentry *debugfs_dir;

static bool segments = true;
module_param(segments, bool, 0644);
MODULE_PARM_DESC(segments, "Cut folios so that one large folio can use several channels (default: Y)");

static unsigned int channels;
static char providers[DCBM_PROVIDERS_SIZE];
static bool exclusive;

typedef bool (*lane_filter)(const struct dcbm_lane *lane, const void *arg);

static bool is_sound(const struct dcbm_lane *lane, const void *arg);
static void release(lane_filter filter, const void *arg);
static void reconsider(void);

static int set_channels(const char *val, const struct kernel_param *kp)
{
	int error;

	scoped_guard(mutex, &dcbm_mutex)
		error = param_set_uint_minmax(val, kp, 0, DCBM_MAX_LANES);
	if (!error)
		reconsider();
	return error;
}

static const struct kernel_param_ops channels_ops = {
	.set = set_channels,
	.get = param_get_uint,
};
module_param_cb(channels, &channels_ops, &channels, 0644);
MODULE_PARM_DESC(channels, "Maximum number of channels to hold, 0 to 64 (default: 0 = all available, up to 64)");

static int set_providers(const char *val, const struct kernel_param *kp)
{
	if (strlen(val) >= DCBM_PROVIDERS_SIZE)
		return -ENOSPC;

	scoped_guard(mutex, &dcbm_mutex) {
		strscpy(providers, skip_spaces(val));
		strim(providers);
	}
	reconsider();
	return 0;
}

static int get_providers(char *buf, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	return sysfs_emit(buf, "%s\n", providers);
}

static const struct kernel_param_ops providers_ops = {
	.set = set_providers,
	.get = get_providers,
};
module_param_cb(providers, &providers_ops, NULL, 0644);
MODULE_PARM_DESC(providers, "Comma-separated drivers or devices whose channels to hold; \"none\" for none (default: all that serve no peripherals)");

/* A channel must be released before it can be acquired in the other mode. */
static int set_exclusive(const char *val, const struct kernel_param *kp)
{
	int error;

	scoped_guard(mutex, &dcbm_mutex) {
		error = param_set_bool(val, kp);
		if (!error && live)
			release(is_sound, NULL);
	}
	if (!error)
		reconsider();
	return error;
}

static const struct kernel_param_ops exclusive_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = set_exclusive,
	.get = param_get_bool,
};
module_param_cb(exclusive, &exclusive_ops, &exclusive, 0644);
MODULE_PARM_DESC(exclusive, "Take exclusive hold of unused public channels so that they can be terminated (default: N)");

static int set_timeout_ms(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, DCBM_MAX_TIMEOUT_MS);
}

static const struct kernel_param_ops timeout_ms_ops = {
	.set = set_timeout_ms,
	.get = param_get_uint,
};

static unsigned int timeout_ms = 1000;
module_param_cb(timeout_ms, &timeout_ms_ops, &timeout_ms, 0644);
MODULE_PARM_DESC(timeout_ms, "Time-out of a batch in milliseconds, 1 to 3600000, plus 1 ms per 16 KB (default: 1000)");

static int set_segment_bytes(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, DCBM_MAX_SEGMENT_BYTES);
}

static const struct kernel_param_ops segment_bytes_ops = {
	.set = set_segment_bytes,
	.get = param_get_uint,
};

static unsigned int segment_bytes;
module_param_cb(segment_bytes, &segment_bytes_ops, &segment_bytes, 0644);
MODULE_PARM_DESC(segment_bytes, "Fewest bytes worth using one more channel, up to 1 GB (default: 0 = measure)");

/**
 * dcbm_timeout() - return the time limit of a copy
 * @bytes: number of bytes to copy
 *
 * Return: the limit in jiffies, never 0
 */
unsigned long dcbm_timeout(size_t bytes)
{
	return msecs_to_jiffies(READ_ONCE(timeout_ms) +
				bytes / DCBM_MIN_BYTES_PER_MS);
}

static void give_lane(struct dcbm_job *job, struct dcbm_lane *lane)
{
	lockdep_assert_held(&dcbm_lock);

	WRITE_ONCE(lane->job, job);
	list_move_tail(&lane->node, &job->lanes);
}

static struct dcbm_job *give_job(void)
{
	struct dcbm_job *job;

	lockdep_assert_held(&dcbm_lock);

	job = list_first_entry_or_null(&free_jobs, struct dcbm_job, node);
	if (job)
		list_del_init(&job->node);
	return job;
}

static bool is_near(const struct dcbm_lane *lane, int src_nid, int dst_nid)
{
	const int nid = dev_to_node(lane->dev);

	return nid == NUMA_NO_NODE || nid == src_nid || nid == dst_nid;
}

/**
 * dcbm_get_job() - get a job with as many free channels as the batch can use
 * @batch: the batch to copy
 *
 * Channels near the source or destination node of the first folio are preferred.
 *
 * Return: the job, or NULL if no job or no channel is free.
 */
struct dcbm_job *dcbm_get_job(const struct migrate_copy_batch *batch)
{
	const int src_nid = folio_nid(batch->pairs[0].src);
	const int dst_nid = folio_nid(batch->pairs[0].dst);
	struct dcbm_lane *lane, *next;
	struct dcbm_job *job;
	unsigned int n;

	guard(spinlock)(&dcbm_lock);

	if (list_empty(&free_lanes))
		return NULL;
	job = give_job();
	if (!job)
		return NULL;

	lane = list_first_entry(&free_lanes, struct dcbm_lane, node);
	job->whole = !READ_ONCE(segments);
	if (job->whole)
		n = min(batch->nr_pairs, nr_free_lanes);
	else
		n = dcbm_nr_lanes(batch->nr_pages * PAGE_SIZE,
				  READ_ONCE(segment_bytes) ?:
				  lane->segment_bytes, nr_free_lanes);
	nr_free_lanes -= n;

	list_for_each_entry_safe(lane, next, &free_lanes, node) {
		if (!n)
			break;
		if (is_near(lane, src_nid, dst_nid)) {
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

/**
 * dcbm_get_job_on() - get a job that uses one given channel
 * @lane: the channel, which must not be on the free list
 *
 * Return: the job, or NULL if none is free.
 */
struct dcbm_job *dcbm_get_job_on(struct dcbm_lane *lane)
{
	struct dcbm_job *job;

	guard(spinlock)(&dcbm_lock);

	job = give_job();
	if (job) {
		job->whole = false;
		give_lane(job, lane);
	}
	return job;
}

/*
 * Some drivers leave a terminated channel dead until it is released, so release
 * it and request it again. A channel that is dead for another reason costs one
 * time-out per attempt: back off.
 */
static void reopen_later(void)
{
	static unsigned long last;
	static unsigned int doublings;
	unsigned int delay;

	scoped_guard(spinlock, &dcbm_lock) {
		if (time_after(jiffies, last + DCBM_REOPEN_FORGET_S * HZ))
			doublings = 0;
		delay = DCBM_REOPEN_MS << doublings;
		if (schedule_delayed_work(&reopen_work, msecs_to_jiffies(delay)) &&
		    doublings < DCBM_REOPEN_DOUBLINGS)
			doublings++;
		last = jiffies;
	}
}

/**
 * dcbm_put_job() - return a job and its channels
 * @job: the job; only its quarantined channels may have anything in flight
 */
void dcbm_put_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane, *next;
	bool wake = false, reopen = false;

	scoped_guard(spinlock, &dcbm_lock) {
		list_for_each_entry_safe(lane, next, &job->lanes, node) {
			WRITE_ONCE(lane->job, NULL);
			if (lane->quarantined || lane->retiring ||
			    lane->terminated) {
				list_del_init(&lane->node);
				wake |= lane->retiring;
				reopen |= lane->terminated;
				continue;
			}
			list_move_tail(&lane->node, &free_lanes);
			nr_free_lanes++;
		}
		list_add(&job->node, &free_jobs);
	}
	if (wake)
		wake_up_all(&lane_returned);
	if (reopen)
		reopen_later();
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

/* Leave providers that also serve peripherals alone unless the user names them. */
static bool allowed(const struct dma_chan *chan)
{
	const char *name;

	lockdep_assert_held(&dcbm_mutex);

	if (!*providers)
		return !dma_has_cap(DMA_SLAVE, chan->device->cap_mask);

	for (name = providers; *name; name += *name == ',') {
		name = skip_spaces(name);
		if (names_device(name, chan->device->dev))
			return true;
		name += strcspn(name, ",");
	}
	return false;
}

static struct dcbm_lane *lane_of(const struct dma_chan *chan)
{
	unsigned int i;

	lockdep_assert_held(&dcbm_mutex);

	for (i = 0; i < nr_lanes; i++)
		if (lanes[i]->chan == chan)
			return lanes[i];
	return NULL;
}

static bool may_have(struct dma_chan *chan, void *unused)
{
	return allowed(chan) &&
	       (exclusive || dma_has_cap(DMA_PRIVATE, chan->device->cap_mask));
}

/* A public channel can be acquired repeatedly: skip those already held. */
static bool may_share(struct dma_chan *chan, void *unused)
{
	return allowed(chan) && !lane_of(chan);
}

static struct dma_chan *get_channel(bool *shared)
{
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);

	*shared = false;
	chan = dma_request_channel(mask, may_have, NULL);
	if (chan || exclusive)
		return chan;

	*shared = true;
	return dma_get_public_channel(&mask, may_share, NULL);
}

static void put_channel(struct dcbm_lane *lane)
{
	if (lane->shared)
		dma_put_public_channel(lane->chan);
	else
		dma_release_channel(lane->chan);
}

/* Determine which memory the engine can access without a bounce buffer. */
static void find_reach(struct dcbm_lane *lane)
{
	struct device *dev = lane->dev;

	lane->reach = U64_MAX;
	if (get_dma_ops(dev) || use_dma_iommu(dev))
		return;

	if (is_swiotlb_force_bounce(dev)) {
		lane->limited = true;
		lane->reach = 0;
	} else if (dma_addressing_limited(dev)) {
		lane->limited = true;
		lane->reach = min_not_zero(dma_get_mask(dev),
					   dev->bus_dma_limit);
	}
}

static struct dcbm_lane *alloc_lane(struct dma_chan *chan, bool shared)
{
	struct device *dev = dmaengine_get_dma_device(chan);
	struct dcbm_lane *lane;
	unsigned int i;

	lane = kvzalloc_node(sizeof(*lane), GFP_KERNEL, dev_to_node(dev));
	if (!lane)
		return NULL;

	INIT_LIST_HEAD(&lane->node);
	lane->chan = chan;
	lane->dev = dev;
	lane->shared = shared;
	lane->offers_sg = dma_has_cap(DMA_MEMCPY_SG, chan->device->cap_mask);
	strscpy(lane->name, dma_chan_name(chan));
	strscpy(lane->provider, dev_driver_string(chan->device->dev));
	sg_init_table(lane->src_sg, DCBM_MAX_ENTRIES);
	sg_init_table(lane->dst_sg, DCBM_MAX_ENTRIES);
	lane->nents = DCBM_MAX_ENTRIES;
	lane->nr_free = ARRAY_SIZE(lane->slots);
	while (rcu_access_pointer(dcbm_by_id[lane->id]))
		lane->id++;
	for (i = 0; i < lane->nr_free; i++) {
		lane->slots[i].lane = lane;
		lane->free[i] = &lane->slots[i];
	}
	find_reach(lane);
	/* A new lane goes on where the last one with this id ended. */
	lane->uses = last_uses[lane->id];
	rcu_assign_pointer(dcbm_by_id[lane->id], lane);

	return lane;
}

/* Copy @nr pairs from index @first on. Return the time in ns, 0 on failure. */
static u64 time_of(struct dcbm_lane *lane, struct migrate_copy_batch *batch,
		   unsigned int first, unsigned int nr)
{
	ktime_t begin;
	unsigned int i;
	bool done;
	u64 ns;

	swap(batch->pairs[0], batch->pairs[first]);
	batch->nr_pairs = nr;
	batch->nr_pages = 0;
	for (i = 0; i < nr; i++) {
		batch->pairs[i].status = MIGRATE_COPY_PENDING;
		batch->nr_pages += folio_nr_pages(batch->pairs[i].src);
	}

	begin = ktime_get();
	done = !dcbm_run_on_lane(lane, batch);
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	for (i = 0; i < nr; i++)
		done &= batch->pairs[i].status == MIGRATE_COPY_DONE;

	swap(batch->pairs[0], batch->pairs[first]);
	return done ? max(ns, 1) : 0;
}

static bool add_scratch(struct migrate_copy_batch *batch, unsigned int order)
{
	struct migrate_copy_pair *pair = &batch->pairs[batch->nr_pairs++];

	pair->src = folio_alloc(GFP_KERNEL | __GFP_NOWARN, order);
	pair->dst = folio_alloc(GFP_KERNEL | __GFP_NOWARN, order);
	return pair->src && pair->dst;
}

static void free_scratch(struct migrate_copy_batch *batch)
{
	unsigned int i;

	for (i = 0; i < DCBM_SMALL + 1; i++) {
		if (batch->pairs[i].src)
			folio_put(batch->pairs[i].src);
		if (batch->pairs[i].dst)
			folio_put(batch->pairs[i].dst);
	}
}

static void measure_with(struct dcbm_lane *lane,
			 struct migrate_copy_batch *batch)
{
	u64 one = U64_MAX, many = U64_MAX, large = U64_MAX;
	unsigned int i;
	bool ok = true;

	for (i = 0; i < DCBM_SMALL && ok; i++)
		ok = add_scratch(batch, 0);
	ok = ok && add_scratch(batch, DCBM_LARGE_ORDER);

	/* Take the minimum: disturbances only make a copy slower. */
	for (i = 0; i < DCBM_ROUNDS && ok; i++) {
		u64 times[3] = {
			time_of(lane, batch, 0, 1),
			time_of(lane, batch, 0, DCBM_SMALL),
			time_of(lane, batch, DCBM_SMALL, 1),
		};

		one = min(one, times[0]);
		many = min(many, times[1]);
		large = min(large, times[2]);
		ok = times[0] && times[1] && times[2];
	}

	lane->segment_bytes = dcbm_worthwhile(ok ? one : 0, ok ? many : 0,
					      DCBM_SMALL, ok ? large : 0,
					      PAGE_SIZE,
					      PAGE_SIZE << DCBM_LARGE_ORDER);
}

/*
 * All channels of a provider cost the same, so measure only the first one. If
 * the measurement hangs, the channel may still write to the scratch folios: leak
 * them, and pin the module.
 */
static void measure(struct dcbm_lane *lane)
{
	struct migrate_copy_batch *batch;
	unsigned int i;

	for (i = 0; i < nr_lanes; i++) {
		if (!strcmp(lanes[i]->provider, lane->provider)) {
			lane->segment_bytes = lanes[i]->segment_bytes;
			return;
		}
	}

	lane->segment_bytes = dcbm_worthwhile(0, 0, 0, 0, 0, 0);
	batch = kvzalloc_obj(*batch);
	if (!batch)
		return;

	/* Keep dcbm_put_job() from adding the lane to the free list. */
	lane->retiring = true;
	measure_with(lane, batch);
	lane->retiring = false;
	if (lane->quarantined)
		__module_get(THIS_MODULE);
	else
		free_scratch(batch);
	kvfree(batch);
}

/* Quarantined lanes are unusable and do not count. */
static unsigned int nr_sound_lanes(void)
{
	unsigned int i, nr = 0;

	for (i = 0; i < nr_lanes; i++)
		nr += !lanes[i]->quarantined;
	return nr;
}

static struct dcbm_lane *last_sound_lane(void)
{
	unsigned int i = nr_lanes;

	while (i--)
		if (!lanes[i]->quarantined)
			return lanes[i];
	return NULL;
}

static void acquire(void)
{
	lockdep_assert_held(&dcbm_mutex);

	while (nr_lanes < DCBM_MAX_LANES &&
	       nr_sound_lanes() < (channels ?: DCBM_MAX_LANES)) {
		struct dcbm_lane *lane;
		struct dma_chan *chan;
		bool shared;

		chan = get_channel(&shared);
		if (!chan)
			return;

		lane = alloc_lane(chan, shared);
		if (!lane) {
			if (shared)
				dma_put_public_channel(chan);
			else
				dma_release_channel(chan);
			pr_err("no memory for a channel\n");
			return;
		}

		measure(lane);
		lanes[nr_lanes++] = lane;
		/* reopen_work releases a terminated lane and requests it again. */
		if (lane->quarantined || lane->terminated)
			continue;
		guard(spinlock)(&dcbm_lock);
		list_add_tail(&lane->node, &free_lanes);
		nr_free_lanes++;
	}
}

/* After this no job can get the lane. */
static void retire(struct dcbm_lane *lane)
{
	guard(spinlock)(&dcbm_lock);

	lane->retiring = true;
	if (!lane->job && !list_empty(&lane->node)) {
		list_del_init(&lane->node);
		nr_free_lanes--;
	}
}

/*
 * Release the lanes that @filter selects: wait until no job has them, and free
 * them after a grace period, when their callbacks can no longer run.
 */
static void release(lane_filter filter, const void *arg)
{
	struct dcbm_lane *gone[DCBM_MAX_LANES];
	unsigned int i, nr_gone = 0, nr_kept = 0;

	lockdep_assert_held(&dcbm_mutex);

	for (i = 0; i < nr_lanes; i++) {
		if (filter(lanes[i], arg)) {
			retire(lanes[i]);
			gone[nr_gone++] = lanes[i];
		} else {
			lanes[nr_kept++] = lanes[i];
		}
	}
	nr_lanes = nr_kept;
	if (!nr_gone)
		return;

	for (i = 0; i < nr_gone; i++) {
		wait_event(lane_returned, !READ_ONCE(gone[i]->job));
		put_channel(gone[i]);
		last_uses[gone[i]->id] = gone[i]->uses;
		RCU_INIT_POINTER(dcbm_by_id[gone[i]->id], NULL);
	}

	synchronize_rcu();
	for (i = 0; i < nr_gone; i++)
		/* A quarantined channel may still call back: leak its lane. */
		if (!gone[i]->quarantined)
			kvfree(gone[i]);
}

static bool is_unwanted(const struct dcbm_lane *lane, const void *arg)
{
	return !lane->quarantined && !allowed(lane->chan);
}

static bool is_spent(const struct dcbm_lane *lane, const void *arg)
{
	return !lane->quarantined && !READ_ONCE(lane->job) && lane->terminated;
}

static bool is_sound(const struct dcbm_lane *lane, const void *arg)
{
	return !lane->quarantined;
}

static bool is_lane(const struct dcbm_lane *lane, const void *arg)
{
	return lane == arg;
}

static bool is_any(const struct dcbm_lane *lane, const void *arg)
{
	return true;
}

/* Adapt to changed parameters, and to providers that came or went. */
static void reconsider(void)
{
	guard(mutex)(&dcbm_mutex);

	if (!live)
		return;

	release(is_unwanted, NULL);
	release(is_spent, NULL);
	while (channels && nr_sound_lanes() > channels)
		release(is_lane, last_sound_lane());
	acquire();
}

static void rescan(struct work_struct *work)
{
	reconsider();
}

/*
 * A new provider may not be ready before its probe function returns, so acquire
 * its channels from a work item. A provider that is being removed is stopped
 * after this returns, which also stops its quarantined channels.
 */
static int channel_event(struct notifier_block *nb, unsigned long event,
			 void *data)
{
	struct dcbm_lane *lane;

	if (event == DMA_CHAN_ADDED) {
		schedule_work(&rescan_work);
		return NOTIFY_OK;
	}

	guard(mutex)(&dcbm_mutex);
	lane = lane_of(data);
	if (lane)
		release(is_lane, lane);
	return NOTIFY_OK;
}

static struct notifier_block channel_notifier = {
	.notifier_call = channel_event,
};

/**
 * dcbm_reboot_event() - stop copying before a reboot
 * @nb: unused
 * @event: unused
 * @data: unused
 *
 * No engine may write to memory that the next kernel owns. The channels stay
 * held, so that no other client starts anything on them.
 *
 * Return: NOTIFY_DONE
 */
VISIBLE_IF_KUNIT int dcbm_reboot_event(struct notifier_block *nb,
				       unsigned long event, void *data)
{
	unsigned int i;

	guard(mutex)(&dcbm_mutex);

	live = false;
	for (i = 0; i < nr_lanes; i++)
		retire(lanes[i]);
	for (i = 0; i < nr_lanes; i++) {
		wait_event(lane_returned, !READ_ONCE(lanes[i]->job));
		if (!lanes[i]->shared)
			dmaengine_terminate_sync(lanes[i]->chan);
	}
	return NOTIFY_DONE;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_reboot_event);

static struct notifier_block reboot_notifier = {
	.notifier_call = dcbm_reboot_event,
};

/**
 * dcbm_pm_event() - release channels before sleep and acquire them afterwards
 * @nb: unused
 * @event: the power transition that is about to happen or has happened
 * @data: unused
 *
 * A suspended engine copies nothing and may lose the state of its channels.
 *
 * Return: NOTIFY_DONE
 */
VISIBLE_IF_KUNIT int dcbm_pm_event(struct notifier_block *nb,
				   unsigned long event, void *data)
{
	guard(mutex)(&dcbm_mutex);

	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		live = false;
		release(is_sound, NULL);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		live = true;
		schedule_work(&rescan_work);
		break;
	}
	return NOTIFY_DONE;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_pm_event);

static struct notifier_block pm_notifier = {
	.notifier_call = dcbm_pm_event,
};

static int channels_show(struct seq_file *m, void *v)
{
	unsigned int i;

	guard(mutex)(&dcbm_mutex);

	seq_puts(m, "channel provider kind node state segment_bytes descriptors lists bytes errors timeouts\n");
	for (i = 0; i < nr_lanes; i++) {
		const struct dcbm_lane *lane = lanes[i];

		seq_printf(m, "%s %s %s %d %s %u %lu %lu %lu %lu %lu\n",
			   lane->name, lane->provider,
			   lane->shared ? "public" : "private",
			   dev_to_node(lane->dev),
			   lane->quarantined ? "quarantined" :
			   READ_ONCE(lane->job) ? "busy" : "idle",
			   lane->segment_bytes, READ_ONCE(lane->descriptors),
			   READ_ONCE(lane->lists), READ_ONCE(lane->bytes),
			   READ_ONCE(lane->errors), READ_ONCE(lane->timeouts));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(channels);

/**
 * dcbm_channels_init() - acquire all available channels, and future ones
 *
 * Return: 0 or a negative errno
 */
int dcbm_channels_init(void)
{
	unsigned int i;
	int error;

	jobs = kvcalloc(DCBM_MAX_JOBS, sizeof(*jobs), GFP_KERNEL);
	if (!jobs)
		return -ENOMEM;
	for (i = 0; i < DCBM_MAX_JOBS; i++) {
		dcbm_init_job(&jobs[i]);
		list_add_tail(&jobs[i].node, &free_jobs);
	}

	error = dma_register_notifier(&channel_notifier);
	if (error)
		goto free_jobs;
	error = register_reboot_notifier(&reboot_notifier);
	if (error)
		goto unregister;
	error = register_pm_notifier(&pm_notifier);
	if (error)
		goto unregister_reboot;

	scoped_guard(mutex, &dcbm_mutex) {
		live = true;
		acquire();
		pr_info("%u channels\n", nr_lanes);
	}

	debugfs_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("channels", 0444, debugfs_dir, NULL,
			    &channels_fops);
	return 0;

unregister_reboot:
	unregister_reboot_notifier(&reboot_notifier);
unregister:
	dma_unregister_notifier(&channel_notifier);
	cancel_work_sync(&rescan_work);
free_jobs:
	kvfree(jobs);
	return error;
}

/**
 * dcbm_channels_exit() - release all channels
 *
 * Call it when no job exists and none can start.
 */
void dcbm_channels_exit(void)
{
	debugfs_remove_recursive(debugfs_dir);
	unregister_pm_notifier(&pm_notifier);
	unregister_reboot_notifier(&reboot_notifier);
	dma_unregister_notifier(&channel_notifier);
	scoped_guard(mutex, &dcbm_mutex) {
		/* Parameters stay writable until the module is gone. */
		live = false;
		release(is_any, NULL);
	}
	cancel_delayed_work_sync(&reopen_work);
	cancel_work_sync(&rescan_work);
	kvfree(jobs);
}
