"""The laboratory's measurements cover its claims."""

from dataclasses import replace

import pytest

from harness.kernel import build
from harness.lab import plan
from harness.lab.model.published import OFFLOAD, SWEEP, rows
from harness.lab.plan import Boot, Measurement
from harness.lab.results import ENGINE_DESIGNS


def measurements(quick: bool) -> list[tuple[Boot, Measurement]]:
    boots = [*plan.vanilla(quick), *plan.ours(quick)]
    assert len({boot.name for boot in boots}) == len(boots)
    return [(boot, job) for boot in boots for job in boot.measurements]


@pytest.mark.parametrize("quick", [False, True])
def test_every_kernel_exists_and_every_engine_has_its_channels(quick: bool) -> None:
    for boot, job in measurements(quick):
        assert boot.config in build.CONFIGS
        assert job.channels == boot.channels
        if job.design != "live":
            assert (job.design in ENGINE_DESIGNS) == (job.channels > 0)
        assert job.mib * 1024 >= (job.batch_pages or 0) * 4 or job.design == "off"


def test_every_published_row_is_measured() -> None:
    measured = {
        (boot.config, job.channels, size, job.batch_pages)
        for boot, job in measurements(quick=False)
        for size in job.folio_kib
        if job.design == "batch"
    }
    for config, table in ((plan.OURS, SWEEP), (plan.HEART, OFFLOAD)):
        for row in rows(table):
            batch = row.batch_pages or plan.SIZE_BATCH_PAGES
            assert (config, row.channels, row.folio_kib, batch) in measured


@pytest.mark.parametrize("quick", [False, True])
def test_the_calibration_has_all_sizes_and_both_kernels_the_same(quick: bool) -> None:
    plain, traced, calls, traced_calls = plan.vanilla(quick)
    assert plain.measurements[0].folio_kib == plan.FOLIO_KIB
    for left, right in ((plain, traced), (calls, traced_calls)):
        assert (left.config, right.config) == (plan.VANILLA, plan.TRACED)
        for job, other in zip(left.measurements, right.measurements, strict=True):
            assert (job.instrument, other.instrument) == ("off", "only")
            assert job.line("0").replace("=off", "=only") == other.line("0")


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_is_expected_for_each_size_and_move(quick: bool) -> None:
    keys = plan.keys(quick, "toy")
    names = {key.name for key in keys}
    assert len(names) == len(keys)
    for boot, job in measurements(quick):
        for key in boot.keys("toy"):
            assert (boot.config == plan.TRACED) or key.name in names
            assert key.engine == ("toy" if job.channels else None)
        assert len(Boot("b", boot.config, boot.channels, (job,)).keys("toy")) == (
            len(job.folio_kib) * job.moves
        )
    more = set() if quick else {"without", "heart"}
    assert {key.kernel for key in keys} == {"vanilla", "ours", *more}
    few = Measurement("off", 0, (4,), 16, moves=1)
    (key,) = Boot("b", plan.OURS, 0, (few,)).keys("toy")
    assert (key.folios_per_call, key.total_mib, key.move) == (4096, 16, 1)


def test_a_plan_is_lines_for_the_guest() -> None:
    job = Measurement("batch", 4, (4, 64), 16, 512, moves=1)
    boot = Boot("b", plan.OURS, 4, (job,))
    assert boot.plan() == (
        "engine 4\n"
        "measure 0 batch 512 0 --folio-kib=4,64 --mib=16 --folios-per-call=0 --moves=1 "
        "--warmup=1 --repeat=1 --instrument=auto --verify\n"
    )
    assert Boot("b", plan.VANILLA, 0, ()).plan() == "\n"


def test_a_plan_asks_for_what_its_measurements_need() -> None:
    file = Measurement("live", 16, (64,), 16, None, memory="file", bound_us=500)
    huge = Measurement("live", 16, (4,), 16, None, addresses="compaction")
    cold = Measurement("off", 0, (4,), 16, addresses="reclaim")
    plain, boot = (Boot("b", plan.OURS, 16, some) for some in ((huge,), (file, huge, cold)))
    assert (plain.tiers, boot.tiers) == (False, True)
    *needs, first, second, third = boot.plan(4.0).splitlines()
    assert needs == ["engine 16", "files", "cgroup"]
    assert Boot("b", plan.OURS, 0, (replace(cold, addresses="fault"),)).plan()[:8] == "look 80\n"
    assert " live 0 2000 --folio-kib" in first and " --memory=file --dir=/tmp/lab" in first
    assert second.endswith(" --addresses=compaction --from=1")
    assert third.endswith(" --addresses=reclaim")


def test_threads_count_milliseconds_of_the_machine_that_is_modelled() -> None:
    job = Measurement("live", 4, (64,), 16, None, moves=1, writes_per_ms=10)
    boot = Boot("b", plan.OURS, 4, (job,))
    assert boot.plan(4.0).endswith(" --instrument=auto --touch=123000,2500\n")
    (key,) = boot.keys("toy")
    assert key.writes_per_ms == 10
    assert key.name.endswith(", 10 writes per ms")


def test_writers_have_each_rate_on_each_kernel_and_readers_eight_processors() -> None:
    boots = {boot.name: boot for boot in plan.writers()}
    for name in ("zipf-vanilla", "zipf-cpu", "zipf-16"):
        keys = boots[name].keys("toy")
        assert {key.writes_per_ms for key in keys if key.zipf} == set(plan.ZIPF_PER_MS)
    assert boots["zipf-vanilla"].plan(4.0).endswith(" --touch=123000,12500000 --zipf\n")
    assert boots["many-16"].plan(4.0).endswith(" --touch=123000,123000,6\n")
    assert boots["many-16"].cpus == 8
    assert keys[0].name.endswith(", at most 100 us, 1 writes per ms, Zipf")
