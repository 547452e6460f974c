set -u
cc() { nice -n 10 python3 cc.py "$@"; }
M="mm/migrate.o mm/migrate_offload.o"
cc pick/required-~2 req1 $M
cc pick/required-~1 req2 mm/migrate.o
cc pick/required- req3 $M fs/hugetlbfs/inode.o mm/memory-failure.o
UNDEF=CONFIG_MIGRATION_COPY_OFFLOAD,CONFIG_MIGRATION_LIVE_COPY cc pick/required- req3off mm/migrate.o
nice -n 10 python3 pick.py batches/0003 neighbours/ | grep CONF
for i in 3 2 1 0; do cc pick/neighbours-~$i nb$i mm/migrate.o mm/rmap.o mm/folio.o; done
UNDEF=CONFIG_MIGRATION_COPY_OFFLOAD,CONFIG_MIGRATION_LIVE_COPY cc pick/neighbours- nboff mm/migrate.o
nice -n 10 python3 pick.py pristine dmaengine/ | grep CONF
for i in 3 2 1 0; do o="drivers/dma/dmaengine.o drivers/dma/dmaengine_kunit.o"; [ $i -gt 1 ] || o="$o drivers/dma/dmasim.o"; [ $i = 0 ] && o="$o drivers/dma/amd/ptdma/ptdma-dmaengine.o"; cc pick/dmaengine-~$i dma$i $o; done
nice -n 10 python3 pick.py batches/0003 live/ required/ fixes/ drivers-fixes/ pte-batching/ neighbours/ dmaengine/ joins/ | grep CONF
cc pick/joins-~9 j1 drivers/dma/amd/ptdma/ptdma-dmaengine.o
for i in 3 2 1 0; do cc pick/joins-~$i j$((10-i)) mm/migrate.o mm/migrate_live.o mm/rmap.o mm/migrate_offload.o; done
cc newtip tip $M mm/migrate_live.o mm/rmap.o
