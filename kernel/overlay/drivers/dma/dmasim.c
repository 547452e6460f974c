// SPDX-License-Identifier: GPL-2.0-only
/*
 * dmasim - a dmaengine memcpy provider made of software, whose threads copy
 *
 * See Documentation/driver-api/dmaengine/dmasim.rst.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/fault-inject.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "virt-dma.h"

#define DMASIM_MAX_CHANNELS	256
#define DMASIM_MAX_RING_DEPTH	1024
#define DMASIM_MAX_DEVICES	8

/* Bytes copied between two looks at whether the descriptor was terminated */
#define DMASIM_BURST		SZ_64K

/* How long a descriptor that is out of order lets those behind it go ahead */
#define DMASIM_ASIDE_MS		20

/* Cookies remembered as failed: all that one terminate takes fit in */
#define DMASIM_FAILED_COOKIES	DMASIM_MAX_RING_DEPTH

static unsigned int channels = 4;
module_param(channels, uint, 0444);
MODULE_PARM_DESC(channels, "Number of channels, 1 to 256 (default: 4)");

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "Number of engines, each with as many channels, 1 to 8 (default: 1)");

static int node[DMASIM_MAX_DEVICES] = {
	[0 ... DMASIM_MAX_DEVICES - 1] = NUMA_NO_NODE
};
module_param_array(node, int, NULL, 0444);
MODULE_PARM_DESC(node, "NUMA node of each engine (default: none)");

static bool offer_public;
module_param_named(public, offer_public, bool, 0444);
MODULE_PARM_DESC(public, "Offer public channels instead of private ones (default: N)");

static bool can_stop = true;
module_param(can_stop, bool, 0444);
MODULE_PARM_DESC(can_stop, "Let clients know whether a channel has stopped (default: Y)");

static unsigned int dma_bits = 64;
module_param(dma_bits, uint, 0444);
MODULE_PARM_DESC(dma_bits, "Bits of an address that the engine reaches, 24 to 64 (default: 64)");

static unsigned int ring_depth = 64;
module_param(ring_depth, uint, 0444);
MODULE_PARM_DESC(ring_depth, "Descriptors of a channel, 1 to 1024 (default: 64)");

static unsigned int max_bytes;
module_param(max_bytes, uint, 0444);
MODULE_PARM_DESC(max_bytes, "Longest descriptor that prep accepts (default: 0, no limit)");

static unsigned int latency_ns;
module_param(latency_ns, uint, 0644);
MODULE_PARM_DESC(latency_ns, "Time that a descriptor takes besides its copy, in ns (default: 0)");

static unsigned int late_ms = 200;
module_param(late_ms, uint, 0644);
MODULE_PARM_DESC(late_ms, "How much later a late descriptor copies and completes, in ms (default: 200)");

/* In the order in which they are decided for a descriptor */
enum dmasim_fault {
	DMASIM_PREP_NULL,
	DMASIM_SUBMIT_ERROR,
	/* the bytes that are copied, and the result that the client gets */
	DMASIM_RESULT_ERROR,
	DMASIM_STATUS_ERROR,
	DMASIM_SHORT_COPY,
	DMASIM_NO_COPY,
	DMASIM_WRONG_BYTE,
	/* when it is executed */
	DMASIM_NEVER_COMPLETE,
	DMASIM_LATE,
	DMASIM_OUT_OF_ORDER,
	DMASIM_TERMINATE_ERROR,
	DMASIM_CALL_TWICE,
	DMASIM_NO_FAULT
};

static const char * const dmasim_fault_names[DMASIM_NO_FAULT] = {
	"prep_null", "submit_error", "result_error", "status_error", "short_copy",
	"no_copy", "wrong_byte", "never_complete", "late", "out_of_order",
	"terminate_error", "call_twice",
};

static struct fault_attr dmasim_faults[DMASIM_NO_FAULT] = {
	[0 ... DMASIM_NO_FAULT - 1] = FAULT_ATTR_INITIALIZER
};

