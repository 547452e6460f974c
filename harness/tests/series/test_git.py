"""Commits, export and comparison, with a source tree of a few files."""

import os
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import tree as patches
from harness.kernel.source import Source
from harness.series import export
from harness.series.git import tree_differences

EDIT = """\
From: A Developer <dev@example.com>
Subject: [PATCH] mm: say two after one

Because it comes next.

---
 mm/a.c | 1 +

diff --git a/mm/a.c b/mm/a.c
--- a/mm/a.c
+++ b/mm/a.c
@@ -1,2 +1,3 @@
 one
+two
 three
"""
ADD = """\
From: A Developer <dev@example.com>
Subject: [PATCH] mm: build b

It is new.

---
diff --git a/mm/Makefile b/mm/Makefile
--- a/mm/Makefile
+++ b/mm/Makefile
@@ -1 +1,2 @@
 obj-y += a.o
+obj-y += b.o
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(root=tmp_path, cache=tmp_path / "cache", out=tmp_path / "out")
    for name, text in {
        "patches/0001-edit.patch": EDIT,
        "patches/0002-add.patch": ADD,
        "patches/series": "0001-edit.patch\n0002-add.patch mm/b.c\n",
        "patches/0000-cover-letter.txt": "mm: two files\n\nThe body.\n",
        "overlay/mm/b.c": "int b;\n",
    }.items():
        path = tmp_path / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


@pytest.fixture
def origin(paths: Paths) -> Source:
    made = Source(version="7.3.4", home=paths.cache / "linux" / "x", revision="1")
    for name, text in {
        "Makefile": "VERSION = 7\n",
        "mm/a.c": "one\nthree\n",
        "mm/Makefile": "obj-y += a.o\n",
        ".gitignore": "*.patch\n/*\n",
    }.items():
        path = made.pristine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


def test_export_is_deterministic_and_has_a_cover_letter(paths: Paths, origin: Source) -> None:
    _, _, first = export.export(paths, origin, paths.out / "one")
    os.environ["GIT_DIR"] = "/nonexistent"  # as in a hook of another repository
    try:
        _, _, second = export.export(paths, origin, paths.out / "two")
    finally:
        del os.environ["GIT_DIR"]
    assert [path.name for path in first] == [
        "0000-cover-letter.patch",
        "0001-mm-say-two-after-one.patch",
        "0002-mm-build-b.patch",
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    cover = first[0].read_text()
    assert "Subject: [PATCH 0/2] mm: two files" in cover
    assert "The body." in cover
    assert "A Developer (2):" in cover
    assert "3 files changed, 3 insertions(+)" in cover
    assert "create mode 100644 mm/b.c" in first[2].read_text()


def test_pristine_tree_is_never_written(paths: Paths, origin: Source) -> None:
    before = {path: path.read_bytes() for path in origin.pristine.rglob("*") if path.is_file()}
    export.export(paths, origin, paths.out / "series")
    after = {path: path.read_bytes() for path in origin.pristine.rglob("*") if path.is_file()}
    assert before == after


def test_what_an_older_series_touched_is_restored(paths: Paths, origin: Source) -> None:
    export.export(paths, origin, paths.out / "series")
    (paths.patches / "series").write_text("0001-edit.patch\n")
    (paths.patches / "0002-add.patch").unlink()
    (paths.overlay / "mm/b.c").unlink()
    _, scratch, exported = export.export(paths, origin, paths.out / "series")
    assert len(exported) == 2
    assert (scratch.tree / "mm/Makefile").read_text() == "obj-y += a.o\n"
    assert not (scratch.tree / "mm/b.c").exists()


def test_patch_that_does_not_apply(paths: Paths, origin: Source) -> None:
    (paths.patches / "0002-add.patch").write_text(ADD.replace(" obj-y += a.o", " obj-y += c.o"))
    with pytest.raises(
        HarnessError, match=r"step 2 \(0002-add.patch\) does not apply: .*mm/Mak"
    ):
        export.export(paths, origin, paths.out / "series")


def test_overlay_file_that_the_tree_has_already(paths: Paths, origin: Source) -> None:
    (origin.pristine / "mm/b.c").write_text("int other;\n")
    with pytest.raises(HarnessError, match=r"step 2 .*mm/b.c already exists"):
        export.export(paths, origin, paths.out / "series")


def test_series_must_give_the_tree_that_is_built(paths: Paths, origin: Source) -> None:
    _, scratch, _ = export.export(paths, origin, paths.out / "series")
    tree = patches.get(paths, origin)
    export.verify_tree(scratch, tree.path)
    (tree.path / "mm/b.c").write_text("int c;\n")
    with pytest.raises(HarnessError, match=r"mm/b.c is not the same"):
        export.verify_tree(scratch, tree.path)


def test_reapplied_series_must_give_the_same_tree(paths: Paths, origin: Source) -> None:
    _, scratch, exported = export.export(paths, origin, paths.out / "series")
    exported[2].write_text(exported[2].read_text().replace("+int b;", "+int c;"))
    with pytest.raises(HarnessError, match=r"gives another mm/b.c"):
        scratch.reapply(exported, scratch.tree_id("series"))


def test_tree_differences(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for tree in (ours, theirs):
        (tree / "d").mkdir(parents=True)
        (tree / "d/same").write_text("same")
        (tree / "d/differs").write_text(tree.name)
        (tree / "link").symlink_to(tree.name)
    (ours / "d/lone").touch()
    (ours / "empty").mkdir()
    (theirs / ".git").mkdir()
    (theirs / ".git/x").touch()
    found = tree_differences(ours, theirs, frozenset({".git"}))
    assert found == ["d/differs", "d/lone", "link"]


def test_tree_differences_in_the_executable_bit(tmp_path: Path) -> None:
    for name, mode in (("ours", 0o644), ("theirs", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "script").write_text("x")
        (tmp_path / name / "script").chmod(mode)
    assert tree_differences(tmp_path / "ours", tmp_path / "theirs") == ["script"]
