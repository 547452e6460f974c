git fetch -q /work/s/coldgit next && git checkout -q -f -B main FETCH_HEAD
cp lab/recorded/quick.json /work/s/log/old-quick.json
cp /work/s/log/new-quick.json lab/recorded/quick.json
PYTHONPATH=. .cache/venv/bin/python /work/s/recite.py /work/s/log/old-quick.json
PYTHONPATH=. .cache/venv/bin/python /work/s/predict.py
git diff > /work/s/log/recit.diff
git diff --stat
