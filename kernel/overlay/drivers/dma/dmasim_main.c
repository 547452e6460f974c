// SPDX-License-Identifier: GPL-2.0-only
/*
 * dmasim - a dmaengine memcpy provider made of software
 *
 * What null_blk is to a block device, dmasim is to a DMA engine: it has
 * channels, rings, latencies and faults, but no hardware. A kernel thread for
 * each channel copies the bytes. See
 * Documentation/driver-api/dmaengine/dmasim.rst.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/err.h>
#include <linux/fault-inject.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/overflow.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "dmasim_iova.h"
#include "virt-dma.h"

#define DMASIM_MAX_CHANNELS	256
#define DMASIM_MAX_RING_DEPTH	1024
#define DMASIM_MAX_DEVICES	8

/* Bytes copied between two looks at whether the descriptor was terminated */
#define DMASIM_BURST		SZ_64K

/* How long a held descriptor waits for a later one to overtake it */
#define DMASIM_HOLD_MS		20

/*
 * Cookies remembered as failed. No smaller than a ring: the cookies of
 * everything that one terminate takes, and of every completed descriptor whose
 * callback is still to run, fit in.
 */
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

static bool offer_sg = true;
module_param_named(sg, offer_sg, bool, 0444);
MODULE_PARM_DESC(sg, "Copy from one scatterlist to another as well (default: Y)");

static bool reliable_terminate = true;
module_param(reliable_terminate, bool, 0444);
MODULE_PARM_DESC(reliable_terminate, "State that terminating a channel waits for the engine (default: Y)");

static bool reliable_result = true;
module_param(reliable_result, bool, 0444);
MODULE_PARM_DESC(reliable_result, "State that the results of descriptors are true (default: Y)");

static unsigned int dma_bits = 64;
module_param(dma_bits, uint, 0444);
MODULE_PARM_DESC(dma_bits, "Bits of an address that the engine reaches, 24 to 64 (default: 64)");

static bool iova_merge;
module_param(iova_merge, bool, 0444);
MODULE_PARM_DESC(iova_merge, "Translate addresses, and merge neighbours as an IOMMU might, unevenly for sources and destinations (default: N)");

static unsigned int ring_depth = 64;
module_param(ring_depth, uint, 0444);
MODULE_PARM_DESC(ring_depth, "Descriptors of a channel, 1 to 1024 (default: 64)");

static bool coalesce;
module_param(coalesce, bool, 0444);
MODULE_PARM_DESC(coalesce, "Call back only when a descriptor completes that asks for an interrupt (default: N)");

static atomic_long_t interrupts;

static int get_interrupts(char *buf, const struct kernel_param *param)
{
	return sysfs_emit(buf, "%ld\n", atomic_long_read(&interrupts));
}

static const struct kernel_param_ops interrupts_ops = { .get = get_interrupts };
module_param_cb(interrupts, &interrupts_ops, NULL, 0444);
MODULE_PARM_DESC(interrupts, "Interrupts so far, read-only");

static unsigned int max_bytes;
module_param(max_bytes, uint, 0444);
MODULE_PARM_DESC(max_bytes, "Longest descriptor that prep accepts (default: 0, no limit)");

static unsigned int latency_ns;
module_param(latency_ns, uint, 0644);
MODULE_PARM_DESC(latency_ns, "Time that a descriptor takes besides its bytes, in ns (default: 0)");

static unsigned int bandwidth_mbps;
module_param(bandwidth_mbps, uint, 0644);
MODULE_PARM_DESC(bandwidth_mbps, "Bandwidth of a channel in MB/s (default: 0, no limit)");

static unsigned int late_ms = 200;
module_param(late_ms, uint, 0644);
MODULE_PARM_DESC(late_ms, "How much later a late descriptor copies and completes, in ms (default: 200)");

/* The faults, in the order in which they are decided for a descriptor */
enum dmasim_fault {
	DMASIM_PREP_NULL,
	DMASIM_SUBMIT_ERROR,
	DMASIM_RESULT_ERROR,
	DMASIM_STATUS_ERROR,
	DMASIM_SHORT_COPY,
	DMASIM_NO_COPY,
	DMASIM_WRONG_BYTE,
	DMASIM_NEVER_COMPLETE,
	DMASIM_LATE,
	DMASIM_OUT_OF_ORDER,
	DMASIM_TERMINATE_ERROR,
	DMASIM_CALL_TWICE,
	DMASIM_NR_FAULTS
};

