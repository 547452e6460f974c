cd /work/wt/mapped && /work/tmp/ns mapped harness/bootstrap.sh save 2>&1 | grep -v Rebasing | tail -30
cd /work/caches/mapped/linux/*/edit; git diff | head -200
