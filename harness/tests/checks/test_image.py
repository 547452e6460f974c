"""`make image-check`: the machine, and the script that types at the menu."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks import debian
from harness.core import process
from harness.core.paths import ROOT

MENU = (ROOT / "deb/menu").read_text()
MACHINE = """
echo Linux version 7.3.4-migrate-offload-image, efi: EFI v2, kexec_core: Starting new kernel
while :; do
	printf '1 doctor  4 reboot: '
	read -r line && echo $line
	case $line in
	1\\ *) printf 'Use dcbm on ptdma, for folios of 4\\nIf you answer for it: --engine idxd\\n' ;;
	migrate-offload*) echo Engine ptdma, 16 channels ;;
	redis*) {redis} ;;
	2\\ *) echo '{{"program": "migrate_offload_report", ' ;;
	4) exit {status} ;;
	esac
done
"""


def test_the_machine_has_both_engines_and_boots_nothing_by_itself() -> None:
    argv = debian.machine_of_image(Path("/q"), Path("/o/image"))
    assert (argv.count("ptdma"), argv.count("dsa"), argv.count("-icount")) == (16, 2, 1)
    assert argv[argv.index("-serial") + 1] == "stdio" and not {"-kernel", "-append"} & set(argv)


@pytest.mark.parametrize(
    ("redis", "end", "failed"),
    [("echo Redis server v=7", 0, 0), ("echo Call Trace", 0, 6), ("exit 0", 3, 6)],
)
def test_the_check_believes_what_the_machine_prints(
    redis: str, end: int, failed: int, tmp_path: Path, tool: Callable[[str, str], Path]
) -> None:
    assert len(re.findall("4 reboot: '$", MENU, re.MULTILINE)) == 1
    for name in ("mformat", "mmd", "mcopy"):
        tool(name, "")
    tool("machine", MACHINE.format(redis=redis, status=end))
    disk, file = tmp_path / "disk", tmp_path / "file"
    file.write_text("content\n")
    process.capture(["mkfs.ext4", "-q", str(disk), "2M"])
    names = ("vmlinuz-6.12.1", "initrd.img-6.12.1")
    debian.write_files(disk, ["mkdir /boot", "cd /boot", *(f"write {file} {n}" for n in names)])
    script = str(ROOT / "harness/checks/image.sh")
    out = tmp_path / "out"
    words = [script, *map(str, (out, file, disk, file)), "machine"]
    status, output = process.attempt(words, tmp_path)
    assert status == bool(failed) and f"\n{failed} failed, " in output, output
    assert all((out / name).read_text() == "content\n" for name in ("vmlinuz", "initrd"))
    assert {"image", "kexec", "start"} < set(debian.files_on(out / "debian.ext4", "/"))