/**
 * enum dmasim_outcome - what the client is told, and how much is copied
 * @DMASIM_OK: everything is copied, and that is what the client is told
 * @DMASIM_FAIL_RESULT: half is copied, the result is an error
 * @DMASIM_FAIL_STATUS: half is copied, the result says nothing, the status of
 *	the cookie is an error
 * @DMASIM_FAIL_SHORT: half is copied, the rest is the residue of the result
 * @DMASIM_LIE: nothing is copied, and nobody is told
 * @DMASIM_CORRUPT: one byte is wrong, and nobody is told
 */
enum dmasim_outcome {
	DMASIM_OK,
	DMASIM_FAIL_RESULT,
	DMASIM_FAIL_STATUS,
	DMASIM_FAIL_SHORT,
	DMASIM_LIE,
	DMASIM_CORRUPT,
};

/**
 * enum dmasim_turn - when a descriptor is executed
 * @DMASIM_IN_TURN: when those before it are done
 * @DMASIM_AFTER_NEXT: when one that was issued later is done
 * @DMASIM_MUCH_LATER: late_ms after its turn came
 * @DMASIM_NEVER: not at all
 */
enum dmasim_turn {
	DMASIM_IN_TURN,
	DMASIM_AFTER_NEXT,
	DMASIM_MUCH_LATER,
	DMASIM_NEVER,
};

/**
 * struct dmasim_side - the source or the destination of a copy
 * @addr: its address, or that of the current entry
 * @left: how many bytes lie there
 * @sg: the current entry of a scatterlist, which is the client's; else NULL
 */
struct dmasim_side {
	dma_addr_t		addr;
	size_t			left;
	struct scatterlist	*sg;
};

/**
 * struct dmasim_desc - one copy
 * @vd: the descriptor that the client and virt-dma know
 * @dst: where to
 * @src: where from
 * @len: how much
 * @pieces: how many copies an engine would make of it, each with its latency
 * @copied: how much is done; written by the worker alone
 * @outcome: decided when the descriptor is submitted
 * @turn: decided when the descriptor is submitted
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
	struct dmasim_side	dst;
	struct dmasim_side	src;
	size_t			len;
	unsigned int		pieces;
	size_t			copied;
	enum dmasim_outcome	outcome;
	enum dmasim_turn	turn;
	ktime_t			due;
	bool			twice;
	bool			terminated;
};

/**
 * struct dmasim_chan - a channel
 * @vc: the channel that dmaengine and virt-dma know; vc.lock protects all that
 *	follows
 * @ring: all descriptors of the channel, while it has a client
 * @ring_depth: how many there are
 * @free: those of them that prep may hand out
 * @waiting: those whose turn came, but which run late, held or never
 * @held: the one in @waiting that the next completion lets go, or NULL. There
 *	is at most one, so that descriptors swap even if each is to be held
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
	unsigned int		ring_depth;
	struct list_head	free;
	struct list_head	waiting;
	struct dmasim_desc	*held;
	struct dmasim_desc	*active;
	struct dmaengine_desc_callback again;
	dma_cookie_t		failed[DMASIM_FAILED_COOKIES];
	unsigned int		nr_failed;
	struct kthread_worker	*worker;
	struct kthread_work	work;
	struct hrtimer		timer;
};

/**
 * struct dmasim - the engine
 * @dma: what dmaengine knows of it
 * @nr_chans: number of channels
 * @chans: the channels
 */
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

#ifdef CONFIG_DMASIM_FAULT_INJECTION

