"""Predictions: figures that the laboratory gives of an engine before anyone has measured it."""

import json
from itertools import groupby, product

from harness.core import jsonio
from harness.core.paths import ROOT
from harness.lab.judge.claim import number, size
from harness.lab.model import preset
from harness.lab.results import WORKLOAD_NAMES, Results, size_name

DIRECTORY = ROOT / "lab" / "predictions"  # by preset
PRESETS = {"ptdma": "zen3-ptdma", "idxd": "spr-dsa"}  # by the driver of the engine
HEAD = ("figure", "predicted", "measured", "of it")


def bare(kib: float, channels: int) -> str:
    """Return the name of the time in which each of an engine's channels copies, without a move."""
    return f"bare engine, {size_name(kib)}: ns a copy, {channels} channels"


def figures(results: Results) -> dict[str, float]:
    """Return what can be predicted of an engine, and of moves by it, by default, by its name."""
    values = dict(results.bare)
    if results.engine and results.engine.is_model:
        engine = preset.load(results.engine.preset)
        for kib, number in product((4, 64, 2048), (1, 2, 4, 8, 16)):
            if number <= engine.channels:
                ns = kib * 1024_000 * number / engine.total_mbps(number)
                values[bare(kib, number)] = engine.latency_ns + ns
    for run in sorted(results.runs, key=lambda run: (run.channels or 0, *size(run))):
        if run.engine and run.bound_us and (run.move, run.memory) == (1, "anon"):
            words = [{"live": "live", "segments": "not live"}.get(run.design, run.design)]
            words += [WORKLOAD_NAMES.get(run.addresses, ""), size_name(run.folio_kib)]
            if run.writes_per_ms:
                words.append(f"{run.writes_per_ms} pages written a ms")
            name = ", ".join(filter(None, words))
            values[f"{name}: GB/s"] = run.gbps
            if (ms := results.cpu_ms_per_gb(run)) is not None:
                values[f"{name}: CPU-ms a GB"] = ms
            if run.touch:
                values[f"{name}: longest read, us"] = run.touch.read
                values[f"{name}: longest write, us"] = run.touch.write
    return values


def dump(results: Results) -> str:
    """Return predictions as JSON, those of a move on a line; figures have six digits."""
    lines = []
    for _, some in groupby(figures(results).items(), lambda item: item[0].rpartition(": ")[0]):
        values = {name: float(f"{value:.6g}") for name, value in some}
        lines.append(f"  {json.dumps(values)[1:-1]}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def rows(results: Results) -> list[list[str]]:
    """Return each figure of a real engine beside its prediction, if there are any of it."""
    preset = PRESETS.get(results.engine.preset, "") if results.engine else ""
    if results.calibration or not (path := DIRECTORY / f"{preset}.json").exists():
        return []
    known = jsonio.load(dict[str, float], path)
    return [
        [name, number(known[name]), number(value), f"{value / known[name]:.2f} times"]
        if name in known else [name, "-", number(value), "-"]
        for name, value in figures(results).items()
    ]  # fmt: skip
