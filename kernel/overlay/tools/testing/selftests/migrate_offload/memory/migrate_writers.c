// SPDX-License-Identifier: GPL-2.0
/*
 * Threads store to memory without a pause while it migrates back and forth between two nodes: no
 * store may get lost. Every word has one writer, which knows the value that it wrote last.
 */
#include "run.h"

#define TIMEOUT		240
#define TURNS		100
#define NR_WRITERS	3

static struct writer {
	pthread_t thread;
	unsigned int index;
	/* Rounds over the memory that are complete, also read by the thread that moves it. */
	uint64_t rounds;
	/* Words that were wrong. */
	uint64_t wrong;
} writers[NR_WRITERS];

/* Set once for all writers. */
static bool stop;

FIXTURE(migrate_writers) { };
FIXTURE_VARIANT(migrate_writers) { enum area_kind kind; size_t size; bool live; };
FIXTURE_VARIANT_ADD(migrate_writers, anon_4k) { AREA_ANON_4K, 2 * MIB };
FIXTURE_VARIANT_ADD(migrate_writers, anon_64k) { AREA_ANON_64K, 2 * MIB };
FIXTURE_VARIANT_ADD(migrate_writers, anon_2m) { AREA_ANON_2M, 4 * MIB };
FIXTURE_VARIANT_ADD(migrate_writers, shmem) { AREA_SHMEM, 2 * MIB };
FIXTURE_VARIANT_ADD(migrate_writers, live_4k) { AREA_ANON_4K, 2 * MIB, true };
FIXTURE_VARIANT_ADD(migrate_writers, live_64k) { AREA_ANON_64K, 2 * MIB, true };
FIXTURE_VARIANT_ADD(migrate_writers, live_2m) { AREA_ANON_2M, 4 * MIB, true };

/*
 * Word number i of every page belongs to writer i, and so do the last words:
 * the writers touch each page at both ends. A round adds one to all of them.
 */
static void *write_words(void *arg)
{
	struct writer *writer = arg;
	size_t page = memory_page_size();
	size_t end = page / sizeof(uint64_t) - 1;
	uint64_t value = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (size_t i = 0; i < area.size; i += page) {
			uint64_t *words = (uint64_t *)(area.addr + i);
			uint64_t *first = &words[writer->index];
			uint64_t *last = &words[end - writer->index];

			writer->wrong += __atomic_load_n(first, __ATOMIC_RELAXED) != value;
			writer->wrong += __atomic_load_n(last, __ATOMIC_RELAXED) != value;
			__atomic_store_n(first, value + 1, __ATOMIC_RELAXED);
			__atomic_store_n(last, value + 1, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&writer->rounds, ++value, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Whether moves in both directions and stores have met, however slow the machine is. */
static bool enough(bool live, const size_t moved[2])
{
	const size_t pages = area.size / memory_page_size();

	for (unsigned int i = 0; i < NR_WRITERS; i++)
		if (__atomic_load_n(&writers[i].rounds, __ATOMIC_RELAXED) <= 2)
			return false;
	return moved[0] > pages && moved[1] > pages && (!live || offload_grown("live_written"));
}

FIXTURE_SETUP(migrate_writers)
{
	if (!test_begin(_metadata))
		return;
	if (variant->live && !offload_on_for(MOVE_PAGES))
		SKIP(return, "no route for " MOVE_PAGES);
	if (offload_available())
		ASSERT_EQ(0, offload_set_live(variant->live));
	create_area(variant->kind, variant->size);
	memset(area.addr, 0, variant->size);
}

FIXTURE_TEARDOWN(migrate_writers) { settings_restore(); }

TEST_F_TIMEOUT(migrate_writers, no_store_is_lost, TIMEOUT)
{
	size_t pages = variant->size / memory_page_size();
	bool offload_on = offload_on_for(MOVE_PAGES);
	size_t moved[2] = { 0, 0 };
	unsigned int turns = 0;
	/* A debug kernel is slow. */
	const unsigned int least = debug_kernel() ? TURNS / 10 : TURNS;

	offload_mark();
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		writers[i].index = i;
		ASSERT_EQ(0, pthread_create(&writers[i].thread, NULL, write_words, &writers[i]));
	}

	while (turns < least || !enough(variant->live, moved)) {
		int to = nodes[(turns + 1) % 2];
		long missing = memory_move(0, area.addr, variant->size, memory_page_size(), to,
					   MPOL_MF_MOVE);

		/* Now and then a page is busy: migration is best effort. */
		EXPECT_LE(0, missing);
		moved[turns % 2] += pages - missing;
		turns++;
	}

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < NR_WRITERS; i++)
		ASSERT_EQ(0, pthread_join(writers[i].thread, NULL));

	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		const struct writer *writer = &writers[i];
		size_t end_word = memory_page_size() / sizeof(uint64_t) - 1;
		uint64_t wrong = writer->wrong;

		for (size_t pos = 0; pos < variant->size; pos += memory_page_size()) {
			const uint64_t *words = (uint64_t *)(area.addr + pos);

			wrong += words[i] != writer->rounds;
			wrong += words[end_word - i] != writer->rounds;
		}
		EXPECT_EQ(0, wrong);
	}
	EXPECT_TRUE(variant->kind != AREA_ANON_2M || area_is_by_pmd(&area));
	EXPECT_EQ(offload_on, offload_grown("folios_copied") > 0);
	EXPECT_EQ(offload_on, offload_grown("") > 0);
	EXPECT_EQ(variant->live, offload_grown("live_written") > 0);
	EXPECT_EQ(variant->live, offload_grown("live_") > 0);
}

TEST_HARNESS_MAIN
