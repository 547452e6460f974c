// SPDX-License-Identifier: GPL-2.0-only
/*
 * The schedule of a DMA engine, by processor sharing: each active channel gets
 * an equal share of a bandwidth that depends on how many are active.
 */
#include <linux/export.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include <kunit/visibility.h>

#include "dmasim_model.h"

/* The rate of each of @nr_active channels */
static struct dmasim_rate dmasim_share(const struct dmasim_model *model,
				       unsigned int nr_active)
{
	unsigned int mbps = model->channel_mbps ?: U32_MAX, share = 1;
	unsigned int entry = min(nr_active, model->nr_total_mbps);

	if (entry && model->total_mbps[entry - 1] <= (u64)mbps * nr_active) {
		mbps = model->total_mbps[entry - 1];
		share = nr_active;
	}
	/* a MB/s is a byte in a microsecond */
	return (struct dmasim_rate){
		.work = (u64)mbps << DMASIM_WORK_SHIFT,
		.ns = (u64)share * NSEC_PER_USEC,
	};
}

/*
 * A channel becomes active or idle, now. Nothing was done since the last time,
 * which keeps the product below 2^60 + 2^42.
 */
static void dmasim_set_nr_active(struct dmasim_model *model, unsigned int nr)
{
	if (model->nr_active && model->since != model->now)
		model->work += div64_u64((model->now - model->since) *
					 model->rate.work, model->rate.ns);
	model->since = model->now;
	model->nr_active = nr;
	model->rate = dmasim_share(model, nr);
}

static struct dmasim_job *dmasim_first(const struct list_head *jobs)
{
	if (list_empty(jobs))
		return NULL;
	return list_first_entry(jobs, struct dmasim_job, node);
}

/* When an active job is done, if nothing changes. The product is below 2^60. */
static u64 dmasim_when(const struct dmasim_model *model, u64 at)
{
	u64 left = max((s64)(at - model->work), 0);
	u64 done = model->since +
		   DIV64_U64_ROUND_UP(left * model->rate.ns, model->rate.work);

	return max(done, model->now);
}

/* From the end: where the fixed time or the bytes are alike, that is O(1). */
static void dmasim_insert(struct list_head *jobs, struct dmasim_job *job)
{
	struct dmasim_job *before;

	list_for_each_entry_reverse(before, jobs, node)
		if ((s64)(job->at - before->at) >= 0)
			break;
	list_add(&job->node, &before->node);
}

/* The work of the model when a job is done that becomes active now */
static u64 dmasim_end(const struct dmasim_model *model,
		      const struct dmasim_job *job)
{
	return model->work + ((u64)job->bytes << DMASIM_WORK_SHIFT);
}

static void dmasim_set_done(struct dmasim_model *model)
{
	const struct dmasim_job *first = dmasim_first(&model->active);

	model->done = first ? dmasim_when(model, first->at) : DMASIM_NEVER_DONE;
}

static void dmasim_activate(struct dmasim_model *model, struct dmasim_job *job)
{
	dmasim_set_nr_active(model, model->nr_active + 1);
	job->active = true;
	job->at = dmasim_end(model, job);
	dmasim_insert(&model->active, job);
	dmasim_set_done(model);
}

/* Does a channel never get faster when another one becomes active? */
static bool dmasim_crowding_slows(const struct dmasim_model *model)
{
	unsigned int i;

	for (i = 1; i < model->nr_total_mbps; i++)
		if ((u64)model->total_mbps[i] * i >
		    (u64)model->total_mbps[i - 1] * (i + 1))
			return false;
	return true;
}

/**
 * dmasim_model_init() - make an idle engine, at time 0
 * @model: the engine
 * @total_mbps: its bandwidth, see struct dmasim_model; must stay valid
 * @nr_total_mbps: number of entries of @total_mbps
 *
 * A channel has no limit of its own until @model->channel_mbps is set; it may be
 * set at any time, and counts when the number of active channels changes.
 */
void dmasim_model_init(struct dmasim_model *model,
		       const unsigned int *total_mbps,
		       unsigned int nr_total_mbps)
{
	*model = (struct dmasim_model){
		.total_mbps = total_mbps,
		.nr_total_mbps = nr_total_mbps,
	};
	INIT_LIST_HEAD(&model->fixed);
	INIT_LIST_HEAD(&model->active);
	model->crowding_slows = dmasim_crowding_slows(model);
	dmasim_set_nr_active(model, 0);
	dmasim_set_done(model);
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_init);

/**
 * dmasim_job_init() - prepare a job, so that it can be started and cancelled
 * @job: the job
 */
