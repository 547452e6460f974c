set -u
cc() { nice -n 10 python3 cc.py "$@"; }
M="mm/migrate.o mm/migrate_offload.o"
c() { git -C $ED log -1 --format=%H --fixed-strings --grep="Patch: $1" series; }
cc $(c batches/0001) b1 $M
cc pick/required-~2 req1 $M
cc pick/required- req3 $M
cc pick/neighbours-~3 nb3 mm/migrate.o mm/rmap.o
cc pick/neighbours-~1 nb1 mm/migrate.o
cc pick/neighbours- nb0 mm/migrate.o mm/rmap.o mm/folio.o
cc $(c live/0004) l4 $M mm/migrate_live.o
for i in 3 2 0; do cc pick/joins-~$i j$((10-i)) mm/migrate.o mm/migrate_live.o mm/rmap.o; done
cc series tip $M mm/migrate_live.o mm/rmap.o
UNDEF=CONFIG_MIGRATION_COPY_OFFLOAD,CONFIG_MIGRATION_LIVE_COPY cc series tipoff mm/migrate.o
UNDEF=CONFIG_MIGRATION_COPY_OFFLOAD,CONFIG_MIGRATION_LIVE_COPY cc pick/required- req3off mm/migrate.o
