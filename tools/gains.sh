set -x
export PYTHONPATH=.
PY=.cache/venv/bin/python
make edit PATCH=lab/0004 DISCARD=1 || exit 1
for p in plain join8+ neigh4+ neigh3+ lru2+ lru1+ move3+ move4+ bulk3+ bulk2+; do [ $p = plain ] || $PY /work/s/gains/gains.py revert $p; done
for n in plain join8+ neigh4+ neigh3+ lru2+ lru1+ move4+ move3+ bulk3+ bulk2+; do date; $PY /work/s/gains/gains.py $n || echo "FAILED $n"; done
$PY /work/s/gains/gains.py table
date
