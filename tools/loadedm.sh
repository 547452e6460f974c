#!/bin/bash
# loadedm.sh N: a whole check in /work/s/cold beside a program that spins on both cores at the lowest
# priority, and what else runs (mutants: builds and guests)
n=$1; cd /work/s/cold || exit
export CACHE_DIR=$PWD/.cache
nice -n 19 python3 -c 'import os
os.fork()
while True: pass' & spin=$!
sleep 1; kids=$(pgrep -P $spin)
(while sleep 30; do cat /proc/loadavg; done >/work/s/log/loadavg$n) & la=$!
{ time make check; } >/work/s/log/loaded$n.log 2>&1; echo rc=$? >>/work/s/log/loaded$n.log
kill $spin $kids $la
rm -rf /work/s/log/check-loaded$n; mkdir /work/s/log/check-loaded$n
cp -a out/check/stages.jsonl /work/s/log/check-loaded$n/ 2>/dev/null
(cd out/check && find . -name digest -exec sh -c 'echo "$1 $(cat $1)"' _ {} \; | sort) >/work/s/log/check-loaded$n/digests
