"""Files and options that a step must build."""

from harness.series.build import SWITCH, compiled_files, wanted_options


def test_compiled_files() -> None:
    names = ["mm/a.c", "Documentation/mm/a.rst", "MAINTAINERS", "tools/x.c", "mm/Kconfig"]
    assert list(compiled_files(dict.fromkeys(names, ""))) == ["mm/a.c", "mm/Kconfig"]


def test_wanted_options() -> None:
    wanted = {"CONFIG_MM": "y", "CONFIG_NEW": "y", "CONFIG_LATER": "m"}
    last = {"CONFIG_NEW", "CONFIG_LATER"}
    here = {"CONFIG_NEW"}
    assert wanted_options(wanted, last, here, off=False) == {
        "CONFIG_MM": "y",
        "CONFIG_NEW": "y",
    }
    assert wanted_options(wanted, last, here, off=True) == {"CONFIG_MM": "y", SWITCH: "n"}
