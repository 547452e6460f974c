"""The demo's results: schema, and what makes them a failure."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from harness import demo
from harness.core.errors import HarnessError
from harness.core.paths import default_paths
from harness.demo import BY_DMA, FOLIO_KIB, MODES, Result
from harness.guest.suite import SuiteResult
from harness.guest.vm import Outcome, Run, Verdict
from harness.kernel.arch import ZCU102


def item(size: int = 4, mode: str = "dcbm", **changes: Any) -> dict[str, Any]:
    return {
        "folio_kib": size, "mode": mode,
        "engine": "dmasim" if mode in BY_DMA else "cpu" if mode == "cpu" else None,
        "channels": 4 if mode in BY_DMA else 0, "folios_asked": 64, "folios_moved": 64,
        "folios_by_engine": 64 if mode in BY_DMA else 0,
        "folios_live": 64 if mode == "live" else 0, "fallbacks": {"fallback_busy": 4},
        "inaccessible_us": 3.5 if mode == "live" else 420.0, "gbps_emulated": 0.25,
        "bytes_verified": 64 * size * 1024, "bytes_wrong": 0, **changes,
    }  # fmt: skip


def run(size: int = 4, **changes: Any) -> dict[str, Any]:
    """Return a run of migrate_bench, as far as the demo reads it."""
    return {
        "folio_kib": size, "move": 1, "folios": 64, "folios_failed": 0, "folios_split": 0,
        "gbps_mean": 0.25, "inaccessible_ns": {"p50": 1, "p99": 2, "max": 420000, "count": 64},
        "cpu_ns": None, "first_folio_ns": None, "phases_ns": None, "latency_lost": 0,
        "bytes_verified": 64 * size * 1024, "bytes_wrong": 0, **changes,
    }  # fmt: skip


def line(mode: str = "dcbm", size: int = 4, **changes: Any) -> dict[str, Any]:
    """Return what the guest prints; changes go to the run."""
    dma = mode in BY_DMA
    counters = {"fallback_busy": 4, "batches": 2}
    counters |= {} if mode == "off" else {"folios_copied": 64}
    counters |= {"live_copied": 64} if mode == "live" else {}
    offload = {"enabled": mode != "off", "migrator": "none", "parameters": None,
               "providers": ["dmasim"] if dma else [], "channels": 4 if dma else 0}  # fmt: skip
    bench = {"program": "migrate_bench", "kernel": "7.3.4", "machine": {}, "mib": 64,
             "folios_per_call": 0, "offload": offload, "runs": [run(size, **changes)]}  # fmt: skip
    return {"mode": mode, "counters": counters, "bench": bench}


def parse(*items: dict[str, Any]) -> list[Result]:
    lines = [f"result: {json.dumps(item)}" for item in items]
    return demo.parse_results("\n".join(["# noise", *lines]))


def results(*items: dict[str, Any]) -> list[Result]:
    return [Result(**item) for item in items]


def whole(**changes: Any) -> list[dict[str, Any]]:
    """Return a complete set; changes go to the run of 64 KiB folios in mode dcbm."""
    return [
        item(size, mode, **(changes if (size, mode) == (64, "dcbm") else {}))
        for size in FOLIO_KIB
        for mode in MODES
    ]


def problems_of(**changes: Any) -> list[str]:
    return demo.problems(results(*whole(**changes)))


def test_the_last_words_say_and_draw_what_was_seen() -> None:
    runs = [item(2048, "off", inaccessible_us=420.0), item(2048, "live", inaccessible_us=3.5)]
    *words, off, live = demo.seen(results(item(4, "off", inaccessible_us=9e9), *runs)).splitlines()
    assert "for 420.0 us when the CPU" in " ".join(words)
    assert "for 3.5 us when an engine" in " ".join(words)
    assert (off, live) == (f"  off  {'#' * 60} 420.0 us", "  live # 3.5 us")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", FOLIO_KIB)
def test_a_result_is_what_the_benchmark_and_the_counters_say(mode: str, size: int) -> None:
    changes = {"inaccessible_us": 420.0}
    assert parse(line(mode, size)) == results(item(size, mode, **changes))


def test_what_failed_or_was_split_has_not_moved() -> None:
    (result,) = parse(line(folios_failed=3, folios_split=2))
    assert (result.folios_asked, result.folios_moved) == (64, 59)


def test_what_was_not_measured_stays_unknown() -> None:
    (result,) = parse(line(inaccessible_ns=None))
    assert result.inaccessible_us is None


def test_an_engine_that_is_held_without_a_route_is_seen() -> None:
    stray = line("cpu")
    stray["bench"]["offload"] |= {"providers": ["dmasim"], "channels": 4}
    (result,) = parse(stray)
    assert (result.engine, result.channels, result.folios_by_engine) == ("dmasim", 4, 64)


def test_a_complete_set_is_fine() -> None:
    assert problems_of() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bytes_wrong": 3}, "dcbm: 3 bytes are wrong"),
        ({"bytes_verified": 63 * 65536}, "dcbm: 4128768 bytes of 64 folios were verified"),
        ({"folios_moved": 63, "folios_by_engine": 63, "bytes_verified": 63 * 65536},
         "dcbm: 63 of 64 folios moved"),
        ({"folios_asked": 0, "folios_moved": 0, "folios_by_engine": 0, "bytes_verified": 0},
         "dcbm: 0 of 0 folios moved"),
        ({"folios_by_engine": 63}, "dcbm: the engine copied 63 of 64 folios"),
        ({"folios_live": 1}, "dcbm: 1 of 64 folios were copied while they were mapped"),
        ({"inaccessible_us": 3.5},
         "live: memory was inaccessible for no less time than in mode dcbm"),
    ],
)  # fmt: skip
def test_each_problem_is_named(changes: dict[str, Any], problem: str) -> None:
    assert problems_of(**changes) == [f"64 KiB, mode {problem}"]


def test_an_engine_of_another_kind_is_named() -> None:
    seen = results(*whole())
    wrong = "4 KiB, mode dcbm: 4 channels of dmasim, not 16 channels of xilinx-zynqmp-dma"
    assert demo.problems(seen, demo.ZDMA)[0] == wrong
    zdma = whole(channels=16, engine="xilinx-zynqmp-dma")
    assert len(demo.problems(results(*zdma), demo.ZDMA)) == 5


@pytest.mark.parametrize(
    ("mode", "changes", "problem"),
    [
        ("off", {"inaccessible_us": None}, "how long memory was inaccessible is unknown"),
        ("off", {"inaccessible_us": 0.0}, "how long memory was inaccessible is unknown"),
        ("off", {"folios_by_engine": 1}, "an engine copied although no route leads to it"),
        ("cpu", {"folios_by_engine": 1}, "an engine copied although no route leads to it"),
        ("live", {"folios_live": 62}, "62 of 64 folios were copied while they were mapped"),
    ],
)
def test_each_mode_has_its_problems(mode: str, changes: dict[str, Any], problem: str) -> None:
    seen = results(*whole(), item(4, mode, **changes))
    assert demo.problems(seen) == [f"4 KiB, mode {mode}: {problem}"]


def test_times_of_several_processors_are_not_compared() -> None:
    changes = {"channels": 16, "engine": "xilinx-zynqmp-dma"}
    twice = [item(size, mode, inaccessible_us=9.0, **(changes if mode in BY_DMA else {}))
             for size in FOLIO_KIB for mode in MODES]  # fmt: skip
    assert demo.problems(results(*twice), demo.ZDMA) == []


@pytest.mark.parametrize("engine", demo.ENGINES.values(), ids=list(demo.ENGINES))
def test_emulators_of_debian_have_no_virtual_time_for_several_processors(
    engine: demo.Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, bool] = {}

    def run_suite(*_: object, debian: bool, wall: bool) -> SuiteResult:
        seen.update(debian=debian, wall=wall)
        return SuiteResult(Run(Verdict(Outcome.FINISHED, "", 0), "", ""), (), "")

    monkeypatch.setattr("harness.guest.suite.run_suite", run_suite)
    paths = replace(default_paths(), out=tmp_path)
    demo.directory_of(paths, engine).mkdir()
    demo.run(paths, engine, Mock(release="7.3"))
    several = engine.machine == ZCU102.name
    assert seen == {"debian": not engine.ours, "wall": several}


def test_a_missing_run_is_named() -> None:
    assert demo.problems(results(*whole()[:-1])) == ["2048 KiB, mode live: no result"]
    assert len(demo.problems([])) == len(FOLIO_KIB) * len(MODES)


@pytest.mark.parametrize(
    "text",
    [
        "{", "",
        *map(json.dumps, (
            3, line(folio_kib=16), line(bytes_wrong=-1), line(gbps_mean="fast"),
            line() | {"mode": "dma"}, line() | {"counters": {"fallback_busy": "1"}},
            line() | {"bench": line()["bench"] | {"offload": None}}, line() | {"gbps": 1.0},
            line() | {"bench": line()["bench"] | {"runs": [run(), run()]}},
        )),
    ],
)  # fmt: skip
def test_a_line_outside_the_schema_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="demo: a result of the guest"):
        demo.parse_results(f"result: {text}")
