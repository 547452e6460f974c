"""`make edit` and `make save` on a kernel of a few files, with real git."""

import subprocess
from pathlib import Path

import pytest

from harness.core import process
from harness.core.errors import HarnessError
from harness.kernel import tree as patches
from harness.series.edit import Editor
from harness.tests.kernel_project import LINES, Project


class Desk:
    """A person who edits: each command reads the project anew, as make does."""

    def __init__(self, where: Path) -> None:
        self.project = Project(where)
        self.tree = self.project.source.home / "edit"

    def edit(self, patch: str, *, discard: bool = False) -> str:
        editor = Editor(self.project.paths, self.project.source)
        return editor.edit(patch, discard=discard).name

    def save(self) -> list[str]:
        return Editor(self.project.paths, self.project.source).save()

    def change(self, old: str, new: str, file: str = "mm/migrate.c") -> None:
        text = (self.tree / file).read_text()
        assert text.count(old) == 1
        (self.tree / file).write_text(text.replace(old, new))

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=B Person", "-c", "user.email=b@example.com")
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.tree, env=process.environment(),
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def commit_of(self, patch: str) -> str:
        return self.git("log", "-1", "--format=%H", f"--grep=Patch: {patch}", "series").strip()

    def patch(self, name: str) -> str:
        return self.project.patch(name).read_text()

    def refused(self, words: str) -> HarnessError:
        before = self.project.contents()
        with pytest.raises(HarnessError, match=words) as caught:
            self.save()
        assert self.project.contents() == before
        return caught.value


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_without_a_change_every_byte_stays(desk: Desk) -> None:
    before = desk.project.contents()
    for patch in ("speed/0001", "rmap", "fix"):
        desk.edit(patch)
        assert desk.save() == []
    assert desk.project.contents() == before


def test_the_tree_is_at_the_patch_and_has_all_files(desk: Desk) -> None:
    assert desk.edit("speed/0001") == "speed/0001-ten.patch"
    text = (desk.tree / "mm/migrate.c").read_text()
    assert ("ten" in text, "more" in text) == (True, False)
    assert (desk.tree / "drivers/new/dcbm.c").exists()
    assert "Makefile" in desk.git("ls-files").split()
    assert desk.git("log", "-1", "--format=%an %s%n%b").splitlines() == [
        "A Developer mm: ten", "It is better.", "", "Patch: speed/0001-ten.patch", "",
    ]  # fmt: skip


def test_an_uncommitted_change_goes_to_its_patch_alone(desk: Desk) -> None:
    before = desk.project.contents()
    desk.edit("speed/0001")
    desk.change("ten", "TEN")
    desk.change("int offload", "long offload", "mm/offload.c")
    assert desk.save() == ["kernel/patches/speed/0001-ten.patch", "kernel/overlay/mm/offload.c"]
    assert "+TEN" in desk.patch("speed/0001-ten.patch")
    assert "Patch:" not in desk.patch("speed/0001-ten.patch")
    after = desk.project.contents()
    assert {name for name in after if after[name] != before[name]} == {
        "patches/speed/0001-ten.patch", "overlay/mm/offload.c",
    }  # fmt: skip
    tree = patches.get(desk.project.paths, desk.project.source)
    assert "TEN" in (tree.path / "mm/migrate.c").read_text()
    assert desk.save() == []
    desk.change("TEN", "ten again")  # the tree still is at the patch
    assert desk.save() == ["kernel/patches/speed/0001-ten.patch"]


def test_lines_that_move_leave_later_patches_as_they_are(desk: Desk) -> None:
    desk.edit("fix")
    desk.change("four", "four\nand more\nand more")
    assert desk.save() == ["kernel/patches/fix/0001-four.patch"]


def test_a_message_is_amended(desk: Desk) -> None:
    desk.edit("speed/0001")
    message = desk.git("log", "-1", "--format=%B").replace("better", "best")
    desk.git("commit", "--amend", "-q", "-m", message)
    assert desk.save() == ["kernel/patches/speed/0001-ten.patch"]
    assert "It is best.\n---" in desk.patch("speed/0001-ten.patch")
    assert "From: A Developer" in desk.patch("speed/0001-ten.patch")


