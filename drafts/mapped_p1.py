import re
def sub(s, a, b, n=1):
    assert s.count(a) == n, (s.count(a), a)
    return s.replace(a, b)

f = "include/linux/rmap.h"; s = open(f).read()
s = sub(s, """/* RMAP flags, currently only relevant for some anon rmap operations. */
""", """/*
 * A change of NR_ANON_MAPPED or NR_FILE_MAPPED that has not been counted yet,
 * of folios of one node and memory cgroup. Initialise with zeroes, and call
 * rmap_stat_flush() at the end. rmap_stat_mod() flushes when it is given a
 * folio of others.
 *
 * @nr is never above 0: no counter is ever less than what is mapped.
 */
struct rmap_stat {
	struct pglist_data *pgdat;	/* NULL: nothing to count */
	struct mem_cgroup *memcg;	/* with a reference, if not NULL */
	enum node_stat_item idx;
	int nr;				/* to be added */
	int ahead;			/* count so many ahead next time */
};

/* RMAP flags, currently only relevant for some anon rmap operations. */
""")
s = sub(s, """void folio_remove_rmap_ptes_to_migrate(struct folio *folio, struct page *page,
				       int nr_pages,
				       struct vm_area_struct *vma);
""", """void folio_remove_rmap_ptes_to_migrate(struct folio *folio, struct page *page,
				       int nr_pages, struct vm_area_struct *vma,
				       struct rmap_stat *stat);
void folio_add_rmap_ptes_migrated(struct folio *folio, struct page *page,
				  int nr_pages, struct vm_area_struct *vma,
				  unsigned long address, rmap_t flags,
				  struct rmap_stat *stat);
void rmap_stat_flush(struct rmap_stat *stat);
""")
s = sub(s, "void try_to_migrate(struct folio *folio, enum ttu_flags flags);\n",
"""void try_to_migrate(struct folio *folio, enum ttu_flags flags);
void __try_to_migrate(struct folio *folio, enum ttu_flags flags,
		      struct rmap_stat *stat);
""")
open(f, "w").write(s)

