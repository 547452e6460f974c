# shellcheck shell=sh
# shellcheck disable=SC2086,SC2034,SC2154 # some are lists of words; /lib.sh and suites share names
# Functions of suites in which a program serves while its memory moves; read after /lib.sh. Each has a
# processor: the server and its load generator the second and the third, the mover the last, and
# all else the first. Requests are due at a fixed rate, and moves too. Suites define $name and
# $server, the processes that are moved, and one whose memory must follow; "restore", if a case changes
# something that a later one could tell; "benchmark <case>", which runs the load generator, and
# "figures", which then says what it measured; and "intact", which fails if memory is not what was
# written. Suites in which the kernel moves memory by itself only take "setup" and what is short.

restore()
{
	:
}

intact()
{
	:
}

mover=/sys/fs/cgroup/mover
thp=/sys/kernel/mm/transparent_hugepage
moving_rc=0
least=80 # of a hundred pages the migrator copies, and the CPU others

fail()
{
	echo "# $*"
	moving_rc=1
}

# setup off|cpu|mtcopy|dcbm <live> <us> 2m|64k|4k: set the copier. Only the mover moves anything:
# khugepaged sleeps. An engine with live copies is as by default, where the CPU copies single pages.
setup()
{
	migrator=$1
	live=$2
	mkdir "$mover" && echo 0 >/proc/sys/kernel/numa_balancing || return 1
	echo 4000000000 >$thp/khugepaged/scan_sleep_millisecs
	if [ "$4" = 64k ]; then
		echo never >$thp/hugepages-2048kB/enabled
		echo madvise >$thp/hugepages-64kB/enabled
	fi
	[ -d "$offload" ] || return 0
	[ "$1" != dcbm ] || exact_timers || return 1
	modelled
	if [ "$1$2" = dcbm1 ]; then
		[ "$4" != 4k ] || migrator=off
		set_mode default
	else
		set_mode "$1" && set_live "$2"
	fi && set_bound "$3"
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
	"$@" >/run/output </run/go &
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
	until grep -q "$1" /run/output; do
		sleep 0.1
	done
}

# Between the two, the migrator copies.
copies_begin()
{
	[ "$migrator" != off ] || return 0
	copied=$(read_stat pages_copied)
}

# copies_end <case> <pages>: it copied $least of a hundred of those.
copies_end()
{
	[ "$migrator" != off ] || return 0
	copied=$(($(read_stat pages_copied) - copied))
	[ $((100 * copied)) -ge $((least * $2)) ] || fail "$1: $migrator copied $copied pages of $2"
}

# pages <process>: how many it has on the first node.
pages()
{
	grep -o ' N0=[0-9]*' "/proc/$1/numa_maps" |
		{ sum=0; while IFS='=' read -r _ n; do sum=$((sum + n)); done; echo $sum; }
}

# on <processor> <command...>: the first one is 0.
on()
{
	mask=$(printf %x $((1 << $1)))
	shift
	taskset $mask "$@"
}

# ipis: how many interrupts processors sent to flush TLBs and to call functions.
ipis()
{
	awk '$1 == "TLB:" || $1 == "CAL:" { for (i = 2; $i ~ /^[0-9]+$/; i++) sum += $i }
		END { print sum }' /proc/interrupts
}

# hold <number> <MiB>: as many processes wait, with memory on the first node.
hold()
{
	[ -z "$name" ] || kill $name
	[ -p /run/never ] || mkfifo /run/never
	name=
	for number in $(seq "$1"); do
		readers "$pages" "$2" 1 0 1 1 <>/run/never >"/run/held.$number" &
		name="$name $!"
		until grep -q filled "/run/held.$number"; do
			sleep 0.1
		done
	done
	server=$!
}

# load <case>
load()
{
	benchmark "$1" || fail "$1: the load generator failed"
}

# moving <case> <us>: moves of 660 MB begin <us> apart, and those of less the sooner; each of the
# processes has a mover. All pages followed in each move, and a migrator copied most. A move costs the
# time for which the processors are busy beyond their time at rest.
moving()
{
	touch /run/moving
	rm -f /run/moves
	wanted=$(pages "$server")
	moved=$(value pgmigrate_success /proc/vmstat)
	sent=$(ipis)
	copies_begin
	used=$(busy)
	processor=$(grep -c ^processor /proc/cpuinfo)
	keepers=
	for each in $name; do
		processor=$((processor - 1))
		taskset "${processors:-$(printf %x $((1 << processor)))}" \
			mover $(($2 * wanted / 161133)) "$each" >>/run/moves &
		keepers="$keepers $!"
	done
	load "$1"
	rm /run/moving
	wait $keepers
	used=$(($(busy) - used - resting))
	read -r moves seconds <<-END
		$(awk '{ moves += $1; seconds += $2 } END { print moves, seconds }' /run/moves)
	END
	moved=$(($(value pgmigrate_success /proc/vmstat) - moved))
	if [ "$moves" -eq 0 ] || [ $((100 * moved)) -lt $((98 * moves * wanted)) ]; then
		fail "$1: $moved pages moved in $moves moves of $wanted"
	fi
	copies_end "$1" $((moves * wanted))
	figures
	echo "moves: $moves $seconds $((used / (moves + !moves))) $moved $(($(ipis) - sent))"
}

# prepare <case> <state>
prepare()
{
	restore "$1" || fail "$1 $2: the program is not as it was"
	echo "case: $1 $2"
}

# pace <movers>: says how many moves all of them end in a second.
pace()
{
	awk "BEGIN { print \"times:\", $1 * $moves / $seconds, 0, 0, 0, 0, 0 }"
}

# only_move <ms> <case...>: each for so long, without a pause and a load; ends the suite.
only_move()
{
	ms=$1 resting=0 name=
	shift
	for case in "$@"; do
		prepare "$case" moving
		moving "$case" 0
	done
	[ ! -d "$offload" ] || show_stats
	exit $moving_rc
}

# measure <us> <case...>: ends the suite.
measure()
{
	every=$1
	shift
	for case in "$@"; do
		prepare "$case" rest
		resting=$(busy)
		load "$case"
		resting=$(($(busy) - resting))
		figures
		prepare "$case" moving
		moving "$case" "$every"
	done
	intact || fail "memory is not what was written"
	[ ! -d "$offload" ] || show_stats
	exit $moving_rc
}
