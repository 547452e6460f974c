# in the view: try.sh <way>...
cd /work/s/V2/tree
V=/work/s/cold/.cache/shared/venv-b1ef46540b85/bin/python; export PYTHONDONTWRITEBYTECODE=1
mapfile -t argv < <($V -c 'from pathlib import Path; from harness.checks import debian; print(*debian.machine_of_image(Path("/work/s/lower/out/qemu/bin"), Path("x")), sep="\n")')
image=${IMAGE:-/work/s/V2/trial.efi}
out=/work/s/V2/try-$1
# functions of image.sh, up to the first mformat, with its arguments
sed -n '/^firmware=/,/^mformat/p' harness/checks/image.sh | sed '$d' >/work/s/V2/functions.sh
rm -rf $out; mkdir -p $out; cd $out; mkfifo input
trap '' PIPE
. /work/s/V2/functions.sh
case $1 in
kernel) boot kernel "Linux version 7.*-migrate-offload-image" "${argv[@]}" -kernel $image ;;
firmware)
	mformat -C -T 262144 -i stick.fat ::
	mmd -i stick.fat ::EFI ::EFI/BOOT
	mcopy -i stick.fat "$image" ::EFI/BOOT/BOOTX64.EFI
	boot firmware "efi: EFI v" "${argv[@]}" -bios $firmware -drive file=stick.fat,format=raw,if=ide ;;
kexec)
	cp /work/s/V2/kx/* .
	boot kexec "kexec_core: Starting new kernel" "${argv[@]}" -drive file=debian.ext4,format=raw,if=ide,cache=unsafe -kernel vmlinuz -initrd initrd -append "root=/dev/sda rw console=ttyS0 panic=-1 fsck.mode=skip init=/start" ;;
esac
echo "$failed failed, $passed passed"