f = "mm/rmap.c"; s = open(f).read()
s = sub(s, """static void __folio_mod_stat(struct folio *folio, int nr, int nr_pmdmapped)
{
	int idx;

	if (nr) {
		idx = folio_test_anon(folio) ? NR_ANON_MAPPED : NR_FILE_MAPPED;
		lruvec_stat_mod_folio(folio, idx, nr);
	}
""", """static void rmap_stat_count(struct rmap_stat *stat, int nr)
{
	if (!stat->memcg) {
		mod_node_page_state(stat->pgdat, stat->idx, nr);
		return;
	}

	/* The memory cgroup may be dying, see lruvec_stat_mod_folio(). */
	rcu_read_lock();
	mod_lruvec_state(mem_cgroup_lruvec(stat->memcg, stat->pgdat), stat->idx,
			 nr);
	rcu_read_unlock();
}

/**
 * rmap_stat_flush - count what has not been counted yet
 * @stat: What to count. Empty afterwards.
 */
void rmap_stat_flush(struct rmap_stat *stat)
{
	if (stat->nr)
		rmap_stat_count(stat, stat->nr);
	mem_cgroup_put(stat->memcg);
	memset(stat, 0, sizeof(*stat));
}

/* Like lruvec_stat_mod_folio(), but count at once only what exceeds 0. */
static void rmap_stat_mod(struct rmap_stat *stat, struct folio *folio,
			  enum node_stat_item idx, int nr)
{
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (stat->pgdat != folio_pgdat(folio) || stat->memcg != memcg ||
	    stat->idx != idx) {
		rmap_stat_flush(stat);
		if (!mem_cgroup_tryget(memcg)) {
			lruvec_stat_mod_folio(folio, idx, nr);
			rcu_read_unlock();
			return;
		}
		stat->pgdat = folio_pgdat(folio);
		stat->memcg = memcg;
		stat->idx = idx;
	}
	rcu_read_unlock();

	stat->nr += nr;
	if (stat->nr <= 0)
		return;

	/*
	 * Others may unmap the folio before this is flushed. Without these
	 * pages a counter would be below 0 for a moment, which readers take
	 * for 0: among them reparent_memcg_lruvec_state_local(), which would
	 * leave the difference to the parent for good. So count as many more
	 * as before, and subtract those that do not come.
	 */
	rmap_stat_count(stat, stat->nr + stat->ahead);
	nr = stat->nr;
	stat->nr = -stat->ahead;
	stat->ahead = 2 * stat->ahead + nr;
}

static void __folio_mod_stat(struct folio *folio, int nr, int nr_pmdmapped,
			     struct rmap_stat *stat)
{
	int idx;

	if (nr) {
		idx = folio_test_anon(folio) ? NR_ANON_MAPPED : NR_FILE_MAPPED;
		if (stat)
			rmap_stat_mod(stat, folio, idx, nr);
		else
			lruvec_stat_mod_folio(folio, idx, nr);
	}
""")
s = sub(s, """static __always_inline void __folio_add_rmap(struct folio *folio,
		struct page *page, int nr_pages, struct vm_area_struct *vma,
		enum pgtable_level level)
""", """static __always_inline void __folio_add_rmap(struct folio *folio,
		struct page *page, int nr_pages, struct vm_area_struct *vma,
		enum pgtable_level level, struct rmap_stat *stat)
""")
s = s.replace("	__folio_mod_stat(folio, nr, nr_pmdmapped);\n}\n", "	__folio_mod_stat(folio, nr, nr_pmdmapped, stat);\n}\n", 1)
s = sub(s, "	__folio_mod_stat(folio, nr, nr_pmdmapped);\n	mod_mthp", "	__folio_mod_stat(folio, nr, nr_pmdmapped, NULL);\n	mod_mthp")
s = sub(s, "	__folio_mod_stat(folio, -nr, -nr_pmdmapped);\n", "	__folio_mod_stat(folio, -nr, -nr_pmdmapped, stat);\n")
s = sub(s, "		unsigned long address, rmap_t flags, enum pgtable_level level)\n", "		unsigned long address, rmap_t flags, enum pgtable_level level,\n		struct rmap_stat *stat)\n")
s = sub(s, "	__folio_add_rmap(folio, page, nr_pages, vma, level);\n", "	__folio_add_rmap(folio, page, nr_pages, vma, level, stat);\n", 2)
s = sub(s, "address, flags,\n			      PGTABLE_LEVEL_PTE);\n", "address, flags,\n			      PGTABLE_LEVEL_PTE, NULL);\n")
s = sub(s, "address, flags,\n			      PGTABLE_LEVEL_PMD);\n", "address, flags,\n			      PGTABLE_LEVEL_PMD, NULL);\n")
s = sub(s, """static __always_inline void __folio_add_file_rmap(struct folio *folio,
		struct page *page, int nr_pages, struct vm_area_struct *vma,
		enum pgtable_level level)
""", """static __always_inline void __folio_add_file_rmap(struct folio *folio,
		struct page *page, int nr_pages, struct vm_area_struct *vma,
		enum pgtable_level level, struct rmap_stat *stat)
""")
s = sub(s, "	__folio_add_file_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE);\n}\n", """	__folio_add_file_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE,
			      NULL);
}

/**
 * folio_add_rmap_ptes_migrated - replace migration entries by PTE mappings
 * @folio:	The folio to add the mappings to
 * @page:	The first page to add
 * @nr_pages:	The number of pages which will be mapped
 * @vma:	The vm area in which the mappings are added
 * @address:	The user virtual address of the first page to map
 * @flags:	The rmap flags, if the folio is anonymous
 * @stat:	Where to count the pages that are mapped now, or NULL
 *
 * Like folio_add_anon_rmap_ptes() or folio_add_file_rmap_ptes(), whichever
 * suits the folio.
 *
 * The caller needs to hold the page table lock, and the folio lock.
 */
void folio_add_rmap_ptes_migrated(struct folio *folio, struct page *page,
				  int nr_pages, struct vm_area_struct *vma,
				  unsigned long address, rmap_t flags,
				  struct rmap_stat *stat)
{
	if (folio_test_anon(folio))
		__folio_add_anon_rmap(folio, page, nr_pages, vma, address,
				      flags, PGTABLE_LEVEL_PTE, stat);
	else
		__folio_add_file_rmap(folio, page, nr_pages, vma,
				      PGTABLE_LEVEL_PTE, stat);
}
""")
for l in ("PMD", "PUD"):
    s = sub(s, f"	__folio_add_file_rmap(folio, page, HPAGE_{l}_NR, vma, PGTABLE_LEVEL_{l});\n", f"	__folio_add_file_rmap(folio, page, HPAGE_{l}_NR, vma, PGTABLE_LEVEL_{l},\n			      NULL);\n")
