"""The patched tree: what changes, what keeps its timestamp, what is refused."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.kernel import stack
from harness.kernel import tree as patches
from harness.kernel.source import Source
from harness.tests.kernel_project import LINES, Project, patch


def rewritten(tree: patches.Tree) -> list[str]:
    return sorted(
        str(path.relative_to(tree.path))
        for path in tree.path.rglob("*")
        if path.is_file() and path.stat().st_mtime != 1 and path.stat().st_nlink == 1
    )


def test_tree_has_edits_and_new_files_and_pristine_stays_pristine(project: Project) -> None:
    before = {p: p.read_bytes() for p in project.source.pristine.rglob("*") if p.is_file()}
    tree = project.get()
    text = (tree.path / "mm/migrate.c").read_text()
    assert [word in text for word in ("four\n", "ten\n", "more\n")] == [True] * 3
    assert (tree.path / "drivers/new/dcbm.c").read_text() == "int dcbm;\nno end of line"
    assert sorted(tree.files) == [
        "drivers/new/dcbm.c", "mm/migrate.c", "mm/offload.c", "mm/rmap.c",
    ]  # fmt: skip
    after = {p: p.read_bytes() for p in project.source.pristine.rglob("*") if p.is_file()}
    assert before == after


def test_only_the_changed_file_is_rewritten(project: Project) -> None:
    before = project.get()
    project.write(project.paths.overlay / "mm/offload.c", "int changed;\n")
    after = patches.get(project.paths, project.source)
    assert rewritten(after) == ["mm/offload.c"]
    assert after.subset_key("^mm/") != before.subset_key("^mm/")
    assert after.subset_key("^drivers/") == before.subset_key("^drivers/")
    assert patches.get(project.paths, project.source) == after


def test_executable_overlay_files_stay_executable(project: Project) -> None:
    (project.paths.overlay / "mm/offload.c").chmod(0o755)
    assert (project.get().path / "mm/offload.c").stat().st_mode & 0o111


def test_overlay_files_come_as_they_are(project: Project) -> None:
    for content in (b"", b"\n", b"\r\nx\r\n", b"\xff\x0c\n--- a/x\nFrom me\n", b"a\n\nb\n\n"):
        (project.paths.overlay / "mm/offload.c").write_bytes(content)
        assert (project.get().path / "mm/offload.c").read_bytes() == content


def test_a_patch_edits_what_an_earlier_one_brought(project: Project) -> None:
    project.write(project.paths.overlay / "mm/offload.c", LINES)
    edit = project.patch("speed/0002-more.patch")
    edit.write_text(edit.read_text().replace("mm/migrate.c", "mm/offload.c"))
    assert "more" in (project.get().path / "mm/offload.c").read_text()
    assert (project.paths.overlay / "mm/offload.c").read_text() == LINES


def test_what_is_no_longer_touched_is_pristine_again(project: Project) -> None:
    project.get()
    project.patch("topics").write_text("fix\n")
    for name in ("speed", "lab"):
        project.patch(name).rename(project.paths.root / name)
    project.paths.overlay.rename(project.paths.root / "overlay")
    tree = patches.get(project.paths, project.source)
    assert (tree.path / "mm/rmap.c").read_text() == LINES
    assert not (tree.path / "drivers").exists()
    assert (project.source.pristine / "mm/Kconfig").exists()


def test_a_few_steps_alone_and_changes_on_top(project: Project) -> None:
    tree = patches.get(project.paths, project.source, "few", ("speed/0002", "rmap"))
    assert (tree.path / "mm/migrate.c").read_text() == LINES.replace("line 17\n", "more\n")
    assert sorted(tree.files) == ["mm/migrate.c", "mm/rmap.c"]
    assert patches.get(project.paths, project.source, "none", ()).files == {}
    edit = project.paths.configs / "edit.patch"
    project.write(edit, patch("mm: edit", "mm/rmap.c", 12, "line 12", "edited"))
    tree = patches.get(project.paths, project.source, "few", ("rmap",), edit.name)
    assert [word in (tree.path / "mm/rmap.c").read_text() for word in ("five", "edited")]

    path = project.source.home / "mutant"
    with stack.assemble(project.paths, project.source, ("mm/Kconfig",)) as made:
        for text in ("config Y\n", "config Z\n"):  # the second one alone
            patches.update(made, made.add("mm/Kconfig", text), path)
            assert (path / "mm/Kconfig").read_text() == text
            assert "ten" in (path / "mm/migrate.c").read_text()
        patches.update(made, made.add("mm/rmap.c", "other\n"), path)
        assert (path / "mm/Kconfig").read_text() == "config X\n"


def test_options_of_steps_that_are_not_in_a_tree(project: Project) -> None:
    project.write(project.paths.overlay / "drivers/new/Kconfig", "config NEW\n\tbool\n")
    assert project.get().absent == frozenset()
    none = patches.get(project.paths, project.source, "none", ())
    assert none.absent == {"CONFIG_NEW"}


@pytest.mark.parametrize(("old", "line"), [("line 9\n", 8), ("line 12\n", 8)])
def test_a_patch_that_does_not_fit_names_patch_file_and_hunk(
    project: Project, old: str, line: int
) -> None:
    # patch(1) would apply this with fuzz: only the outermost line of context is another
    project.write(project.source.pristine / "mm/migrate.c", LINES.replace(old, "other\n"))
    with pytest.raises(HarnessError) as caught:
        project.get()
    assert str(caught.value) == (
        "speed/0001-ten.patch does not apply to Linux 7.3.4: "
        f"error: patch failed: mm/migrate.c:{line}"
    )


def test_other_failures_of_a_patch(project: Project) -> None:
    broken = project.patch("lab/0001-rmap.patch")
    text = broken.read_text()
    for bad, reason in {
        text.replace("mm/rmap.c", "mm/gone.c"): "error: mm/gone.c: does not exist in index",
        text.replace("@@ -3,5", "@@ -3,9"): "error: corrupt patch at",
    }.items():
        broken.write_text(bad)
        with pytest.raises(HarnessError, match=rf"rmap.patch does not apply .*: {reason}"):
            project.get()


def test_offsets_are_no_fuzz(project: Project) -> None:
    project.write(project.source.pristine / "mm/migrate.c", "new\n" * 5 + LINES)
    assert "ten" in (project.get().path / "mm/migrate.c").read_text()


def test_an_overlay_file_must_be_new(project: Project) -> None:
    project.write(project.source.pristine / "mm/offload.c", "int old;\n")
    with pytest.raises(HarnessError, match=r"kernel/overlay/mm/offload.c exists in Linux 7\.3"):
        project.get()


def test_patches_must_not_delete_a_file(project: Project) -> None:
    text = project.patch("lab/0001-rmap.patch").read_text().split("---\n", 1)[0]
    gone = "--- a/mm/Kconfig\n+++ /dev/null\n@@ -1 +0,0 @@\n-config X\n"
    head = "---\ndiff --git a/mm/Kconfig b/mm/Kconfig\ndeleted file mode 100644\n"
    project.patch("lab/0001-rmap.patch").write_text(text + head + gone)
    with pytest.raises(HarnessError, match="the patches delete mm/Kconfig"):
        project.get()


def test_another_revision_of_the_source_reaches_the_tree(project: Project) -> None:
    before = project.get()
    fresh = project.source.pristine / "mm/Kconfig.new"
    fresh.write_text("config Z\n")
    fresh.replace(project.source.pristine / "mm/Kconfig")
    project.source = Source(version="7.3.4", home=project.source.home, revision="r2")
    after = project.get()
    assert (after.path / "mm/Kconfig").read_text() == "config Z\n"
    assert "ten" in (after.path / "mm/migrate.c").read_text()
    assert after.subset_key("") != before.subset_key("")


def test_differences_are_files_that_nobody_should_have_changed(project: Project) -> None:
    tree = project.get()
    with stack.assemble(project.paths, project.source) as made:
        assert patches.differences(made, tree.path) == []
        patches.replace(tree.path / "mm/Kconfig", tree.path / "mm/Kconfig")
        assert patches.differences(made, tree.path) == []  # the same content at another time
        (tree.path / "mm/Kconfig").write_text("config CHANGED\n")
        (tree.path / "mm/stray.c").touch()
        (tree.path / "mm/rmap.c").write_text(LINES)
        assert patches.differences(made, tree.path) == ["mm/Kconfig", "mm/rmap.c", "mm/stray.c"]
        none = patches.get(project.paths, project.source, "none", ())
        assert patches.differences(made, none.path) == sorted(tree.files)


def test_a_step_that_another_topic_blocks_names_both(project: Project) -> None:
    fixed = project.patch("speed/0001-ten.patch")
    text = fixed.read_text().replace("-8,5 +8,5", "-2,5 +2,5")
    for n, other in zip((10, 8, 9, 11, 12), (4, 2, 3, 5, 6), strict=True):
        text = text.replace(f" line {n}\n", f" line {other}\n")
    fixed.write_text(text.replace("-line 10\n", "-four\n"))
    project.patch("speed/needs").unlink()
    with stack.assemble(project.paths, project.source) as made:
        speed = made.topics[1]
        with pytest.raises(HarnessError) as caught:
            made.pick(speed.steps[:1])
    assert "speed/0001-ten.patch does not apply without fix (mm/migrate.c)" in str(caught.value)


def test_nothing_is_written_to_the_shared_tree(project: Project) -> None:
    shared = project.paths.cache / "shared/linux-x"
    shared.parent.mkdir()
    project.source.pristine.rename(shared)
    project.source.pristine.symlink_to(shared)
    before = contents(shared)
    tree = project.get().path
    assert contents(shared) == before
    assert (tree / "mm/Kconfig").samefile(shared / "mm/Kconfig")
    project.write(project.paths.overlay / "mm/offload.c", "int changed;\n")
    for name in ("mm/migrate.c", "mm/Kconfig"):
        patches.replace(tree / "Makefile", tree / name)  # as a builder of objects does
    project.get()
    project.patch("lab/series").write_text("")
    project.patch("lab/0001-rmap.patch").unlink()
    project.get()
    assert (tree / "mm/rmap.c").read_text() == (shared / "mm/rmap.c").read_text()
    assert contents(shared) == before


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}
