"""Figures that letters and guides take from the records: lab/recorded/cited.toml."""

import fnmatch
import re
import tomllib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import jinja2
import pytest

from harness.core.paths import ROOT
from harness.lab.results import Inaccessible, Results
from harness.tests.lab.sample import FULL, QUICK

CITED = tomllib.loads((ROOT / "lab/recorded/cited.toml").read_text())
NEVER = Inaccessible(p50=0, p99=0, max=0)
FILTERS: dict[str, Callable[..., str]] = {
    "n": lambda value, digits=0: f"{value:,.{digits}f}",
    "both": lambda run: f"{run.gbps:.1f} {run.us:,.{int(run.us < 9.95)}f}",
    "cell": lambda run: f"{run.gbps:.1f} GB/s; {run.us:,.{int(run.us < 9.95)}f} us",
    "three": lambda run: f"{run.gbps:.1f} {run.instr:,.0f} {run.us:,.{int(run.us < 9.95)}f}",
    "less": lambda old, new: f"{old.instr:,.0f} {new.instr:,.0f} {old.instr / new.instr:.2f}",
}


def figures(results: Results, pattern: str, folio_kib: int) -> SimpleNamespace:
    """Return the figures of a run by the pattern of its name, and the size of its folios."""
    name = pattern.replace("SIZE", f"{folio_kib} KiB")
    fitting = [row for row in results.runs if fnmatch.fnmatchcase(row.name, name)]
    assert fitting, f"no run is called {name}"
    run = max(fitting, key=lambda row: (-row.total_mib, row.folios_per_call))
    times = run.inaccessible_us or NEVER
    return SimpleNamespace(
        gbps=run.gbps, instr=run.instructions_per_folio, first=run.first_folio_us,
        p50=times.p50, us=times.p99, longest=times.max,
    )  # fmt: skip


@pytest.mark.parametrize("name", CITED["texts"])
def test_figures_are_as_recorded(name: str) -> None:
    language = jinja2.Environment(undefined=jinja2.StrictUndefined)
    language.filters |= FILTERS
    records = {
        letter: {run: partial(figures, results, fits) for run, fits in CITED["runs"].items()}
        for letter, results in (("q", QUICK), ("f", FULL))
    }
    text = " ".join((ROOT / name).read_text().split())
    for entry in CITED["texts"][name]:
        line = language.from_string(entry).render(records, sizes=(4, 16, 64, 256, 1024, 2048))
        wanted = " ".join(line.split())
        assert re.search(rf"(?<![\d.,]){re.escape(wanted)}(?![.,]?\d)", text), wanted
