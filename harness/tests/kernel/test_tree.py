"""The patched tree: what changes, what keeps its timestamp, what is refused."""

import os
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import tree as patches
from harness.kernel.source import Source

DATA = Path(__file__).parent.parent / "data"
MIGRATE = "".join(f"line {n}\n" for n in range(1, 21))
PATCH = """\
Subject: [PATCH] mm: change line 10

--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -8,5 +8,5 @@
 line 8
 line 9
-line 10
+line ten
 line 11
 line 12
"""


class Project:
    """A project and a kernel of a few files."""

    def __init__(self, where: Path) -> None:
        self.paths = Paths(root=where, cache=where / "cache", out=where / "out")
        self.source = Source(version="7.3.4", home=where / "cache/linux/x", revision="r1")
        self.write(self.source.pristine / "mm/migrate.c", MIGRATE)
        self.write(self.source.pristine / "mm/Kconfig", "config X\n")
        self.write(self.paths.overlay / "mm/offload.c", "int offload;\n")
        self.write(self.paths.overlay / "drivers/new/dcbm.c", "int dcbm;\n")
        self.write(self.paths.patches / "0001-mm.patch", PATCH)
        self.write(self.paths.patches / "series", "# comment\n0001-mm.patch mm/offload.c\n")

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def get(self) -> patches.Tree:
        """Bring the tree up to date; backdate its files, so that a rewrite shows."""
        tree = patches.get(self.paths, self.source)
        for path in tree.path.rglob("*"):
            if path.is_file() and path.stat().st_nlink == 1:
                os.utime(path, (1, 1))
        return tree


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def rewritten(tree: patches.Tree) -> list[str]:
    return sorted(
        str(path.relative_to(tree.path))
        for path in tree.path.rglob("*")
        if path.is_file() and path.stat().st_mtime != 1 and path.stat().st_nlink == 1
    )


def test_series_lines_have_a_patch_and_the_files_that_come_with_it() -> None:
    text = "# header\n0001-a.patch  mm/a.c include/a.h\n\n0002-b.patch # nothing new\n"
    assert patches.parse_series(text) == (
        patches.Step("0001-a.patch", ("mm/a.c", "include/a.h")),
        patches.Step("0002-b.patch", ()),
    )


def test_tree_has_edits_and_new_files_and_pristine_stays_pristine(project: Project) -> None:
    tree = project.get()
    assert "line ten" in (tree.path / "mm/migrate.c").read_text()
    assert (tree.path / "drivers/new/dcbm.c").read_text() == "int dcbm;\n"
    assert (project.source.pristine / "mm/migrate.c").read_text() == MIGRATE
    assert sorted(tree.files) == ["drivers/new/dcbm.c", "mm/migrate.c", "mm/offload.c"]


def test_only_the_changed_file_is_rewritten(project: Project) -> None:
    before = project.get()
    project.write(project.paths.overlay / "mm/offload.c", "int changed;\n")
    after = patches.get(project.paths, project.source)
    assert rewritten(after) == ["mm/offload.c"]
    assert after.key != before.key
    assert patches.get(project.paths, project.source).key == after.key


def test_what_is_no_longer_touched_is_pristine_again(project: Project) -> None:
    project.get()
    (project.paths.patches / "0001-mm.patch").unlink()
    (project.paths.patches / "series").unlink()
    (project.paths.overlay / "drivers/new/dcbm.c").unlink()
    tree = patches.get(project.paths, project.source)
    assert (tree.path / "mm/migrate.c").read_text() == MIGRATE
    assert not (tree.path / "drivers").exists()
    assert (project.source.pristine / "mm/Kconfig").exists()


def test_subset_key_follows_only_its_files(project: Project) -> None:
    before = project.get()
    project.write(project.paths.overlay / "mm/offload.c", "int changed;\n")
    after = project.get()
    assert before.subset_key("^drivers/") == after.subset_key("^drivers/")
    assert before.subset_key("^mm/") != after.subset_key("^mm/")


def test_a_patch_that_does_not_fit_names_patch_file_and_hunk(project: Project) -> None:
    text = MIGRATE.replace("line 9\n", "line nine\n")
    project.write(project.source.pristine / "mm/migrate.c", text)
    with pytest.raises(HarnessError) as caught:
        project.get()
    assert str(caught.value) == (
        "0001-mm.patch does not apply to Linux 7.3.4: "
        "hunk 1 of mm/migrate.c (line 8) does not fit"
    )


def test_a_patch_to_a_missing_file_says_so(project: Project) -> None:
    (project.source.pristine / "mm/migrate.c").unlink()
    with pytest.raises(
        HarnessError, match=r"does not apply to Linux 7\.3\.4: mm/migrate.c does"
    ):
        project.get()


def test_offsets_are_no_fuzz(project: Project) -> None:
    project.write(project.source.pristine / "mm/migrate.c", "new\n" * 5 + MIGRATE)
    assert "line ten" in (project.get().path / "mm/migrate.c").read_text()


def test_failures_of_patch_are_explained() -> None:
    text = (DATA / "patch-hunk.txt").read_text()
    assert patches.explain_failure(text) == "hunk 2 of mm/migrate.c (line 1146) does not fit"
    text = "patch: **** malformed patch at line 12:  \n"
    assert patches.explain_failure(text) == "it is malformed at its line 12"


def test_series_and_directory_must_agree(project: Project) -> None:
    project.write(project.paths.patches / "0002-more.patch", PATCH)
    with pytest.raises(HarnessError, match=r"series lacks 0002-more\.patch"):
        project.get()
    project.write(project.paths.patches / "series", "0003-x.patch\n")
    with pytest.raises(HarnessError, match=r"series names missing 0003-x\.patch"):
        project.get()


def test_an_overlay_file_must_be_new(project: Project) -> None:
    project.write(project.paths.overlay / "mm/Kconfig", "config Y\n")
    with pytest.raises(
        HarnessError, match=r"kernel/overlay/mm/Kconfig exists in Linux 7\.3\.4"
    ):
        project.get()


def test_another_revision_of_the_source_reaches_the_tree(project: Project) -> None:
    before = project.get()
    fresh = project.source.pristine / "mm/Kconfig.new"
    fresh.write_text("config Z\n")
    fresh.replace(project.source.pristine / "mm/Kconfig")
    project.source = Source(version="7.3.4", home=project.source.home, revision="r2")
    after = project.get()
    assert (after.path / "mm/Kconfig").read_text() == "config Z\n"
    assert "line ten" in (after.path / "mm/migrate.c").read_text()
    assert after.key != before.key
