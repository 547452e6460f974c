/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The schedule of a DMA engine: when each of its channels finishes its jobs.
 * Arithmetic only: no clock, no lock, no dmaengine.
 */
#ifndef __DMASIM_MODEL_H
#define __DMASIM_MODEL_H

#include <linux/limits.h>
#include <linux/list.h>
#include <linux/types.h>

/* More channels would overflow the arithmetic. */
#define DMASIM_MAX_CHANNELS	256

/* Work is counted in units of 1/1024 byte. */
#define DMASIM_WORK_SHIFT	10

/* When an idle engine is done with its next job */
#define DMASIM_NEVER_DONE	U64_MAX

/**
 * struct dmasim_job - the work of a channel: a fixed time, and then bytes
 * @node: in the list of the job's phase; empty if the job is not in the model
 * @bytes: number of bytes
 * @active: the fixed time is over
 * @at: when the fixed time is over, in ns; if @active, the work of the model
 *	when the job is done
 */
struct dmasim_job {
	struct list_head	node;
	u32			bytes;
	bool			active;
	u64			at;
};

/**
 * struct dmasim_rate - how much work an active channel does in how much time
 * @work: units of work in @ns, never 0
 * @ns: nanoseconds, never 0
 */
struct dmasim_rate {
	u64	work;
	u64	ns;
};

/**
 * struct dmasim_model - an engine whose active channels share its bandwidth
 * @total_mbps: the bandwidth of the engine with 1, 2, ... active channels in
 *	MB/s, which is bytes per microsecond; none may be 0
 * @nr_total_mbps: how many entries @total_mbps has; the last one holds for more
 *	channels as well; 0: the engine as a whole has no limit
 * @channel_mbps: the bandwidth of one channel in MB/s; 0: no limit
 * @crowding_slows: no channel gets faster when another one becomes active
 * @now: the time that the model has reached, in ns
 * @since: when the number of active jobs changed last, in ns
 * @work: what a channel that was always active would have done until @since; it
 *	may wrap
 * @rate: the rate of each active channel since then
 * @nr_active: number of active jobs
 * @done: when the first of them is done, in ns, or DMASIM_NEVER_DONE
 * @fixed: jobs in their fixed time, the first one to be over first
 * @active: jobs that have bytes to move, the first one to be done first
 *
 * All active channels have the same rate, so one counter of work serves them
 * all: a job that becomes active when the counter is w is done when the
 * counter is w + bytes. When a channel becomes active or idle, only the rate
 * changes.
 *
 * Errors: time is in whole ns, and a job is done in the first ns in which all
 * its work is done: less than 1 ns late, and it keeps its share until then.
 * Each time that the number of active jobs changes, each active job loses less
 * than one unit of work, which is 1/1024 byte.
 */
struct dmasim_model {
	const unsigned int	*total_mbps;
	unsigned int		nr_total_mbps;
	unsigned int		channel_mbps;
	bool			crowding_slows;
	u64			now;
	u64			since;
	u64			work;
	struct dmasim_rate	rate;
	unsigned int		nr_active;
	u64			done;
	struct list_head	fixed;
	struct list_head	active;
};

void dmasim_model_init(struct dmasim_model *model,
		       const unsigned int *total_mbps,
		       unsigned int nr_total_mbps);
void dmasim_job_init(struct dmasim_job *job);
void dmasim_model_start(struct dmasim_model *model, struct dmasim_job *job,
			u64 fixed_ns, u32 bytes);
u64 dmasim_model_soonest(const struct dmasim_model *model, u64 fixed_ns,
			 u32 bytes);
void dmasim_model_cancel(struct dmasim_model *model, struct dmasim_job *job);
u64 dmasim_model_next_done(const struct dmasim_model *model);
struct dmasim_job *dmasim_model_run(struct dmasim_model *model, u64 until);

#endif /* __DMASIM_MODEL_H */