s = sub(s, "		enum pgtable_level level, bool to_migrate)\n", "		enum pgtable_level level, bool to_migrate, struct rmap_stat *stat)\n")
s = sub(s, "	__folio_remove_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE, false);\n", "	__folio_remove_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE, false,\n			    NULL);\n")
s = sub(s, "	__folio_remove_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE, true);\n", "	__folio_remove_rmap(folio, page, nr_pages, vma, PGTABLE_LEVEL_PTE, true,\n			    stat);\n")
s = sub(s, "			    false);\n#else", "			    false, NULL);\n#else", 2)
s = sub(s, "			    true);\n#else", "			    true, NULL);\n#else")
s = sub(s, """ * @vma:	The vm area from which the mappings are removed
 *
 * Like folio_remove_rmap_ptes(), for""", """ * @vma:	The vm area from which the mappings are removed
 * @stat:	Where to count the pages that are no longer mapped, or NULL
 *
 * Like folio_remove_rmap_ptes(), for""")
s = sub(s, """				       int nr_pages, struct vm_area_struct *vma)
{
""", """				       int nr_pages, struct vm_area_struct *vma,
				       struct rmap_stat *stat)
{
""")
s = sub(s, """/*
 * @arg: enum ttu_flags will be passed to this argument.
 *
 * If TTU_SPLIT_HUGE_PMD is specified any PMD mappings will be split into PTEs
 * containing migration entries.
 */
static bool try_to_migrate_one(""", """struct migrate_rmap {
	enum ttu_flags flags;
	struct rmap_stat *stat;
};

/*
 * @arg: struct migrate_rmap will be passed to this argument.
 *
 * If TTU_SPLIT_HUGE_PMD is specified any PMD mappings will be split into PTEs
 * containing migration entries.
 */
static bool try_to_migrate_one(""")
i = s.index("static bool try_to_migrate_one(")
h, t = s[:i], s[i:]
t = sub(t, "	enum ttu_flags flags = (enum ttu_flags)(long)arg;\n", "	struct migrate_rmap *rmap = arg;\n	enum ttu_flags flags = rmap->flags;\n")
t = sub(t, "			folio_remove_rmap_ptes_to_migrate(folio, subpage,\n							  nr_pages, vma);\n", "			folio_remove_rmap_ptes_to_migrate(folio, subpage,\n							  nr_pages, vma,\n							  rmap->stat);\n")
t = sub(t, """/**
 * try_to_migrate - try to replace all page table mappings with swap entries
 * @folio: the folio to replace page table entries for
 * @flags: action and flags
 *
 * Tries to remove all the page table entries which are mapping this folio and
 * replace them with special swap entries. Caller must hold the folio lock.
 */
void try_to_migrate(struct folio *folio, enum ttu_flags flags)
{
	struct rmap_walk_control rwc = {
		.rmap_one = try_to_migrate_one,
		.arg = (void *)flags,
""", """/**
 * __try_to_migrate - try to replace all page table mappings with swap entries
 * @folio: the folio to replace page table entries for
 * @flags: action and flags
 * @stat: where to count the pages that are no longer mapped, or NULL
 *
 * Tries to remove all the page table entries which are mapping this folio and
 * replace them with special swap entries. Caller must hold the folio lock.
 */
void __try_to_migrate(struct folio *folio, enum ttu_flags flags,
		      struct rmap_stat *stat)
{
	struct migrate_rmap rmap = { .flags = flags, .stat = stat };
	struct rmap_walk_control rwc = {
		.rmap_one = try_to_migrate_one,
		.arg = &rmap,
""")
t = sub(t, """#ifdef CONFIG_DEVICE_PRIVATE
/**
 * make_device_exclusive()""", """/**
 * try_to_migrate - __try_to_migrate() that counts at once
 * @folio: the folio to replace page table entries for
 * @flags: action and flags
 */
void try_to_migrate(struct folio *folio, enum ttu_flags flags)
{
	__try_to_migrate(folio, flags, NULL);
}

#ifdef CONFIG_DEVICE_PRIVATE
/**
 * make_device_exclusive()""")
