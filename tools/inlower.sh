#!/bin/bash
# inlower.sh CMD: CMD in /work/s/lower itself, at the path /work/s/cold; no view may be in use
export CACHE_DIR=/work/s/cold/.cache
exec unshare -m bash -c 'mount --make-rprivate / && mount --bind /work/s/lower /work/s/cold && cd /work/s/cold && exec "$@"' _ "$@"