static DECLARE_FAULT_ATTR(dmasim_prep_null);
static DECLARE_FAULT_ATTR(dmasim_submit_error);
static DECLARE_FAULT_ATTR(dmasim_result_error);
static DECLARE_FAULT_ATTR(dmasim_status_error);
static DECLARE_FAULT_ATTR(dmasim_short_copy);
static DECLARE_FAULT_ATTR(dmasim_no_copy);
static DECLARE_FAULT_ATTR(dmasim_wrong_byte);
static DECLARE_FAULT_ATTR(dmasim_never_complete);
static DECLARE_FAULT_ATTR(dmasim_late);
static DECLARE_FAULT_ATTR(dmasim_out_of_order);
static DECLARE_FAULT_ATTR(dmasim_terminate_error);
static DECLARE_FAULT_ATTR(dmasim_call_twice);

static const struct {
	const char *name;
	struct fault_attr *attr;
} dmasim_faults[DMASIM_NR_FAULTS] = {
	[DMASIM_PREP_NULL]	 = { "prep_null", &dmasim_prep_null },
	[DMASIM_SUBMIT_ERROR]	 = { "submit_error", &dmasim_submit_error },
	[DMASIM_RESULT_ERROR]	 = { "result_error", &dmasim_result_error },
	[DMASIM_STATUS_ERROR]	 = { "status_error", &dmasim_status_error },
	[DMASIM_SHORT_COPY]	 = { "short_copy", &dmasim_short_copy },
	[DMASIM_NO_COPY]	 = { "no_copy", &dmasim_no_copy },
	[DMASIM_WRONG_BYTE]	 = { "wrong_byte", &dmasim_wrong_byte },
	[DMASIM_NEVER_COMPLETE]	 = { "never_complete", &dmasim_never_complete },
	[DMASIM_LATE]		 = { "late", &dmasim_late },
	[DMASIM_OUT_OF_ORDER]	 = { "out_of_order", &dmasim_out_of_order },
	[DMASIM_TERMINATE_ERROR] = { "terminate_error", &dmasim_terminate_error },
	[DMASIM_CALL_TWICE]	 = { "call_twice", &dmasim_call_twice },
};

static struct dentry *dmasim_debugfs;

/* The size is 1, so that "space" counts descriptors */
static bool dmasim_should_fail(enum dmasim_fault fault)
{
	return should_fail(dmasim_faults[fault].attr, 1);
}

static void dmasim_faults_create(void)
{
	int i;

	dmasim_debugfs = debugfs_create_dir("dmasim", NULL);
	for (i = 0; i < DMASIM_NR_FAULTS; i++)
		fault_create_debugfs_attr(dmasim_faults[i].name, dmasim_debugfs,
					  dmasim_faults[i].attr);
}

static void dmasim_faults_remove(void)
{
	debugfs_remove_recursive(dmasim_debugfs);
}

#else

static bool dmasim_should_fail(enum dmasim_fault fault)
{
	return false;
}

static void dmasim_faults_create(void)
{
}

static void dmasim_faults_remove(void)
{
}

#endif

static enum dmasim_outcome dmasim_decide_outcome(void)
{
	if (dmasim_should_fail(DMASIM_RESULT_ERROR))
		return DMASIM_FAIL_RESULT;
	if (dmasim_should_fail(DMASIM_STATUS_ERROR))
		return DMASIM_FAIL_STATUS;
	if (dmasim_should_fail(DMASIM_SHORT_COPY))
		return DMASIM_FAIL_SHORT;
	if (dmasim_should_fail(DMASIM_NO_COPY))
		return DMASIM_LIE;
	if (dmasim_should_fail(DMASIM_WRONG_BYTE))
		return DMASIM_CORRUPT;
	return DMASIM_OK;
}

static enum dmasim_turn dmasim_decide_turn(void)
{
	if (dmasim_should_fail(DMASIM_NEVER_COMPLETE))
		return DMASIM_NEVER;
	if (dmasim_should_fail(DMASIM_LATE))
		return DMASIM_MUCH_LATER;
	if (dmasim_should_fail(DMASIM_OUT_OF_ORDER))
		return DMASIM_AFTER_NEXT;
	return DMASIM_IN_TURN;
}

/*
 * Descriptors
 */

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
	unsigned long flags;

	/* does nothing for a descriptor that was executed */
	dma_descriptor_unmap(&vd->tx);

	spin_lock_irqsave(&chan->vc.lock, flags);
	if (to_dmasim_desc(vd)->twice)
		dmaengine_desc_get_callback(&vd->tx, &chan->again);
	dmasim_put_desc(chan, to_dmasim_desc(vd));
	spin_unlock_irqrestore(&chan->vc.lock, flags);
}

