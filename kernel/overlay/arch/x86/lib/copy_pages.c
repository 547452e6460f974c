// SPDX-License-Identifier: GPL-2.0
/* Copies of ranges of pages by another routine than that of the processor's flags. */

#include <kunit/static_stub.h>
#include <linux/instrumented.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/topology.h>

#include <asm/copy_pages.h>
#include <asm/copy_routines.h>

/* An enum copy_routine. */
unsigned int copy_routine __read_mostly;

static const char * const names[] = {
	[COPY_DEFAULT]		= "default",
	[COPY_MOVSQ]		= "movsq",
	[COPY_NONTEMPORAL]	= "nontemporal",
};

static int set_copy_routine(const char *value, const struct kernel_param *param)
{
	int routine = sysfs_match_string(names, value);

	if (routine < 0)
		return routine;
	WRITE_ONCE(copy_routine, routine);
	return 0;
}

static int get_copy_routine(char *value, const struct kernel_param *param)
{
	return sysfs_emit(value, "%s\n", names[READ_ONCE(copy_routine)]);
}

static const struct kernel_param_ops copy_routine_ops = {
	.set = set_copy_routine,
	.get = get_copy_routine,
};

__core_param_cb(copy_pages, &copy_routine_ops, NULL, 0644);

/**
 * copy_routine_for - return the routine for a range
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes
 *
 * Stores that bypass the cache lose where this CPU may read the destination next, where
 * init_on_alloc has just written it, and in short ranges.
 *
 * Return: an enum copy_routine.
 */
unsigned int copy_routine_for(const void *dst, const void *src, unsigned long len)
{
	unsigned int routine = READ_ONCE(copy_routine);
	int nid;

	if (routine != COPY_NONTEMPORAL)
		return routine;
	nid = page_to_nid(virt_to_page(dst));
	if (len < SZ_16K || nid == numa_mem_id() || nid == page_to_nid(virt_to_page(src)) ||
	    want_init_on_alloc(0))
		return COPY_DEFAULT;
	return COPY_NONTEMPORAL;
}

/**
 * copy_pages_by - copy a range by a routine
 * @routine: an enum copy_routine, not COPY_DEFAULT
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: the number of bytes at the end that were not copied, because of poison at the
 * first of them or shortly after it.
 */
unsigned long copy_pages_by(unsigned int routine, void *dst, const void *src,
			    unsigned long len)
{
	KUNIT_STATIC_STUB_REDIRECT(copy_pages_by, routine, dst, src, len);

	instrument_memcpy_before(dst, src, len);
	if (routine == COPY_MOVSQ)
		return copy_range_movsq(dst, src, len);
	return copy_range_nontemporal(dst, src, len);
}
