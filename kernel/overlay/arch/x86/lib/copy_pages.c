// SPDX-License-Identifier: GPL-2.0
/*
 * Copies of ranges of pages: which primitives this machine has, and calls of them.
 *
 * The callers copy KMSAN's metadata.
 *
 * A switch calls the primitives directly, so that none of them needs to be a target of
 * indirect calls.
 */

#include <kunit/static_stub.h>
#include <linux/bits.h>
#include <linux/cacheflush.h>
#include <linux/cpufeature.h>
#include <linux/instrumented.h>

#include <asm/copy_primitives.h>
#include <asm/mce.h>

#include "../../../mm/copy_pages.h"

/**
 * arch_copy_primitives - return the primitives of this machine
 * @mc: whether they must survive poison in the source
 *
 * A machine with "fragile" copies cannot recover from poison in all instructions. It must
 * use copy_mc_to_kernel(), as the loop does.
 *
 * Return: a bitmap of enum copy_primitive.
 */
unsigned int arch_copy_primitives(bool mc)
{
	unsigned int primitives = BIT(COPY_PER_PAGE) | BIT(COPY_DEFAULT);

	if (mc && copy_mc_is_fragile())
		return primitives;
	primitives |= BIT(COPY_MOVSQ) | BIT(COPY_NONTEMPORAL);
	if (cpu_feature_enabled(X86_FEATURE_ERMS))
		primitives |= BIT(COPY_MOVSB);
	return primitives;
}

/**
 * arch_copy_timings_last - whether timings of this machine stay true
 *
 * A virtual machine may move to a host with another processor.
 *
 * Return: true if the kernel may choose a primitive by itself.
 */
bool arch_copy_timings_last(void)
{
	KUNIT_STATIC_STUB_REDIRECT(arch_copy_timings_last);

	return !boot_cpu_has(X86_FEATURE_HYPERVISOR);
}

/**
 * arch_copy_pages_by - copy a range with a primitive
 * @primitive: one of arch_copy_primitives(false), not COPY_PER_PAGE or COPY_DEFAULT
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 */
void arch_copy_pages_by(enum copy_primitive primitive, void *dst, const void *src,
			unsigned long len)
{
	KUNIT_STATIC_STUB_REDIRECT(arch_copy_pages_by, primitive, dst, src, len);

	instrument_memcpy_before(dst, src, len);
	switch (primitive) {
	case COPY_MOVSB:
		copy_pages_movsb(dst, src, len);
		break;
	case COPY_NONTEMPORAL:
		copy_pages_nontemporal(dst, src, len);
		break;
	default:
		copy_pages_movsq(dst, src, len);
	}
}

/**
 * arch_copy_mc_pages_by - copy a range from memory that may be poisoned
 * @primitive: one of arch_copy_primitives(true), not COPY_PER_PAGE or COPY_DEFAULT
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: the number of bytes at the end that were not copied, because of poison at the
 * first of them or shortly after it.
 */
unsigned long arch_copy_mc_pages_by(enum copy_primitive primitive, void *dst,
				    const void *src, unsigned long len)
{
	unsigned long left;

	KUNIT_STATIC_STUB_REDIRECT(arch_copy_mc_pages_by, primitive, dst, src, len);

	instrument_memcpy_before(dst, src, len);
	switch (primitive) {
	case COPY_MOVSB:
		left = copy_mc_pages_movsb(dst, src, len);
		break;
	case COPY_NONTEMPORAL:
		left = copy_mc_pages_nontemporal(dst, src, len);
		break;
	default:
		left = copy_mc_pages_movsq(dst, src, len);
	}
	return left;
}

/**
 * arch_copy_evict - write back a range of memory, and evict it from all caches
 * @start: start of the range
 * @len: length of the range in bytes
 */
void arch_copy_evict(void *start, unsigned long len)
{
	clflush_cache_range(start, len);
}
