export PYTHONPATH=.
PY=.cache/venv/bin/python
for n in plain lru1x join8+ neigh4+; do date; $PY /work/s/gains/gains.py $n || echo "FAILED $n"; done
$PY /work/s/gains/gains.py table
git checkout -q -f; git status --short | head -3
for p in zen3-ptdma zen3-ptdma-unmerged spr-dsa; do
  date; nice -n 5 $PY /work/s/tools/one.py $p quick /work/s/log/rows-$p.json segments-16 live-16 default-16 || echo FAILED $p
done
date
$PY /work/s/gains/gains.py spare1
$PY /work/s/gains/gains.py table
date
git checkout -q -f
$PY /work/s/log/small.py zen3-ptdma /work/s/log/rows-small.json
date
