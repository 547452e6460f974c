#!/bin/bash
# `make image-check`: boots the image by QEMU's loader, by firmware from a stick, and by kexec
# from the disk of a Debian 13, and types at its menu. The console is QEMU's input and output.
#
#	image.sh <directory of logs> <image> <disk> <kexec> <QEMU and options...>
set -euo pipefail
trap '' PIPE # of a machine that has ended

out=$1 image=$2 disk=$3 kexec=$4
shift 4
rm -rf "$out"
mkdir -p "$out"
cd "$out"
firmware=/usr/share/ovmf/OVMF.fd
answers=("1 --quiet --size=4 --iterations=4" "migrate-offload status" "redis-server -v"
	"migrate-offload enable --engine=ptdma bulk" "2 --rounds=1 --mib=4 --force" 4)
said=("^Use dcbm on ptdma, for folios of" "If you answer for it: --engine idxd"
	"^Engine ptdma, 16 channels" "^Redis server v=" '^{"program": "migrate_offload_report"')
passed=0 failed=0

# check <name> <command...>
check()
{
	if "${@:2}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok $1: see $out"
	fi
}

# boot <way> <what only this way prints> <options...>: the last answer ends the machine.
boot()
{
	local log=$1.log asked=0 answer words status=0

	echo "booting by $1"
	timeout 3600 "${@:3}" <input >"$log" 2>&1 &
	exec 3>input
	for answer in "${answers[@]}"; do
		asked=$((asked + 1))
		while kill -0 $! 2>&- && [ "$(grep -ac "4 reboot: " "$log")" -lt $asked ]; do
			sleep 0.2
		done
		echo "$answer" >&3 2>&- || true
	done
	wait $! || status=$?
	exec 3>&-
	check "$1 ends with status $status" [ $status -eq 0 ]
	check "$1 complains" eval "! grep -aE 'Call Trace|Kernel panic' $log"
	for words in "$2" "${said[@]}"; do
		check "$1 does not say '$words'" grep -aq "$words" "$log"
	done
}

mformat -C -T 262144 -i stick.fat ::
mmd -i stick.fat ::EFI ::EFI/BOOT
mcopy -i stick.fat "$image" ::EFI/BOOT/BOOTX64.EFI
cp --sparse=always "$disk" debian.ext4
printf '#!/bin/sh\n/kexec -sl /image && /kexec -e\n' >start
kernel=$(debugfs -R "ls -p /boot" debian.ext4 2>&- | grep -o "vmlinuz-[^/]*")
debugfs -w -f - debian.ext4 >debugfs.log 2>&1 <<END
write $image image
write $kexec kexec
write start start
sif kexec mode 0100755
sif start mode 0100755
dump /boot/$kernel vmlinuz
dump /boot/initrd.img-${kernel#vmlinuz-} initrd
END
mkfifo input
touch prepared
drive=file=debian.ext4,format=raw,if=ide,cache=unsafe

boot kernel "Linux version 7.*-migrate-offload-image" "$@" -drive $drive -kernel "$image"
check "a disk has changed" [ ! debian.ext4 -nt prepared ]
boot firmware "efi: EFI v" "$@" -bios $firmware -drive file=stick.fat,format=raw,if=ide
boot kexec "kexec_core: Starting new kernel" "$@" -drive $drive -kernel vmlinuz -initrd initrd \
	-append "root=/dev/sda rw console=ttyS0 panic=-1 fsck.mode=skip init=/start"
echo "$failed failed, $passed passed"
[ $failed -eq 0 ]