static void dmasim_set_failed(struct dmasim_chan *chan, dma_cookie_t cookie)
{
	lockdep_assert_held(&chan->vc.lock);

	chan->failed[chan->nr_failed++ % DMASIM_FAILED_COOKIES] = cookie;
}

static bool dmasim_has_failed(struct dmasim_chan *chan, dma_cookie_t cookie)
{
	unsigned int i, nr = min(chan->nr_failed, DMASIM_FAILED_COOKIES);

	lockdep_assert_held(&chan->vc.lock);

	for (i = 0; i < nr; i++)
		if (chan->failed[i] == cookie)
			return true;
	return false;
}

/* Find the descriptor of a cookie that is submitted and not yet complete */
static struct dmasim_desc *dmasim_find_desc(struct dmasim_chan *chan,
					    dma_cookie_t cookie)
{
	unsigned int i;

	lockdep_assert_held(&chan->vc.lock);

	for (i = 0; i < chan->ring_depth; i++)
		if (chan->ring[i].vd.tx.cookie == cookie)
			return &chan->ring[i];
	return NULL;
}

static dma_cookie_t dmasim_tx_submit(struct dma_async_tx_descriptor *tx)
{
	struct virt_dma_desc *vd = container_of(tx, struct virt_dma_desc, tx);
	struct dmasim_chan *chan = to_dmasim_chan(tx->chan);
	struct dmasim_desc *desc = to_dmasim_desc(vd);
	unsigned long flags;

	if (dmasim_should_fail(DMASIM_SUBMIT_ERROR)) {
		/* the client has no way to free it */
		spin_lock_irqsave(&chan->vc.lock, flags);
		list_del(&vd->node);
		spin_unlock_irqrestore(&chan->vc.lock, flags);
		dmasim_desc_free(vd);
		return -EIO;
	}

	desc->outcome = dmasim_decide_outcome();
	desc->turn = dmasim_decide_turn();

	return vchan_tx_submit(tx);
}

static struct dma_async_tx_descriptor *
dmasim_prep(struct dmasim_chan *chan, const struct dmasim_side *dst,
	    const struct dmasim_side *src, size_t len, unsigned int pieces,
	    unsigned long tx_flags)
{
	struct dma_async_tx_descriptor *tx;
	struct dmasim_desc *desc;
	unsigned long flags;

	/* a residue has 32 bits */
	if (!len || len > (max_bytes ?: U32_MAX))
		return NULL;

	if (dmasim_should_fail(DMASIM_PREP_NULL))
		return NULL;

	spin_lock_irqsave(&chan->vc.lock, flags);
	desc = list_first_entry_or_null(&chan->free, struct dmasim_desc,
					vd.node);
	if (desc)
		list_del(&desc->vd.node);
	spin_unlock_irqrestore(&chan->vc.lock, flags);
	if (!desc)
		return NULL;

	/* forget the last use, above all its callback */
	memset(desc, 0, sizeof(*desc));
	desc->dst = *dst;
	desc->src = *src;
	desc->len = len;
	desc->pieces = pieces;

	tx = vchan_tx_prep(&chan->vc, &desc->vd, tx_flags);
	tx->tx_submit = dmasim_tx_submit;
	return tx;
}

static struct dma_async_tx_descriptor *
dmasim_prep_dma_memcpy(struct dma_chan *c, dma_addr_t dst, dma_addr_t src,
		       size_t len, unsigned long tx_flags)
{
	const struct dmasim_side to = { .addr = dst, .left = len };
	const struct dmasim_side from = { .addr = src, .left = len };

	return dmasim_prep(to_dmasim_chan(c), &to, &from, len, 1, tx_flags);
}

static struct dmasim_side dmasim_side_of(struct scatterlist *sg)
{
	return (struct dmasim_side){
		.addr = sg_dma_address(sg), .left = sg_dma_len(sg), .sg = sg,
	};
}

