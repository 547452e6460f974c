#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A file system that changes its metadata all the time must stay clean while the folios of
# its block device migrate with the offload on. These folios have buffer heads: nobody may
# copy them before the move phase. The file system has no journal, because jbd2 keeps
# references to the buffers and so would hide the mistake.
#
# usage: buffer_heads.sh [FOLIOS], which must have been declined for the test to say something

dir=$(dirname "$0")
offload=/sys/kernel/mm/migrate_offload
engine=${MIG_ENGINE:-dmasim}
work=$(mktemp -d)
image=$work/image
mount_point=$work/mnt
manifest=$work/manifest
pressure=${1:-5000}
count=0
failures=0
device=

# result <exit status> <name>
result()
{
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count $2"
	else
		echo "not ok $count $2"
		failures=$((failures + 1))
	fi
}

quietly()
{
	"$@" >"$work/output" 2>&1
	status=$?
	[ "$status" -eq 0 ] || sed 's/^/# /' "$work/output"
	return "$status"
}

routes()
{
	for route in "$offload"/routes/*; do
		echo "$1" >"$route" || return 1
	done
}

cleanup()
{
	echo 0 >"$offload/enabled"
	routes none
	umount "$mount_point" 2>/dev/null
	[ -n "$device" ] && losetup -d "$device" 2>/dev/null
	rm -r "$work"
}

set_up()
{
	mkdir -p "$mount_point" &&
		dd if=/dev/zero of="$image" bs=1M count=0 seek=8 &&
		mkfs.ext4 -q -F -b 1024 -O ^has_journal "$image" &&
		device=$(losetup -f) &&
		losetup "$device" "$image" &&
		mount -t ext4 "$device" "$mount_point"
}

# run <migrator>: four results
run()
{
	quietly set_up && routes "$1" && echo 1 >"$offload/enabled"
	result $? "$1.set_up"

	errors_before=$(dmesg | grep -c 'EXT4-fs.*error')
	"$dir/buffer_heads" churn "$mount_point" "$device" "$pressure" "$manifest"
	result $? "$1.buffer_heads_declined"
	echo 0 >"$offload/enabled"

	umount "$mount_point"
	quietly e2fsck -fn "$device" &&
		[ "$(dmesg | grep -c 'EXT4-fs.*error')" -eq "$errors_before" ]
	result $? "$1.file_system_clean"
	quietly mount -t ext4 -o ro "$device" "$mount_point" &&
		"$dir/buffer_heads" check "$mount_point" "$manifest"
	result $? "$1.file_contents"

	umount "$mount_point"
	losetup -d "$device"
	device=
}

echo "TAP version 13"
if [ ! -d "$offload" ]; then
	echo "1..0 # SKIP no $offload"
	exit 4
fi
echo "1..8"
trap cleanup EXIT
run cpu
modprobe "$engine"
modprobe dcbm min_order=0 "providers=$engine,xilinx-zynqmp-dma"
run dcbm
modprobe -r dcbm
modprobe -r "$engine"
[ "$failures" -eq 0 ]
