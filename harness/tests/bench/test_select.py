"""The kernel's choice of a copy primitive, fed with recorded timings: no boot, no kernel tree.

What is tested is the kernel's own file, mm/copy_pages_select.c, built as a library.
"""

import csv
import ctypes
import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import pytest

from harness.core.paths import default_paths
from harness.lab.model import published

PER_PAGE, MOVSQ, MOVSB, NONTEMPORAL = range(4)
READER, FAR = range(2)
USES = (READER, FAR)
MIN_ROUNDS, MAX_ROUNDS, ROUNDS, CLASSES = 5, 63, 15, 4
STATES = 3
NEVER_BELOW = 0.97
KIB = 1024


class Timings(ctypes.Structure):
    """`struct copy_timings`."""

    _fields_ = (("rounds", ctypes.c_uint), ("ns", ctypes.c_uint64 * MAX_ROUNDS * 4))


class Quartiles(ctypes.Structure):
    """`struct copy_quartiles`."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("lower", "median", "upper"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    output = tmp_path_factory.mktemp("select") / "select.so"
    source = default_paths().overlay / "mm" / "copy_pages_select.c"
    warnings = ("-Wall", "-Wextra", "-Werror")
    subprocess.run(
        ["gcc", "-O2", *warnings, "-shared", "-fPIC", "-o", str(output), str(source)],
        check=True,
    )
    loaded = ctypes.CDLL(str(output))
    loaded.copy_quartiles.restype = Quartiles
    loaded.copy_class.argtypes = (ctypes.c_ulong,)
    loaded.copy_measurably_faster.restype = ctypes.c_bool
    return loaded


Select = Callable[..., int]


@pytest.fixture(scope="module")
def select(library: ctypes.CDLL) -> Select:
    def choose(
        use: int,
        cold: Mapping[int, float],
        hot: Mapping[int, float] | None = None,
        current: int = PER_PAGE,
        scatter: float = 0,
        seed: int = 1,
        rounds: int = ROUNDS,
        read: Mapping[int, float] | None = None,
    ) -> int:
        """`cold`, `hot` and `read` are speedups over the loop; reading is like hot."""
        states = (cold, hot or {}, hot or {} if read is None else read)
        made = (Timings * STATES)(
            *(timings(one, scatter, seed + 1000 * n, rounds) for n, one in enumerate(states))
        )
        return int(library.copy_select(use, made, current))

    return choose


def timings(speedups: Mapping[int, float], scatter: float, seed: int, rounds: int) -> Timings:
    """Make rounds of timings from speedups over the loop; what is not named is like the loop.

    `scatter` is the standard deviation of a time, as a fraction of it.
    """
    dice = random.Random(seed)
    made = Timings(rounds=rounds)
    for primitive, number in product(range(4), range(rounds)):
        time = 1e6 / speedups.get(primitive, 1.0)
        made.ns[primitive][number] = round(time * max(0.1, dice.gauss(1, scatter)))
    return made


def rows(name: str) -> list[dict[str, str]]:
    with (published.DIRECTORY / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


BULK = rows("folio-copy-bulk")
ZEN4 = {
    (row["primitive"], row["state"], int(row["folio_kib"])): float(row["ratio"])
    for row in rows("copy-primitives-zen4")
}


def speedup_of(row: Mapping[str, str]) -> float:
    if row["speedup"] and not row["bulk_gbps"]:
        return float(row["speedup"])
    return float(row["bulk_gbps"]) / float(row["per_page_gbps"])


def test_the_recorded_tables_are_whole() -> None:
    assert len(BULK) == 18
    assert {row["cpu"] for row in BULK} == {"zen3", "zen5"}
    assert len(ZEN4) == 33
    for row in BULK:
        assert speedup_of(row) == pytest.approx(float(row["speedup"]), abs=0.01)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("row", [row for row in BULK if row["cache"] == "cold"])
def test_bulk_is_chosen_on_zen_5_and_refused_on_zen_3(
    select: Select, row: Mapping[str, str], use: int
) -> None:
    hot = {
        MOVSB: min(
            speedup_of(other)
            for other in BULK
            if (other["cpu"], other["cache"]) == (row["cpu"], "hot")
        )
    }
    chosen = select(use, {MOVSB: speedup_of(row)}, hot)
    assert chosen == (MOVSB if row["cpu"] == "zen5" else PER_PAGE)


@pytest.mark.parametrize("seed", range(20))
def test_no_recorded_machine_regresses_whatever_the_noise(select: Select, seed: int) -> None:
    for use, row, other in product(USES, BULK, BULK):
        if (row["cpu"], row["cache"], other["cache"]) != (other["cpu"], "cold", "hot"):
            continue
        speedups = {PER_PAGE: 1.0, MOVSB: speedup_of(row)}
        chosen = select(use, speedups, {MOVSB: speedup_of(other)}, scatter=0.03, seed=seed)
        assert speedups[chosen] >= 1
        if use == READER and chosen == MOVSB:
            assert speedup_of(other) >= NEVER_BELOW


@pytest.mark.parametrize("kib", [4, 16, 64, 256, 1024, 2048])
def test_zen_4_gets_stores_that_bypass_the_cache_for_far_copies_alone(
    select: Select, library: ctypes.CDLL, kib: int
) -> None:
    cold = {
        MOVSB: ZEN4["movsb", "cold", kib],
        NONTEMPORAL: ZEN4["nontemporal", "cold", kib],
    }
    hot = {NONTEMPORAL: ZEN4.get(("nontemporal", "hot", kib), 0.5)}
    assert select(READER, cold, hot) == PER_PAGE
    assert select(FAR, cold, hot) == (PER_PAGE if kib == 4 else NONTEMPORAL)
    assert (library.copy_class(kib * KIB) == CLASSES) == (kib == 4)


def test_a_fence_for_each_page_would_not_be_chosen(select: Select) -> None:
    for (primitive, state, _), ratio in ZEN4.items():
        if (primitive, state) == ("movnti_fence_per_page", "cold"):
            assert select(FAR, {NONTEMPORAL: ratio}) == PER_PAGE


@pytest.mark.parametrize("use", USES)
def test_nothing_is_chosen_unless_it_is_faster_by_the_least_margin(
    select: Select, use: int
) -> None:
    assert select(use, {}) == PER_PAGE
    assert select(use, {MOVSQ: 1.03}) == PER_PAGE
    assert select(use, {MOVSQ: 1.04}) == MOVSQ


def test_a_gain_within_the_scatter_is_none(select: Select) -> None:
    chosen = {scatter: set[int]() for scatter in (0.01, 0.3)}
    for scatter, seen in chosen.items():
        for seed in range(50):
            seen.add(select(FAR, {MOVSQ: 1.15}, scatter=scatter, seed=seed))
    assert chosen == {0.01: {MOVSQ}, 0.3: {PER_PAGE}}


@pytest.mark.parametrize("scatter", [0.01, 0.05, 0.2])
def test_noise_alone_chooses_nothing(select: Select, scatter: float) -> None:
    chosen = [
        select(use, {}, scatter=scatter, seed=seed) for use in USES for seed in range(300)
    ]
    assert chosen.count(PER_PAGE) == len(chosen)


def test_the_simpler_of_two_that_are_alike(select: Select) -> None:
    cold = {MOVSQ: 1.40, MOVSB: 1.42, NONTEMPORAL: 1.43}
    assert select(FAR, cold) == MOVSQ
    assert select(FAR, cold | {NONTEMPORAL: 1.6}) == NONTEMPORAL


def test_a_choice_stays_until_something_is_measurably_faster(select: Select) -> None:
    cold = {MOVSQ: 1.40, MOVSB: 1.42}
    for current in (MOVSQ, MOVSB):
        assert select(FAR, cold, current=current) == current
    assert select(FAR, {MOVSQ: 1.40, MOVSB: 1.60}, current=MOVSQ) == MOVSB


def test_a_choice_does_not_stay_when_it_is_not_faster_any_more(select: Select) -> None:
    assert select(FAR, {MOVSQ: 1.01}, current=MOVSQ) == PER_PAGE
    assert select(READER, {NONTEMPORAL: 2.0}, current=NONTEMPORAL) == PER_PAGE
    assert select(READER, {MOVSQ: 1.5}, {MOVSQ: 0.9}, current=MOVSQ) == PER_PAGE
    assert select(FAR, {MOVSQ: 1.5}, current=99) == MOVSQ


def test_what_loses_in_a_hot_cache_is_not_for_readers(select: Select) -> None:
    for loses, wins in (({"hot": {MOVSB: 0.96}, "read": {}}, {"hot": {MOVSB: 0.98}}),
                        ({"read": {MOVSB: 0.96}}, {"read": {MOVSB: 0.98}})):  # fmt: skip
        assert select(READER, {MOVSB: 1.5}, **loses) == PER_PAGE
        assert select(READER, {MOVSB: 1.5}, **wins) == MOVSB
        assert select(FAR, {MOVSB: 1.5}, **loses) == MOVSB


@pytest.mark.parametrize("scatter", [0.03, 0.05, 0.1])
@pytest.mark.parametrize("state", ["hot", "read"])
def test_a_loss_that_noise_hides_is_not_for_readers(
    select: Select, state: str, scatter: float
) -> None:
    other = {"hot": {}, "read": {}, state: {MOVSB: 0.95}}
    chosen = [
        select(READER, {MOVSB: 1.6}, scatter=scatter, seed=seed, **other) for seed in range(500)
    ]
    assert chosen.count(MOVSB) <= 0.02 * len(chosen)


@pytest.mark.parametrize("rounds", range(MIN_ROUNDS + 1))
def test_few_rounds_choose_nothing(select: Select, rounds: int) -> None:
    expected = MOVSQ if rounds >= MIN_ROUNDS else PER_PAGE
    assert select(FAR, {MOVSQ: 2.0}, rounds=rounds) == expected


@pytest.mark.parametrize("few", range(STATES))
def test_every_state_that_counts_needs_rounds(library: ctypes.CDLL, few: int) -> None:
    made = (Timings * STATES)(
        *(timings({MOVSQ: 2.0}, 0, 1, MIN_ROUNDS - (n == few)) for n in range(STATES))
    )
    assert library.copy_select(READER, made, PER_PAGE) == PER_PAGE
    assert library.copy_select(FAR, made, PER_PAGE) == (PER_PAGE if few == 0 else MOVSQ)


def test_a_clock_that_stands_still_chooses_nothing(library: ctypes.CDLL) -> None:
    still = (Timings * STATES)(*(Timings(rounds=ROUNDS) for _ in range(STATES)))
    for use in USES:
        assert library.copy_select(use, still, PER_PAGE) == PER_PAGE


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], (0, 0, 0)),
        ([7], (7, 7, 7)),
        ([5, 1, 4, 2, 3], (2, 3, 4)),
        ([9, 8, 7, 6, 5, 4, 3, 2, 1], (3, 5, 7)),
        ([4, 3, 2, 1], (1, 2, 4)),
    ],
)
def test_quartiles(
    library: ctypes.CDLL, times: Sequence[int], expected: tuple[int, int, int]
) -> None:
    array = (ctypes.c_uint64 * max(len(times), 1))(*times)
    found = library.copy_quartiles(array, len(times))
    assert (found.lower, found.median, found.upper) == expected


def test_measurably_faster_is_transitive(library: ctypes.CDLL) -> None:
    dice = random.Random(7)
    for _ in range(20000):
        made = []
        for _ in range(3):
            median = dice.randint(0, 80)
            spread = (median - dice.randint(0, min(median, 6)), median + dice.randint(0, 6))
            made.append(Quartiles(spread[0], median, spread[1]))
        one, two, three = map(ctypes.byref, made)
        faster = library.copy_measurably_faster
        if faster(one, two) and faster(two, three):
            assert faster(one, three), [(q.lower, q.median, q.upper) for q in made]


def test_classes(library: ctypes.CDLL) -> None:
    expected = {0: CLASSES, 4: CLASSES, 15: CLASSES, 16: 0, 63: 0, 64: 1, 256: 2, 1024: 3}
    assert {kib: library.copy_class(kib * KIB) for kib in expected} == expected
    assert library.copy_class(1 << 30) == CLASSES - 1


def test_constants_are_those_of_the_header() -> None:
    header = (default_paths().overlay / "mm" / "copy_pages_select.h").read_text()
    for name, value in (
        ("COPY_MIN_ROUNDS", MIN_ROUNDS),
        ("COPY_MAX_ROUNDS", MAX_ROUNDS),
        ("COPY_ROUNDS", ROUNDS),
        ("NR_COPY_CLASSES", CLASSES),
    ):
        assert re.search(rf"^#define {name}\t+{value}$", header, re.MULTILINE)
