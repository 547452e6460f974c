# shellcheck shell=sh
# shellcheck disable=SC2086,SC2034,SC2154 # $debian is a list of words; /lib.sh and suites share names
# Functions of suites in which a program of Debian's serves while migratepages(8) moves its memory;
# read after /lib.sh. They define $debian, before a program's name; $server, the process whose
# memory must follow; "processes", which says all that are moved; "restore", after which the program
# is as before its first case; "benchmark <case>", which runs the load generator, and "figures", which
# then says what it measured; and "intact", which fails if memory is not what was written. Suites in
# which the kernel moves memory by itself only take "setup" and what is short.

mover=/sys/fs/cgroup/mover
moving_rc=0

fail()
{
	echo "# $*"
	moving_rc=1
}

# setup off|cpu|dcbm <live> <us>: set the copier. Only migratepages(8) moves anything. On one
# processor khugepaged, which is nice 19, may keep a program's mmap_lock until the mover is done.
setup()
{
	migrator=$1
	live=$2
	mkdir "$mover" && echo 0 >/proc/sys/kernel/numa_balancing || return 1
	echo 4000000000 >/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
	[ -d "$offload" ] || return 0
	[ "$1" != dcbm ] || exact_timers || return 1
	MIG_ENGINE=ptdma
	set_mode "$1" && set_live "$2" && set_bound "$3"
}

# Seconds since boot.
now()
{
	cut -d ' ' -f 1 /proc/uptime
}

# value <name> <file>: of a line with a name and a number.
value()
{
	sed -n "s/^$1 //p" "$2"
}

# begin <command...>: a program that says at which step it is, and waits for a line before it
# takes the next, which "next" writes.
begin()
{
	[ -p /run/go ] || mkfifo /run/go
	# The output of an earlier one is gone before the pipe has a reader.
	"$@" >/run/said </run/go &
	program=$!
	exec 3>/run/go
}

next()
{
	echo >&3
}

# finished: whether it went well.
finished()
{
	wait $program
	set -- $?
	exec 3>&-
	return $1
}

# until_said <word>
until_said()
{
	until grep -q "$1" /run/said; do
		sleep 0.1
	done
}

# Between the two, the migrator copies.
copies_begin()
{
	[ "$migrator" != off ] || return 0
	copied=$(read_stat pages_copied)
}

# copies_end <case> <pages>: it copied most of those.
copies_end()
{
	[ "$migrator" != off ] || return 0
	copied=$(($(read_stat pages_copied) - copied))
	[ $((100 * copied)) -ge $((80 * $2)) ] || fail "$1: $migrator copied $copied pages of $2"
}

# pages <process>: how many it has on the first node.
pages()
{
	grep -o ' N0=[0-9]*' "/proc/$1/numa_maps" |
		{ sum=0; while IFS='=' read -r _ n; do sum=$((sum + n)); done; echo $sum; }
}

# move <from> <to>: all processes; some end meanwhile, and the caller counts pages.
move()
{
	for process in $(processes); do
		$debian/migratepages "$process" "$1" "$2"
	done
}

# Moves memory to the other node and back until /run/moving is gone.
keep_moving()
{
	echo 0 >"$mover/cgroup.procs"
	to=1
	while [ -e /run/moving ]; do
		began=$(now)
		move $((1 - to)) $to
		echo "$began $(now)"
		to=$((1 - to))
	done
}

# load <case>
load()
{
	benchmark "$1" || fail "$1: the load generator failed"
}

# moving <case>: all pages followed in each move, and a migrator copied most.
moving()
{
	touch /run/moving
	wanted=$(pages "$server")
	moved=$(value pgmigrate_success /proc/vmstat)
	used=$(value usage_usec "$mover/cpu.stat")
	copies_begin
	keep_moving >/run/moves &
	keeper=$!
	load "$1"
	ended=$(now)
	rm /run/moving
	wait $keeper
	moves=$(wc -l </run/moves)
	moved=$(($(value pgmigrate_success /proc/vmstat) - moved))
	used=$(($(value usage_usec "$mover/cpu.stat") - used))
	if [ "$moves" -eq 0 ] || [ $((100 * moved)) -lt $((98 * moves * wanted)) ]; then
		fail "$1: $moved pages moved in $moves moves of $wanted"
	fi
	copies_end "$1" $((moves * wanted))
	[ $((moves % 2)) -eq 0 ] || move 1 0
	figures
	awk -v ended="$ended" -v used=$((used / (moves + !moves))) '
		$2 <= ended || NR == 1 { moves++; seconds += $2 - $1 }
		END { print "moves:", moves, seconds, used }' /run/moves
}

# busy <case>: beside a program that moves nothing and only wants the processor.
busy()
{
	dd if=/dev/zero of=/dev/null bs=1M 2>/dev/null &
	hog=$!
	load "$1"
	kill $hog
	wait $hog
	figures
}

# prepare <case> <state>
prepare()
{
	restore || fail "$1 $2: the program is not as it was"
	echo "case: $1 $2"
}

# measure <case...>: ends the suite.
measure()
{
	for case in "$@"; do
		prepare "$case" rest
		load "$case"
		figures
		if [ ! -d "$offload" ]; then
			prepare "$case" busy
			busy "$case"
		fi
		prepare "$case" moving
		moving "$case"
	done
	intact || fail "memory is not what was written"
	[ ! -d "$offload" ] || show_stats
	exit $moving_rc
}