static size_t dmasim_sg_len(struct scatterlist *sgl, unsigned int nents)
{
	struct scatterlist *sg;
	size_t len = 0;
	unsigned int i;

	for_each_sg(sgl, sg, nents, i)
		len += sg_dma_len(sg);
	return len;
}

static struct dma_async_tx_descriptor *
dmasim_prep_dma_memcpy_sg(struct dma_chan *c, struct scatterlist *dst_sg,
			  unsigned int dst_nents, struct scatterlist *src_sg,
			  unsigned int src_nents, unsigned long tx_flags)
{
	struct dmasim_side dst, src;
	size_t len;

	if (!dst_nents || !src_nents)
		return NULL;

	len = dmasim_sg_len(src_sg, src_nents);
	if (len != dmasim_sg_len(dst_sg, dst_nents))
		return NULL;

	dst = dmasim_side_of(dst_sg);
	src = dmasim_side_of(src_sg);
	return dmasim_prep(to_dmasim_chan(c), &dst, &src, len,
			   max(dst_nents, src_nents), tx_flags);
}

/*
 * Execution: what completes a descriptor, and decides when one is executed
 */

/* Find the memory of a side; reduce @len to the bytes that are contiguous */
static void *dmasim_memory(struct device *dev, const struct dmasim_side *side,
			   size_t *len)
{
	size_t in_row = side->left;
	void *memory;

	if (iova_merge)
		memory = dmasim_iova_find(dev, side->addr, &in_row);
	else
		memory = phys_to_virt(dma_to_phys(dev, side->addr));
	*len = min3(*len, side->left, in_row);
	return memory;
}

static void dmasim_advance(struct dmasim_side *side, size_t len)
{
	side->addr += len;
	side->left -= len;
	if (!side->left && side->sg && !sg_is_last(side->sg))
		*side = dmasim_side_of(sg_next(side->sg));
}

static size_t dmasim_bytes_to_copy(const struct dmasim_desc *desc)
{
	switch (desc->outcome) {
	case DMASIM_OK:
	case DMASIM_CORRUPT:
		return desc->len;
	case DMASIM_LIE:
		return 0;
	default:
		return desc->len / 2;
	}
}

static void dmasim_copy(struct dmasim_chan *chan, struct dmasim_desc *desc)
{
	struct device *dev = chan->vc.chan.device->dev;
	size_t bytes = dmasim_bytes_to_copy(desc);

	while (desc->copied < bytes && !READ_ONCE(desc->terminated)) {
		size_t burst = min(bytes - desc->copied, DMASIM_BURST);
		void *dst = dmasim_memory(dev, &desc->dst, &burst);
		void *src = dmasim_memory(dev, &desc->src, &burst);

		if (WARN_ON_ONCE(!dst || !src || !burst)) {
			desc->outcome = DMASIM_FAIL_RESULT;
			return;
		}
		memcpy(dst, src, burst);
		if (desc->outcome == DMASIM_CORRUPT && !desc->copied)
			*((u8 *)dst + burst / 2) ^= 1;
		dmasim_advance(&desc->dst, burst);
		dmasim_advance(&desc->src, burst);
		WRITE_ONCE(desc->copied, desc->copied + burst);
		cond_resched();
	}
}

static void dmasim_complete(struct dmasim_chan *chan, struct dmasim_desc *desc)
{
	dma_cookie_t cookie = desc->vd.tx.cookie;

	lockdep_assert_held(&chan->vc.lock);

	switch (desc->outcome) {
	case DMASIM_OK:
	case DMASIM_LIE:
	case DMASIM_CORRUPT:
		break;
	case DMASIM_FAIL_RESULT:
		/* No residue: a client has to look at the result itself. */
		desc->vd.tx_result.result = DMA_TRANS_WRITE_FAILED;
		break;
	case DMASIM_FAIL_STATUS:
		dmasim_set_failed(chan, cookie);
		break;
	case DMASIM_FAIL_SHORT:
		desc->vd.tx_result.residue = desc->len - desc->copied;
		break;
	}
	if (!coalesce || desc->vd.tx.flags & DMA_PREP_INTERRUPT) {
		atomic_long_inc(&interrupts);
		vchan_cookie_complete(&desc->vd);
	} else {
		dma_cookie_complete(&desc->vd.tx);
		list_add_tail(&desc->vd.node, &chan->vc.desc_completed);
	}

	if (chan->held && chan->held->vd.tx.cookie < cookie)
		chan->held->due = 0;
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
	dmasim_complete(chan, desc);
}

