/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Complaints that a healthy kernel does not print, as extended regular expressions: parts of its
 * log's lines. They have neither quotes nor backslashes, since harness/guest/vm.py of the project
 * reads the first macro too.
 */
#ifndef KERNEL_COMPLAINTS_H
#define KERNEL_COMPLAINTS_H

/*
 * Never. Stalls and lockups are left out: a busy host causes them. In virtual time, where it does
 * not, harness/guest/vm.py looks for them as well.
 */
#define KERNEL_COMPLAINTS							\
	"Kernel panic - not syncing|kernel BUG at|Oops: "			\
	"|(^|[^A-Z])BUG: ([^s]|s[^o])"		/* not: soft lockup */		\
	"|general protection fault"						\
	"|WARNING: (.*CPU#[0-9]+: |possible |suspicious |inconsistent |bad )"	\
	"|WARNING: (held lock|lock held|Nested lock|chain_key|[^ ]+-safe -> )"	\
	"|WARNING: .*still has locks"						\
	"|INFO: trying to register non-static key"				\
	"|pagealloc: (memory|single bit)|list_(add|del) corruption"

/* Nor, once it has booted, while a test runs. */
#define KERNEL_COMPLAINTS_IN_A_TEST						\
	KERNEL_COMPLAINTS "|WARNING:|BUG:|INFO: (task|trying|rcu)"		\
	"|KASAN|KFENCE|UBSAN|Oops|general protection|DMA-API:|Call Trace"	\
	"|Bad rss-counter|page dumped because|possible (circular|recursive)"	\
	"|inconsistent lock|suspicious RCU|sleeping function|refcount_t:"	\
	"|Object padding|Redzone|Poison overwritten|ODEBUG|pagealloc:"		\
	"|scheduling while atomic|hung_task|soft lockup"			\
	"|rcu_preempt self-detected|new suspected memory leaks|EXT4-fs error"

#endif