/**
 * struct dmasim_desc - one copy
 * @vd: the descriptor that the client and virt-dma know
 * @dst: where to
 * @src: where from
 * @len: how much
 * @copied: how much is done; written by the worker alone
 * @outcome: decided when it is submitted: DMASIM_RESULT_ERROR to
 *	DMASIM_WRONG_BYTE, or DMASIM_NO_FAULT
 * @turn: decided when it is submitted: DMASIM_NEVER_COMPLETE to
 *	DMASIM_OUT_OF_ORDER, or DMASIM_NO_FAULT
 * @due: when to execute it; 0 until its turn comes, KTIME_MAX for never
 * @twice: call back once more after the first time
 * @terminated: the worker must stop copying, and free the descriptor
 *
 * A descriptor is always on exactly one list, by @vd.node: the channel's free
 * or waiting list, or one of virt-dma's. There are two exceptions, and both
 * last until the descriptor is freed: the active one belongs to the worker, and
 * a completed one whose callback runs belongs to virt-dma's tasklet.
 *
 * @vd.tx.cookie is the cookie from submission to completion, and 0 otherwise.
 */
struct dmasim_desc {
	struct virt_dma_desc	vd;
	dma_addr_t		dst;
	dma_addr_t		src;
	size_t			len;
	size_t			copied;
	enum dmasim_fault	outcome;
	enum dmasim_fault	turn;
	ktime_t			due;
	bool			twice;
	bool			terminated;
};

/**
 * struct dmasim_chan - a channel
 * @vc: the channel that dmaengine and virt-dma know; vc.lock protects all that
 *	follows
 * @ring: all descriptors of the channel, while it has a client
 * @free: those of them that prep may hand out
 * @waiting: those whose turn came, but which let others go ahead
 * @active: the one the worker copies at this moment, without the lock, or NULL
 * @again: the callback of one that is complete, to be called once more when the
 *	next ones are issued
 * @failed: cookies of descriptors that failed or were terminated
 * @nr_failed: how many cookies were ever put into @failed
 * @worker: the thread that executes descriptors, while there is a client
 * @work: execute what is due
 * @timer: queues @work when the next descriptor is due
 */
struct dmasim_chan {
	struct virt_dma_chan	vc;
	struct dmasim_desc	*ring;
	struct list_head	free;
	struct list_head	waiting;
	struct dmasim_desc	*active;
	struct dmaengine_desc_callback again;
	dma_cookie_t		failed[DMASIM_FAILED_COOKIES];
	unsigned int		nr_failed;
	struct kthread_worker	*worker;
	struct kthread_work	work;
	struct hrtimer		timer;
};

/* The engine */
struct dmasim {
	struct dma_device	dma;
	unsigned int		nr_chans;
	struct dmasim_chan	chans[] __counted_by(nr_chans);
};

static struct dmasim_chan *to_dmasim_chan(struct dma_chan *c)
{
	return container_of(c, struct dmasim_chan, vc.chan);
}

static struct dmasim_desc *to_dmasim_desc(struct virt_dma_desc *vd)
{
	return container_of(vd, struct dmasim_desc, vd);
}

/* The size is 1, so that "space" counts descriptors */
static bool dmasim_should_fail(enum dmasim_fault fault)
{
	return should_fail(&dmasim_faults[fault], 1);
}

/* Return the first fault of several that strikes */
static enum dmasim_fault dmasim_decide(enum dmasim_fault fault,
				       enum dmasim_fault last)
{
	for (; fault <= last; fault++)
		if (dmasim_should_fail(fault))
			return fault;
	return DMASIM_NO_FAULT;
}

static void dmasim_put_desc(struct dmasim_chan *chan, struct dmasim_desc *desc)
{
	lockdep_assert_held(&chan->vc.lock);

	desc->vd.tx.cookie = 0;
	/* at the end, so that the use of a stale descriptor shows */
	list_add_tail(&desc->vd.node, &chan->free);
}

