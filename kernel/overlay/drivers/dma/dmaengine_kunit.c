// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for dmaengine: notifications of channels that come and go, and, if
 * the machine has an engine, duties of every provider to clients.
 */
#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/err.h>
#include <linux/iopoll.h>
#include <linux/module.h>
#include <linux/notifier.h>

#include "dmaengine.h"

/* An engine with one channel, which clients hold but never use. */
struct engine {
	struct dma_device dma;
	struct dma_chan chan;
	dma_cap_mask_t memcpy;
	bool allocated;

	struct notifier_block nb;
	struct dma_chan *held;
	unsigned int greetings, goodbyes, given_away;
	int clients_meanwhile, clients_left;
	bool channel_found;
};

static int alloc_resources(struct dma_chan *chan)
{
	container_of(chan, struct engine, chan)->allocated = true;
	return 1;
}

static void free_resources(struct dma_chan *chan)
{
	container_of(chan, struct engine, chan)->allocated = false;
}

static struct dma_async_tx_descriptor *
prep_nothing(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src, size_t len, unsigned long flags)
{
	return NULL;
}

static enum dma_status no_status(struct dma_chan *chan, dma_cookie_t cookie,
				 struct dma_tx_state *state)
{
	return DMA_ERROR;
}

static void issue_nothing(struct dma_chan *chan)
{
}

static bool is_ours(struct dma_chan *chan, void *engine)
{
	return chan == &((struct engine *)engine)->chan;
}

static struct dma_chan *get_channel(struct engine *engine)
{
	return dma_request_channel(engine->memcpy, is_ours, engine);
}

static int on_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct engine *engine = container_of(nb, struct engine, nb);

	if (data != &engine->chan)
		return NOTIFY_DONE;

	if (event == DMA_CHAN_ADDED) {
		engine->greetings++;
		engine->held = get_channel(engine);
		return NOTIFY_OK;
	}

	engine->goodbyes++;
	if (engine->held)
		dma_release_channel(engine->held);
	engine->given_away += !!get_channel(engine);
	engine->given_away += !!dma_get_slave_channel(&engine->chan);
	return NOTIFY_OK;
}

/*
 * A client that is notified can request the channel when it comes, and release it
 * before it goes; no other client can acquire it meanwhile.
 */
