def sub(s, a, b, n=1):
    assert s.count(a) == n, (s.count(a), a)
    return s.replace(a, b)
f="include/linux/rmap.h"; s=open(f).read()
s=sub(s,"""	bool try_lock;
	bool contended;
""","""	bool try_lock;
	bool contended;
	/*
	 * If not 0, walk over so many pages from the folio on: others of the
	 * same anon_vma follow. Only for anonymous folios.
	 */
	unsigned long nr_pages;
""")
open(f,"w").write(s)
f="mm/rmap.c"; s=open(f).read()
i=s.index("static void rmap_walk_anon("); h,t=s[:i],s[i:]
t=sub(t,"""	pgoff_start = folio_pgoff(folio);
	pgoff_end = pgoff_start + folio_nr_pages(folio) - 1;
	anon_rmap_tree_foreach(avc, anon_vma, pgoff_start, pgoff_end) {
		struct vm_area_struct *vma = avc->vma;
		const unsigned long address = vma_anon_address(vma, pgoff_start,
				folio_nr_pages(folio));
""","""	nr_pages = rwc->nr_pages ?: folio_nr_pages(folio);
	pgoff_start = folio_pgoff(folio);
	pgoff_end = pgoff_start + nr_pages - 1;
	anon_rmap_tree_foreach(avc, anon_vma, pgoff_start, pgoff_end) {
		struct vm_area_struct *vma = avc->vma;
		const unsigned long address = vma_anon_address(vma, pgoff_start,
				nr_pages);
""")
t=t.replace("	struct anon_vma_chain *avc;\n","	struct anon_vma_chain *avc;\n	unsigned long nr_pages;\n",1)
open(f,"w").write(h+t)
f="mm/migrate.c"; s=open(f).read()
s=sub(s,"""struct rmap_walk_arg {
	struct folio *folio;
	bool map_unused_to_zeropage;
	struct rmap_stat *stat;
};
""","""/*
 * Small anonymous folios of one anon_vma, one page behind another, that were
 * migrated but are not mapped yet. All are locked.
 */
struct migrate_run {
	struct list_head src;
	struct list_head dst;
	unsigned int nr;
	struct anon_vma *anon_vma;
	pgoff_t index;			/* of the first one */
	enum migrate_reason reason;
};

struct rmap_walk_arg {
	struct folio *folio;
	bool map_unused_to_zeropage;
	struct rmap_stat *stat;
	/* Of a run, @folio and @dst are those to go on with, NULL at the end. */
	struct migrate_run *run;
	struct folio *dst;
};

static void migrate_run_step(struct rmap_walk_arg *arg)
{
	if (list_is_last(&arg->dst->lru, &arg->run->dst)) {
		arg->folio = NULL;
		arg->dst = NULL;
	} else {
		arg->folio = list_next_entry(arg->folio, lru);
		arg->dst = list_next_entry(arg->dst, lru);
	}
}

/*
 * Go on with the PTEs behind @pvmw, in the same VMA and page table, to the first
 * that is the migration entry of the folio of the run that belongs there. Return
 * the folio to be mapped instead, or NULL.
 */
static struct folio *migrate_run_next(struct page_vma_mapped_walk *pvmw,
				      struct rmap_walk_arg *arg)
{
	const unsigned long end = pmd_addr_end(pvmw->address,
					       pvmw->vma->vm_end);
	softleaf_t entry;

	for (;;) {
		migrate_run_step(arg);
		pvmw->address += PAGE_SIZE;
		if (!arg->folio || pvmw->address == end)
			return NULL;

		pvmw->pte++;
		pvmw->pfn = folio_pfn(arg->folio);
		entry = softleaf_from_pte(ptep_get(pvmw->pte));
		if (softleaf_is_migration(entry) &&
		    softleaf_to_pfn(entry) == pvmw->pfn)
			return arg->dst;
	}
}
""")
i=s.index("static bool remove_migration_pte("); h,t=s[:i],s[i:]
t=sub(t,"""	unsigned long nr_mapped = 0;

	while (page_vma_mapped_walk(&pvmw)) {
""","""	unsigned long nr_mapped = 0;
	bool next = false;

	while (next || page_vma_mapped_walk(&pvmw)) {
""")
t=sub(t,"""		if (nr_pages == pvmw.nr_pages) {
			page_vma_mapped_walk_done(&pvmw);
			break;
		}
""","""		if (nr_pages == pvmw.nr_pages) {
			if (rmap_walk_arg->run) {
				folio = migrate_run_next(&pvmw, rmap_walk_arg);
				next = folio;
				if (next)
					continue;
			}
			page_vma_mapped_walk_done(&pvmw);
			break;
		}
""")
t=sub(t,"""static void __remove_migration_ptes(struct folio *src,""","""/* Map what @vma maps of a run, from @addr on. */
static bool remove_migration_run(struct folio *folio,
		struct vm_area_struct *vma, unsigned long addr, void *arg)
{
	struct rmap_walk_arg *rmap_walk_arg = arg;
	struct migrate_run *run = rmap_walk_arg->run;

	rmap_walk_arg->folio = list_first_entry(&run->src, struct folio, lru);
	rmap_walk_arg->dst = folio;
	while (rmap_walk_arg->folio) {
		struct folio *src = rmap_walk_arg->folio;

		addr = vma_anon_address(vma, rmap_walk_arg->dst->index, 1);
		if (addr != -EFAULT)
			remove_migration_pte(rmap_walk_arg->dst, vma, addr, arg);
		/* Not mapped here. */
		if (rmap_walk_arg->folio == src)
			migrate_run_step(rmap_walk_arg);
	}

	return true;
}

static void __remove_migration_ptes(struct folio *src,""")
t=sub(t,"""	struct rmap_stat unmapped;	/* of src, not counted yet */
""","""	struct migrate_run run;		/* to be mapped first of all */
	struct rmap_stat unmapped;	/* of src, not counted yet */
""")
t=sub(t,"""	done->unmapped = (struct rmap_stat){};
""","""	INIT_LIST_HEAD(&done->run.src);
	INIT_LIST_HEAD(&done->run.dst);
	done->run.nr = 0;
	done->unmapped = (struct rmap_stat){};
""")
t=sub(t,"""	if (old_folio_state & FOLIO_WAS_MAPPED)
		__remove_migration_ptes(src, dst, 0, &done->mapped);

out_unlock_both:
	folio_unlock(dst);
	folio_set_owner_migrate_reason(dst, reason);
	/*
	 * If migration is successful, decrease refcount of dst, now or when it
	 * is added to the LRU. That does not free the page as long as it has a
	 * new owner, who increased refcounter.
	 */
	if (!add_lru)
		folio_put(dst);
	else if (!folio_batch_add(&done->dst, dst))
		migrate_done_flush(done);

	/*
	 * A folio that has been migrated has all references removed
	 * and will be freed.
	 */
	list_del(&src->lru);
	/* Drop an anon_vma reference if we took one */
	if (anon_vma)
		put_anon_vma(anon_vma);
	folio_unlock(src);
	migrate_folio_done(src, reason, done);

	return rc;
out:
""","""	if (old_folio_state & FOLIO_WAS_MAPPED) {
		if (add_lru && migrate_run_add(done, src, dst, anon_vma, reason))
			return 0;
		__remove_migration_ptes(src, dst, 0, &done->mapped);
	}

out_unlock_both:
	migrate_folio_finish(src, dst, anon_vma, add_lru, reason, done);

	return rc;
out:
""")
t=sub(t,"""/* Migrate the folio to the newly allocated folio in dst. */
""","""/* Both folios of a migrated pair are what they will be: unlock and release them. */
static void migrate_folio_finish(struct folio *src, struct folio *dst,
				 struct anon_vma *anon_vma, bool add_lru,
				 enum migrate_reason reason,
				 struct migrate_done *done)
{
	folio_unlock(dst);
	folio_set_owner_migrate_reason(dst, reason);
	/*
	 * If migration is successful, decrease refcount of dst, now or when it
	 * is added to the LRU. That does not free the page as long as it has a
	 * new owner, who increased refcounter.
	 */
	if (!add_lru)
		folio_put(dst);
	else if (!folio_batch_add(&done->dst, dst))
		migrate_done_flush(done);

	/*
	 * A folio that has been migrated has all references removed
	 * and will be freed.
	 */
	list_del(&src->lru);
	/* Drop an anon_vma reference if we took one */
	if (anon_vma)
		put_anon_vma(anon_vma);
	folio_unlock(src);
	migrate_folio_done(src, reason, done);
}

/* Map the folios of the run instead of their migration entries. */
static void migrate_run_map(struct migrate_done *done)
{
	struct migrate_run *run = &done->run;
	struct folio *src, *src2, *dst;

	if (!run->nr)
		return;

	src = list_first_entry(&run->src, struct folio, lru);
	dst = list_first_entry(&run->dst, struct folio, lru);
	if (run->nr == 1) {
		__remove_migration_ptes(src, dst, 0, &done->mapped);
	} else {
		struct rmap_walk_arg rmap_walk_arg = {
			.stat = &done->mapped,
			.run = run,
		};
		struct rmap_walk_control rwc = {
			.rmap_one = remove_migration_run,
			.arg = &rmap_walk_arg,
			.nr_pages = run->nr,
		};

		rmap_walk(dst, &rwc);
	}

	run->nr = 0;
	list_for_each_entry_safe(src, src2, &run->src, lru) {
		dst = list_first_entry(&run->dst, struct folio, lru);
		list_del(&dst->lru);
		migrate_folio_finish(src, dst, run->anon_vma, true, run->reason,
				     done);
	}
}

/* From this many folios on, do not let the first one wait for more. */
#define MIGRATE_RUN_MAX		16

/* Add a pair to the run, to be mapped together with it. False if it does not fit. */
static bool migrate_run_add(struct migrate_done *done, struct folio *src,
			    struct folio *dst, struct anon_vma *anon_vma,
			    enum migrate_reason reason)
{
	struct migrate_run *run = &done->run;

	if (!anon_vma || folio_test_large(dst) || folio_is_zone_device(dst))
		return false;

	if (run->nr && (anon_vma != run->anon_vma ||
			dst->index != run->index + run->nr))
		migrate_run_map(done);
	if (!run->nr) {
		run->anon_vma = anon_vma;
		run->index = dst->index;
		run->reason = reason;
	}
	list_move_tail(&src->lru, &run->src);
	list_add_tail(&dst->lru, &run->dst);
	if (++run->nr == MIGRATE_RUN_MAX)
		migrate_run_map(done);

	return true;
}

/* Migrate the folio to the newly allocated folio in dst. */
""")
i=t.index("static void migrate_folios_move("); h2,t2=t[:i],t[i:]
t2=sub(t2,"""		dst = dst2;
		dst2 = list_next_entry(dst, lru);
	}
}

static void migrate_folios_undo(""","""		dst = dst2;
		dst2 = list_next_entry(dst, lru);
	}
	migrate_run_map(done);
}

static void migrate_folios_undo(""")
s=h+h2+t2
open(f,"w").write(s)