def test_a_fixup_goes_to_the_patch_that_it_names(desk: Desk) -> None:
    desk.edit("speed/0002")
    desk.change("four", "FOUR")
    desk.git("commit", "-qa", "--fixup", desk.commit_of("fix/0001-four.patch"))
    desk.change("more", "MORE")
    assert desk.save() == [
        "kernel/patches/fix/0001-four.patch", "kernel/patches/speed/0002-more.patch",
    ]  # fmt: skip
    assert "+FOUR" in desk.patch("fix/0001-four.patch")
    assert "+MORE" in desk.patch("speed/0002-more.patch")


def test_a_new_commit_becomes_a_patch_in_its_place(desk: Desk) -> None:
    desk.edit("speed/0001")
    desk.change("line 13", "thirteen")
    (desk.tree / "mm/fresh.c").write_text("int fresh;\n")
    desk.git("add", "-A")
    name = "0002-mm-say-thirteen-too-on-the-way-from-twelve-to.patch"
    desk.git("commit", "-qm", "mm: say Thirteen, too, on the way from twelve to fourteen\n\nIt is.")
    desk.save()
    series = desk.patch("speed/series").splitlines()
    assert series == [
        "0001-ten.patch mm/offload.c drivers/new/", f"{name} mm/fresh.c", "0003-more.patch",
    ]  # fmt: skip
    assert "From: B Person" in desk.patch(f"speed/{name}")
    assert not desk.project.patch("speed/0002-more.patch").exists()
    assert (desk.project.paths.overlay / "mm/fresh.c").read_text() == "int fresh;\n"
    tree = patches.get(desk.project.paths, desk.project.source)
    assert "thirteen" in (tree.path / "mm/migrate.c").read_text()
    desk.edit("speed/0003")
    assert desk.save() == []


def test_a_conflict_stops_in_gits_words_and_goes_on_when_resolved(desk: Desk) -> None:
    desk.edit("speed/0001")
    desk.change("line 17", "seventeen")
    error = desk.refused("git rebase stopped: resolve the conflict in")
    assert "CONFLICT (content): Merge conflict in mm/migrate.c" in error.detail
    desk.refused("mm/migrate.c is not merged yet")
    with pytest.raises(HarnessError, match="a rebase is going on"):
        desk.edit("fix")
    resolved = LINES.replace("line 4\n", "four\n").replace("line 10\n", "ten\n")
    (desk.tree / "mm/migrate.c").write_text(resolved.replace("line 17\n", "more than 17\n"))
    desk.git("add", "-A")
    desk.save()
    assert "-seventeen\n+more than 17\n" in desk.patch("speed/0002-more.patch")


def test_a_conflict_can_be_taken_back(desk: Desk) -> None:
    desk.edit("speed/0001")
    desk.change("line 17", "seventeen")
    desk.refused("git rebase stopped")
    desk.git("rebase", "--abort")
    desk.refused("is not on branch edit: git checkout edit")
    desk.git("checkout", "-q", "edit")
    desk.change("seventeen", "line 17")
    assert desk.save() == []


def test_a_new_file_needs_a_line_in_series(desk: Desk) -> None:
    desk.edit("speed/0001")
    (desk.tree / "mm/fresh.c").write_text("int fresh;\n")
    (desk.tree / "drivers/new/more.c").write_text("int more;\n")  # the directory is named
    desk.refused(
        r"mm/fresh.c is new, and no patch brings it: add it to the line of 0001-ten.patch "
        "in kernel/patches/speed/series"
    )
    series = desk.patch("speed/series").replace("drivers/new/", "drivers/new/ mm/fresh.c")
    desk.project.patch("speed/series").write_text(series)
    with pytest.raises(HarnessError, match=r"mm/fresh.c is not in kernel/overlay"):
        patches.get(desk.project.paths, desk.project.source)
    assert "kernel/overlay/mm/fresh.c" in desk.save()
    assert (desk.project.paths.overlay / "drivers/new/more.c").exists()


def test_a_file_that_goes_leaves_series_first(desk: Desk) -> None:
    desk.edit("speed/0001")
    (desk.tree / "mm/offload.c").unlink()
    desk.refused(r"speed/0001-ten.patch no longer brings mm/offload.c: take it out of")
    series = desk.patch("speed/series").replace("mm/offload.c ", "")
    desk.project.patch("speed/series").write_text(series)
    assert "kernel/overlay/mm/offload.c (removed)" in desk.save()
    assert not (desk.project.paths.overlay / "mm/offload.c").exists()


