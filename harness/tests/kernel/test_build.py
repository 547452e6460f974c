"""Build commands, and configurations that the fragments must make sense of."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.kernel import build, debian, kconfig, source, topics
from harness.kernel.arch import ARM64
from harness.kernel.source import Source
from harness.kernel.tree import Tree


def test_jobs_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS", "7")
    command = build.make(Path("/t"), Path("/o"), "bzImage", "modules")
    made = "CROSS_COMPILE=x86_64-linux-gnu-", "CC=gcc-12"
    assert command == ["make", "-C", "/t", "O=/o", "-j7", *made, "bzImage", "modules"]
    foreign = build.make(Path("/t"), Path("/o"), "Image", architecture=ARM64)
    cross = "aarch64-linux-gnu-"
    made = f"CROSS_COMPILE={cross}", f"CC={cross}gcc-12"
    assert foreign[-4:] == ["ARCH=arm64", *made, "Image"]
    monkeypatch.setenv("JOBS", "")
    assert build.jobs() >= 1
    monkeypatch.setenv("JOBS", "many")
    with pytest.raises(HarnessError, match="JOBS=many is not a number of jobs"):
        build.jobs()


def test_kasan_looks_at_all_that_the_series_touches(tmp_path: Path) -> None:
    makefile = tmp_path / "Makefile"
    makefile.write_text("all:\n\t@echo $(KASAN_SANITIZE)\n")

    def watched(directory: str) -> bool:
        variables = (*build.CONFIGS["debug"].variables, f"obj={directory}")
        output = process.capture(["make", "-s", "-f", str(makefile), *variables]).strip()
        assert output in ("y", "n")
        return output == "y"

    steps = topics.all_steps(topics.read(default_paths()))
    touched = {
        str(Path(name).parent)
        for step in steps
        for name in step.files
        if name.endswith(".c") and not name.startswith(("tools/", "arch/arm64/"))
    }
    assert {"mm", "drivers/dma/amd/ptdma"} <= touched
    assert [name for name in sorted(touched) if not watched(name)] == []
    assert not watched("mm/kasan")
    assert not watched("kernel/sched")


def test_the_kernel_without_the_feature_is_base_otherwise() -> None:
    paths = default_paths()
    base, without = (
        kconfig.parse(build.fragments(paths, config)) for config in ("base", "lab-without")
    )
    words = ("MIGRATION_COPY_OFFLOAD", "DCBM_DMA", "MTCOPY", "SAMPLE_MIGRATOR")
    ours = {
        name
        for name, value in base.items()
        if any(word in name for word in words) and value in ("y", "m")
    }
    assert "CONFIG_MIGRATION_COPY_OFFLOAD" in ours
    assert {name for name in base if base[name] != without[name]} == ours
    assert {without[name] for name in ours} == {"n"}
    assert (build.CONFIGS["lab-without"].only, build.CONFIGS["lab-without"].seed) == (None, "base")


def test_commands_of_copied_objects_name_the_other_tree(tmp_path: Path) -> None:
    old, new = tmp_path / "build-a+1", tmp_path / "build-b"
    (old / "mm").mkdir(parents=True)
    text = "-I{0}/include {0} {1}/mm/a.o {0}-two/b.c {1}.x {1}/mm {0}"
    (old / "mm/.a.o.cmd").write_text(text.format("/c/tree", old))
    build.copy_objects(old, new, {Path("/c/tree"): Path("/n/tree-b")})
    commands = (new / "mm/.a.o.cmd").read_text()
    kept = f"/c/tree-two/b.c {old}.x"
    assert commands == f"-I/n/tree-b/include /n/tree-b {new}/mm/a.o {kept} {new}/mm /n/tree-b"


def test_copied_objects_are_older_than_what_the_tree_has_changed(tmp_path: Path) -> None:
    source = Source(version="7.3", home=tmp_path, revision="r")
    tree = Tree(source, {"mm/migrate.c": "", "mm/new.c": ""}, "tree-lab-traced")
    seed = tmp_path / "tree-lab-vanilla"
    for path, names in ((seed, ("migrate", "same")), (tree.path, ("migrate", "same", "new"))):
        (path / "mm").mkdir(parents=True)
        for name in names:
            (path / f"mm/{name}.c").write_text(path.name if name == "migrate" else name)
    pristine = tmp_path / "pristine.c"
    pristine.write_text("")
    for path in (seed, tree.path):
        os.link(pristine, path / "mm/pristine.c")
    objects = tmp_path / "build-lab-vanilla"
    objects.mkdir()
    for name in ("vmlinux.o", ".config"):
        (objects / name).write_text("")
    files = (*tree.path.rglob("*.c"), *seed.rglob("*.c"), *objects.iterdir())
    for time, path in enumerate(files, 1000):
        os.utime(path, (time, time))

    build.seed(tree, "lab-traced")
    built = (tmp_path / "build-lab-traced/vmlinux.o").stat().st_mtime
    newer = {path.name for path in tree.path.rglob("*.c") if path.stat().st_mtime > built}
    assert newer == {"migrate.c", "new.c"}
    assert (tree.path / "mm/same.c").stat().st_mtime == (seed / "mm/same.c").stat().st_mtime
    assert pristine.stat().st_nlink == 3

    (tmp_path / "build-lab-traced/vmlinux.o").write_text("of a header's mutant")
    build.seed(tree, "lab-traced")
    assert (tmp_path / "build-lab-traced/vmlinux.o").read_text()
    build.forget(tree, "lab-traced")
    build.seed(tree, "lab-traced")
    assert not (tmp_path / "build-lab-traced/vmlinux.o").read_text()


def test_what_was_put_back_counts_as_changed(tmp_path: Path) -> None:
    source = Source(version="7.3", home=tmp_path, revision="r")
    tree = Tree(source, {}, "tree-lab-vanilla")
    for path in (tmp_path / "tree", tmp_path / "pristine", tmp_path / "build-base"):
        path.mkdir()
    for name in ("vmlinux.o", ".config"):
        (tmp_path / "build-base" / name).write_text("")
    pristine = tmp_path / "pristine/migrate.c"
    pristine.write_text("")
    os.utime(pristine, (1000, 1000))
    tree.path.mkdir()
    os.link(pristine, tree.path / "migrate.c")
    (tmp_path / "tree/migrate.c").write_text("")  # after the last build
    os.utime(tmp_path / "build-base/vmlinux.o", (2000, 2000))

    build.seed(tree, "lab-vanilla")
    assert (tree.path / "migrate.c").stat().st_mtime > 2000
    assert pristine.stat().st_mtime == 1000


def test_a_kernel_is_built_once_for_all_clones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = tmp_path / "objects"
    for name in (".config", "include/config/kernel.release", "include/generated/a.h",
                 "scripts/mod/modpost", "scripts/mod/modpost.o", "mm/migrate.o", "System.map",
                 "arch/x86/boot/bzImage"):  # fmt: skip
        (objects / name).parent.mkdir(parents=True, exist_ok=True)
        (objects / name).write_text("7.3-test\n")
    tree = Tree(Source(version="7.3", home=tmp_path, revision="r"), {})
    compiled: list[str] = []

    def compile_all(_paths: Paths, _tree: Tree, config: str, _: object) -> int:
        compiled.append(config)
        return 1

    monkeypatch.setattr(build, "seed", lambda *_: None)
    monkeypatch.setattr(build, "run", lambda *_: None)
    monkeypatch.setattr(build, "configure", lambda *_: objects)
    monkeypatch.setattr(build, "object_dir", lambda *_: objects)
    monkeypatch.setattr(build, "_compile", compile_all)
    first, second = (Paths(tmp_path, tmp_path, tmp_path / name) for name in ("one", "two"))
    kernel = build.get(first, tree, "base")
    assert kernel.release == "7.3-test" and kernel.image.is_file()
    kept = [str(path.relative_to(kernel.objects)) for path in kernel.objects.rglob("*")]
    assert {"include/generated/a.h", "scripts/mod/modpost"} <= set(kept)
    assert not [name for name in kept if name.endswith(".o")]
    assert build.get(second, tree, "base").image.read_text() == "7.3-test\n"
    (second.out / "kernel/key").write_text("kernel-ba")  # while the disk was full
    (second.out / "kernel/bzImage").unlink()
    assert build.get(second, tree, "base").image.is_file()
    assert compiled == ["base"]
    build.get(second, tree, "base", objects=True)
    assert compiled == ["base"] * 2
    monkeypatch.setattr(debian, "codename", lambda: "another")
    build.get(replace(first, out=tmp_path / "three"), tree, "base")
    assert compiled.pop() == "base" and len(list(first.shared.iterdir())) == 2
    build.get(first, tree, "base-mutant")
    build.get(second, tree, "base-mutant")
    assert compiled[2:] == ["base-mutant"] * 2
    assert len(list(first.shared.iterdir())) == 2


def test_a_copy_of_objects_keeps_the_configuration(tmp_path: Path) -> None:
    tree = Tree(Source(version="7.3", home=tmp_path, revision="r"), {})
    (tmp_path / "tree").mkdir()
    for config in ("base", "systemd"):
        objects = build.object_dir(tree, config)
        objects.mkdir()
        for name in (".config", ".config.key"):
            (objects / name).write_text(config)
    (build.object_dir(tree, "base") / "vmlinux.o").touch()
    build.seed(tree, "systemd")
    copied = build.object_dir(tree, "systemd")
    assert (copied / "vmlinux.o").exists()
    assert {(copied / name).read_text() for name in (".config", ".config.key")} == {"systemd"}


def test_debian_s_configuration_is_cut_down_before_ours_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = replace(default_paths(), cache=tmp_path, out=tmp_path)
    listing = tmp_path / "loaded"
    listing.write_text("Module Size Used by\next4 1 0\n")
    wishes = {"LSMOD": str(listing)}
    monkeypatch.setenv("LSMOD", "what the user wishes")
    monkeypatch.setattr(source, "configuration", lambda *_: "CONFIG_X=m\nCONFIG_Y=m\n")
    tree = Tree(Source(version="7.3", home=tmp_path, revision="r"), {})
    final = build.object_dir(tree, "debian") / ".config"
    made = []

    def run(*words: object, env: dict[str, str] | None = None) -> None:
        made.append((words[3], final.read_text().splitlines()[-1], env and env["LSMOD"]))
        if words[3] == "localmodconfig":
            assert env and Path(env["LSMOD"]).read_text() == listing.read_text()
            final.write_text("CONFIG_X=m\n# CONFIG_Y is not set\n")

    monkeypatch.setattr(build, "run", run)
    build.configure(paths, tree, "debian", wishes)
    last = build.fragments(paths, "debian").splitlines()[-1]
    assert [target for target, _, _ in made] == [
        "olddefconfig", "localmodconfig", "olddefconfig"
    ]  # fmt: skip
    assert [end for _, end, _ in made] == ["CONFIG_Y=m", "CONFIG_Y=m", last]
    options = kconfig.parse(final.read_text())
    assert options["CONFIG_Y"] == "n" and options["CONFIG_DCBM_DMA"] == "m"
    assert final.with_name("left-out").read_text() == "CONFIG_Y=m\n"

    made.clear()
    build.configure(paths, tree, "debian", wishes)
    assert made == []  # nothing has changed
    listing.write_text("Module Size Used by\nxfs 1 0\n")
    build.configure(paths, tree, "debian", wishes)
    assert len(made) == 3
    made.clear()
    build.configure(paths, tree, "debian", {})
    assert [target for target, _, _ in made] == ["olddefconfig"] * 2  # all modules stay
    listing.write_text("ext4\n")
    with pytest.raises(HarnessError, match="is not what lsmod prints"):
        build.configure(paths, tree, "debian", wishes)


def test_objects_of_the_same_tree_leave_it_alone(tmp_path: Path) -> None:
    tree = Tree(Source(version="7.3", home=tmp_path, revision="r"), {"new.c": ""})
    for path in (tree.path, tmp_path / "build-base"):
        path.mkdir()
    for path in (tree.path / "new.c", tmp_path / "build-base/.config"):
        path.write_text("")
        os.utime(path, (1000, 1000))
    (tmp_path / "build-base/vmlinux.o").write_text("")
    build.seed(tree, "systemd")
    assert (tmp_path / "build-systemd/vmlinux.o").exists()
    assert (tree.path / "new.c").stat().st_mtime == 1000
