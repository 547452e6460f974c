"""`make check-debian`: what is read from a disk, written to it, and shown of a run."""

import re
from pathlib import Path

import pytest

from harness.checks import debian
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT, Paths
from harness.guest.ktap import Status

PATHS = Paths(ROOT, ROOT, ROOT)
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


def test_a_disk_has_what_is_written_and_boots_the_newest_kernel(tmp_path: Path) -> None:
    disk, file = tmp_path / "disk", tmp_path / "file"
    file.write_text("content\n")
    process.capture(["mkfs.ext4", "-q", str(disk), "2M"])
    with pytest.raises(HarnessError, match="has no kernel in /boot"):
        debian.machine(PATHS, disk, tmp_path / "nothing", "")
    newest = "6.12.117+deb13-amd64"
    names = (f"vmlinuz-{newest}", "vmlinuz-6.12.9+deb13-amd64", f"initrd.img-{newest}", "config-7")
    debian.write_files(disk, ["mkdir /boot", "cd /boot", *(f"write {file} {n}" for n in names)])
    guest = debian.machine(PATHS, disk, tmp_path / "some", "lane=x")
    assert guest.kernel.name == f"vmlinuz-{newest}" and guest.command_line.endswith(" lane=x")
    assert guest.kernel.read_text() == guest.initrd.read_text() == "content\n"
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


def test_the_menu_of_the_image_is_answered_until_the_machine_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = {"": "4 reboot$", "1 --x": "^doctor --x$", "echo works": "^works$", "4": "the end$"}
    monkeypatch.setattr(debian, "ANSWERS", typed)
    monkeypatch.setitem(debian.WAYS, "kernel", "This Linux")
    menu = (ROOT / "deb/menu").read_text().replace("migrate-offload", "echo")

    def failed(last: str) -> list[str]:
        machine = {"kernel": ["sh", "-c", menu.replace("reboot -f", last)]}
        cases = debian.answer("kernel", machine, tmp_path)
        return [case.name for case in cases if case.status is Status.FAILED]

    assert failed("echo the end; exit") == []
    assert failed("echo BUG: x; exit") == ["is healthy", "4"]
    for last, told in (("exit 3", "reboot"), ("echo end Kernel panic; sleep 9; exit", "panic")):
        with pytest.raises(HarnessError, match=rf"by kernel: .*{told}.* \(log: {tmp_path}/con"):
            failed(last)
