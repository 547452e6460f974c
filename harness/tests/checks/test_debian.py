"""`make check-debian`: what is read from a disk, written to it, and shown of a run."""

import re
from pathlib import Path

import pytest

from harness.checks import debian
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT, Paths
from harness.guest.ktap import Status

RESULTS = """\
KTAP version 1
1..2
# root@debian:~# uname -r
# 7.3.4
# kernel: 1 s
ok 1 kernel
# not shown
ok 2 other
# root@debian:~# false
not ok 3 last
"""


def test_the_kernel_is_the_one_that_grub_would_boot() -> None:
    names = [".", "vmlinuz-6.12.9+deb13-amd64", "vmlinuz-6.12.117+deb13-amd64", "initrd.img-9"]
    assert debian.newest(names) == "6.12.117+deb13-amd64"
    assert debian.newest([*names, "vmlinuz-7.3.4-x"]) == "7.3.4-x"
    with pytest.raises(HarnessError, match="no kernel in /boot"):
        debian.newest(["config-7.3.4"])


def test_the_transcript_is_what_the_user_typed_and_saw() -> None:
    assert debian.transcript(RESULTS) == (
        "root@debian:~# uname -r\n7.3.4\n\nroot@debian:~# false\n"
    )


def test_the_document_shows_what_was_typed(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    seen = tmp_path / "transcript.txt"
    (tmp_path / "docs").mkdir()
    seen.write_text(debian.transcript(RESULTS).replace("7.3.4", "7.3.4\nkernel: 1 s"))
    shown = "Words.\n\n    root@debian:~# uname -r\n    {}\n    root@debian:~# {}\n"
    for first, last, passed in (("7.3.9", "false", True), ("...", "false", True),
                                ("... 4 s", "false", True), ("... 4 min", "false", False),
                                ("7.3.9", "true", False), ("6x", "false", False)):  # fmt: skip
        (tmp_path / debian.DOCUMENT).write_text(shown.format(first, last))
        (case,) = debian.documented(paths, seen)
        assert (case.status is Status.PASSED) is passed
    seen.write_text("")
    (tmp_path / debian.DOCUMENT).write_text("")
    assert debian.documented(paths, seen)[0].status is Status.FAILED
    assert debian.typed("root@debian:~# x 7.3.4-a 12") == debian.typed("root@debian:~# x 8-a 3")


def test_files_come_and_go_through_a_disk(tmp_path: Path) -> None:
    disk, file = tmp_path / "disk", tmp_path / "file"
    file.write_text("content\n")
    process.capture(["mkfs.ext4", "-q", str(disk), "2M"])
    debian.write_files(disk, ["mkdir /d", "cd /d", f"write {file} name", "symlink link name"])
    assert {"name", "link"} <= set(debian.files_on(disk, "/d"))
    assert debian.read_file(disk, "/d/name", tmp_path / "back").read_text() == "content\n"
    with pytest.raises(HarnessError, match="has no file /d/other"):
        debian.read_file(disk, "/d/other", tmp_path / "back")
    with pytest.raises(HarnessError, match=r"debugfs: .*No such file"):
        debian.write_files(disk, [f"write {tmp_path}/missing name2"])


def test_the_machine_knows_every_part() -> None:
    script = (ROOT / "guest/debian/lane").read_text()
    parts = {
        match[1]: (int(match[2]), match[3])
        for match in re.finditer(r"^(\w+)\)\n\tktap_plan (\d+)\n(.*?)\t;;", script, re.M | re.S)
    }
    assert tuple(parts) == debian.PARTS
    for planned, body in parts.values():
        assert len(re.findall(r"^\t(?:user|ktap_command) ", body, re.M)) == planned


MACHINE = """
while :; do
	printf '4 reboot: '
	read -r choice option
	case $choice in
	1) printf "\\n$option works\\n" ;;
	4) echo {last}; exit {status} ;;
	esac
done
"""


@pytest.mark.parametrize(
    ("last", "status", "failed"),
    [("end", 0, []), ("BUG: x", 0, ["is healthy", "4"]), ("end", 3, ["ends"])],
)
def test_the_menu_of_the_image_gets_its_answers(
    last: str, status: int, failed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert debian._MENU in (ROOT / "deb/menu").read_text()
    typed = {"": "4 reboot", "1 doctor": "^doctor works$", "4": "end$"}
    monkeypatch.setitem(debian.WAYS, "kernel", typed)
    machine = ["sh", "-c", MACHINE.format(last=last, status=status)]
    cases = debian.answer("kernel", {"kernel": machine}, tmp_path / "logs")
    assert [case.name for case in cases if case.status is Status.FAILED] == failed