def test_what_cannot_be_attributed_is_refused(desk: Desk) -> None:
    desk.refused("nothing is edited: make edit PATCH=<name> comes first")

    desk.edit("speed/0002")
    desk.git("reset", "-q", "--hard", "HEAD~1")  # the patch is gone
    desk.refused(r"speed/0002-more.patch is not in its place")

    desk.edit("speed/0002", discard=True)
    desk.git("commit", "-q", "--amend", "-m", "mm: another message\n\nWithout a name.")
    desk.refused(r"speed/0002-more.patch is not in its place")

    desk.edit("speed/0002", discard=True)
    twice = "mm: once\n\nTwo.\n\nPatch: speed/0002-more.patch"
    desk.git("commit", "-q", "--allow-empty", "-m", twice)
    desk.refused(r"speed/0002-more.patch is there twice")

    desk.edit("speed/0002", discard=True)
    desk.change("four", "FOUR")
    desk.git("commit", "-qam", "wip")
    desk.refused("new commit 'wip': subject is not 'subsystem: summary'")
    desk.git("commit", "-q", "--amend", "-m", "mm: loud four\n\nFor the deaf.")
    assert "kernel/patches/speed/0003-mm-loud-four.patch" in desk.save()

    desk.edit("speed/0002", discard=True)
    desk.change("line 1\n", "one\n")
    desk.git("commit", "-qam", "fixup! mm: there is none")
    desk.refused("no patch has the subject of the commit 'fixup! mm: there is none'")

    desk.edit("speed/0002", discard=True)
    (desk.tree / "mm/migrate.o").write_text("generated")
    desk.git("add", "-f", "mm/migrate.o")
    desk.refused("mm/migrate.o is new, and no patch brings it")

    desk.edit("speed/0002", discard=True)
    desk.git("checkout", "-q", "series")
    desk.change("ten", "TEN")
    desk.refused("is not on branch edit: git checkout edit")


def test_patches_that_changed_meanwhile_are_not_overwritten(desk: Desk) -> None:
    desk.edit("speed/0001")
    desk.change("ten", "TEN")
    text = desk.patch("lab/0001-rmap.patch").replace("five", "5")
    desk.project.patch("lab/0001-rmap.patch").write_text(text)
    desk.refused("kernel/patches or kernel/overlay changed since make edit")


def test_unsaved_edits_are_kept(desk: Desk) -> None:
    desk.edit("speed/0001")
    desk.change("ten", "TEN")
    with pytest.raises(HarnessError, match=r"unsaved change of mm/migrate.c in .*DISCARD=1"):
        desk.edit("fix")
    desk.git("commit", "-qa", "--amend", "--no-edit")
    with pytest.raises(HarnessError, match="unsaved commits"):
        desk.edit("fix")
    desk.edit("fix", discard=True)
    assert desk.save() == []
    assert "+ten" in desk.patch("speed/0001-ten.patch")


def test_edit_follows_kernel_patches(desk: Desk) -> None:
    desk.edit("speed/0001")
    text = desk.patch("fix/0001-four.patch").replace("four", "4")
    desk.project.patch("fix/0001-four.patch").write_text(text)
    desk.edit("speed/0001")
    assert "4\n" in (desk.tree / "mm/migrate.c").read_text().splitlines(keepends=True)
    assert desk.save() == []


def test_patches_are_refreshed_where_their_place_is_ambiguous(desk: Desk) -> None:
    # all lines are there twice: the old line numbers of a later patch would hit the first ones
    (desk.project.source.pristine / "mm/migrate.c").write_text(LINES + LINES)
    later = desk.project.patch("speed/0002-more.patch")
    later.write_text(later.read_text().replace("-15,5 +15,5", "-35,5 +35,5"))
    desk.edit("fix")
    desk.change("line 2\nline 3\nfour", "new\n" * 20 + "line 2\nline 3\nfour")
    desk.git("commit", "-qa", "--amend", "--no-edit")
    desk.change("line 2\nline 3\nfour", "two\nline 3\nfour")
    desk.git("commit", "-qam", "mm: say two\n\nA new patch is not written twice.")
    assert "kernel/patches/speed/0002-more.patch" in desk.save()
    assert len(desk.patch("fix/series").splitlines()) == 2
    tree = patches.get(desk.project.paths, desk.project.source)
    lines = (tree.path / "mm/migrate.c").read_text().splitlines()
    assert (lines.index("ten"), lines.index("more")) == (29, 56)
    assert desk.save() == []
