// SPDX-License-Identifier: GPL-2.0
/*
 * A complete migrator. It copies the folios of a migration batch on a workqueue,
 * where yours would start its engine. See Documentation/mm/migrate_offload_migrator.rst.
 */

#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/mempool.h>
#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

/* Number of batches copied at a time; the CPU copies further ones. */
#define SAMPLE_MAX_COPIES	4

/* The state of one batch. All of it is allocated when the module is loaded. */
struct sample_copy {
	struct work_struct work;
	struct completion done;
	struct migrate_offload_batch *batch;
	bool stop;
};

static struct workqueue_struct *sample_wq;
static mempool_t *sample_copies;

static void sample_work(struct work_struct *work)
{
	struct sample_copy *copy = container_of(work, struct sample_copy, work);
	struct migrate_offload_batch *batch = copy->batch;
	unsigned int i;

	for (i = 0; i < batch->nr_pairs && !READ_ONCE(copy->stop); i++) {
		struct migrate_offload_pair *pair = &batch->pairs[i];
		int error = folio_mc_copy(pair->dst, pair->src);

		/* After an error core copies the folio with the CPU, and decides. */
		migrate_offload_report(pair, error ? MIGRATE_OFFLOAD_ERROR :
						     MIGRATE_OFFLOAD_DONE);
		cond_resched();
	}

	/* The batch and this copy may be freed as soon as this is called. */
	complete(&copy->done);
}

static int sample_submit(struct migrator *migrator,
			 struct migrate_offload_batch *batch)
{
	struct sample_copy *copy = mempool_alloc_preallocated(sample_copies);

	if (!copy)
		return -EBUSY;

	INIT_WORK(&copy->work, sample_work);
	init_completion(&copy->done);
	copy->batch = batch;
	copy->stop = false;
	batch->migrator_data = copy;
	queue_work(sample_wq, &copy->work);
	return 0;
}

static void sample_wait(struct migrator *migrator,
			struct migrate_offload_batch *batch)
{
	struct sample_copy *copy = batch->migrator_data;
	long left = batch->deadline - jiffies;

	/*
	 * Wait no longer than the deadline. After it, first make sure that nothing
	 * copies any more: here the work never starts, or ends after the folio it is
	 * copying. This wait has a bound only because a CPU always finishes a folio.
	 * Pairs without a report count as failed. Report pairs that your engine does
	 * not stop copying as %MIGRATE_OFFLOAD_LOST.
	 */
	if (!wait_for_completion_timeout(&copy->done, max(left, 1L))) {
		WRITE_ONCE(copy->stop, true);
		cancel_work_sync(&copy->work);
	}
	mempool_free(copy, sample_copies);
}

static struct migrator sample_migrator = {
	.name	= "sample",
	.submit	= sample_submit,
	.wait	= sample_wait,
};

static int __init sample_init(void)
{
	int error = -ENOMEM;

	/* WQ_MEM_RECLAIM: reclaim may wait for this work. */
	sample_wq = alloc_workqueue("sample_migrator", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!sample_wq)
		return error;

	sample_copies = mempool_create_kmalloc_pool(SAMPLE_MAX_COPIES,
						    sizeof(struct sample_copy));
	if (!sample_copies)
		goto destroy_wq;

	/* Register last: batches may arrive at once. */
	error = migrate_offload_register(&sample_migrator);
	if (error)
		goto destroy_copies;

	return 0;

destroy_copies:
	mempool_destroy(sample_copies);
destroy_wq:
	destroy_workqueue(sample_wq);
	return error;
}
module_init(sample_init);

static void __exit sample_exit(void)
{
	/* Unregister first: after this there is no batch, and there will be none. */
	migrate_offload_unregister(&sample_migrator);
	mempool_destroy(sample_copies);
	destroy_workqueue(sample_wq);
}
module_exit(sample_exit);

MODULE_DESCRIPTION("Sample migrator: copy offload for page migration");
MODULE_LICENSE("GPL");
