"""What the laboratory measures covers what it claims."""

import pytest

from harness.kernel import build
from harness.lab import plan
from harness.lab.model.published import OFFLOAD, SWEEP, rows
from harness.lab.plan import Boot, Measurement
from harness.lab.results import ENGINE_DESIGNS, Addresses


def measurements(quick: bool) -> list[tuple[Boot, Measurement]]:
    boots = [*plan.vanilla(quick), *plan.ours(quick)]
    assert len({boot.name for boot in boots}) == len(boots)
    return [(boot, one) for boot in boots for one in boot.measurements]


@pytest.mark.parametrize("quick", [False, True])
def test_every_kernel_exists_and_every_engine_has_its_channels(quick: bool) -> None:
    for boot, one in measurements(quick):
        assert boot.config in build.CONFIGS
        assert one.channels == boot.channels
        if one.design != "live":
            assert (one.design in ENGINE_DESIGNS) == (one.channels > 0)
        assert one.mib * 1024 >= (one.batch_pages or 0) * 4 or one.design == "off"


def test_every_published_row_is_measured() -> None:
    found = {
        (one.channels, size, one.batch_pages)
        for _, one in measurements(quick=False)
        for size in one.folio_kib
        if one.design == "batch"
    }
    for row in (*rows(SWEEP), *rows(OFFLOAD)):
        batch = row.batch_pages or plan.SIZE_BATCH_PAGES
        assert (row.channels, row.folio_kib, batch) in found


@pytest.mark.parametrize("quick", [False, True])
def test_the_calibration_has_all_sizes_and_both_kernels_the_same(quick: bool) -> None:
    plain, traced, calls, traced_calls = plan.vanilla(quick)
    assert plain.measurements[0].folio_kib == plan.FOLIO_KIB
    for left, right in ((plain, traced), (calls, traced_calls)):
        assert (left.config, right.config) == (plan.VANILLA, plan.TRACED)
        for one, other in zip(left.measurements, right.measurements, strict=True):
            assert (one.instrument, other.instrument) == ("off", "only")
            assert one.line("0").replace("=off", "=only") == other.line("0")


def test_off_is_measured_without_the_feature_too() -> None:
    boots = {boot.name: boot for boot in plan.ours(quick=False)}
    off, without = boots["ours-off"], boots["without-off"]
    assert (off.config, without.config) == (plan.OURS, plan.WITHOUT)
    assert off.measurements == without.measurements
    assert {one.design for one in without.measurements} == {"off"}


def test_no_kernel_is_built_for_nothing() -> None:
    assert plan.kernels(quick=False) == list(plan.KERNEL)
    assert plan.kernels(quick=True) == [plan.OURS, plan.VANILLA, plan.TRACED]


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_is_expected_for_each_size_and_move(quick: bool) -> None:
    keys = plan.keys(quick, "toy")
    names = {key.name for key in keys}
    assert len(names) == len(keys)
    for boot, one in measurements(quick):
        for key in boot.keys("toy"):
            assert (boot.config == plan.TRACED) or key.name in names
            assert key.engine == ("toy" if one.channels else None)
        assert len(Boot("b", boot.config, boot.channels, (one,)).keys("toy")) == (
            len(one.folio_kib) * one.moves
        )
    without = set() if quick else {"without"}
    assert {key.kernel for key in keys} == {"vanilla", "ours", *without}
    few = Measurement("off", 0, (4,), 16, moves=1)
    (key,) = Boot("b", plan.OURS, 0, (few,)).keys("toy")
    assert (key.folios_per_call, key.total_mib, key.move) == (4096, 16, 1)


def test_a_plan_is_lines_for_the_guest() -> None:
    one = Measurement("batch", 4, (4, 64), 16, 512, moves=1)
    boot = Boot("b", plan.OURS, 4, (one,))
    assert boot.plan() == (
        "engine 4\n"
        "measure 0 batch 512 0 --folio-kib=4,64 --mib=16 --folios-per-call=0 --moves=1 "
        "--warmup=1 --repeat=1 --instrument=auto --verify\n"
    )
    assert Boot("b", plan.VANILLA, 0, ()).plan() == "\n"


