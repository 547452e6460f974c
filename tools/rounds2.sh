#!/bin/bash
# rounds.sh N [load]: round N of all suites in virtual time that the base kernel has, and of those that
# only the debug kernel has, two guests at a time, in /work/s/cold, as `make check ONLY=...` runs them; with
# "load" beside a program that spins on both cores at the lowest priority. Names come from the heads of
# the suites. Keeps log, stages.jsonl and digests in /work/s/log/rounds/N, and says which digests differ
# from those of other rounds with the same SEED (default 1; SEED=k ./rounds.sh N for another one).
# Ends with 1 if a case failed or a digest differs. About 11 core-minutes, 6 minutes on two free cores.
# rounds.sh names: prints the stages only.
set -u
n=${1:?usage: rounds.sh N [load] | names}; load=${2:-}
cd /work/s/cold || exit
export CACHE_DIR=$PWD/.cache SEED=${SEED:-1}
names=$(.cache/venv/bin/python - <<'P'
from harness.checks import heads, main, turns
from harness.core.paths import default_paths

paths = default_paths()
found = heads.read(paths.guest / "suites", main.KERNELS, turns.groups(paths.root))
on_base = {f"debug-{name}" for name, head in found.items() if "base" in head.kernels}
print(",".join(
    stage.name
    for stage in main.tests(paths, ())
    if stage.virtual and not stage.group
    and (stage.needs == "kernel-base" or stage.needs == "kernel-debug" and stage.name not in on_base)
))
P
) && [ -n "$names" ] || exit
if [ "$n" = names ]; then echo "$names"; exit; fi
out=/work/s/log/rounds/$n
[ ! -e "$out" ] || { echo "$out exists"; exit 1; }
mkdir -p "$out"; echo "$SEED" >"$out/seed"; git rev-parse HEAD >"$out/commit"
spin=
if [ "$load" = load ]; then
	for _ in 1 2; do nice -n 19 python3 -c 'while True: pass' & spin="$spin $!"; done
fi
# shellcheck disable=SC2064,SC2086
trap "kill $spin 2>/dev/null" EXIT
(while sleep 30; do cat /proc/loadavg; done >"$out/loadavg") & spin="$spin $!"
# shellcheck disable=SC2064
trap "kill $spin 2>/dev/null" EXIT
began=$(date +%s)
make check ONLY="$names" >"$out/log" 2>&1; rc=$?
echo "rc=$rc seconds=$(($(date +%s) - began)) load=${load:-no}" >>"$out/log"
cp -a out/check/stages.jsonl "$out/" 2>/dev/null
(cd out/check && find . -name digest -exec sh -c 'echo "$1 $(cat "$1")"' _ {} \; | sort) >"$out/digests"
tail -3 "$out/log"; echo "$(wc -l <"$out/digests") digests"
for other in /work/s/log/rounds/*/; do
	other=${other%/}
	[ "$other" != "$out" ] && cmp -s "$other/seed" "$out/seed" && [ -f "$other/digests" ] || continue
	if cmp -s "$other/commit" "$out/commit"; then
		diff "$other/digests" "$out/digests" >"$out/diff-${other##*/}" ||
			{ echo "differs from round ${other##*/}:"; cat "$out/diff-${other##*/}"; rc=1; }
	fi
done
exit $rc
