"""The record of vanilla's guests: it is used where its key fits, and nowhere else."""

from dataclasses import replace

import pytest

from harness.core.errors import HarnessError
from harness.guest import recorded
from harness.guest.recorded import FILE, Entry, Guest
from harness.kernel import build, qemu
from harness.kernel import source as pristine
from harness.tests.kernel_project import Project

PLAIN = Guest("plain", "lab-vanilla", "lab", r"/new/", ("64 MiB",))
TRACED = Guest("traced", "traced", "lab", r"/new/", ("64 MiB",))
GUESTS = [PLAIN, TRACED]


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project whose `traced` kernel has one patch, and a record of both guests."""
    project.write(project.paths.configs / "a.config", "CONFIG_A=y\n")
    project.write(project.paths.guest / "suites/lab", "# check: base\n# qemu: memory=1G\nmeasure\n")
    project.write(project.paths.root / FILE, "")
    monkeypatch.setattr(pristine, "get", lambda _: project.source)
    monkeypatch.setattr(qemu, "version", lambda _: "QEMU 10")
    monkeypatch.setattr(build, "compiler", lambda: "gcc 12")
    configs = {
        "lab-vanilla": build.Config(("a.config",), only=()),
        "traced": build.Config(("a.config",), only=("speed/0001",)),
    }
    monkeypatch.setattr(build, "CONFIGS", configs)
    record = {
        name: Entry(key, f"printed by {name}")
        for name, key in recorded.keys(project.paths, GUESTS).items()
    }
    recorded.write(project.paths, record)
    return project


def test_what_fits_is_known(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    known = recorded.known(project.paths, GUESTS)
    assert known == {"plain": "printed by plain", "traced": "printed by traced"}
    assert "building" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "old", "new", "part", "left"),
    [
        ("kernel/configs/a.config", "=y", "=n", "configuration", set()),
        ("guest/suites/lab", "measure", "measure twice", "suite", set()),
        ("guest/suites/lab", "memory=1G", "memory=2G", "suite", set()),
        ("guest/suites/lab", "# check: base", "# check: debug", "", {"plain", "traced"}),
        ("kernel/overlay/drivers/new/dcbm.c", "dcbm", "dcbm2", "programs", set()),
        ("kernel/overlay/drivers/new/dcbm.c", "int", "/* x\n * y */\nint", "", {"plain", "traced"}),
        ("kernel/patches/speed/0001-ten.patch", "+ten", "+TEN", "patches", {"plain"}),
        ("kernel/overlay/mm/offload.c", "int", "long", "patches", {"plain"}),
        ("kernel/patches/speed/0001-ten.patch", "It is better", "So", "", {"plain", "traced"}),
        ("kernel/patches/speed/0001-ten.patch", "@@ -8,5", "@@ -9,5", "", {"plain", "traced"}),
        ("kernel/patches/lab/0001-rmap.patch", "+five", "+5", "", {"plain", "traced"}),
    ],
)
def test_each_part_of_the_checkout_decides_its_guests(
    project: Project, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str,
    part: str, left: set[str],
) -> None:  # fmt: skip
    path = project.paths.root / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert recorded.known(project.paths, GUESTS).keys() == left
    output = capsys.readouterr().out
    assert output.count("vanilla is not the recorded one, building") == 2 - len(left)
    assert f"the record is of {part} " in output if part else not output


def test_a_guest_that_is_not_known_makes_its_kernel_be_built(project: Project) -> None:
    more = replace(PLAIN, name="more")
    assert recorded.known(project.paths, [*GUESTS, more]).keys() == {"traced"}
    other = replace(PLAIN, words=("16 MiB",))
    assert recorded.known(project.paths, [other, TRACED]).keys() == {"traced"}


def test_what_is_around_decides_all_guests(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(qemu, "version", lambda _: "QEMU 11")
        assert recorded.known(project.paths, GUESTS) == {}
    assert "the record is of QEMU QEMU 10, here is QEMU 11" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(build, "compiler", lambda: "gcc 13")
        assert recorded.known(project.paths, GUESTS) == {}
    changed = replace(project.source, revision="r2")
    with monkeypatch.context() as patch:
        patch.setattr(pristine, "get", lambda _: changed)
        assert recorded.known(project.paths, GUESTS) == {}
    assert len(recorded.known(project.paths, GUESTS)) == 2


def test_without_a_record_nothing_is_known(project: Project) -> None:
    path = project.paths.root / FILE
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(HarnessError, match=FILE):
        recorded.known(project.paths, GUESTS)
    path.unlink()
    assert recorded.known(project.paths, GUESTS) == {}


def test_a_program_that_is_gone_is_an_error(project: Project) -> None:
    with pytest.raises(HarnessError, match="plain: no file in kernel/overlay is its program"):
        recorded.keys(project.paths, [replace(PLAIN, programs="/gone")])
