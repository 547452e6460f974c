# shellcheck shell=sh disable=SC2034,SC2154
# What suites share in which a program of Debian's runs while its memory moves; read with
# ". /program.sh" after /lib.sh.

mover=/sys/fs/cgroup/mover
program_rc=0

fail()
{
	echo "# $*"
	program_rc=1
}

# debian <program> <arguments...>: one of those that the harness adds to the image, with their
# own libraries.
debian()
{
	chroot /debian "$@"
}

# program_begin off|cpu|dcbm <live: 0|1> <most us inaccessible> <4k|2m>: who copies, and what
# programs get that ask for memory. Nobody but migratepages(8) moves any.
program_begin()
{
	for directory in proc sys dev run; do
		mount --bind "/$directory" "/debian/$directory" || return 1
	done
	mkdir "$mover" && echo 0 >/proc/sys/kernel/numa_balancing || return 1
	case $4 in
	2m)	echo always >/sys/kernel/mm/transparent_hugepage/enabled ;;
	4k)	echo never >/sys/kernel/mm/transparent_hugepage/enabled ;;
	esac || return 1
	if [ "$1" = dcbm ]; then
		exact_timers && MIG_ENGINE=ptdma || return 1
	fi
	if [ -d "$offload" ]; then
		set_mode "$1" && set_live "$2" || return 1
		for route in "$offload"/routes/*/max_inaccessible_us; do
			echo "$3" >"$route" || return 1
		done
	fi
}

# pages_on <process> <node>: how many pages of its memory are there.
pages_on()
{
	grep -o " N$2=[0-9]*" "/proc/$1/numa_maps" |
		{ sum=0; while IFS='=' read -r _ n; do sum=$((sum + n)); done; echo "$sum"; }
}

# Seconds since boot.
now()
{
	read -r seconds _ </proc/uptime
	echo "$seconds"
}

# Microseconds for which movers, or what stood in for one, had the processor.
mover_us()
{
	sed -n 's/^usage_usec //p' "$mover/cpu.stat"
}

# Moves a process's memory to the other node and back for as long as /run/moving is there.
keep_moving()
{
	from=0
	to=1
	while [ -e /run/moving ]; do
		began=$(now)
		debian migratepages "$1" $from $to || echo failed >/run/moving.failed
		echo "$began $(now)" >>/run/moves
		from=$((1 - from))
		to=$((1 - to))
	done
}

# while_moving <process> <command...>: runs it meanwhile. Says how many moves ended while it ran (the
# first one counts however late it ended), the seconds that they took, and how many us of the
# processor one takes. An odd number of moves is followed by one more, so that the memory is where
# it was.
while_moving()
{
	moving=$1
	shift
	rm -f /run/moves /run/moving.failed
	touch /run/moving
	before=$(mover_us)
	{ echo 0 >"$mover/cgroup.procs"; keep_moving "$moving"; } &
	keeper=$!
	"$@"
	ended=$(now)
	rm /run/moving
	wait $keeper
	all=$(wc -l </run/moves)
	used=$((($(mover_us) - before) / all))
	[ ! -e /run/moving.failed ] || fail "migratepages failed"
	node=$((all % 2))
	there=$(pages_on "$moving" "$node")
	left=$(pages_on "$moving" $((1 - node)))
	[ "$left" -lt $((there / 50)) ] || fail "$left pages did not follow $there to node $node"
	[ "$node" -eq 0 ] || debian migratepages "$moving" 1 0
	awk -v ended="$ended" -v used="$used" '
		$2 <= ended || NR == 1 { moves++; seconds += $2 - $1 }
		END { print "moves:", moves, seconds, used }' /run/moves
}

# while_busy <command...>: runs it beside a program that moves nothing and only wants the processor.
while_busy()
{
	{ echo 0 >"$mover/cgroup.procs"; exec dd if=/dev/zero of=/dev/null bs=1M; } 2>/dev/null &
	busy=$!
	"$@"
	kill $busy
	wait $busy
}
