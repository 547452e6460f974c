// SPDX-License-Identifier: GPL-2.0
/* Copies of ranges of pages, by the routine that copy_pages= names. */

#define pr_fmt(fmt) "x86/mm: " fmt

#include <kunit/static_stub.h>
#include <linux/cache.h>
#include <linux/cpufeature.h>
#include <linux/init.h>
#include <linux/instrumented.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/uaccess.h>

#include <asm/copy_routines.h>

/* Set while booting, and by KUnit tests. */
enum copy_routine copy_routine __read_mostly;

static int __init parse_copy_pages(char *name)
{
	static const char * const names[] __initconst = {
		[COPY_DEFAULT]		= "default",
		[COPY_MOVSQ]		= "movsq",
		[COPY_NONTEMPORAL]	= "nontemporal",
	};
	int routine = name ? match_string(names, ARRAY_SIZE(names), name) : -EINVAL;

	if (routine < 0)
		return routine;
	/* A host may move a guest to other processors, and its memory to other nodes. */
	if (boot_cpu_has(X86_FEATURE_HYPERVISOR)) {
		pr_info("copy_pages=%s is ignored in a guest\n", name);
		return 0;
	}
	copy_routine = routine;
	pr_info("copy_pages=%s\n", name);
	return 0;
}
early_param("copy_pages", parse_copy_pages);

/**
 * copy_routine_for - return the routine for a range
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes
 *
 * Stores that bypass the cache lose where this CPU may read the destination next, where
 * init_on_alloc has just written it, and in short ranges.
 *
 * Return: @copy_routine, or COPY_DEFAULT where that loses.
 */
enum copy_routine copy_routine_for(const void *dst, const void *src, unsigned int len)
{
	enum copy_routine routine = READ_ONCE(copy_routine);
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
 * copy_range_by - copy a range by a routine
 * @routine: the routine
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: as copy_mc_range().
 */
unsigned long copy_range_by(enum copy_routine routine, void *dst, const void *src,
			    unsigned int len)
{
	KUNIT_STATIC_STUB_REDIRECT(copy_range_by, routine, dst, src, len);

	if (routine == COPY_DEFAULT)
		return copy_mc_to_kernel(dst, src, len);
	instrument_memcpy_before(dst, src, len);
	if (routine == COPY_MOVSQ)
		return copy_range_movsq(dst, src, len);
	return copy_range_nontemporal(dst, src, len);
}

/**
 * copy_mc_range - copy a range of pages that may be poisoned
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: the number of bytes at the end that were not copied, because of poison at the
 * first of them or shortly after it.
 */
unsigned long copy_mc_range(void *dst, const void *src, unsigned int len)
{
	return copy_range_by(copy_routine_for(dst, src, len), dst, src, len);
}
