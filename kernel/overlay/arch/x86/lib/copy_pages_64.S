/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of ranges of pages: one call for the whole range, and no FPU state.
 *
 *	void copy_pages_<primitive>(void *dst, const void *src, unsigned long len);
 *	unsigned long copy_mc_pages_<primitive>(void *dst, const void *src,
 *						unsigned long len);
 *
 * @dst and @src are page aligned and do not overlap; @len is in bytes, not zero,
 * and a multiple of the page size.
 *
 * The second form is for a @src that may be poisoned. It returns the number of bytes
 * at the end of the range that were not copied, 0 if all were. All bytes before
 * them were copied. Its loads have fixups. A store that faults is a bug; "rep movs"
 * has a fixup for both, since it is load and store. The first form has no fixups:
 * its callers cannot handle poison, so a machine check must stop them.
 *
 * tools/mm/copy_bench.c is built from this file as well.
 */

#include <linux/linkage.h>
#include <asm/asm.h>

#define PAGE_BYTES	4096
#define LINE_BYTES	64

/* A machine check in the middle of "rep movs" leaves the remaining count in %rcx. */

.macro COPY_PAGES_MOVSB mc
	movq	%rdx, %rcx
.Lcopy\@:
	rep movsb
.if \mc
	xorl	%eax, %eax
.endif
	RET
.if \mc
.Lpoison\@:
	movq	%rcx, %rax
	RET

	_ASM_EXTABLE_TYPE(.Lcopy\@, .Lpoison\@, EX_TYPE_DEFAULT_MCE_SAFE)
.endif
.endm

.macro COPY_PAGES_MOVSQ mc
	movq	%rdx, %rcx
	shrq	$3, %rcx
.Lcopy\@:
	rep movsq
.if \mc
	xorl	%eax, %eax
.endif
	RET
.if \mc
.Lpoison\@:
	leaq	(,%rcx,8), %rax
	RET

	_ASM_EXTABLE_TYPE(.Lcopy\@, .Lpoison\@, EX_TYPE_DEFAULT_MCE_SAFE)
.endif
.endm

.macro LOAD offset reg mc poison
.Lload\@:
	movq	\offset(%rsi), \reg
.if \mc
	_ASM_EXTABLE_TYPE(.Lload\@, \poison, EX_TYPE_DEFAULT_MCE_SAFE)
.endif
.endm

.macro COPY_HALF_LINE offset mc poison
	LOAD	"\offset+0",  %rax, \mc, \poison
	LOAD	"\offset+8",  %r8,  \mc, \poison
	LOAD	"\offset+16", %r9,  \mc, \poison
	LOAD	"\offset+24", %r10, \mc, \poison
	movnti	%rax, (\offset+0)(%rdi)
	movnti	%r8,  (\offset+8)(%rdi)
	movnti	%r9,  (\offset+16)(%rdi)
	movnti	%r10, (\offset+24)(%rdi)
.endm

.macro COPY_LINE mc poison
	COPY_HALF_LINE 0, \mc, \poison
	COPY_HALF_LINE 32, \mc, \poison
	addq	$LINE_BYTES, %rsi
	addq	$LINE_BYTES, %rdi
	subq	$LINE_BYTES, %rdx
.endm

/*
 * Prefetch one page ahead, but never past the range. %rdx is the number of bytes
 * left, including the line being copied. The stores are weakly ordered: every
 * return path needs a fence, so that a CPU that sees the copy as done sees its bytes.
 */
.macro COPY_PAGES_NT mc
	cmpq	$PAGE_BYTES, %rdx
	jbe	.Llast_page\@
	.p2align 4
.Lline_ahead\@:
	prefetcht0 PAGE_BYTES(%rsi)
	COPY_LINE \mc, .Lpoison\@
	cmpq	$PAGE_BYTES, %rdx
	ja	.Lline_ahead\@
	.p2align 4
.Llast_page\@:
	COPY_LINE \mc, .Lpoison\@
	jnz	.Llast_page\@
	sfence
.if \mc
	xorl	%eax, %eax
.endif
	RET
.if \mc
.Lpoison\@:
	sfence
	movq	%rdx, %rax
	RET
.endif
.endm

SYM_FUNC_START(copy_pages_movsb)
	COPY_PAGES_MOVSB mc=0
SYM_FUNC_END(copy_pages_movsb)

SYM_FUNC_START(copy_mc_pages_movsb)
	COPY_PAGES_MOVSB mc=1
SYM_FUNC_END(copy_mc_pages_movsb)

SYM_FUNC_START(copy_pages_movsq)
	COPY_PAGES_MOVSQ mc=0
SYM_FUNC_END(copy_pages_movsq)

SYM_FUNC_START(copy_mc_pages_movsq)
	COPY_PAGES_MOVSQ mc=1
SYM_FUNC_END(copy_mc_pages_movsq)

SYM_FUNC_START(copy_pages_nontemporal)
	COPY_PAGES_NT mc=0
SYM_FUNC_END(copy_pages_nontemporal)

SYM_FUNC_START(copy_mc_pages_nontemporal)
	COPY_PAGES_NT mc=1
SYM_FUNC_END(copy_mc_pages_nontemporal)
