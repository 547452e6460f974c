set -x
git fetch -q /work/s/X/tree X && git checkout -q -B X FETCH_HEAD
export PYTHONPATH=.
P=.cache/venv/bin/python
$P /work/s/X/try.py base live,2459,2048,64 1 live2m
$P /work/s/X/try.py base cut,2459,2048,64 1 cut2m
$P /work/s/X/try.py base batch,0,2048,64 1 batch2m
$P /work/s/X/try.py lab-traced off,0,2048,64 0 off2m
$P /work/s/X/try.py base live,2459,64,8 1 live64
$P /work/s/X/try.py base cut,2459,64,8 1 cut64
$P /work/s/X/try.py base batch,0,64,8 1 batch64
$P /work/s/X/try.py lab-traced off,0,64,8 0 off64
