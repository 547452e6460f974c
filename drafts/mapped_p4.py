def sub(s, a, b, n=1):
    assert s.count(a) == n, (s.count(a), a)
    return s.replace(a, b)
f="mm/rmap.c"; s=open(f).read()
i=s.index("/* Flush @stat, and let it count for others. */"); j=s.index("/*\n * Others may unmap pages before they are counted."); k=s.index("/* Like lruvec_stat_mod_folio(), but for what"); l=s.index("	if (nr_pmdmapped) {\n		if (folio_test_anon(folio)) {\n			idx = NR_ANON_THPS;")
ahead=s[j:k].replace("static noinline void","static void")
s=s[:i]+ahead+"""/* The rest of rmap_stat_mod(): it counts for others now, or has to count ahead. */
static noinline void rmap_stat_mod_slow(struct rmap_stat *stat,
					struct folio *folio,
					enum node_stat_item idx, int nr)
{
	struct pglist_data *pgdat = folio_pgdat(folio);
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (stat->pgdat != pgdat || stat->memcg != memcg || stat->idx != idx) {
		rmap_stat_flush(stat);
		if (mem_cgroup_tryget(memcg)) {
			stat->pgdat = pgdat;
			stat->memcg = memcg;
			stat->idx = idx;
		}
	}
	rcu_read_unlock();

	/* The memory cgroup is about to be freed: the folio has its parent. */
	if (!stat->pgdat) {
		lruvec_stat_mod_folio(folio, idx, nr);
		return;
	}

	stat->nr += nr;
	if (stat->nr > 0)
		rmap_stat_count_ahead(stat);
}

/* Like lruvec_stat_mod_folio(), but @stat counts it later, if it can. */
static __always_inline void rmap_stat_mod(struct rmap_stat *stat,
					  struct folio *folio, int nr)
{
	enum node_stat_item idx;
	struct mem_cgroup *memcg;

	idx = folio_test_anon(folio) ? NR_ANON_MAPPED : NR_FILE_MAPPED;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	rcu_read_unlock();

	/* Compared only: that of @stat exists. */
	if (likely(stat->memcg == memcg && stat->pgdat == folio_pgdat(folio) &&
		   stat->idx == idx && stat->nr + nr <= 0))
		stat->nr += nr;
	else
		rmap_stat_mod_slow(stat, folio, idx, nr);
}

static void __folio_mod_stat(struct folio *folio, int nr, int nr_pmdmapped)
{
	int idx;

	if (nr) {
		idx = folio_test_anon(folio) ? NR_ANON_MAPPED : NR_FILE_MAPPED;
		lruvec_stat_mod_folio(folio, idx, nr);
	}
"""+s[l:]
s=sub(s,"	__folio_mod_stat(folio, nr, nr_pmdmapped, NULL);\n	mod_mthp","	__folio_mod_stat(folio, nr, nr_pmdmapped);\n	mod_mthp")
s=sub(s,"	__folio_mod_stat(folio, nr, nr_pmdmapped, stat);\n","""	/* Only for PTEs is there a @stat. */
	if (!stat)
		__folio_mod_stat(folio, nr, nr_pmdmapped);
	else if (nr)
		rmap_stat_mod(stat, folio, nr);
""")
s=sub(s,"	__folio_mod_stat(folio, -nr, -nr_pmdmapped, stat);\n","""	/* Only for PTEs is there a @stat. */
	if (!stat)
		__folio_mod_stat(folio, -nr, -nr_pmdmapped);
	else if (nr)
		rmap_stat_mod(stat, folio, -nr);
""")
open(f,"w").write(s)
f="mm/migrate.c"; s=open(f).read()
s=sub(s,"static void __remove_migration_ptes(struct folio *src, struct folio *dst,\n		enum ttu_flags flags, struct rmap_stat *stat)\n","static void __remove_migration_ptes(struct folio *src, struct folio *dst,\n				    enum ttu_flags flags,\n				    struct rmap_stat *stat)\n")
s=sub(s,"void remove_migration_ptes(struct folio *src, struct folio *dst,\n		enum ttu_flags flags)\n","void remove_migration_ptes(struct folio *src, struct folio *dst,\n			   enum ttu_flags flags)\n")
open(f,"w").write(s)
