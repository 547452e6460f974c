#!/bin/bash
# viewcmd.sh VIEW CMD: update a view to coldgit main, then CMD
v=$1; shift
exec ./run $v bash -c 'git fetch -q /work/s/coldgit main && git checkout -q -f -B main FETCH_HEAD && exec "$@"' _ "$@"
