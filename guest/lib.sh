# shellcheck shell=sh disable=SC2034
# Functions that the suites share; read with ". /lib.sh".

offload=/sys/kernel/mm/migrate_offload
offload_debug=/sys/kernel/debug/migrate_offload
selftests=/selftests/migrate_offload

ktap_count=0
ktap_failures=0
ktap_planned=0
ktap_since=0

# ktap_plan <number of tests>: starts the report.
ktap_plan()
{
	ktap_planned=$1
	echo "KTAP version 1"
	echo "1..$1"
}

# ktap_result <exit status> <name> [reason of a skip]: 0 passed, 4 skipped, others failed. Says
# how long that took since the last one.
ktap_result()
{
	ktap_count=$((ktap_count + 1))
	read -r ktap_now _ </proc/uptime
	echo "# $2: $((${ktap_now%.*} - ktap_since)) s"
	ktap_since=${ktap_now%.*}
	case $1 in
	0)	echo "ok $ktap_count $2" ;;
	4)	echo "ok $ktap_count $2 # SKIP $3" ;;
	*)	echo "not ok $ktap_count $2"
		ktap_failures=$((ktap_failures + 1)) ;;
	esac
}

# ktap_absorb <exit status>: counts a result whose line another program printed.
ktap_absorb()
{
	ktap_count=$((ktap_count + 1))
	[ "$1" -eq 0 ] || ktap_failures=$((ktap_failures + 1))
}

# ktap_command <name> <command...>: one test; the command's output becomes diagnostics.
ktap_command()
{
	ktap_name=$1
	shift
	echo 1 >/run/ktap.rc # a shell that gives up half way writes none
	{ "$@"; echo $? >/run/ktap.rc; } 2>&1 | sed 's/^/# /'
	ktap_result "$(cat /run/ktap.rc)" "$ktap_name" "as its output says"
}

kunit=/sys/kernel/debug/kunit

# How many tests a KUnit suite planned, and how many of them have a result.
kunit_planned()
{
	sed -n 's/^    1\.\.\([0-9]\+\)$/\1/p' "$kunit/$1/results"
}

kunit_finished()
{
	grep -c '^    \(not \)\?ok [0-9]' "$kunit/$1/results"
}

# Runs a suite if it did not run when its module was loaded; all its tests must have run.
kunit_run()
{
	[ "$(kunit_finished "$1")" -gt 0 ] || echo 1 >"$kunit/$1/run"
	[ "$(kunit_finished "$1")" -gt 0 ] &&
		[ "$(kunit_finished "$1")" -eq "$(kunit_planned "$1")" ]
}

# ktap_kunit <suite>: two tests, that all of a KUnit suite ran, and the suite itself. Its
# file is one KTAP report, whose one test is the suite: it becomes one of several.
ktap_kunit()
{
	ktap_command "$1.all_tests_ran" kunit_run "$1"
	sed -e '/^KTAP version/d' -e '/^1\.\.1$/d' \
		-e "s/^\(\(not \)\?ok\) [0-9]\+ /\1 $((ktap_count + 1)) /" "$kunit/$1/results"
	grep -q "^ok [0-9]* $1" "$kunit/$1/results"
	ktap_absorb $?
}

# ktap_program <name> <program...>: a program that reports in TAP by itself; its tests
# become the leaves below <name>, and their names get <name> as a prefix, so that the
# same program may run several times in one suite. A fixture that is called as the program
# is not named twice. Tests that kselftest.h skips have no name, only a reason: they are
# named by their number.
ktap_program()
{
	ktap_name=$1
	shift
	echo 1 >/run/ktap.rc
	{ "$@"; echo $? >/run/ktap.rc; } 2>&1 | sed \
		-e 's/^TAP version 13$/KTAP version 1/' \
		-e 's/^\(ok \([0-9]\+\)\) # SKIP/\1 \2 # SKIP/' \
		-e "s/^\(\(not \)\?ok [0-9]\+\) \(- \)\?/\1 $ktap_name./" \
		-e 's/^\(\(not \)\?ok [0-9]\+ \([a-z]\+\.\)\?\)\([a-z_]\+\)\.\4\./\1\4./' \
		-e 's/^/  /'
	ktap_rc=$(cat /run/ktap.rc)
	[ "$ktap_rc" -eq 0 ] || echo "# $ktap_name: exit status $ktap_rc"
	ktap_result "$ktap_rc" "$ktap_name" "nothing in it could run"
}

