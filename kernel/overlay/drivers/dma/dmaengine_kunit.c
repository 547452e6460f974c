// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for dmaengine: sharing of public channels between clients, and the
 * removal of a channel that clients hold.
 */
#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/dmaengine.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/notifier.h>

/* An engine with one public channel, which clients hold but never use. */
struct engine {
	struct dma_device dma;
	struct dma_chan chan;
	dma_cap_mask_t memcpy;
	bool registered;
	bool allocated;

	struct notifier_block nb;
	struct dma_chan *held;
	unsigned int goodbyes;
	unsigned int given_away;
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
prep_nothing(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src, size_t len,
	     unsigned long flags)
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

static struct dma_chan *get_public(struct engine *engine)
{
	return dma_get_public_channel(&engine->memcpy, is_ours, engine);
}

static struct dma_chan *get_private(struct engine *engine)
{
	return dma_request_channel(engine->memcpy, is_ours, engine);
}

static void clients_share(struct kunit *test)
{
	struct engine *engine = test->priv;

	KUNIT_ASSERT_PTR_EQ(test, get_public(engine), &engine->chan);
	KUNIT_ASSERT_PTR_EQ(test, get_public(engine), &engine->chan);
	KUNIT_EXPECT_NULL(test, get_private(engine));

	dma_put_public_channel(&engine->chan);
	KUNIT_EXPECT_TRUE(test, engine->allocated);
	dma_put_public_channel(&engine->chan);
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

static void private_is_not_shared(struct kunit *test)
{
	struct engine *engine = test->priv;

	KUNIT_ASSERT_PTR_EQ(test, get_private(engine), &engine->chan);
	KUNIT_EXPECT_NULL(test, get_public(engine));
	dma_release_channel(&engine->chan);
}

/* References of dmaengine_get() are independent of those of single clients. */
static void dmaengine_get_comes_and_goes(struct kunit *test)
{
	struct engine *engine = test->priv;

	dmaengine_get();
	KUNIT_EXPECT_PTR_EQ(test, get_public(engine), &engine->chan);
	dmaengine_put();
	KUNIT_EXPECT_TRUE(test, engine->allocated);
	dmaengine_get();
	dma_put_public_channel(&engine->chan);
	KUNIT_EXPECT_TRUE(test, engine->allocated);
	dmaengine_put();
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

/* dmaengine_put() must not drop a reference that dmaengine_get() could not take. */
static void private_during_dmaengine_get(struct kunit *test)
{
	struct engine *engine = test->priv;

	KUNIT_ASSERT_PTR_EQ(test, get_private(engine), &engine->chan);
	dmaengine_get();
	dma_release_channel(&engine->chan);
	KUNIT_EXPECT_FALSE(test, engine->allocated);

	KUNIT_EXPECT_PTR_EQ(test, get_public(engine), &engine->chan);
	dmaengine_put();
	KUNIT_EXPECT_TRUE(test, engine->allocated);
	dma_put_public_channel(&engine->chan);
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

static int on_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct engine *engine = container_of(nb, struct engine, nb);

	if (event != DMA_CHAN_REMOVING || data != &engine->chan)
		return NOTIFY_DONE;

	engine->goodbyes++;
	if (engine->held)
		dma_put_public_channel(engine->held);
	engine->given_away += !!get_public(engine);
	engine->given_away += !!get_private(engine);
	return NOTIFY_OK;
}

static void unregister_engine(struct engine *engine)
{
	engine->registered = false;
	dma_async_device_unregister(&engine->dma);
}

/* A client notified of removal can release the channel; nobody can acquire it meanwhile. */
static void channel_goes(struct kunit *test)
{
	struct engine *engine = test->priv;

	engine->held = get_public(engine);
	KUNIT_ASSERT_PTR_EQ(test, engine->held, &engine->chan);

	engine->nb.notifier_call = on_event;
	KUNIT_ASSERT_EQ(test, dma_register_notifier(&engine->nb), 0);
	unregister_engine(engine);
	dma_unregister_notifier(&engine->nb);

	KUNIT_EXPECT_EQ(test, engine->goodbyes, 1);
	KUNIT_EXPECT_EQ(test, engine->given_away, 0);
	KUNIT_EXPECT_FALSE(test, engine->allocated);
}

static int dmaengine_test_init(struct kunit *test)
{
	struct engine *engine = kunit_kzalloc(test, sizeof(*engine), GFP_KERNEL);
	struct device *dev = kunit_device_register(test, "dmaengine-test");
	struct dma_device *dma;
	int error;

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

	error = dma_async_device_register(dma);
	if (error)
		return error;

	engine->registered = true;
	test->priv = engine;
	return 0;
}

static void dmaengine_test_exit(struct kunit *test)
{
	struct engine *engine = test->priv;

	if (engine && engine->registered)
		unregister_engine(engine);
}

static struct kunit_case dmaengine_test_cases[] = {
	KUNIT_CASE(clients_share),
	KUNIT_CASE(private_is_not_shared),
	KUNIT_CASE(dmaengine_get_comes_and_goes),
	KUNIT_CASE(private_during_dmaengine_get),
	KUNIT_CASE(channel_goes),
	{}
};

static struct kunit_suite dmaengine_test_suite = {
	.name = "dmaengine",
	.init = dmaengine_test_init,
	.exit = dmaengine_test_exit,
	.test_cases = dmaengine_test_cases,
};

kunit_test_suite(dmaengine_test_suite);

MODULE_DESCRIPTION("KUnit tests for dmaengine");
MODULE_LICENSE("GPL");