/* Return how long a channel is busy with a descriptor */
static u64 dmasim_service_ns(const struct dmasim_desc *desc)
{
	unsigned int mbps = READ_ONCE(bandwidth_mbps);
	u64 ns = (u64)READ_ONCE(latency_ns) * desc->pieces;

	/* a MB/s is a byte in a microsecond */
	if (mbps)
		ns += (u64)desc->len * NSEC_PER_USEC / mbps;
	return ns;
}

/* Schedule the first issued descriptor, whose turn it is, or put it aside */
static void dmasim_start(struct dmasim_chan *chan, struct dmasim_desc *desc,
			 ktime_t now)
{
	lockdep_assert_held(&chan->vc.lock);

	if (desc->turn == DMASIM_AFTER_NEXT && chan->held)
		desc->turn = DMASIM_IN_TURN;

	switch (desc->turn) {
	case DMASIM_IN_TURN:
		desc->due = ktime_add_ns(now, dmasim_service_ns(desc));
		return;
	case DMASIM_AFTER_NEXT:
		desc->due = ktime_add_ms(now, DMASIM_HOLD_MS);
		chan->held = desc;
		break;
	case DMASIM_MUCH_LATER:
		desc->due = ktime_add_ms(now, READ_ONCE(late_ms));
		break;
	case DMASIM_NEVER:
		desc->due = KTIME_MAX;
		break;
	}
	list_move_tail(&desc->vd.node, &chan->waiting);
}

/*
 * Remove the next descriptor that is due from its list and return it. If there
 * is none, return NULL, and in @wake the time to look again.
 */
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
	if (chan->held == desc)
		chan->held = NULL;
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
	struct dmasim_chan *chan = container_of(timer, struct dmasim_chan,
						timer);

	kthread_queue_work(chan->worker, &chan->work);
	return HRTIMER_NORESTART;
}

/*
 * Channel operations
 */

static void dmasim_issue_pending(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	unsigned long flags;

	spin_lock_irqsave(&chan->vc.lock, flags);
	if (vchan_issue_pending(&chan->vc))
		kthread_queue_work(chan->worker, &chan->work);
	spin_unlock_irqrestore(&chan->vc.lock, flags);
}

/*
 * Descriptors may complete out of order, so the last completed cookie says
 * nothing about others: look at this cookie alone.
 */
static enum dma_status dmasim_tx_status(struct dma_chan *c, dma_cookie_t cookie,
					struct dma_tx_state *state)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	struct dmasim_desc *desc;
	enum dma_status status;
	unsigned long flags;

	/* the return value of a failed submit */
	if (cookie < DMA_MIN_COOKIE)
		return DMA_ERROR;

	dma_cookie_status(c, cookie, state);

	spin_lock_irqsave(&chan->vc.lock, flags);
	status = DMA_COMPLETE;
	desc = dmasim_find_desc(chan, cookie);
	if (desc) {
		dma_set_residue(state, desc->len - READ_ONCE(desc->copied));
		status = DMA_IN_PROGRESS;
	} else if (dmasim_has_failed(chan, cookie)) {
		status = DMA_ERROR;
	}
	spin_unlock_irqrestore(&chan->vc.lock, flags);

	return status;
}

static void dmasim_take_all(struct dmasim_chan *chan, struct list_head *head)
{
	struct virt_dma_desc *vd;

	lockdep_assert_held(&chan->vc.lock);

	vchan_get_all_descriptors(&chan->vc, head);
	list_splice_tail_init(&chan->waiting, head);
	chan->held = NULL;
	if (chan->active && !chan->active->terminated) {
		WRITE_ONCE(chan->active->terminated, true);
		dmasim_set_failed(chan, chan->active->vd.tx.cookie);
	}
	list_for_each_entry(vd, head, node) {
		to_dmasim_desc(vd)->twice = false;
		if (vd->tx.cookie)
			dmasim_set_failed(chan, vd->tx.cookie);
	}
}