# Every kind of memory that migrate_contents has tests of.
memory_kinds="anon_4k anon_64k anon_2m shmem tmpfs tmpfs_2m file_shared file_private hugetlb
	mlocked forked ksm swapcache"

# moved_by <way> <kind...>: prints the options that choose these kinds of memory, moved that way.
moved_by()
{
	way=$1
	shift
	for kind in "$@"; do
		echo "-v ${kind}_by_$way"
	done
}

# one_of_each: prints the options that choose every kind of memory and every way to move it, but not
# each kind in each way, for a kernel or a machine that is slow.
one_of_each()
{
	# shellcheck disable=SC2086 # a list of words
	moved_by move_pages $memory_kinds
	for way in migrate_pages mbind cpuset hot_remove; do
		moved_by $way forked
	done
	# Whether there is room for large folios depends on what ran before.
	moved_by compaction anon_4k forked
}

# Ends the report; its exit status is that of the suite.
ktap_done()
{
	if [ "$ktap_count" -ne "$ktap_planned" ]; then
		echo "# $ktap_planned tests planned, $ktap_count ran"
		return 1
	fi
	[ "$ktap_failures" -eq 0 ]
}

# ktap_provider: two tests, of what a DMA engine that is there owes any client.
ktap_provider()
{
	load_engine
	modprobe dmaengine_kunit
	ktap_kunit dmaengine_provider
	modprobe -r dmaengine_kunit
}

# ktap_only <program> [argument...]: the whole report of a suite that runs nothing else; ends it.
# With the argument "provider" that is ktap_provider, and with "dmatest" the kernel's own test.
ktap_only()
{
	program=$1
	shift
	case $1 in
	provider)
		ktap_plan 2
		ktap_provider ;;
	dmatest)
		ktap_plan 2
		ktap_command all_channels all_channels
		ktap_command dmatest dmatest 20 ;;
	*)
		ktap_plan 1
		ktap_program "$program" "$selftests/$program" "$@" ;;
	esac
	ktap_done
	exit
}

# in_turn <group>: whether this is the turn of a group of make check, in which its long tests run.
in_turn()
{
	case ,$MIG_TURN, in
	*",$1,"*) return 0 ;;
	esac
	return 1
}

# load_module <name> [parameter=value...]: nothing to do if it is loaded.
load_module()
{
	[ -d "/sys/module/$1" ] || modprobe "$@"
}

# load_engine: the DMA engine that suites use.
load_engine()
{
	if [ "$MIG_ENGINE" = dmasim ]; then
		load_module dmasim channels=4
	else
		load_module "$MIG_ENGINE" && ${MIG_ENGINE_SETUP:-:}
	fi
}

# load_dcbm [parameter=value...]: on that engine. The driver in zynqmp_dma has another name.
load_dcbm()
{
	load_engine && load_module dcbm "providers=$MIG_ENGINE,xilinx-zynqmp-dma" "$@"
}

