date
cd /work/wt/mapped
for p in migrate_neighbours migrate_counts; do harness/bootstrap.sh guest --config lab --args=as-is,$p one > /work/tmp/mapped-t-$p.log 2>&1; grep -E "not ok|Totals|error|done rc" /work/tmp/mapped-t-$p.log; date; done
