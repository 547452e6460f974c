git checkout -q -f; git fetch -q /work/s/X/tree X && git checkout -q -B X FETCH_HEAD
time make lab WORKLOAD=readers
cp out/lab/readers.json out/lab/report.html out/lab/*.png /work/s/X/trial/