# modelled: the engine of a preset of the laboratory.
modelled()
{
	MIG_ENGINE=ptdma
	! grep -qx 0x0b25 /sys/bus/pci/devices/*/device || MIG_ENGINE=idxd MIG_ENGINE_SETUP=/idxd.sh
}

# How many channels the machine's engine has.
channels()
{
	case $MIG_ENGINE in
	ioatdma) echo 4 ;;
	*)	echo 16 ;;
	esac
}

# All channels of the machine's engine are there.
all_channels()
{
	load_engine || return 1
	present=$(find /sys/class/dma/ -name 'dma*chan*' | wc -l)
	echo "$present channels"
	[ "$present" -eq "$(channels)" ]
}

# Waits for high-resolution timers: until then a modelled engine is no more exact than a tick.
exact_timers()
{
	for _ in $(seq 300); do
		! grep -q 'hres_active *: *0' /proc/timer_list || { sleep 0.1; continue; }
		return 0
	done
	return 1
}

# dmatest <iterations>: the kernel's own test of engines; it compares every byte.
dmatest()
{
	modprobe dmatest "iterations=$1" timeout=10000 run=1 || return 1
	# dmatest's parameter "wait" takes threads that have not begun for ended ones.
	for _ in $(seq 600); do
		[ "$(dmesg | grep -c 'dmatest: dma.*summary')" -lt "$(channels)" ] || break
		sleep 0.1
	done
	rmmod dmatest || return 1
	dmesg | grep 'dmatest: dma.*summary' | tee /run/dmatest
	[ "$(grep -c "summary $1 tests, 0 failures" /run/dmatest)" -eq "$(channels)" ]
}

# set_routes <migrator|none>: the route of every reason.
set_routes()
{
	for route in "$offload"/routes/*; do
		echo "$1" >"$route" || return 1
	done
}

# set_live 0|1: whether all routes copy memory of any size while it is mapped.
set_live()
{
	echo $(($1 * 2)) >"$offload_debug/live"
}

# set_bound <us>: for how long memory may be inaccessible. With 0 a batch is as large as vanilla's.
set_bound()
{
	[ ! -f "$offload/max_inaccessible_us" ] || echo "$1" >"$offload/max_inaccessible_us"
}

# set_mode off|cpu|dcbm|default|mtcopy|sample: brings the feature into a mode, with modules loaded as needed.
set_mode()
{
	if [ ! -d "$offload" ]; then
		echo "# $offload is missing: not a kernel with the feature"
		return 1
	fi
	# An emulated machine takes longer than an engine may.
	echo 20000 >"$offload_debug/timeout_ms"
	case $1 in
	off)
		echo 0 >"$offload/enabled" && set_routes none ;;
	cpu)
		set_routes cpu && echo 1 >"$offload/enabled" ;;
	dcbm)
		load_dcbm min_pages=1 min_order=0 && set_routes dcbm &&
			echo 1 >"$offload/enabled" ;;
	default) # small folios and batches are the CPU's
		load_dcbm && set_routes dcbm && echo 1 >"$offload_debug/live" &&
			echo 1 >"$offload/enabled" ;;
	mtcopy) # however small a batch is
		load_module mtcopy min_pages=1 && set_routes mtcopy &&
			echo 1 >"$offload/enabled" ;;
	sample)
		load_module sample_migrator && set_routes sample &&
			echo 1 >"$offload/enabled" ;;
	*)
		echo "# unknown mode '$1'"
		return 1 ;;
	esac
}

# Prints "<reason> <counter> <value>" for each counter that is not zero.
stats()
{
	awk '$3' "$offload_debug/stats"
}

# read_stat <counter>: of all reasons together. A pattern is for several counters.
read_stat()
{
	stats | awk -v wanted="^($1)\$" '$2 ~ wanted { sum += $3 } END { printf "%.0f\n", sum }'
}

show_stats()
{
	stats | sed 's/^/# stats: /'
}

# make_ext4 <image> <MiB> <mount point> [mkfs options...]: a new file system on a loop device.
make_ext4()
{
	ext4_image=$1
	ext4_mib=$2
	ext4_mount=$3
	shift 3
	mkdir -p "$ext4_mount" &&
		dd if=/dev/zero of="$ext4_image" bs=1M count=0 seek="$ext4_mib" 2>/dev/null &&
		mkfs.ext4 -q -F "$@" "$ext4_image" &&
		mount -t ext4 -o loop "$ext4_image" "$ext4_mount"
}

# make_swap <image> <MiB>: a swap area on a loop device. The image must not be swapped out
# itself: ramfs, not tmpfs.
make_swap()
{
	dd if=/dev/zero of="$1" bs=64k count=$(($2 * 16)) 2>/dev/null &&
		swap_device=$(losetup -f) &&
		losetup "$swap_device" "$1" &&
		mkswap "$swap_device" >/dev/null &&
		swapon "$swap_device"
}

# test_environment: a file system with buffer heads, on $MIG_FILE_DIR, and a swap area, all of
# it on the first node, where compaction tests are not disturbed by it.
test_environment()
{
	taskset -p 1 $$ >/dev/null &&
		mkdir -p /run/ramfs &&
		mount -t ramfs ramfs /run/ramfs &&
		make_ext4 /run/ext4.img 96 "$MIG_FILE_DIR" &&
		make_swap /run/ramfs/swap.img 32
	environment_rc=$?
	taskset -p ffffffff $$ >/dev/null
	return $environment_rc
}
