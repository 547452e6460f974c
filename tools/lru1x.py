import subprocess
ed="/work/s/gn/view/up/.cache/linux/7.3.4-1-bpo13+1/edit"
import sys
p="mm/folio.c"
s=subprocess.run(["git","-C",ed,"show",f"HEAD:{p}"],capture_output=True,text=True,check=True).stdout
a="""	/* As lruvec_add_folio() does, but for the size. */
	lru = folio_lru_list(folio);
	if (!lru_gen_add_folio(lruvec, folio, false)) {
		lru_size_add(lruvec, delta, lru, folio_zonenum(folio), nr_pages);
		if (lru != LRU_UNEVICTABLE)
			list_add(&folio->lru, &lruvec->lists[lru]);
	}
"""
assert s.count(a)==1
n=s.replace(a,"\tlruvec_add_folio(lruvec, folio);\n").replace("	long nr_pages = folio_nr_pages(folio);\n	enum lru_list lru;\n\n	VM_BUG_ON_FOLIO(folio_test_lru","	long nr_pages = folio_nr_pages(folio);\n\n	VM_BUG_ON_FOLIO(folio_test_lru")
import difflib
d=f"diff --git a/{p} b/{p}\n"+"".join(difflib.unified_diff(s.splitlines(1),n.splitlines(1),"a/"+p,"b/"+p))
open("/work/s/gains/lru1x.diff","w").write(d); print(d)
