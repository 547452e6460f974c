"""Fragments, and options that vanish."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.kernel import kconfig

BASE = "CONFIG_NUMA=y\n# CONFIG_SLUB_TINY is not set\nCONFIG_DMATEST=m\n# a comment\n"
DEBUG = 'CONFIG_DMATEST=y\nCONFIG_NR_CPUS=16\nCONFIG_CMDLINE="a=b c"\n'


def test_the_last_line_of_an_option_counts() -> None:
    assert kconfig.parse(BASE + DEBUG) == {
        "CONFIG_NUMA": "y", "CONFIG_SLUB_TINY": "n", "CONFIG_DMATEST": "y", "CONFIG_NR_CPUS": "16",
        "CONFIG_CMDLINE": '"a=b c"',
    }  # fmt: skip


def test_every_option_that_vanished_is_named(tmp_path: Path) -> None:
    final = tmp_path / ".config"
    final.write_text("CONFIG_SLUB_TINY=y\nCONFIG_DMATEST=y\n")
    with pytest.raises(HarnessError) as caught:
        kconfig.check(kconfig.parse(BASE), final, "step 1")
    assert str(caught.value) == (
        "step 1: requested options vanished: "
        "CONFIG_NUMA=y (is n), CONFIG_SLUB_TINY=n (is y), CONFIG_DMATEST=m (is y)"
    )


def test_an_option_that_is_off_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("")
    kconfig.check({"CONFIG_SLUB_TINY": "n"}, tmp_path / ".config", "")
