"""What a step must build, and the modification times that make it do so."""

from pathlib import Path

from harness.series.build import (
    Timestamps,
    compiled_files,
    defined_options,
    undefined_symbols,
    wanted_options,
)


def test_compiled_files() -> None:
    names = ["mm/a.c", "Documentation/mm/a.rst", "MAINTAINERS", "tools/x.c", "mm/Kconfig"]
    assert compiled_files(names) == ["mm/a.c", "mm/Kconfig"]


def test_defined_options() -> None:
    text = "config ONE\n\tbool\nmenuconfig TWO\n\tdepends on THREE\n# config FOUR\n"
    assert defined_options([text]) == {"CONFIG_ONE", "CONFIG_TWO"}


def test_wanted_options() -> None:
    wanted = {"CONFIG_MM": "y", "CONFIG_NEW": "y", "CONFIG_LATER": "m"}
    last = {"CONFIG_NEW", "CONFIG_LATER"}
    here = {"CONFIG_NEW"}
    assert wanted_options(wanted, last, here) == {"CONFIG_MM": "y", "CONFIG_NEW": "y"}
    assert wanted_options(wanted, last, here, "CONFIG_NEW") == {
        "CONFIG_MM": "y",
        "CONFIG_NEW": "n",
    }


def test_undefined_symbols() -> None:
    listing = "                 U __bss_start\n                 w kunit_hook\n\n"
    assert undefined_symbols(listing) == {"__bss_start", "kunit_hook"}


def test_timestamps_follow_contents(tmp_path: Path) -> None:
    built, tree = tmp_path / "built", tmp_path / "tree"
    for root in (built, tree):
        root.mkdir()
        (root / "a.c").write_text("a")
        (root / "b.c").write_text("b")
    times = Timestamps(tree, ["a.c", "b.c", "absent.c"], built)
    old = (built / "a.c").stat().st_mtime_ns

    assert times.set() == []
    assert (tree / "a.c").stat().st_mtime_ns == old

    (tree / "a.c").write_text("changed")
    assert times.set() == ["a.c"]
    first = (tree / "a.c").stat().st_mtime_ns
    assert first > old
    assert (tree / "b.c").stat().st_mtime_ns == (built / "b.c").stat().st_mtime_ns

    (tree / "a.c").write_text("changed")  # written again, with the contents that were seen
    assert times.set() == []
    assert (tree / "a.c").stat().st_mtime_ns == first

    (tree / "a.c").write_text("a")  # back to the first contents: the objects are of later ones
    assert times.set() == ["a.c"]
    assert (tree / "a.c").stat().st_mtime_ns > first

    (tree / "b.c").unlink()
    assert times.set() == ["b.c"]
