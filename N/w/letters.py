import sys
P="/work/s/N/tree/kernel/patches/"
def sub(f,a,b):
    s=open(P+f).read()
    if s.count(a)!=1: print("NO",f,s.count(a),repr(a[:60])); return
    open(P+f,"w").write(s.replace(a,b))
sub("batches/cover-letter.txt","""The series live, required and bound change how migrate_pages() treats a
batch. This series prepares that.
""","""The series live, required, bound and neighbours change how migrate_pages()
treats a batch. This series prepares that; none of them needs another one.
""")
sub("required/cover-letter.txt","""Base: v7.3.4 with the series live: a live copy obeys a required route, too.
""","""Base: v7.3.4 with the series batches: the move of a folio, and hugetlb
folios, find the route in struct migrate_call. If the series live is there,
patch 7 of joins must be, too: live copies then obey required routes.
""")
sub("neighbours/cover-letter.txt","""Base: v7.3.4 with the series live and required: struct migrate_batch has
what is left to do for its folios, and patch 3 edits lines next to those of
required. The series joins maps neighbours in one walk.
""","""Base: v7.3.4 with the series batches: struct migrate_batch has what is left
to do for its folios. If the series live is there, patch 8 of joins must be,
too. Patch 10 of joins maps neighbours in one walk.
""")
sub("bound/cover-letter.txt","""Base: v7.3.4 with the series batches: each folio of a batch has its
destination, whose node is a key of the averages, before any is unmapped.
""","""Base: v7.3.4 with the series batches, which takes folios into a batch one by
one, and unmaps none before: so the bound can end a batch, and the time of
the allocations, which needs no bound, is not in the averages.
""")
sub("live/cover-letter.txt","""Base: v7.3.4 with the series batches: a chunk moves as a batch does, and
the migrator "cpu" copies live where there is no engine.
""","""Base: v7.3.4 with the series batches: the functions that flush, move and
undo a batch, given as a struct, do so for a group of a live copy, and the
migrator "cpu" copies live where there is no engine.
""")
sub("dmaengine/cover-letter.txt","""such a client, the page migrator dcbm.

Patch 4 implements the operation of patch 2 in three drivers. Patch 5 lifts
a limit on the length of a segment for PTDMA and AE4DMA.

Base: v7.3.4 with the series drivers-fixes, whose fixes patch 4 needs.
""","""such a client, the page migrator dcbm. Patch 4 lifts a limit on the length
of a segment for PTDMA and AE4DMA.

Base: v7.3.4. No other series is needed.
""")
sub("dmaengine/cover-letter.txt","""- Only ptdma, ae4dma and zynqmp_dma have the operation of patch 2. It was
  tested on models.
""","""- Only ptdma, ae4dma and zynqmp_dma have the operation of patch 2, by the
  series joins, since they need drivers-fixes. It was tested on models.
""")
sub("joins/cover-letter.txt","""The series dmaengine adds a notifier of channels, and an operation that
tells whether an engine has stopped. Patches 1 and 2 use these in dcbm.
Patch 3 prefers channels near the memory. Patch 4 shows the counters of
each channel. Patch 5 adds the KUnit tests.

Patches 6 and 7 join live, neighbours and pte-batching. Patch 6 lets live
copies protect PTEs in the runs of pte-batching. Patch 7 maps anonymous
neighbours of up to 32 KB in one walk through the reverse map.

Base: v7.3.4 with the series required, dmaengine, neighbours and
pte-batching.
""","""The series dmaengine adds a notifier of channels, and an operation that
tells whether an engine has stopped. Patch 1 implements the operation in
drivers that drivers-fixes has mended. Patches 2 and 3 use both in dcbm.
Patch 4 prefers channels near the memory. Patch 5 shows the counters of
each channel. Patch 6 adds the KUnit tests.

Patches 7 to 10 join live, required, neighbours and pte-batching. Patch 7
lets live copies obey required routes, and patch 8 finishes live copies
together: where live is, neither required nor neighbours is complete
without these. Patch 9 lets live copies protect PTEs in the runs of
pte-batching. Patch 10 maps anonymous neighbours of up to 32 KB in one walk
through the reverse map.

Base: v7.3.4 with the series live, required, dmaengine, drivers-fixes,
neighbours and pte-batching.
""")
sub("joins/cover-letter.txt","patches 1 to 5 alone","patches 2 to 6 alone")
sub("joins/cover-letter.txt","Patch 7 saves 45","Patch 10 saves 45")
sub("joins/cover-letter.txt","KUnit (patch 5)","KUnit (patch 6)")
sub("joins/cover-letter.txt","test patches 6 and 7","test patches 8 to 10")
sub("dmaengine/tests","kunit dmaengine\nptdma provider\nptdma","kunit dmaengine\nptdma")
s=open(P+"joins/tests").read(); open(P+"joins/tests","w").write(s+"ptdma provider\n")
sub("required/tests","one as-is migrate_live -V anon_64k","one as-is migrate_sysfs -t route_reads_as_it_was_written -t route_refuses_all_else")