open(f, "w").write(h + t)

f = "mm/migrate.c"; s = open(f).read()
s = sub(s, """	struct folio *folio;
	bool map_unused_to_zeropage;
};
""", """	struct folio *folio;
	bool map_unused_to_zeropage;
	struct rmap_stat *stat;
};
""")
s = sub(s, """			if (folio_test_anon(folio))
				folio_add_anon_rmap_ptes(folio, new, nr_pages,
							 vma, pvmw.address,
							 rmap_flags);
			else
				folio_add_file_rmap_ptes(folio, new, nr_pages,
							 vma);
""", """			folio_add_rmap_ptes_migrated(folio, new, nr_pages, vma,
						     pvmw.address, rmap_flags,
						     rmap_walk_arg->stat);
""")
s = sub(s, """/*
 * Get rid of all migration entries and replace them by
 * references to the indicated page.
 */
void remove_migration_ptes(struct folio *src, struct folio *dst,
		enum ttu_flags flags)
{
	struct rmap_walk_arg rmap_walk_arg = {
		.folio = src,
		.map_unused_to_zeropage = flags & TTU_USE_SHARED_ZEROPAGE,
	};
""", """static void __remove_migration_ptes(struct folio *src, struct folio *dst,
		enum ttu_flags flags, struct rmap_stat *stat)
{
	struct rmap_walk_arg rmap_walk_arg = {
		.folio = src,
		.map_unused_to_zeropage = flags & TTU_USE_SHARED_ZEROPAGE,
		.stat = stat,
	};
""")
s = sub(s, """	folio_queue_if_partially_mapped(dst);
}
""", """	folio_queue_if_partially_mapped(dst);
}

/*
 * Get rid of all migration entries and replace them by
 * references to the indicated page.
 */
void remove_migration_ptes(struct folio *src, struct folio *dst,
		enum ttu_flags flags)
{
	__remove_migration_ptes(src, dst, flags, NULL);
}
""")
s = sub(s, """	long nr_isolated[2];		/* ... so many anonymous, file pages */
};
""", """	long nr_isolated[2];		/* ... so many anonymous, file pages */
	struct rmap_stat unmapped;	/* of src, not counted yet */
	struct rmap_stat mapped;	/* of dst */
};
""")
s = sub(s, """	memset(done->nr_isolated, 0, sizeof(done->nr_isolated));
}
""", """	memset(done->nr_isolated, 0, sizeof(done->nr_isolated));
	done->unmapped = (struct rmap_stat){};
	done->mapped = (struct rmap_stat){};
}
""")
s = sub(s, """	migrate_done_count(done);
	/* A single one""", """	migrate_done_count(done);
	rmap_stat_flush(&done->unmapped);
	/* A single one""")
s = sub(s, """	done->nr_pages = 0;
}

/* Cleanup src folio upon migration success */
""", """	done->nr_pages = 0;
}

static void migrate_done_end(struct migrate_done *done)
{
	rmap_stat_flush(&done->mapped);
	migrate_done_flush(done);
}

/* Cleanup src folio upon migration success */
""")
s = sub(s, "		struct folio *src, struct folio **dstp, enum migrate_mode mode,\n		enum ttu_flags ttu, struct list_head *ret)\n", "		struct folio *src, struct folio **dstp, enum migrate_mode mode,\n		enum ttu_flags ttu, struct list_head *ret,\n		struct migrate_done *done)\n")
i = s.index("static int migrate_folio_unmap("); h, t = s[:i], s[i:]
t = t.replace("		try_to_migrate(src, ttu);\n", "		__try_to_migrate(src, ttu, &done->unmapped);\n", 1)
t = t.replace("		remove_migration_ptes(src, dst, 0);\n", "		__remove_migration_ptes(src, dst, 0, &done->mapped);\n", 1)
t = sub(t, "					migrate_ttu_flags(mode, nr_deferred),\n					ret_folios);\n", "					migrate_ttu_flags(mode, nr_deferred),\n					ret_folios, &done);\n")
t = sub(t, "			put_new_folio, private, ret_folios);\n	migrate_done_flush(&done);\n", "			put_new_folio, private, ret_folios);\n	migrate_done_end(&done);\n")
s = h + t
open(f, "w").write(s)
