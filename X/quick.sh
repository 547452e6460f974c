git fetch -q /work/s/X/tree X && git checkout -q -B X FETCH_HEAD
make lab QUICK=1
cp out/lab/results.json /work/s/X/quick-results.json
export PYTHONPATH=.
P=.cache/venv/bin/python
A=2m,40000,20000,100,984000,2
$P /work/s/X/try.py readers base dcbm,1,2459,$A 1 r-live-q10000 4 10000
$P /work/s/X/try.py readers base dcbm,1,2459,$A 1 r-live-q2500 4 2500
$P /work/s/X/try.py readers base dcbm,0,2459,$A 1 r-cut 4
$P /work/s/X/try.py readers base dcbm,1,2459,$A 1 r-live-again 4
$P /work/s/X/trytouched.py