void dmasim_job_init(struct dmasim_job *job)
{
	*job = (struct dmasim_job){};
	INIT_LIST_HEAD(&job->node);
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_job_init);

/**
 * dmasim_model_start() - give a job to a channel that is idle
 * @model: the engine, which starts the job at @model->now
 * @job: the job; belongs to the model until dmasim_model_run() returns it or it
 *	is cancelled
 * @fixed_ns: how long it takes before it moves bytes, in ns; takes no bandwidth
 * @bytes: how many bytes it moves then, sharing the bandwidth
 *
 * At most DMASIM_MAX_CHANNELS jobs with bytes may be under way at a time.
 */
void dmasim_model_start(struct dmasim_model *model, struct dmasim_job *job,
			u64 fixed_ns, u32 bytes)
{
	job->bytes = bytes;
	job->active = false;
	job->at = model->now + fixed_ns;
	if (fixed_ns)
		dmasim_insert(&model->fixed, job);
	else
		dmasim_activate(model, job);
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_start);

/**
 * dmasim_model_soonest() - when a job that starts now is done at the earliest
 * @model: the engine
 * @fixed_ns: its fixed time, in ns
 * @bytes: how many bytes it moves then
 *
 * Less work than dmasim_model_next_done(), for who has a timer already: what is
 * under way is done no sooner because of the new job.
 *
 * Return: a time in ns; 0 if the new job may make the others faster.
 */
u64 dmasim_model_soonest(const struct dmasim_model *model, u64 fixed_ns,
			 u32 bytes)
{
	const struct dmasim_rate alone = dmasim_share(model, 1);

	if (!model->crowding_slows)
		return 0;

	return model->now + fixed_ns +
	       div64_u64(((u64)bytes << DMASIM_WORK_SHIFT) * alone.ns, alone.work);
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_soonest);

/**
 * dmasim_model_cancel() - take a job back
 * @model: the engine, which must have been run to the present
 * @job: the job; nothing happens if the model does not have it
 */
void dmasim_model_cancel(struct dmasim_model *model, struct dmasim_job *job)
{
	list_del_init(&job->node);
	if (!job->active)
		return;

	job->active = false;
	dmasim_set_nr_active(model, model->nr_active - 1);
	dmasim_set_done(model);
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_cancel);

/**
 * dmasim_model_next_done() - when to look at an engine again
 * @model: the engine
 *
 * Looks ahead over the jobs whose fixed time is over before: they take
 * bandwidth from then on.
 *
 * Return: the time, in ns, at which the next job is done unless one is started
 * or cancelled before; not before @model->now, and DMASIM_NEVER_DONE if the
 * engine is idle.
 */
u64 dmasim_model_next_done(const struct dmasim_model *model)
{
	const struct dmasim_job *job = dmasim_first(&model->fixed);
	u64 at, first, done = model->done;
	struct dmasim_model ahead;

	if (!job || job->at >= done)
		return done;

	/* its lists are not looked at */
	ahead = *model;
	first = done == DMASIM_NEVER_DONE ? 0 : dmasim_first(&model->active)->at;
	list_for_each_entry(job, &model->fixed, node) {
		if (job->at >= done)
			break;
		ahead.now = job->at;
		dmasim_set_nr_active(&ahead, ahead.nr_active + 1);
		at = dmasim_end(&ahead, job);
		if (done == DMASIM_NEVER_DONE || (s64)(at - first) < 0)
			first = at;
		done = dmasim_when(&ahead, first);
	}
	return done;
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_next_done);

/**
 * dmasim_model_run() - run an engine until a job is done
 * @model: the engine
 * @until: how far to run at most, in ns; the past has no effect
 *
 * Return: the job that was done first, with @model->now the time at which it
 * was, so that the channel can go on with its next one from there; NULL if none
 * is done until @until, and @model->now is @until then.
 */
struct dmasim_job *dmasim_model_run(struct dmasim_model *model, u64 until)
{
	for (;;) {
		struct dmasim_job *job = dmasim_first(&model->fixed);

		if (job && job->at < model->done && job->at <= until) {
			model->now = job->at;
			list_del(&job->node);
			dmasim_activate(model, job);
			continue;
		}

		if (model->done > until) {
			model->now = max(model->now, until);
			return NULL;
		}

		model->now = model->done;
		job = dmasim_first(&model->active);
		dmasim_model_cancel(model, job);
		return job;
	}
}
EXPORT_SYMBOL_IF_KUNIT(dmasim_model_run);
