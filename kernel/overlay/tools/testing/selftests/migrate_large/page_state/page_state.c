// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/page_state: the state of page tables and folios of a process, for tests that
 * compare kernels. Reading changes nothing: no bit, no reference that stays. It can also
 * pause a migration, so that a test changes memory meanwhile.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/leafops.h>
#include <linux/migrate.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/page_idle.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "page_state.h"

#define BATCH	512U

/* As folio_precise_page_mapcount(), which is internal to /proc. */
static int page_mapcount_of(struct folio *folio, struct page *page)
{
	int mapcount = atomic_read(&page->_mapcount) + 1;

	if (page_mapcount_is_type(mapcount))
		mapcount = 0;
	return mapcount + (folio_test_large(folio) ? folio_entire_mapcount(folio) : 0);
}

/* Quick, since there are a lot of pages to look at; 0 for zeros and for nothing else. */
static u32 hash_of(struct page *page)
{
	const u64 *word = page_address(page), *end = page_address(page) + PAGE_SIZE;
	u64 hash = 0, any = 0;

	for (; word < end; word += 8) {
		hash = rol64(hash, 5) ^ word[0] ^ rol64(word[1], 7) ^ rol64(word[2], 14) ^
		       rol64(word[3], 21) ^ rol64(word[4], 28) ^ rol64(word[5], 35) ^
		       rol64(word[6], 42) ^ rol64(word[7], 49);
		any |= word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] |
		       word[7];
	}
	return any ? max((hash ^ hash >> 32) & U32_MAX, 1) : 0;
}

static void fill_folio(struct page_state *state, unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);
	struct folio *folio = page_folio(page);
	bool large = folio_test_large(folio), hugetlb = folio_test_hugetlb(folio);
	u32 flags = 0;

	flags |= folio_test_anon(folio) ? FOLIO_IS_ANON : 0;
	flags |= folio_test_ksm(folio) ? FOLIO_IS_KSM : 0;
	flags |= hugetlb ? FOLIO_IS_HUGETLB : 0;
	flags |= folio_test_dirty(folio) ? FOLIO_IS_DIRTY : 0;
	flags |= folio_test_referenced(folio) ? FOLIO_IS_REFERENCED : 0;
	flags |= folio_test_active(folio) ? FOLIO_IS_ACTIVE : 0;
	flags |= folio_test_mlocked(folio) ? FOLIO_IS_MLOCKED : 0;
	flags |= folio_test_unevictable(folio) ? FOLIO_IS_UNEVICTABLE : 0;
	flags |= folio_test_swapbacked(folio) ? FOLIO_IS_SWAPBACKED : 0;
	flags |= folio_test_swapcache(folio) ? FOLIO_IS_SWAPCACHE : 0;
	flags |= folio_test_workingset(folio) ? FOLIO_IS_WORKINGSET : 0;
	flags |= folio_test_idle(folio) ? FOLIO_IS_IDLE : 0;
	flags |= folio_maybe_mapped_shared(folio) ? FOLIO_IS_SHARED : 0;
	if (folio_test_anon(folio) && !folio_test_ksm(folio) &&
	    PageAnonExclusive(hugetlb ? &folio->page : page))
		flags |= PAGE_IS_EXCLUSIVE;
	if (folio_order(folio) > 1 && folio_test_anon(folio) && !hugetlb) {
		flags |= folio_test_partially_mapped(folio) ? FOLIO_IS_PARTIAL : 0;
		flags |= list_empty(&folio->_deferred_list) ? 0 : FOLIO_IS_QUEUED;
	}

	state->hash = hash_of(page);
	state->word = ((const u64 *)page_address(page))[PAGE_STATE_WORD];
	flags |= state->hash ? 0 : PAGE_IS_ZERO;
	state->page = flags;
	state->folio_pfn = folio_pfn(folio);
	state->index = pfn - folio_pfn(folio);
	state->order = folio_order(folio);
	state->node = folio_nid(folio);
	state->mapcount = page_mapcount_of(folio, page);
	state->extra_refs = folio_ref_count(folio) - folio_expected_ref_count(folio);
	if (large) {
		state->entire_mapcount = folio_entire_mapcount(folio);
		state->large_mapcount = folio_large_mapcount(folio);
		state->nr_pages_mapped = hugetlb ? 0 : atomic_read(&folio->_nr_pages_mapped);
	}
}