static void channel_comes_and_goes(struct kunit *test)
{
	struct engine *engine = test->priv;

	engine->nb.notifier_call = on_event;
	KUNIT_ASSERT_EQ(test, dma_register_notifier(&engine->nb), 0);
	KUNIT_EXPECT_EQ(test, dma_async_device_register(&engine->dma), 0);
	KUNIT_EXPECT_EQ(test, engine->greetings, 1);
	KUNIT_EXPECT_PTR_EQ(test, engine->held, &engine->chan);
	KUNIT_EXPECT_TRUE(test, engine->allocated);

	dma_async_device_unregister(&engine->dma);
	dma_unregister_notifier(&engine->nb);
	KUNIT_EXPECT_EQ(test, engine->goodbyes, 1);
	KUNIT_EXPECT_EQ(test, engine->given_away, 0);
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

static int on_removal(struct notifier_block *nb, unsigned long event, void *data)
{
	struct engine *engine = container_of(nb, struct engine, nb);

	if (data != &engine->chan || event != DMA_CHAN_REMOVING)
		return NOTIFY_DONE;

	engine->goodbyes++;
	dmaengine_get();
	engine->clients_meanwhile = engine->chan.client_count;
	engine->channel_found = dma_find_channel(DMA_MEMCPY) == &engine->chan;
	dmaengine_put();
	engine->clients_left = engine->chan.client_count;
	/* Now the client from before, if there is one. */
	if (engine->clients_left)
		dmaengine_put();
	return NOTIFY_OK;
}

/*
 * A client of public channels that comes while one of them is being removed does not
 * acquire that one, and takes no reference of another client with it when it goes.
 */
static void public_channel_goes(struct kunit *test)
{
	struct engine *engine = test->priv;
	int clients;

	engine->nb.notifier_call = on_removal;
	KUNIT_ASSERT_EQ(test, dma_async_device_register(&engine->dma), 0);
	KUNIT_EXPECT_EQ(test, dma_register_notifier(&engine->nb), 0);
	dmaengine_get();
	clients = engine->chan.client_count;
	KUNIT_EXPECT_GE(test, clients, 1);
	KUNIT_EXPECT_NOT_NULL(test, dma_find_channel(DMA_MEMCPY));

	dma_async_device_unregister(&engine->dma);
	dma_unregister_notifier(&engine->nb);
	KUNIT_EXPECT_EQ(test, engine->goodbyes, 1);
	KUNIT_EXPECT_EQ(test, engine->clients_meanwhile, clients);
	KUNIT_EXPECT_FALSE(test, engine->channel_found);
	KUNIT_EXPECT_EQ(test, engine->clients_left, clients);
	KUNIT_EXPECT_EQ(test, engine->chan.client_count, clients - 1);
}

/* A client of public channels does not acquire a channel that is being removed. */
static void idle_public_channel_goes(struct kunit *test)
{
	struct engine *engine = test->priv;
	bool idle;

	engine->nb.notifier_call = on_removal;
	KUNIT_ASSERT_EQ(test, dma_async_device_register(&engine->dma), 0);
	KUNIT_EXPECT_EQ(test, dma_register_notifier(&engine->nb), 0);
	idle = !engine->chan.client_count;

	dma_async_device_unregister(&engine->dma);
	dma_unregister_notifier(&engine->nb);
	if (!idle)
		kunit_skip(test, "another client has all public channels");
	KUNIT_EXPECT_EQ(test, engine->goodbyes, 1);
	KUNIT_EXPECT_EQ(test, engine->clients_meanwhile, 0);
	KUNIT_EXPECT_EQ(test, engine->clients_left, 0);
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

static int dmaengine_test_init(struct kunit *test)
{
	struct engine *engine = kunit_kzalloc(test, sizeof(*engine), GFP_KERNEL);
	struct device *dev = kunit_device_register(test, "dmaengine-test");
	struct dma_device *dma;

	KUNIT_ASSERT_NOT_NULL(test, engine);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);

	dma_cap_set(DMA_MEMCPY, engine->memcpy);
	dma = &engine->dma;
	dma->dev = dev;
	dma->cap_mask = engine->memcpy;
	dma->device_alloc_chan_resources = alloc_resources;
	dma->device_free_chan_resources = free_resources;
	dma->device_prep_dma_memcpy = prep_nothing;
	dma->device_tx_status = no_status;
	dma->device_issue_pending = issue_nothing;
	INIT_LIST_HEAD(&dma->channels);
	engine->chan.device = dma;
	list_add_tail(&engine->chan.device_node, &dma->channels);

	test->priv = engine;
	return 0;
}

static struct kunit_case dmaengine_test_cases[] = {
	KUNIT_CASE(channel_comes_and_goes),
	KUNIT_CASE(public_channel_goes),
	KUNIT_CASE(idle_public_channel_goes),
	{}
};

static struct kunit_suite dmaengine_test_suite = {
	.name = "dmaengine",
	.init = dmaengine_test_init,
	.test_cases = dmaengine_test_cases,
};

#define BUFFER_SIZE	SZ_4K
/* More descriptors than a driver has for a channel. */
#define MANY		100

struct provider {
	struct dma_chan *chan;
	void *buffer;
	dma_addr_t addr;
	atomic_t calls;
};

static void count_call(void *calls)
{
	atomic_inc(calls);
}

static void copy(struct kunit *test, dma_async_tx_callback callback)
{
	struct provider *provider = test->priv;
	struct dma_async_tx_descriptor *tx;

	tx = dmaengine_prep_dma_memcpy(provider->chan, provider->addr + BUFFER_SIZE / 2,
				       provider->addr, BUFFER_SIZE / 2,
				       DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	KUNIT_ASSERT_NOT_NULL(test, tx);
	if (callback) {
		tx->callback = callback;
		tx->callback_param = &provider->calls;
	}
	KUNIT_ASSERT_EQ(test, dma_sync_wait(provider->chan, dmaengine_submit(tx)), DMA_COMPLETE);
}

/* A descriptor without a callback calls none, also not that of its last user. */
static void used_descriptor_calls_nobody(struct kunit *test)
{
	struct provider *provider = test->priv;
	int calls;

	for (int i = 0; i < MANY; i++)
		copy(test, count_call);
	/* A call may come after its cookie is complete. */
	KUNIT_ASSERT_EQ(test, 0,
			read_poll_timeout(atomic_read, calls, calls == MANY, 1000,
					  10 * USEC_PER_SEC, false, &provider->calls));
	for (int i = 0; i < MANY; i++)
		copy(test, NULL);
	dmaengine_synchronize(provider->chan);
	KUNIT_EXPECT_EQ(test, atomic_read(&provider->calls), MANY);
}

/* An interrupt without a copy comes, if the engine offers DMA_INTERRUPT. */
static void offered_interrupt_comes(struct kunit *test)
{
	struct provider *provider = test->priv;
	struct dma_device *dma = provider->chan->device;
	struct dma_async_tx_descriptor *tx;

	if (!dma_has_cap(DMA_INTERRUPT, dma->cap_mask))
		return;
	tx = dma->device_prep_dma_interrupt(provider->chan, DMA_PREP_INTERRUPT);
	KUNIT_ASSERT_NOT_NULL(test, tx);
	KUNIT_EXPECT_EQ(test, dma_sync_wait(provider->chan, dmaengine_submit(tx)), DMA_COMPLETE);
}

static int provider_test_init(struct kunit *test)
{
	struct provider *provider = kunit_kzalloc(test, sizeof(*provider), GFP_KERNEL);
	dma_cap_mask_t memcpy = { };
	struct dma_chan *chan;

	KUNIT_ASSERT_NOT_NULL(test, provider);
	provider->buffer = kunit_kzalloc(test, BUFFER_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, provider->buffer);
	dma_cap_set(DMA_MEMCPY, memcpy);
	chan = dma_request_chan_by_mask(&memcpy);
	if (IS_ERR(chan))
		kunit_skip(test, "no engine with a channel for memcpy");
	if (dma_has_cap(DMA_COMPLETION_NO_ORDER, chan->device->cap_mask)) {
		dma_release_channel(chan);
		kunit_skip(test, "no status to wait for");
	}
	provider->addr = dma_map_single(dmaengine_get_dma_device(chan), provider->buffer,
					BUFFER_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(dmaengine_get_dma_device(chan), provider->addr)) {
		dma_release_channel(chan);
		return -EIO;
	}
	provider->chan = chan;
	test->priv = provider;
	return 0;
}

static void provider_test_exit(struct kunit *test)
{
	struct provider *provider = test->priv;

	if (!provider)
		return;
	dmaengine_terminate_sync(provider->chan);
	dma_unmap_single(dmaengine_get_dma_device(provider->chan), provider->addr,
			 BUFFER_SIZE, DMA_BIDIRECTIONAL);
	dma_release_channel(provider->chan);
}

static struct kunit_case provider_test_cases[] = {
	KUNIT_CASE(used_descriptor_calls_nobody),
	KUNIT_CASE(offered_interrupt_comes),
	{}
};

static struct kunit_suite provider_test_suite = {
	.name = "dmaengine_provider",
	.init = provider_test_init,
	.exit = provider_test_exit,
	.test_cases = provider_test_cases,
};

kunit_test_suites(&dmaengine_test_suite, &provider_test_suite);

MODULE_DESCRIPTION("KUnit tests for dmaengine");
MODULE_LICENSE("GPL");
