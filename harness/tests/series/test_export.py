"""Topics as they are written, and the proof that they apply and give the stack."""

import subprocess
from collections.abc import Iterator

import pytest

from harness.core import process
from harness.core.errors import HarnessError
from harness.kernel import build, stack
from harness.kernel import tree as patches
from harness.kernel.stack import Stack
from harness.series import export
from harness.tests.kernel_project import Project, patch


@pytest.fixture
def made(project: Project) -> Iterator[Stack]:
    with stack.assemble(project.paths, project.source) as assembled:
        yield assembled


def test_each_topic_has_a_directory(
    project: Project, made: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = project.paths.out / "series"
    export.export(made, out)
    first = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.patch")}
    assert sorted(first) == [
        "fix/0001-mm-fix-4.patch", "lab/0001-mm-rmap.patch", "speed/0001-mm-ten.patch",
        "speed/0002-mm-more.patch",
    ]  # fmt: skip
    assert (out / "speed/needs").read_text() == "fix\n"
    assert not (out / "fix/needs").exists()
    cover = (out / "speed/0000-cover-letter.txt").read_text()
    assert "Subject: [PATCH 0/2] mm: speed" in cover
    assert "Body." in cover
    assert "needs: fix\nbase: Linux 7.3.4, x\n" in cover
    assert "create mode 100644 mm/offload.c" in cover
    monkeypatch.setenv("GIT_DIR", "/nonexistent")  # as in a hook of another repository
    export.export(made, out)
    assert {name: (out / name).read_bytes() for name in first} == first


def test_a_topic_is_committed_on_what_it_needs_alone(made: Stack) -> None:
    (speed,) = (topic for topic in made.topics if topic.name == "speed")
    below, *_ = made.pick_topic(speed)
    assert made.files(below).keys() == {"mm/migrate.c"}  # without mm/rmap.c of lab


def test_git_am_takes_a_topic_as_it_is(project: Project, made: Stack) -> None:
    out = project.paths.out / "series"
    export.export(made, out)
    tree = project.source.pristine
    command = (
        "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm base &&"
        f"git -c user.name=a -c user.email=a@b am -q {out}/fix/*.patch {out}/speed/*.patch"
    )
    subprocess.run(["sh", "-c", command], cwd=tree, env=process.environment(), check=True)
    assert "more" in (tree / "mm/migrate.c").read_text()


def test_an_exported_patch_must_give_what_was_committed(project: Project, made: Stack) -> None:
    out = project.paths.out / "series"
    exported = export.write_all(made, out)
    export.prove(made, exported)
    mail = exported["speed"][0]
    mail.write_text(mail.read_text().replace("+int offload;", "+int other;"))
    with pytest.raises(HarnessError, match=r"topic speed, exported, gives another mm/offload.c"):
        export.prove(made, exported)
    mail.write_text(mail.read_text().replace(" line 9", " line nine"))
    with pytest.raises(
        HarnessError, match=r"speed/0001-mm-ten.patch does not apply .*: error: patch failed: "
    ):
        export.prove(made, exported)


def test_topics_must_give_the_whole_stack(project: Project, made: Stack) -> None:
    out = project.paths.out / "series"
    exported = export.write_all(made, out)
    made.tip = made.commits["speed/0002-more.patch"]
    with pytest.raises(HarnessError, match=r"the stack of exported topics gives another mm/rmap"):
        export.prove(made, exported)


@pytest.fixture
def configs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one configuration, with an edit on top of `fix`."""
    known = {"edited": build.Config((), only=("fix",), edit="edit.patch")}
    monkeypatch.setattr(build, "CONFIGS", known)
    text = patch("mm: edit", "mm/migrate.c", 17, "line 17", "edited")
    project.write(project.paths.configs / "edit.patch", text)


@pytest.mark.usefixtures("configs")
def test_stack_must_be_the_tree_that_is_built(project: Project) -> None:
    tree = patches.get(project.paths, project.source)
    export.run(project.paths, project.source, tree)
    (tree.path / "mm/stray.c").touch()
    with pytest.raises(HarnessError, match=r"mm/stray.c is not the same"):
        export.run(project.paths, project.source, tree)


@pytest.mark.usefixtures("configs")
def test_the_edit_of_a_configuration_must_be_there_and_apply(project: Project, made: Stack) -> None:
    export.prove_edits(project.paths, made)
    edit = project.paths.configs / "edit.patch"
    edit.write_text(edit.read_text().replace("-line 17", "-line seventeen"))
    with pytest.raises(HarnessError, match=r"edit.patch does not apply to Linux 7.3.4"):
        export.prove_edits(project.paths, made)
    edit.unlink()
    with pytest.raises(HarnessError, match=r"kernel/configs/edit.patch is missing"):
        export.prove_edits(project.paths, made)