static void dmasim_desc_free(struct virt_dma_desc *vd)
{
	struct dmasim_chan *chan = to_dmasim_chan(vd->tx.chan);

	/* does nothing for a descriptor that was executed */
	dma_descriptor_unmap(&vd->tx);

	guard(spinlock_irqsave)(&chan->vc.lock);
	if (to_dmasim_desc(vd)->twice)
		dmaengine_desc_get_callback(&vd->tx, &chan->again);
	dmasim_put_desc(chan, to_dmasim_desc(vd));
}

static void dmasim_set_failed(struct dmasim_chan *chan, dma_cookie_t cookie)
{
	lockdep_assert_held(&chan->vc.lock);

	chan->failed[chan->nr_failed++ % DMASIM_FAILED_COOKIES] = cookie;
}

static bool dmasim_has_failed(struct dmasim_chan *chan, dma_cookie_t cookie)
{
	unsigned int nr = min(chan->nr_failed, DMASIM_FAILED_COOKIES);

	lockdep_assert_held(&chan->vc.lock);

	for (unsigned int i = 0; i < nr; i++)
		if (chan->failed[i] == cookie)
			return true;
	return false;
}

/* Find the descriptor of a cookie that is submitted and not yet complete */
static struct dmasim_desc *dmasim_find_desc(struct dmasim_chan *chan,
					    dma_cookie_t cookie)
{
	lockdep_assert_held(&chan->vc.lock);

	for (unsigned int i = 0; i < ring_depth; i++)
		if (chan->ring[i].vd.tx.cookie == cookie)
			return &chan->ring[i];
	return NULL;
}

static dma_cookie_t dmasim_tx_submit(struct dma_async_tx_descriptor *tx)
{
	struct virt_dma_desc *vd = container_of(tx, struct virt_dma_desc, tx);
	struct dmasim_chan *chan = to_dmasim_chan(tx->chan);
	struct dmasim_desc *desc = to_dmasim_desc(vd);

	if (dmasim_should_fail(DMASIM_SUBMIT_ERROR)) {
		/* the client has no way to free it */
		scoped_guard(spinlock_irqsave, &chan->vc.lock)
			list_del(&vd->node);
		dmasim_desc_free(vd);
		return -EIO;
	}

	desc->outcome = dmasim_decide(DMASIM_RESULT_ERROR, DMASIM_WRONG_BYTE);
	desc->turn = dmasim_decide(DMASIM_NEVER_COMPLETE, DMASIM_OUT_OF_ORDER);
	return vchan_tx_submit(tx);
}

static struct dma_async_tx_descriptor *
dmasim_prep_dma_memcpy(struct dma_chan *c, dma_addr_t dst, dma_addr_t src,
		       size_t len, unsigned long tx_flags)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	struct dma_async_tx_descriptor *tx;
	struct dmasim_desc *desc;

	/* a residue has 32 bits */
	if (!len || len > (max_bytes ?: U32_MAX) ||
	    dmasim_should_fail(DMASIM_PREP_NULL))
		return NULL;

	scoped_guard(spinlock_irqsave, &chan->vc.lock) {
		desc = list_first_entry_or_null(&chan->free, struct dmasim_desc,
						vd.node);
		if (!desc)
			return NULL;
		list_del(&desc->vd.node);
	}

	/* forget the last use, above all its callback */
	memset(desc, 0, sizeof(*desc));
	desc->dst = dst;
	desc->src = src;
	desc->len = len;

	tx = vchan_tx_prep(&chan->vc, &desc->vd, tx_flags);
	tx->tx_submit = dmasim_tx_submit;
	return tx;
}

