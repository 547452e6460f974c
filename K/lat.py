def sub(p, *pairs):
    s=open(p).read()
    for a,b in pairs:
        assert s.count(a)==1,(p,a,s.count(a))
        s=s.replace(a,b)
    open(p,'w').write(s)
def cut(p, a, b, new):
    s=open(p).read()
    assert s.count(a)>=1 and s.count(b)>=1,(a,b,s.count(a),s.count(b))
    i=s.index(a); j=s.index(b,i)
    open(p,'w').write(s[:i]+new+s[j:])
p='mm/migrate_latency.c'
sub(p,(''' *	first_folio	time from the entry of migrate_pages() to the first
 *			working PTE of the first folio accessible again
 *	inaccessible	histogram over all folios: time from the last PTE that
 *			became a migration entry to the first working PTE
''',''' *	first_folio	time from the entry of migrate_pages() until the first
 *			folio was accessible again
 *	inaccessible	histogram over all folios: time from before the first
 *			PTE became a migration entry to after the last one
 *			works again
 *	affected	the same from before the first PTE became read-only, to
 *			be copied live, if any did: a write faults from then on
'''),
(''' * @accessible: when the latest folio of the batch became accessible; 0 if none has
 * @first_pte: when a PTE that maps @first_pfn was restored; 0 if none was
 * @first_pfn: the page mapped by the first restored PTE of the folio being moved
''',''' * @accessible: when the latest folio of the batch became accessible; 0 if none has
 * @change: when PTEs of the folio @changed last began to change
 * @changed: its pfn
'''),
('''	u64			first_pte;
	unsigned long		first_pfn;
''','''	u64			change;
	unsigned long		changed;
'''),
(''' * struct unmapped_folio - a folio without working PTEs
 * @key: pfn of the src folio plus one, or 0 if the slot is free
 * @time: when its last PTE became a migration entry
''',''' * struct unmapped_folio - a folio whose PTEs change
 * @key: pfn of the src folio plus one, or 0 if the slot is free
 * @affected: when the first PTE was about to change
 * @time: when the first PTE was about to become a migration entry
'''),
('''	unsigned long		key;
	u64			time;
''','''	unsigned long		key;
	u64			affected;
	u64			time;
'''),
('''static struct histogram __percpu *inaccessible;
''','''enum { INACCESSIBLE, AFFECTED, NR_HISTOGRAMS };
static struct histogram __percpu *histograms[NR_HISTOGRAMS];
'''),
('''static void histogram_add(u64 ns)
{
	struct histogram *histogram = get_cpu_ptr(inaccessible);
''','''static void histogram_add(unsigned int which, u64 ns)
{
	struct histogram *histogram = get_cpu_ptr(histograms[which]);
'''),
('''	put_cpu_ptr(inaccessible);
''','''	put_cpu_ptr(histograms[which]);
'''),
('''	t->accessible = 0;
	t->first_pte = 0;
}
''','''	t->accessible = 0;
}
'''),
('''static void probe_unmapped(void *data, struct folio *src, struct folio *dst,
			   enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();
	struct unmapped_folio *slot;

	if (!t)
		return;
	slot = folio_slot_claim(folio_pfn(src));
	t->unmapped = ktime_get_ns();

	/* A key that is still set belongs to a folio that failed: overwrite it. */
	xchg(&slot->key, folio_pfn(src) + 1);
	WRITE_ONCE(slot->time, t->unmapped);
}
''','''/* Note when a folio was affected first in this call, and return its slot. */
static struct unmapped_folio *folio_affected(const struct migrating_task *t,
					     unsigned long pfn, u64 now)
{
	struct unmapped_folio *slot = folio_slot_find(pfn) ?: folio_slot_claim(pfn);

	/* A key that is still set may belong to a folio that failed: overwrite it. */
	if (xchg(&slot->key, pfn + 1) != pfn + 1 || slot->affected < t->start)
		WRITE_ONCE(slot->affected, now);
	return slot;
}

static void probe_change(void *data, struct folio *folio)
{
	struct migrating_task *t = task_measured();

	if (!t)
		return;
	t->change = ktime_get_ns();
	t->changed = folio_pfn(folio);
	folio_affected(t, t->changed, t->change);
}

static void probe_unmapped(void *data, struct folio *src, struct folio *dst,
			   enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();
	struct unmapped_folio *slot;

	if (!t)
		return;
	t->unmapped = ktime_get_ns();
	slot = folio_affected(t, folio_pfn(src), t->unmapped);
	/* A folio that has no PTE does not change. */
	WRITE_ONCE(slot->time, t->changed == folio_pfn(src) ? t->change : t->unmapped);
}
'''),
('''	t->flushed = ktime_get_ns();
	t->first_pte = 0;
}
''','''	t->flushed = ktime_get_ns();
}
'''),
)
cut(p,'''static int probe_copied_register(void)
''','''static void probe_accessible(''','''#endif

''')
cut(p,'''	u64 now = ktime_get_ns();
	u64 time, first = now;

''','''	t->accessible = now;
''','''	u64 affected, time, now = ktime_get_ns();

	if (!t)
		return;
''')
sub(p,('''		u64 latency = first - t->start;
''','''		u64 latency = now - t->start;
'''),
('''	time = slot ? READ_ONCE(slot->time) : 0;
	/* The time is valid if the slot still has the key of this folio now. */
	if (slot &&
	    cmpxchg(&slot->key, folio_pfn(src) + 1, 0) == folio_pfn(src) + 1)
		histogram_add(first - time);
	else
		atomic64_inc(&lost);
}
''','''	affected = slot ? READ_ONCE(slot->affected) : 0;
	time = slot ? READ_ONCE(slot->time) : 0;
	/* The times are valid if the slot still has the key of this folio now. */
	if (slot &&
	    cmpxchg(&slot->key, folio_pfn(src) + 1, 0) == folio_pfn(src) + 1) {
		histogram_add(INACCESSIBLE, now - time);
		histogram_add(AFFECTED, now - affected);
	} else {
		atomic64_inc(&lost);
	}
}
'''),
)
cut(p,'''/*
 * Unregister in the reverse order''','''static void stop(void)
''','''/* In the order of registration: no probe does anything without the last one. */
static const struct {
	struct tracepoint *event;
	void *probe;
} probes[] = {
	{ &__tracepoint_mm_migrate_pages, probe_end },
	{ &__tracepoint_mm_migrate_folio_accessible, probe_accessible },
#ifdef CONFIG_MIGRATION_COPY_OFFLOAD
	{ &__tracepoint_mm_migrate_batch_copied, probe_copied },
#endif
	{ &__tracepoint_mm_migrate_batch_flush, probe_flush },
	{ &__tracepoint_mm_migrate_folio_unmapped, probe_unmapped },
	{ &__tracepoint_mm_migrate_folio_change, probe_change },
	{ &__tracepoint_mm_migrate_batch_start, probe_batch_start },
	{ &__tracepoint_mm_migrate_pages_start, probe_start },
};

/*
 * Tasks inside migrate_pages() may leave their slots in use; start() resets all
 * slots.
 */
static void probes_unregister(unsigned int nr)
{
	while (nr--)
		tracepoint_probe_unregister(probes[nr].event, probes[nr].probe, NULL);
	tracepoint_synchronize_unregister();
}

static int probes_register(void)
{
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		ret = tracepoint_probe_register(probes[i].event, probes[i].probe, NULL);
		if (ret) {
			probes_unregister(i);
			return ret;
		}
	}
	return 0;
}

''')
sub(p,('''	probes_unregister();
	vfree''','''	probes_unregister(ARRAY_SIZE(probes));
	vfree'''),
('''static int start(void)
{
	int cpu, ret;

	stop();

	if (!inaccessible)
		inaccessible = alloc_percpu(struct histogram);
	unmapped_folios = vcalloc(NR_FOLIOS, sizeof(*unmapped_folios));
	if (!inaccessible || !unmapped_folios) {
''','''static int start(void)
{
	int cpu, which, ret;

	stop();

	for (which = 0; which < NR_HISTOGRAMS; which++)
		histograms[which] = histograms[which] ?: alloc_percpu(struct histogram);
	unmapped_folios = vcalloc(NR_FOLIOS, sizeof(*unmapped_folios));
	if (!histograms[INACCESSIBLE] || !histograms[AFFECTED] || !unmapped_folios) {
'''),
('''	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(inaccessible, cpu), 0, sizeof(*inaccessible));
''','''	for (which = 0; which < NR_HISTOGRAMS; which++)
		for_each_possible_cpu(cpu)
			memset(per_cpu_ptr(histograms[which], cpu), 0, sizeof(struct histogram));
'''),
('''static int inaccessible_show(struct seq_file *m, void *unused)
{
	unsigned int bucket;
''','''static int histogram_show(struct seq_file *m, void *unused)
{
	struct histogram __percpu *histogram;
	unsigned int bucket;
'''),
('''	if (!inaccessible)
		return 0;
''','''	histogram = *(struct histogram __percpu **)m->private;
	if (!histogram)
		return 0;
'''),
('''			count += per_cpu_ptr(inaccessible, cpu)->buckets[bucket];
''','''			count += per_cpu_ptr(histogram, cpu)->buckets[bucket];
'''),
('''		longest = max(longest, per_cpu_ptr(inaccessible, cpu)->max);
''','''		longest = max(longest, per_cpu_ptr(histogram, cpu)->max);
'''),
('''DEFINE_SHOW_ATTRIBUTE(inaccessible);
''','''DEFINE_SHOW_ATTRIBUTE(histogram);
'''),
('''	debugfs_create_file("inaccessible", 0400, dir, NULL, &inaccessible_fops);
''','''	debugfs_create_file("inaccessible", 0400, dir, &histograms[INACCESSIBLE],
			    &histogram_fops);
	debugfs_create_file("affected", 0400, dir, &histograms[AFFECTED], &histogram_fops);
'''),
)
sub('include/trace/events/migrate.h',('''/* All PTEs of a migrated folio work again; remove_migration_pte traces each. */
DEFINE_EVENT(mm_migrate_folio, mm_migrate_folio_accessible,
	TP_PROTO(struct folio *src, struct folio *dst, enum migrate_reason reason),
	TP_ARGS(src, dst, reason)
);

''','''/* All PTEs of a migrated folio work again; remove_migration_pte traces each. */
DEFINE_EVENT(mm_migrate_folio, mm_migrate_folio_accessible,
	TP_PROTO(struct folio *src, struct folio *dst, enum migrate_reason reason),
	TP_ARGS(src, dst, reason)
);

/* PTEs of a folio are about to become migration entries or, to copy it live, read-only. */
TRACE_EVENT(mm_migrate_folio_change,
	TP_PROTO(struct folio *folio),
	TP_ARGS(folio),
	TP_STRUCT__entry(__field(unsigned long, pfn)),
	TP_fast_assign(__entry->pfn = folio_pfn(folio);),
	TP_printk("pfn=0x%lx", __entry->pfn)
);

'''))
sub('mm/rmap.c',('''		.anon_lock = folio_lock_anon_vma_read,
	};

	/*
	 * Migration always ignores mlock''','''		.anon_lock = folio_lock_anon_vma_read,
	};

	trace_mm_migrate_folio_change(folio);

	/*
	 * Migration always ignores mlock'''))
import sys
if 'live' in sys.argv:
    sub('mm/rmap.c',('''	VM_WARN_ON_FOLIO(folio_test_swapcache(folio), folio);

	rmap_walk(folio, &rwc);
	return rmap.live;
''','''	VM_WARN_ON_FOLIO(folio_test_swapcache(folio), folio);

	trace_mm_migrate_folio_change(folio);
	rmap_walk(folio, &rwc);
	return rmap.live;
'''))
