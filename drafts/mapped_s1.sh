date
cd /work/wt/mapped
E=$(echo /work/cache/linux/7.3.4*/edit)
export GIT_AUTHOR_NAME="The copy-offload project" GIT_AUTHOR_EMAIL=copy-offload@localhost GIT_COMMITTER_NAME="The copy-offload project" GIT_COMMITTER_EMAIL=copy-offload@localhost
git add -A; git commit -qm "wip: mutants"
harness/bootstrap.sh edit --discard large-folios/0022 || exit 1
(cd $E && python3 /work/tmp/mapped_p4.py && git diff --stat | cat) || exit 1
harness/bootstrap.sh save || exit 1
harness/bootstrap.sh edit large-folios/0023 || exit 1
(cd $E && python3 /work/tmp/mapped_p5.py && git diff --stat | cat) || exit 1
harness/bootstrap.sh save || exit 1
git add -A; git commit -qm "wip: inline"
date
for p in migrate_neighbours migrate_counts; do harness/bootstrap.sh guest --config lab --args=as-is,$p one > /work/tmp/mapped-t-$p.log 2>&1; grep -E "not ok|Totals|error|done rc" /work/tmp/mapped-t-$p.log; done
date
/work/tmp/mapped_hist.sh p4 lab 2>&1 | grep -v reused | tail -14
date
