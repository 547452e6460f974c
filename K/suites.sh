#!/bin/bash
for s in "$@"; do
	echo "=== $s $(date +%T)"
	set -- ${s//:/ }
	/work/s/run K make guest SUITE=$1 ${2:+ARGS=$2} 2>&1 | tail -60
	echo "=== done $s $(date +%T)"
done