/*
 * Take back every descriptor, including prepared ones. The worker may still be
 * copying the active one, and the tasklet may be running callbacks:
 * dmasim_synchronize() waits for both.
 */
static void dmasim_stop(struct dmasim_chan *chan)
{
	unsigned long flags;
	LIST_HEAD(head);

	spin_lock_irqsave(&chan->vc.lock, flags);
	dmasim_take_all(chan, &head);
	spin_unlock_irqrestore(&chan->vc.lock, flags);

	vchan_dma_desc_free_list(&chan->vc, &head);
}

static int dmasim_terminate_all(struct dma_chan *c)
{
	if (dmasim_should_fail(DMASIM_TERMINATE_ERROR))
		return -EIO;

	dmasim_stop(to_dmasim_chan(c));
	return 0;
}

/*
 * After dmasim_stop(), nothing is written and no callback runs once this
 * returns: the lists are empty, the worker has left the active descriptor, and
 * then nobody is left to complete anything.
 */
static void dmasim_synchronize(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);

	kthread_flush_worker(chan->worker);
	vchan_synchronize(&chan->vc);
	scoped_guard(spinlock_irqsave, &chan->vc.lock)
		memset(&chan->again, 0, sizeof(chan->again));
}

static int dmasim_alloc_chan_resources(struct dma_chan *c)
{
	struct dmasim_chan *chan = to_dmasim_chan(c);
	struct kthread_worker *worker;
	unsigned int i;

	worker = kthread_run_worker(0, "dmasim-%d", c->chan_id);
	if (IS_ERR(worker))
		return PTR_ERR(worker);

	chan->ring = kvcalloc(chan->ring_depth, sizeof(*chan->ring),
			      GFP_KERNEL);
	if (!chan->ring) {
		kthread_destroy_worker(worker);
		return -ENOMEM;
	}
	for (i = 0; i < chan->ring_depth; i++)
		list_add_tail(&chan->ring[i].vd.node, &chan->free);

	chan->worker = worker;
	/* forget the previous worker */
	kthread_init_work(&chan->work, dmasim_work);
	chan->nr_failed = 0;
	return chan->ring_depth;
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

	WARN_ON_ONCE(list_count_nodes(&chan->free) != chan->ring_depth);
	INIT_LIST_HEAD(&chan->free);
	kvfree(chan->ring);
	chan->ring = NULL;
}

/*
 * Device and module
 */