static void dmasim_copy(struct dmasim_chan *chan, struct dmasim_desc *desc)
{
	struct device *dev = chan->vc.chan.device->dev;
	size_t bytes = desc->len;

	if (desc->outcome == DMASIM_NO_COPY)
		bytes = 0;
	else if (desc->outcome <= DMASIM_SHORT_COPY)
		bytes /= 2;
	while (desc->copied < bytes && !READ_ONCE(desc->terminated)) {
		size_t burst = min(bytes - desc->copied, DMASIM_BURST);
		u8 *dst = phys_to_virt(dma_to_phys(dev, desc->dst + desc->copied));

		memcpy(dst, phys_to_virt(dma_to_phys(dev, desc->src + desc->copied)),
		       burst);
		if (desc->outcome == DMASIM_WRONG_BYTE && !desc->copied)
			dst[burst / 2] ^= 1;
		WRITE_ONCE(desc->copied, desc->copied + burst);
		cond_resched();
	}
}

/* Called with vc.lock held; drops it while it copies */
static void dmasim_execute(struct dmasim_chan *chan, struct dmasim_desc *desc)
	__must_hold(&chan->vc.lock)
{
	chan->active = desc;
	spin_unlock_irq(&chan->vc.lock);

	dmasim_copy(chan, desc);
	dma_descriptor_unmap(&desc->vd.tx);

	spin_lock_irq(&chan->vc.lock);
	chan->active = NULL;
	if (desc->terminated) {
		dmasim_put_desc(chan, desc);
		return;
	}

	desc->twice = dmasim_should_fail(DMASIM_CALL_TWICE);
	/* No residue of an error: a client has to look at the result itself. */
	if (desc->outcome == DMASIM_RESULT_ERROR)
		desc->vd.tx_result.result = DMA_TRANS_WRITE_FAILED;
	else if (desc->outcome == DMASIM_STATUS_ERROR)
		dmasim_set_failed(chan, desc->vd.tx.cookie);
	else if (desc->outcome == DMASIM_SHORT_COPY)
		desc->vd.tx_result.residue = desc->len - desc->copied;
	vchan_cookie_complete(&desc->vd);
}

/* Schedule the first issued descriptor, whose turn it is, or put it aside */
static void dmasim_start(struct dmasim_chan *chan, struct dmasim_desc *desc,
			 ktime_t now)
{
	lockdep_assert_held(&chan->vc.lock);

	switch (desc->turn) {
	case DMASIM_NEVER_COMPLETE:
		desc->due = KTIME_MAX;
		break;
	case DMASIM_LATE:
		desc->due = ktime_add_ms(now, READ_ONCE(late_ms));
		break;
	case DMASIM_OUT_OF_ORDER:
		desc->due = ktime_add_ms(now, DMASIM_ASIDE_MS);
		break;
	default:
		desc->due = ktime_add_ns(now, READ_ONCE(latency_ns));
		return;
	}
	list_move_tail(&desc->vd.node, &chan->waiting);
}

/* Take the next descriptor that is due. If none is, @wake is the time to look again. */
static struct dmasim_desc *dmasim_next_due(struct dmasim_chan *chan,
					   ktime_t *wake)
{
	struct virt_dma_desc *vd;
	struct dmasim_desc *desc;
	ktime_t now = ktime_get();

	lockdep_assert_held(&chan->vc.lock);

	while ((vd = vchan_next_desc(&chan->vc)) && !to_dmasim_desc(vd)->due)
		dmasim_start(chan, to_dmasim_desc(vd), now);

	*wake = KTIME_MAX;
	list_for_each_entry(desc, &chan->waiting, vd.node) {
		if (desc->due <= now)
			goto take;
		*wake = min(*wake, desc->due);
	}
	if (vd) {
		desc = to_dmasim_desc(vd);
		if (desc->due <= now)
			goto take;
		*wake = min(*wake, desc->due);
	}
	return NULL;

take:
	list_del(&desc->vd.node);
	return desc;
}

