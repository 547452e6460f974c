import sys
def sub(p, *pairs):
    s=open(p).read()
    for a,b in pairs:
        assert s.count(a)==1,(p,a,s.count(a))
        s=s.replace(a,b)
    open(p,'w').write(s)
which=sys.argv[1:]
if '7' in which:
    sub('mm/internal.h',
    ('''#define FOLIO_LIVE	ULONG_MAX
''','''#define FOLIO_LIVE	ULONG_MAX
/* The same, if a write has split the PMD meanwhile: the move maps it by a PMD again. */
#define FOLIO_LIVE_SPLIT	(FOLIO_LIVE - 1)
'''),
    ('''	       READ_ONCE(folio->migrate_info) == FOLIO_LIVE;
''','''	       READ_ONCE(folio->migrate_info) >= FOLIO_LIVE_SPLIT;
'''))
    sub('mm/rmap.c',('''	if (!IS_ALIGNED(addr, HPAGE_PMD_SIZE) || (vma->vm_flags & VM_NOHUGEPAGE) ||
	    !mmap_read_trylock(mm))
''','''	if (READ_ONCE(folio->migrate_info) != FOLIO_LIVE_SPLIT ||
	    !IS_ALIGNED(addr, HPAGE_PMD_SIZE) || !mmap_read_trylock(mm))
'''))
if '8' in which:
    sub('mm/huge_memory.c',
    ('''/* Let one page of a live folio become writable, unless the folio has moved. */
''','''/* Let one page of a live folio become writable, unless it has moved, or stays. */
'''),
    ('''	struct mmu_notifier_range range;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vmf->vma->vm_mm,
				haddr, haddr + HPAGE_PMD_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	spin_lock(vmf->ptl);
	if (pmd_same(pmdp_get(vmf->pmd), vmf->orig_pmd))
		split_huge_pmd_locked''','''	struct folio *folio = pmd_folio(vmf->orig_pmd);
	struct mmu_notifier_range range;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vmf->vma->vm_mm,
				haddr, haddr + HPAGE_PMD_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	spin_lock(vmf->ptl);
	if (pmd_same(pmdp_get(vmf->pmd), vmf->orig_pmd) &&
	    cmpxchg(&folio->migrate_info, FOLIO_LIVE, FOLIO_LIVE_SPLIT) == FOLIO_LIVE)
		split_huge_pmd_locked'''))