static void dmasim_init_chan(struct dmasim *sim, struct dmasim_chan *chan,
			     unsigned int depth)
{
	chan->ring_depth = depth;
	INIT_LIST_HEAD(&chan->free);
	INIT_LIST_HEAD(&chan->waiting);
	hrtimer_setup(&chan->timer, dmasim_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
	chan->vc.desc_free = dmasim_desc_free;
	vchan_init(&chan->vc, &sim->dma);
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
	unsigned int i, nr_chans = channels, depth = ring_depth;
	struct device *dev = &pdev->dev;
	struct dma_device *dma;
	struct dmasim *sim;
	int ret;

	/* the copy must be able to find the memory behind a DMA address */
	set_dma_ops(dev, NULL);
	if (get_dma_ops(dev) || device_iommu_mapped(dev))
		return dev_err_probe(dev, -EOPNOTSUPP,
				     "needs direct DMA mappings\n");
	if (iova_merge) {
		ret = dmasim_iova_enable(dev);
		if (ret)
			return dev_err_probe(dev, ret, "no IOVAs\n");
	}

	/* the copy is done by a CPU, through its caches */
	dev_assign_dma_coherent(dev, true);
	ret = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (ret)
		return dev_err_probe(dev, ret, "no 64-bit DMA addresses\n");
	/* narrow the bus instead of the mask, which might be refused */
	dev->bus_dma_limit = dma_bits < 64 ? DMA_BIT_MASK(dma_bits) : 0;
	dma_set_max_seg_size(dev, U32_MAX);
	dma_set_seg_boundary(dev, ULONG_MAX);

	sim = kzalloc(struct_size(sim, chans, nr_chans), GFP_KERNEL);
	if (!sim)
		return -ENOMEM;
	sim->nr_chans = nr_chans;

	dma = &sim->dma;
	dma->dev = dev;
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
	if (!offer_public)
		dma_cap_set(DMA_PRIVATE, dma->cap_mask);
	if (offer_sg)
		dma_cap_set(DMA_MEMCPY_SG, dma->cap_mask);
	dma->reliable_terminate = reliable_terminate;
	dma->reliable_result = reliable_result;
	dma->copy_align = DMAENGINE_ALIGN_1_BYTE;
	dma->src_addr_widths = BIT(DMA_SLAVE_BUSWIDTH_1_BYTE);
	dma->dst_addr_widths = BIT(DMA_SLAVE_BUSWIDTH_1_BYTE);
	dma->directions = BIT(DMA_MEM_TO_MEM);
	dma->residue_granularity = DMA_RESIDUE_GRANULARITY_BURST;
	dma->device_alloc_chan_resources = dmasim_alloc_chan_resources;
	dma->device_free_chan_resources = dmasim_free_chan_resources;
	dma->device_release = dmasim_release;
	dma->device_prep_dma_memcpy = dmasim_prep_dma_memcpy;
	dma->device_prep_dma_memcpy_sg = dmasim_prep_dma_memcpy_sg;
	dma->device_issue_pending = dmasim_issue_pending;
	dma->device_tx_status = dmasim_tx_status;
	dma->device_terminate_all = dmasim_terminate_all;
	dma->device_synchronize = dmasim_synchronize;

	INIT_LIST_HEAD(&dma->channels);
	for (i = 0; i < nr_chans; i++)
		dmasim_init_chan(sim, &sim->chans[i], depth);

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

static struct platform_device *dmasim_pdevs[DMASIM_MAX_DEVICES];

static void dmasim_remove_devices(void)
{
	unsigned int i;

	for (i = 0; i < devices; i++)
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

static int __init dmasim_check_nodes(void)
{
	unsigned int i;

	if (!devices || devices > DMASIM_MAX_DEVICES) {
		pr_err("devices=%u is not in 1 to %u\n", devices,
		       DMASIM_MAX_DEVICES);
		return -EINVAL;
	}
	for (i = 0; i < devices; i++) {
		if (node[i] != NUMA_NO_NODE &&
		    (node[i] < 0 || node[i] >= MAX_NUMNODES ||
		     !node_online(node[i]))) {
			pr_err("node=%d is not online\n", node[i]);
			return -EINVAL;
		}
	}
	return 0;
}

static int __init dmasim_init(void)
{
	unsigned int i;
	int ret;

	if (!channels || channels > DMASIM_MAX_CHANNELS) {
		pr_err("channels=%u is not in 1 to %u\n", channels,
		       DMASIM_MAX_CHANNELS);
		return -EINVAL;
	}
	if (!ring_depth || ring_depth > DMASIM_MAX_RING_DEPTH) {
		pr_err("ring_depth=%u is not in 1 to %u\n", ring_depth,
		       DMASIM_MAX_RING_DEPTH);
		return -EINVAL;
	}

	if (dma_bits < 24 || dma_bits > 64) {
		pr_err("dma_bits=%u is not in 24 to 64\n", dma_bits);
		return -EINVAL;
	}
	if (iova_merge && (!IS_ENABLED(CONFIG_DMASIM_IOVA) || dma_bits != 64)) {
		pr_err("iova_merge needs CONFIG_DMASIM_IOVA and dma_bits=64\n");
		return -EINVAL;
	}

	ret = dmasim_check_nodes();
	if (ret)
		return ret;

	dmasim_faults_create();

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
	dmasim_faults_remove();
	return ret;
}
module_init(dmasim_init);

static void __exit dmasim_exit(void)
{
	dmasim_remove_devices();
	platform_driver_unregister(&dmasim_driver);
	dmasim_faults_remove();
}
module_exit(dmasim_exit);

MODULE_DESCRIPTION("dmaengine memcpy provider made of software");
MODULE_LICENSE("GPL");