/* Called with vc.lock held; drops it while it calls */
static void dmasim_call_again(struct dmasim_chan *chan)
	__must_hold(&chan->vc.lock)
{
	struct dmaengine_desc_callback again = chan->again;

	if (!dmaengine_desc_callback_valid(&again))
		return;

	memset(&chan->again, 0, sizeof(chan->again));
	spin_unlock_irq(&chan->vc.lock);
	/* as in a tasklet */
	local_bh_disable();
	dmaengine_desc_callback_invoke(&again, NULL);
	local_bh_enable();
	spin_lock_irq(&chan->vc.lock);
}

static void dmasim_work(struct kthread_work *work)
{
	struct dmasim_chan *chan = container_of(work, struct dmasim_chan, work);
	struct dmasim_desc *desc;
	ktime_t wake;

	spin_lock_irq(&chan->vc.lock);
	dmasim_call_again(chan);
	while ((desc = dmasim_next_due(chan, &wake)))
		dmasim_execute(chan, desc);
	if (wake != KTIME_MAX)
		hrtimer_start(&chan->timer, wake, HRTIMER_MODE_ABS);
	spin_unlock_irq(&chan->vc.lock);
}

static enum hrtimer_restart dmasim_timer(struct hrtimer *timer)
{
	struct dmasim_chan *chan = container_of(timer, struct dmasim_chan, timer);

	kthread_queue_work(chan->worker, &chan->work);
	return HRTIMER_NORESTART;
}

static void dmasim_issue_pending(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);

	guard(spinlock_irqsave)(&chan->vc.lock);
	if (vchan_issue_pending(&chan->vc))
		kthread_queue_work(chan->worker, &chan->work);
}

/* Descriptors may complete out of order: look at this cookie alone. */
static enum dma_status dmasim_tx_status(struct dma_chan *c, dma_cookie_t cookie,
					struct dma_tx_state *state)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	struct dmasim_desc *desc;

	/* the return value of a failed submit */
	if (cookie < DMA_MIN_COOKIE)
		return DMA_ERROR;

	dma_cookie_status(c, cookie, state);

	guard(spinlock_irqsave)(&chan->vc.lock);
	desc = dmasim_find_desc(chan, cookie);
	if (desc) {
		dma_set_residue(state, desc->len - READ_ONCE(desc->copied));
		return DMA_IN_PROGRESS;
	}
	return dmasim_has_failed(chan, cookie) ? DMA_ERROR : DMA_COMPLETE;
}

/*
 * Take back every descriptor, including prepared ones. The worker may still be
 * copying the active one, and the tasklet may be running callbacks:
 * dmasim_synchronize() waits for both.
 */
static void dmasim_stop(struct dmasim_chan *chan)
{
	struct virt_dma_desc *vd;
	LIST_HEAD(head);

	scoped_guard(spinlock_irqsave, &chan->vc.lock) {
		vchan_get_all_descriptors(&chan->vc, &head);
		list_splice_tail_init(&chan->waiting, &head);
		if (chan->active && !chan->active->terminated) {
			WRITE_ONCE(chan->active->terminated, true);
			dmasim_set_failed(chan, chan->active->vd.tx.cookie);
		}
		list_for_each_entry(vd, &head, node) {
			to_dmasim_desc(vd)->twice = false;
			if (vd->tx.cookie)
				dmasim_set_failed(chan, vd->tx.cookie);
		}
	}
	vchan_dma_desc_free_list(&chan->vc, &head);
}

static int dmasim_terminate_all(struct dma_chan *c)
{
	if (dmasim_should_fail(DMASIM_TERMINATE_ERROR))
		return -EIO;

	dmasim_stop(to_dmasim_chan(c));
	return 0;
}

/* After dmasim_stop(), nothing is written and no callback runs once this returns. */
static void dmasim_synchronize(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);

	kthread_flush_worker(chan->worker);
	vchan_synchronize(&chan->vc);
	scoped_guard(spinlock_irqsave, &chan->vc.lock)
		memset(&chan->again, 0, sizeof(chan->again));
}

