"""Strips: times of each folio from a trace, in the time of the machine."""

import pytest

from harness.core.errors import HarnessError
from harness.kernel import build
from harness.lab import strips
from harness.lab.strips import Boot

LIVE = Boot("dcbm live", "base", "live", 500, 2048, 6)
TRACE = """0.000001 protected
0.000003 protected
0.000004 copied
0.000005 unmapped 0x1
0.000006 accessible 0x1
0.000007 copied
0.000009 unmapped 0x3
0.000011 accessible 0x3
0.000012 unmapped 0x2
0.000013 accessible 0x2
"""


def test_a_folio_is_read_only_since_its_chunk_was_protected() -> None:
    strip = strips.parse(TRACE, LIVE, 2.0)
    wanted = ((0, 2, 2.5), (1, 4, 5), (1, 5.5, 6))
    assert [pytest.approx(times) for times in wanted] == list(strip.folios)
    with pytest.raises(HarnessError, match="2 folios of 3"):
        strips.parse(TRACE.replace("accessible 0x2", ""), LIVE, 2.0)


def test_what_is_not_copied_live_is_never_read_only() -> None:
    cut = Boot("dcbm", "base", "cut", 500, 2048, 6)
    assert all(since == unmapped for since, unmapped, _ in strips.parse(TRACE, cut, 1.0).folios)


def test_each_way_is_traced_with_each_size() -> None:
    boots = strips.boots()
    assert len({(boot.way, boot.folio_kib) for boot in boots}) == len(boots) == 8
    assert {boot.config for boot in boots} <= set(build.CONFIGS)
    assert LIVE.args(4.0) == "live,2000,2048,6"
