#!/bin/bash
/work/s/run K bash -c 'git fetch -q /work/s/K/tree K && git checkout -q -B K FETCH_HEAD; git log --oneline | head -1'
time flock /work/s/build.lock /work/s/run K make kernel
/work/s/K/suites.sh kunit one:as-is,live_windows,-t,userfaultfd_moves,-t,a_store,-t,nobody_writes,-t,a_device_writes latency bounds one:as-is,live_windows live-stress migrators hugetlb