static int dmasim_device_stop(struct dma_chan *c)
{
	int err = dmasim_terminate_all(c);

	if (!err)
		dmasim_synchronize(c);
	return err;
}

static int dmasim_alloc_chan_resources(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	struct kthread_worker *worker;

	worker = kthread_run_worker(0, "dmasim-%d", c->chan_id);
	if (IS_ERR(worker))
		return PTR_ERR(worker);

	chan->ring = kvcalloc(ring_depth, sizeof(*chan->ring), GFP_KERNEL);
	if (!chan->ring) {
		kthread_destroy_worker(worker);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < ring_depth; i++)
		list_add_tail(&chan->ring[i].vd.node, &chan->free);

	chan->worker = worker;
	/* forget the previous worker */
	kthread_init_work(&chan->work, dmasim_work);
	chan->nr_failed = 0;
	return ring_depth;
}

static void dmasim_free_chan_resources(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);

	dmasim_stop(chan);
	dmasim_synchronize(c);
	/* the work finds nothing to do any more, so it starts no timer */
	hrtimer_cancel(&chan->timer);
	kthread_destroy_worker(chan->worker);
	chan->worker = NULL;

	WARN_ON_ONCE(list_count_nodes(&chan->free) != ring_depth);
	INIT_LIST_HEAD(&chan->free);
	kvfree(chan->ring);
	chan->ring = NULL;
}

/* Neither dmaengine nor a client uses the engine any more. */
static void dmasim_release(struct dma_device *dma)
{
	struct dmasim *sim = container_of(dma, struct dmasim, dma);
	struct device *dev = dma->dev;

	kfree(sim);
	put_device(dev);
}

static int dmasim_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	struct dma_device *dma;
	struct dmasim *sim;
	int ret;

	/* the copy must be able to find the memory behind a DMA address */
	if (get_dma_ops(dev) || device_iommu_mapped(dev))
		return dev_err_probe(dev, -EOPNOTSUPP,
				     "needs direct DMA mappings\n");

	/* the copy is done by a CPU, through its caches */
	dev_assign_dma_coherent(dev, true);
	ret = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (ret)
		return dev_err_probe(dev, ret, "no 64-bit DMA addresses\n");
	/* narrow the bus instead of the mask, which might be refused */
	dev->bus_dma_limit = dma_bits < 64 ? DMA_BIT_MASK(dma_bits) : 0;
	dma_set_max_seg_size(dev, U32_MAX);
	dma_set_seg_boundary(dev, ULONG_MAX);

	sim = kzalloc(struct_size(sim, chans, channels), GFP_KERNEL);
	if (!sim)
		return -ENOMEM;
	sim->nr_chans = channels;

	dma = &sim->dma;
	dma->dev = dev;
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
	if (!offer_public)
		dma_cap_set(DMA_PRIVATE, dma->cap_mask);
	dma->residue_granularity = DMA_RESIDUE_GRANULARITY_BURST;
	dma->device_alloc_chan_resources = dmasim_alloc_chan_resources;
	dma->device_free_chan_resources = dmasim_free_chan_resources;
	dma->device_release = dmasim_release;
	dma->device_prep_dma_memcpy = dmasim_prep_dma_memcpy;
	dma->device_issue_pending = dmasim_issue_pending;
	dma->device_tx_status = dmasim_tx_status;
	dma->device_terminate_all = dmasim_terminate_all;
	dma->device_synchronize = dmasim_synchronize;
	if (can_stop)
		dma->device_stop = dmasim_device_stop;

	INIT_LIST_HEAD(&dma->channels);
	for (unsigned int i = 0; i < channels; i++) {
		struct dmasim_chan *chan = &sim->chans[i];

		INIT_LIST_HEAD(&chan->free);
		INIT_LIST_HEAD(&chan->waiting);
		hrtimer_setup(&chan->timer, dmasim_timer, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS);
		chan->vc.desc_free = dmasim_desc_free;
		vchan_init(&chan->vc, dma);
	}

	ret = dma_async_device_register(dma);
	if (ret) {
		kfree(sim);
		return dev_err_probe(dev, ret, "cannot register the engine\n");
	}

	get_device(dev);
	platform_set_drvdata(pdev, sim);
	return 0;
}

