/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Routines that copy ranges of pages without FPU state.
 *
 * @dst and @src are page aligned and do not overlap; @len is a multiple of the page size,
 * in bytes. A load from poison ends the copy. Each routine returns the number of bytes at
 * the end that it did not copy.
 */
#ifndef _ASM_X86_COPY_ROUTINES_H
#define _ASM_X86_COPY_ROUTINES_H

#include <asm/asm.h>

/**
 * enum copy_routine - how to copy a range of pages
 * @COPY_DEFAULT: as copy_mc_to_kernel()
 * @COPY_MOVSQ: "rep movsq"
 * @COPY_NONTEMPORAL: stores that bypass the cache
 */
enum copy_routine {
	COPY_DEFAULT,
	COPY_MOVSQ,
	COPY_NONTEMPORAL,
};

extern enum copy_routine copy_routine;

enum copy_routine copy_routine_for(const void *dst, const void *src, unsigned int len);
unsigned long copy_range_by(enum copy_routine routine, void *dst, const void *src,
			    unsigned int len);

static inline unsigned long copy_range_movsq(void *dst, const void *src, unsigned long len)
{
	unsigned long words = len / 8;

	/* A fault leaves the number of remaining words. */
	asm volatile("1:	rep movsq\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT_MCE_SAFE)
		     : "+D" (dst), "+S" (src), "+c" (words) : : "memory");
	return words * 8;
}

#define COPY_LOAD(offset, reg)						\
	"1:	movq " #offset "(%[src]), %%" #reg "\n"			\
	_ASM_EXTABLE_TYPE(1b, %l[poison], EX_TYPE_DEFAULT_MCE_SAFE)

#define COPY_HALF_LINE(a, b, c, d)					\
	COPY_LOAD(a, rax) COPY_LOAD(b, r8) COPY_LOAD(c, r9) COPY_LOAD(d, r10) \
	"	movnti %%rax, " #a "(%[dst])\n"				\
	"	movnti %%r8, " #b "(%[dst])\n"				\
	"	movnti %%r9, " #c "(%[dst])\n"				\
	"	movnti %%r10, " #d "(%[dst])\n"

/* Copy 64 bytes past the cache, without a fence. Return false if a load met poison. */
static inline bool copy_line_nontemporal(void *dst, const void *src)
{
	asm goto(COPY_HALF_LINE(0, 8, 16, 24)
		 COPY_HALF_LINE(32, 40, 48, 56)
		 : : [dst] "r" (dst), [src] "r" (src)
		 : "rax", "r8", "r9", "r10", "memory" : poison);
	return true;
poison:
	return false;
}

static inline unsigned long copy_range_nontemporal(void *dst, const void *src,
						   unsigned long len)
{
	for (; len; len -= 64, dst += 64, src += 64) {
		/* A page ahead, but never past the range. */
		if (len > 4096)
			asm volatile("prefetcht0 4096(%0)" : : "r" (src));
		if (!copy_line_nontemporal(dst, src))
			break;
	}
	/* The stores are weakly ordered: a CPU that sees the copy as done sees its bytes. */
	asm volatile("sfence" : : : "memory");
	return len;
}

#endif /* _ASM_X86_COPY_ROUTINES_H */
