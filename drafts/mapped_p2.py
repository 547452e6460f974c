def sub(s, a, b, n=1):
    assert s.count(a) == n, (s.count(a), a)
    return s.replace(a, b)
f="mm/rmap.c"; s=open(f).read()
i=s.index("/* Like lruvec_stat_mod_folio(), but count at once"); j=s.index("static void __folio_mod_stat(")
s=s[:i]+"""/* Flush @stat, and let it count for others. */
static void rmap_stat_switch(struct rmap_stat *stat, struct pglist_data *pgdat,
			     struct mem_cgroup *memcg, enum node_stat_item idx)
{
	rmap_stat_flush(stat);
	if (!mem_cgroup_tryget(memcg))
		return;
	stat->pgdat = pgdat;
	stat->memcg = memcg;
	stat->idx = idx;
}

/*
 * Others may unmap pages before they are counted. Without these pages, a
 * counter would be below 0 for a moment, which readers take for 0: among them
 * reparent_memcg_lruvec_state_local(), which would leave the difference to the
 * parent for good. So count as many more as before; what does not come is
 * subtracted at the end.
 */
static void rmap_stat_count_ahead(struct rmap_stat *stat)
{
	const int nr = stat->nr;

	rmap_stat_count(stat, nr + stat->ahead);
	stat->nr = -stat->ahead;
	stat->ahead += nr + stat->ahead;
}

/* Like lruvec_stat_mod_folio(), but for what @stat can count later. */
static void rmap_stat_mod(struct rmap_stat *stat, struct folio *folio,
			  enum node_stat_item idx, int nr)
{
	struct pglist_data *pgdat = folio_pgdat(folio);
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (stat->pgdat != pgdat || stat->memcg != memcg || stat->idx != idx)
		rmap_stat_switch(stat, pgdat, memcg, idx);
	rcu_read_unlock();

	/* The memory cgroup is about to be freed: the folio has its parent. */
	if (unlikely(!stat->pgdat)) {
		lruvec_stat_mod_folio(folio, idx, nr);
		return;
	}

	stat->nr += nr;
	if (stat->nr > 0)
		rmap_stat_count_ahead(stat);
}

"""+s[j:]
open(f,"w").write(s)