/* The engine keeps working for clients that do not release their channels. */
static void dmasim_remove(struct platform_device *pdev)
{
	struct dmasim *sim = platform_get_drvdata(pdev);

	dma_async_device_unregister(&sim->dma);
}

static struct platform_driver dmasim_driver = {
	.driver = {
		.name	= KBUILD_MODNAME,
	},
	.probe	= dmasim_probe,
	.remove	= dmasim_remove,
};

static struct dentry *dmasim_debugfs;
static struct platform_device *dmasim_pdevs[DMASIM_MAX_DEVICES];

static void dmasim_remove_devices(void)
{
	for (unsigned int i = 0; i < devices; i++)
		platform_device_unregister(dmasim_pdevs[i]);
}

static int __init dmasim_add_device(unsigned int i)
{
	struct platform_device *pdev;
	int ret;

	pdev = platform_device_alloc(KBUILD_MODNAME, devices == 1 ?
				     PLATFORM_DEVID_NONE : i);
	if (!pdev)
		return -ENOMEM;

	set_dev_node(&pdev->dev, node[i]);
	ret = platform_device_add(pdev);
	if (ret) {
		platform_device_put(pdev);
		return ret;
	}

	dmasim_pdevs[i] = pdev;
	/* a device without a driver is of no use */
	return platform_get_drvdata(pdev) ? 0 : -ENODEV;
}

static bool __init dmasim_in_range(const char *name, unsigned int value,
				   unsigned int min, unsigned int max)
{
	if (value >= min && value <= max)
		return true;
	pr_err("%s=%u is not in %u to %u\n", name, value, min, max);
	return false;
}

static bool __init dmasim_nodes_online(void)
{
	for (unsigned int i = 0; i < devices; i++) {
		if (node[i] == NUMA_NO_NODE ||
		    (node[i] >= 0 && node[i] < MAX_NUMNODES &&
		     node_online(node[i])))
			continue;
		pr_err("node=%d is not online\n", node[i]);
		return false;
	}
	return true;
}

static int __init dmasim_init(void)
{
	unsigned int i;
	int ret;

	if (!dmasim_in_range("channels", channels, 1, DMASIM_MAX_CHANNELS) ||
	    !dmasim_in_range("devices", devices, 1, DMASIM_MAX_DEVICES) ||
	    !dmasim_in_range("ring_depth", ring_depth, 1,
			     DMASIM_MAX_RING_DEPTH) ||
	    !dmasim_in_range("dma_bits", dma_bits, 24, 64) ||
	    !dmasim_nodes_online())
		return -EINVAL;

	dmasim_debugfs = debugfs_create_dir("dmasim", NULL);
	for (i = 0; i < DMASIM_NO_FAULT; i++)
		fault_create_debugfs_attr(dmasim_fault_names[i], dmasim_debugfs,
					  &dmasim_faults[i]);

	ret = platform_driver_register(&dmasim_driver);
	if (ret)
		goto remove_faults;
	for (i = 0; i < devices && !ret; i++)
		ret = dmasim_add_device(i);
	if (!ret)
		return 0;

	dmasim_remove_devices();
	platform_driver_unregister(&dmasim_driver);
remove_faults:
	debugfs_remove_recursive(dmasim_debugfs);
	return ret;
}
module_init(dmasim_init);

static void __exit dmasim_exit(void)
{
	dmasim_remove_devices();
	platform_driver_unregister(&dmasim_driver);
	debugfs_remove_recursive(dmasim_debugfs);
}
module_exit(dmasim_exit);

MODULE_DESCRIPTION("dmaengine memcpy provider made of software");
MODULE_LICENSE("GPL");
