"""Sources: versions, mirrors, packages, tarballs and trees of the user's own."""

import errno
import gzip
import subprocess
from pathlib import Path

import pytest

from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian, source

DATA = Path(__file__).parent.parent / "data"
MAKEFILE = "VERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\nEXTRAVERSION ={}\nNAME = X\n"


def make_tree(where: Path, *version: object) -> Path:
    (where / "mm").mkdir(parents=True)
    (where / "Makefile").write_text(MAKEFILE.format(*version))
    (where / "mm/migrate.c").write_text("int migrate;\n")
    return where


@pytest.mark.parametrize(
    ("fields", "version"),
    [((7, 3, 4, ""), "7.3.4"), ((7, 3, 0, ""), "7.3"), ((7, 3, 4, " -custom"), "7.3.4-custom")],
)
def test_every_point_release_is_accepted(
    tmp_path: Path, fields: tuple[object, ...], version: str
) -> None:
    assert source.tree_version(make_tree(tmp_path, *fields), "tree") == version


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ((7, 4, 0, ""), "7.4"), ((7, 30, 1, ""), "7.30.1"), ((7, 3, 0, " -rc5"), "7.3-rc5"),
        ((17, 3, 0, ""), "17.3"),
    ],
)  # fmt: skip
def test_other_versions_are_refused_in_one_line(
    tmp_path: Path, fields: tuple[object, ...], version: str
) -> None:
    with pytest.raises(HarnessError) as caught:
        source.tree_version(make_tree(tmp_path, *fields), "/src/linux")
    assert str(caught.value) == f"/src/linux is Linux {version}, but the patches are for 7.3"


def test_a_directory_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="/src is not a Linux source tree"):
        source.tree_version(tmp_path, "/src")


def test_the_mirror_of_the_own_release_comes_first_and_security_never() -> None:
    listing = (DATA / "indextargets.txt").read_text()
    assert debian.choose_mirrors(listing, "trixie") == [
        "http://mirror.example/debian/",
        "http://local.example/debian/",
    ]
    assert debian.choose_mirrors(listing, "bookworm") == []


def paths_in(tmp_path: Path) -> Paths:
    return Paths(root=tmp_path, cache=tmp_path / "cache", out=tmp_path / "out")


def test_a_tree_is_copied_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(tmp_path / "mine", 7, 3, 9, "")
    (tree / ".config").write_text("CONFIG_X=y\n")
    (tree / "mm/migrate.o").write_text("object")
    monkeypatch.setenv("LINUX_SRC", str(tree))
    first = source.get(paths_in(tmp_path))
    assert first.version == "7.3.9"
    assert (first.pristine / "mm/migrate.c").exists()
    assert not (first.pristine / ".config").exists()
    assert not (first.pristine / "mm/migrate.o").exists()
    assert sorted(path.name for path in tree.rglob("*")) == [
        ".config", "Makefile", "migrate.c", "migrate.o", "mm",
    ]  # fmt: skip
    assert source.get(paths_in(tmp_path)) == first
    (tree / "mm/migrate.c").write_text("int changed;\n")
    second = source.get(paths_in(tmp_path))
    assert second.home == first.home and second.revision != first.revision
    assert (second.pristine / "mm/migrate.c").read_text() == "int changed;\n"


def tarball_of(tree: Path, suffix: str = "") -> Path:
    tarball = tree.with_name(f"linux.tar{suffix}")
    words = ["tar", "--auto-compress", "-cf", str(tarball), "-C", str(tree.parent), tree.name]
    subprocess.run(words, check=True)
    return tarball


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_tarball_is_unpacked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    tree = make_tree(tmp_path / "linux-7.3.2", 7, 3, 2, "")
    monkeypatch.setenv("LINUX_SRC", str(tarball_of(tree, suffix)))
    first = source.get(paths_in(tmp_path))
    assert (first.version, (first.pristine / "mm/migrate.c").exists()) == ("7.3.2", True)
    assert source.get(paths_in(tmp_path)) == first


def test_clones_link_to_one_tree_or_copy_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(tmp_path / "linux-7.3.2", 7, 3, 2, "")
    monkeypatch.setenv("LINUX_SRC", str(tarball_of(tree)))
    mine = paths_in(tmp_path)
    first = source.get(mine).pristine
    assert first.is_symlink() and first.resolve().parent == mine.shared

    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", no_link)
    two = Paths(root=tmp_path, cache=tmp_path / "two", out=tmp_path)
    two.cache.mkdir()
    (two.cache / "shared").symlink_to(mine.shared)
    second = source.get(two).pristine
    assert not second.is_symlink() and (second / "mm/migrate.c").exists()
    assert not (second / "mm/migrate.c").samefile(first / "mm/migrate.c")
    assert source.get(two).pristine == second
    assert len([path for path in mine.shared.iterdir() if path.is_dir()]) == 1


def test_a_tarball_of_another_version_is_refused_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINUX_SRC", str(tarball_of(make_tree(tmp_path / "linux-7.4", 7, 4, 0, ""))))
    with pytest.raises(HarnessError, match=r"linux\.tar is Linux 7\.4, but"):
        source.get(paths_in(tmp_path))
    assert not list((tmp_path / "cache/shared").iterdir())


@pytest.mark.parametrize(
    ("name", "words"), [("junk", "cannot unpack .*/junk"), ("none", "no such file or directory")]
)
def test_what_is_neither_a_tree_nor_a_tarball_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    (tmp_path / "junk").write_text("no tarball")
    monkeypatch.setenv("LINUX_SRC", str(tmp_path / name))
    with pytest.raises(HarnessError, match=words):
        source.get(paths_in(tmp_path))


def test_the_configuration_of_a_machine_may_be_compressed(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    plain, packed, wrong = (tmp_path / name for name in ("config", "config.gz", "other"))
    ubuntus = 'CONFIG_64BIT=y\nCONFIG_SYSTEM_{}_KEYS="{}"\n'
    plain.write_text(ubuntus.format("TRUSTED", "debian/canonical-certs.pem"))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    wrong.write_bytes(packed.read_bytes())
    with ui.step("test") as step:
        for path in (plain, packed):
            assert source.configuration(paths, str(path), step) == ubuntus.format("TRUSTED", "")
        for path, why in ((wrong, "can't decode"), (tmp_path / "none", "No such file")):
            with pytest.raises(HarnessError, match=f"KCONFIG={path}: .*{why}"):
                source.configuration(paths, str(path), step)
        plain.write_text("CONFIG_X86_32=y\n")
        with pytest.raises(HarnessError, match="not the configuration of a 64-bit kernel"):
            source.configuration(paths, str(plain), step)
