"""The demo's results: schema, and what makes them a failure."""

import json
from typing import Any

import pytest

from harness import demo
from harness.core.errors import HarnessError
from harness.demo import FOLIO_KIB, MODES

BY_DMA = ("dcbm", "live")


def item(size: int = 4, mode: str = "dcbm", **changes: Any) -> dict[str, Any]:
    return {
        "folio_kib": size,
        "mode": mode,
        "engine": "dmasim" if mode in BY_DMA else None,
        "channels": 4 if mode in BY_DMA else 0,
        "folios_asked": 64,
        "folios_moved": 64,
        "folios_by_engine": 64 if mode in BY_DMA else 0,
        "folios_live": 64 if mode == "live" else 0,
        "fallbacks": {"small": 4},
        "inaccessible_us": 3.5 if mode == "live" else 420.0,
        "bytes_verified": 64 * size * 1024,
        "bytes_wrong": 0,
        "gbps_emulated": 0.25,
        **changes,
    }


def lines(*items: dict[str, Any]) -> str:
    return "# noise\n" + "".join(f"result: {json.dumps(i)}\n" for i in items)


def whole(**changes: Any) -> list[dict[str, Any]]:
    """Return a complete set; changes go to the run of 64 KiB folios in mode dcbm."""
    return [
        item(size, mode, **(changes if (size, mode) == (64, "dcbm") else {}))
        for size in FOLIO_KIB
        for mode in MODES
    ]


def found(**changes: Any) -> list[str]:
    return demo.problems(demo.parse_results(lines(*whole(**changes))))


def test_a_complete_set_is_fine() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bytes_wrong": 3}, "64 KiB, mode dcbm: 3 bytes are wrong"),
        (
            {"bytes_verified": 63 * 65536},
            "64 KiB, mode dcbm: 4128768 bytes of 64 folios were verified",
        ),
        (
            {"folios_moved": 63, "folios_by_engine": 63, "bytes_verified": 63 * 65536},
            "64 KiB, mode dcbm: 63 of 64 folios moved",
        ),
        (
            {"folios_asked": 0, "folios_moved": 0, "folios_by_engine": 0, "bytes_verified": 0},
            "64 KiB, mode dcbm: 0 of 0 folios moved",
        ),
        ({"folios_by_engine": 63}, "64 KiB, mode dcbm: the engine copied 63 of 64 folios"),
        (
            {"folios_live": 1},
            "64 KiB, mode dcbm: 1 of 64 folios were copied while they were mapped",
        ),
        (
            {"inaccessible_us": 3.5},
            "64 KiB, mode live: memory was inaccessible for no less time than in mode dcbm",
        ),
    ],
)
def test_each_problem_is_named(changes: dict[str, Any], problem: str) -> None:
    assert found(**changes) == [problem]


def test_an_engine_of_another_kind_is_named() -> None:
    results = demo.parse_results(lines(*whole()))
    wrong = "4 KiB, mode dcbm: 4 channels of dmasim, not 16 channels of xilinx-zynqmp-dma"
    assert demo.problems(results, demo.ZDMA)[0] == wrong
    zdma = whole(channels=16, engine="xilinx-zynqmp-dma")
    assert len(demo.problems(demo.parse_results(lines(*zdma)), demo.ZDMA)) == 5


@pytest.mark.parametrize("unknown", [None, 0.0])
def test_a_time_that_nobody_measured_is_a_problem(unknown: float | None) -> None:
    results = demo.parse_results(lines(*whole(), item(4, "off", inaccessible_us=unknown)))
    problem = "4 KiB, mode off: nobody measured how long memory was inaccessible"
    assert demo.problems(results) == [problem]


def test_folios_that_were_not_copied_live_are_a_problem() -> None:
    results = demo.parse_results(lines(*whole(), item(4, "live", folios_live=62)))
    problem = "4 KiB, mode live: 62 of 64 folios were copied while they were mapped"
    assert demo.problems(results) == [problem]


def test_times_of_several_processors_are_not_compared() -> None:
    changes = {"channels": 16, "engine": "xilinx-zynqmp-dma"}
    found = [
        item(size, mode, inaccessible_us=9.0, **(changes if mode in BY_DMA else {}))
        for size in FOLIO_KIB
        for mode in MODES
    ]
    assert demo.problems(demo.parse_results(lines(*found)), demo.ZDMA) == []


def test_a_missing_run_is_named() -> None:
    results = demo.parse_results(lines(*whole()[:-1]))
    assert demo.problems(results) == ["2048 KiB, mode live: no result"]
    assert len(demo.problems([])) == len(FOLIO_KIB) * len(MODES)


@pytest.mark.parametrize("mode", ["off", "cpu"])
def test_an_engine_at_work_without_a_route_is_a_problem(mode: str) -> None:
    results = demo.parse_results(lines(*whole(), item(4, mode, folios_by_engine=1)))
    assert demo.problems(results) == [
        f"4 KiB, mode {mode}: an engine copied although no route leads to it"
    ]


def test_one_folio_in_a_hundred_may_miss_the_engine() -> None:
    many = {"folios_asked": 200, "folios_moved": 200, "bytes_verified": 200 * 65536}
    assert found(**many, folios_by_engine=198) == []
    assert found(**many, folios_by_engine=197) != []


@pytest.mark.parametrize(
    "changes",
    [
        {"folio_kib": 16},
        {"mode": "dma"},
        {"bytes_wrong": "0"},
        {"bytes_wrong": -1},
        {"folios_moved": True},
        {"fallbacks": 4},
        {"fallbacks": {"busy": "1"}},
        {"gbps_emulated": "fast"},
        {"inaccessible_us": "long"},
        {"engine": 4},
        {"gbps": 1.0},
    ],
)
def test_a_value_outside_the_schema_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(HarnessError, match="demo: a result of the guest"):
        demo.parse_results(lines(item(**changes)))


def test_every_name_of_the_schema_is_needed() -> None:
    for name in item():
        short = {key: value for key, value in item().items() if key != name}
        with pytest.raises(HarnessError, match=f"missing required field `{name}`"):
            demo.parse_results(lines(short))


@pytest.mark.parametrize("line", ["result: {", "result: 3", "result: "])
def test_broken_json_is_refused(line: str) -> None:
    with pytest.raises(HarnessError, match="demo: a result of the guest"):
        demo.parse_results(line)
