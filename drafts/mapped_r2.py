f="mm/rmap.c"; s=open(f).read()
def sub(s, a, b, n=1):
    assert s.count(a) == n, (s.count(a), a)
    return s.replace(a, b)
s=sub(s,"""/**
 * try_to_migrate - try to replace all page table mappings with swap entries
 * @folio: the folio to replace page table entries for
 * @flags: action and flags
 *
 * Tries to remove all the page table entries which are mapping this folio and
 * replace them with special swap entries. Caller must hold the folio lock.
 */
void try_to_migrate(struct folio *folio, enum ttu_flags flags)
{
	struct migrate_rmap rmap = { .flags = flags };

	try_to_migrate_rmap(folio, &rmap);
}
""","""/**
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

	try_to_migrate_rmap(folio, &rmap);
}

/**
 * try_to_migrate - __try_to_migrate() that counts at once
 * @folio: the folio to replace page table entries for
 * @flags: action and flags
 */
void try_to_migrate(struct folio *folio, enum ttu_flags flags)
{
	__try_to_migrate(folio, flags, NULL);
}
""")
s=sub(s,""" * @flags: as for try_to_migrate()
 *
 * The migration entries get""",""" * @flags: as for try_to_migrate()
 * @stat: as for __try_to_migrate()
 *
 * The migration entries get""")
s=sub(s,"bool try_to_migrate_live(struct folio *folio, enum ttu_flags flags)\n{\n	struct migrate_rmap rmap = { .flags = flags, .live = true };\n","bool try_to_migrate_live(struct folio *folio, enum ttu_flags flags,\n			 struct rmap_stat *stat)\n{\n	struct migrate_rmap rmap = {\n		.flags = flags,\n		.stat = stat,\n		.live = true,\n	};\n")
open(f,"w").write(s)
f="include/linux/rmap.h"; s=open(f).read()
s=sub(s,"bool try_to_migrate_live(struct folio *folio, enum ttu_flags flags);\n","bool try_to_migrate_live(struct folio *folio, enum ttu_flags flags,\n			 struct rmap_stat *stat);\n")
open(f,"w").write(s)