def test_threads_count_milliseconds_of_the_machine_that_is_modelled() -> None:
    one = Measurement("live", 4, (64,), 16, None, moves=1, writes_per_ms=10)
    boot = Boot("b", plan.OURS, 4, (one,))
    assert boot.plan(4.0).endswith(" --instrument=auto --touch=25000,2500\n")
    (key,) = boot.keys("toy")
    assert key.writes_per_ms == 10
    assert key.name.endswith(", 10 writes per ms")


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("addresses", ["all", "range"])
def test_workloads_are_measured_on_both_kernels(addresses: Addresses, quick: bool) -> None:
    named = [(boot, one) for boot, one in measurements(quick) if one.addresses == addresses]
    assert [boot.config for boot, _ in named] == [plan.VANILLA, plan.OURS]
    assert len({one for _, one in named}) == 1
    for boot, one in named:
        assert one.line("0").endswith(f" --addresses={addresses}")
        keys = [key for key in boot.keys("toy") if key.addresses == addresses]
        assert [(key.folio_kib, key.move) for key in keys] == [
            (size, 1) for size in plan.WORKLOADS[addresses]
        ]


@pytest.mark.parametrize("quick", [False, True])
def test_demotion_is_measured_in_three_ways(quick: bool) -> None:
    called = [(boot, one) for boot, one in measurements(quick) if one.addresses == "reclaim"]
    assert [(boot.config, one.design, one.channels) for boot, one in called] == [
        (plan.TRACED, "off", 0),
        (plan.OURS, "off", 0),
        (plan.OURS, "live", 16),
    ]
    assert len({(one.mib, one.folio_kib, one.moves, one.instrument) for _, one in called}) == 1
    for boot, one in measurements(quick):
        assert boot.tiers == (one.addresses == "reclaim")
        assert ("cgroup\n" in boot.plan()) == boot.tiers


@pytest.mark.parametrize("addresses", ["compaction", "contig"])
def test_what_makes_huge_pages_is_measured_in_four_ways(addresses: Addresses) -> None:
    called = [(b, one) for b, one in measurements(False) if one.addresses == addresses]
    assert [(boot.config, one.design, one.channels) for boot, one in called] == [
        (plan.TRACED, "off", 0),
        (plan.OURS, "off", 0),
        (plan.OURS, "segments", 16),
        (plan.OURS, "live", 16),
    ]
    assert len({(one.mib, one.folio_kib, one.moves, one.instrument) for _, one in called}) == 1
    for _, one in called:
        assert one.line("0").endswith(f" --addresses={addresses} --from=1")
    # There must be room for a huge page of 1 GB, and for what was in it.
    assert {boot.memory for boot, _ in called} == {"10G" if addresses == "contig" else ""}


@pytest.mark.parametrize("quick", [False, True])
def test_what_is_not_copied_live_is_measured_as_by_default(quick: bool) -> None:
    kinds = [(boot, one) for boot, one in measurements(quick) if one.memory != "anon"]
    ours = [one for boot, one in kinds if boot.config == plan.OURS]
    assert {one.memory for one in ours} == {"shmem", "file", "hugetlb"} | (
        set() if quick else {"mixed"}
    )
    assert {(one.design, one.channels, one.batch_pages) for one in ours} == {("live", 16, None)}
    bounds = {one.memory: {other.bound_us for other in ours if other.memory == one.memory}
              for one in ours}  # fmt: skip
    assert bounds.pop("mixed", {100}) == {plan.MIXED_BOUND_US}
    assert bounds.pop("shmem") == {plan.BOUND_US, *plan.LOW_BOUNDS_US}
    assert set.union(*bounds.values()) == {plan.BOUND_US}
    gigantic = [boot for boot, one in kinds if one.folio_kib == (plan.GIGANTIC_KIB,)]
    assert [(boot.config, boot.memory) for boot in gigantic] == (
        [] if quick else [(plan.TRACED, "10G"), (plan.OURS, "10G")]
    )
    for boot, one in kinds:
        assert ("files\n" in boot.plan()) == any(
            other.memory in ("file", "mixed") for other in boot.measurements
        )
        if one.bound_us:
            assert f" live 0 {4 * one.bound_us} --folio-kib" in boot.plan(4.0)
        if one.memory == "mixed":
            assert (one.bound_us, one.folios(4)) == (plan.MIXED_BOUND_US, plan.MIXED_FOLIOS)


def test_memory_is_used_while_it_moves_in_three_ways() -> None:
    touched = [(boot, one) for boot, one in measurements(quick=False) if one.writes_per_ms]
    assert {(boot.config, one.design, one.channels) for boot, one in touched} == {
        (plan.VANILLA, "off", 0),
        (plan.OURS, "segments", 16),
        (plan.OURS, "live", 16),
    }
    for design in ("off", "segments", "live"):
        rates = [one.writes_per_ms for _, one in touched if one.design == design]
        assert rates == [1, 100, 10000]
    assert {one.folio_kib for _, one in touched} == {(2048, 64)}
    assert not [one for _, one in measurements(quick=True) if one.writes_per_ms]
