#!/bin/bash
# viewnext.sh VIEW CMD: update a view to coldgit next, then CMD
v=$1; shift
exec ./run $v bash -c 'git fetch -q /work/s/coldgit next && git checkout -q -f -B main FETCH_HEAD && exec "$@"' _ "$@"
