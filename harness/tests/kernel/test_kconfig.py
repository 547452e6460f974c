"""Fragments, and options that vanish."""

from harness.kernel import kconfig

BASE = "CONFIG_NUMA=y\n# CONFIG_SLUB_TINY is not set\nCONFIG_DMATEST=m\n# a comment\n"
DEBUG = 'CONFIG_DMATEST=y\nCONFIG_NR_CPUS=16\nCONFIG_CMDLINE="a=b c"\n'


def test_fragments_merge_and_the_last_one_wins() -> None:
    assert kconfig.merge([BASE, DEBUG]) == {
        "CONFIG_NUMA": "y",
        "CONFIG_SLUB_TINY": "n",
        "CONFIG_DMATEST": "y",
        "CONFIG_NR_CPUS": "16",
        "CONFIG_CMDLINE": '"a=b c"',
    }


def test_every_option_that_vanished_is_named() -> None:
    wanted = kconfig.parse(BASE)
    final = kconfig.parse("CONFIG_SLUB_TINY=y\nCONFIG_DMATEST=y\n")
    assert kconfig.vanished(wanted, final) == [
        "CONFIG_NUMA=y (is n)",
        "CONFIG_SLUB_TINY=n (is y)",
        "CONFIG_DMATEST=m (is y)",
    ]


def test_an_option_that_is_off_may_be_absent() -> None:
    assert kconfig.vanished({"CONFIG_SLUB_TINY": "n"}, {}) == []