static void fill_present(struct page_state *state, unsigned long pfn)
{
	if (!pfn_valid(pfn) || is_zero_pfn(pfn))
		state->pte |= PTE_IS_SPECIAL;
	else
		fill_folio(state, pfn);
}

static u32 kind_of(softleaf_t entry)
{
	if (softleaf_is_migration(entry))
		return PTE_IS_MIGRATION;
	if (softleaf_is_hwpoison(entry))
		return PTE_IS_POISON;
	return softleaf_is_marker(entry) ? PTE_IS_MARKER : PTE_IS_SWAP;
}

/* Of an entry that is present, a pte or a pmd. */
#define present_bits(type, entry)						\
	(PTE_IS_PRESENT |							\
	 (type##_write(entry) ? PTE_IS_WRITABLE : 0) |				\
	 (type##_young(entry) ? PTE_IS_YOUNG : 0) |				\
	 (type##_dirty(entry) ? PTE_IS_DIRTY : 0) |				\
	 (type##_protnone(entry) ? PTE_IS_PROTNONE : 0) |			\
	 (type##_soft_dirty(entry) ? PTE_IS_SOFT_DIRTY : 0) |			\
	 (type##_uffd(entry) ? PTE_IS_UFFD : 0))

static void fill_pte(struct page_state *state, pte_t pte)
{
	if (pte_none(pte))
		return;
	if (!pte_present(pte)) {
		state->pte |= kind_of(softleaf_from_pte(pte));
		state->pte |= pte_swp_exclusive(pte) ? PTE_IS_SWAP_EXCLUSIVE : 0;
		state->pte |= pte_swp_soft_dirty(pte) ? PTE_IS_SOFT_DIRTY : 0;
		state->pte |= pte_swp_uffd_any(pte) ? PTE_IS_UFFD : 0;
		return;
	}
	state->pte |= present_bits(pte, pte);
#ifdef CONFIG_ARM64_CONTPTE
	state->pte |= pte_cont(pte) ? PTE_IS_CONTIGUOUS : 0;
#endif
	fill_present(state, pte_pfn(pte));
}

static void fill_pmd(struct page_state *state, pmd_t pmd, unsigned long addr)
{
	state->pte |= PTE_IS_HUGE;
	if (!pmd_present(pmd)) {
		state->pte |= PTE_IS_MIGRATION;
		return;
	}
	state->pte |= present_bits(pmd, pmd);
	fill_present(state, pmd_pfn(pmd) + ((addr & ~PMD_MASK) >> PAGE_SHIFT));
}

/*
 * The mmap lock, which the caller holds for writing, keeps the tables down to the PMD's.
 * The lock of the PMD keeps it and the table of PTEs, and the lock of that table keeps
 * the PTE. A folio stays where it is while a locked entry maps it.
 */
static void fill(struct page_state *state, struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	spinlock_t *pmd_ptl, *pte_ptl;
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pmd_t entry;

	if (pgd_none(pgdp_get(pgd)))
		return;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(p4dp_get(p4d)))
		return;
	pud = pud_offset(p4d, addr);
	if (pud_none(pudp_get(pud)) || pud_leaf(pudp_get(pud)))
		return;
	pmd = pmd_offset(pud, addr);
	pmd_ptl = pmd_lock(mm, pmd);
	entry = pmdp_get(pmd);
	if (!pmd_none(entry) && (!pmd_present(entry) || pmd_leaf(entry))) {
		fill_pmd(state, entry, addr);
	} else if (!pmd_none(entry)) {
		pte_ptl = pte_lockptr(mm, pmd);
		if (pte_ptl != pmd_ptl)
			spin_lock_nested(pte_ptl, SINGLE_DEPTH_NESTING);
		fill_pte(state, ptep_get(pte_offset_kernel(pmd, addr)));
		if (pte_ptl != pmd_ptl)
			spin_unlock(pte_ptl);
	}
	spin_unlock(pmd_ptl);
}

/* The page of a file that no entry maps: a split of a huge entry leaves none. */
static void fill_unmapped(struct page_state *state, struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *vma = vma_lookup(mm, addr);
	struct folio *folio;
	pgoff_t index;

	if (state->pte || !vma || !vma->vm_file || is_vm_hugetlb_page(vma))
		return;
	index = linear_page_index(vma, addr);
	folio = filemap_get_folio(vma->vm_file->f_mapping, index);
	if (IS_ERR(folio))
		return;
	state->hash = hash_of(folio_file_page(folio, index));
	folio_put(folio);
}

static int copy_states(struct mm_struct *mm, const struct page_state_query *query,
		       struct page_state *states)
{
	struct page_state __user *out = u64_to_user_ptr(query->states);
	u32 done, i;

	for (done = 0; done < query->nr; done += i) {
		u32 nr = min(query->nr - done, BATCH);

		memset(states, 0, nr * sizeof(*states));
		mmap_write_lock(mm);
		for (i = 0; i < nr; i++) {
			unsigned long addr = query->start + (done + i) * PAGE_SIZE;

			fill(&states[i], mm, addr);
			fill_unmapped(&states[i], mm, addr);
		}
		mmap_write_unlock(mm);
		cond_resched();
		if (copy_to_user(out + done, states, nr * sizeof(*states)))
			return -EFAULT;
	}
	return 0;
}

static enum { PAUSE_OFF, PAUSE_ARMED, PAUSE_NOW } pause_state;
static DECLARE_WAIT_QUEUE_HEAD(pause_wait);

/* Migration calls this between unmap and remap, with both folios locked; it may sleep. */
static int pausing_migrate_folio(struct address_space *mapping, struct folio *dst,
				 struct folio *src, enum migrate_mode mode)
{
	if (cmpxchg(&pause_state, PAUSE_ARMED, PAUSE_NOW) == PAUSE_ARMED) {
		wake_up_all(&pause_wait);
		wait_event_timeout(pause_wait, READ_ONCE(pause_state) != PAUSE_NOW, 20 * HZ);
	}
	return migrate_folio(mapping, dst, src, mode);
}

static const struct address_space_operations pausing_aops = {
	.dirty_folio = noop_dirty_folio, .migrate_folio = pausing_migrate_folio,
};

/* The file keeps these operations: it has to be one that the test made for this. */
static int pause_at(unsigned int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return -EBADF;
	file->f_mapping->a_ops = &pausing_aops;
	fput(file);
	WRITE_ONCE(pause_state, PAUSE_ARMED);
	return 0;
}

static int pause_until_paused(void)
{
	int err = wait_event_interruptible(pause_wait, READ_ONCE(pause_state) != PAUSE_ARMED);

	return err ?: READ_ONCE(pause_state) == PAUSE_NOW;
}

static int pause_end(void)
{
	WRITE_ONCE(pause_state, PAUSE_OFF);
	wake_up_all(&pause_wait);
	return 0;
}

static int get_states(unsigned long arg)
{
	struct page_state_query query;
	struct page_state *states;
	struct task_struct *task;
	struct mm_struct *mm;
	struct pid *pid;
	int err;

	if (copy_from_user(&query, (void __user *)arg, sizeof(query)))
		return -EFAULT;
	if (!PAGE_ALIGNED(query.start) || query.start > TASK_SIZE_MAX ||
	    query.nr > (TASK_SIZE_MAX - query.start) / PAGE_SIZE)
		return -EINVAL;

	pid = find_get_pid(query.pid);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return -ESRCH;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return -ESRCH;

	states = kvmalloc_array(BATCH, sizeof(*states), GFP_KERNEL);
	err = states ? copy_states(mm, &query, states) : -ENOMEM;
	kvfree(states);
	mmput(mm);
	return err;
}

static long page_state_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case PAGE_STATE_GET:
		return get_states(arg);
	case PAGE_STATE_PAUSE_AT:
		return pause_at(arg);
	case PAGE_STATE_PAUSE_WAIT:
		return pause_until_paused();
	case PAGE_STATE_PAUSE_END:
		return pause_end();
	default:
		return -ENOTTY;
	}
}

static const struct file_operations page_state_fops = {
	.owner = THIS_MODULE, .unlocked_ioctl = page_state_ioctl,
};

static struct miscdevice page_state_device = {
	.minor = MISC_DYNAMIC_MINOR, .name = "page_state",
	.fops = &page_state_fops, .mode = 0600,
};
module_misc_device(page_state_device);

MODULE_DESCRIPTION("Page table entries and folios of a process, for tests");
MODULE_LICENSE("GPL");
