"""The workloads of `make lab WORKLOAD=...`, and the output of their load generators.

Programs of Debian's, and one of guest/programs, whose memory moves at a fixed rate; one where the
kernel moves memory by itself; and movers alone.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.lab.model.published import PAGE_KIB
from harness.lab.plan import HUGE_KIB
from harness.lab.results import State, Way

Figures = Mapping[str, float]
"""Fields of a Program, or what it has counts of, in virtual time."""

_MOVES = re.compile(r"^moves: (\d+) ([\d.e+-]+) (\d+) (\d+) (\d+)$", re.MULTILINE)


def migrated(words: str) -> Figures | None:
    """Read how often all memory moved, and what a move took; pages and IPIs are those of all."""
    match = _MOVES.search(words)
    if not match:
        return None
    number, seconds, used, pages, ipis = map(float, match.groups())
    return {"moves": int(number), "move_ms": seconds * 1000 / number, "mover_ms": used / 1000,
            "gb": pages * PAGE_KIB * 1024e-9 / number, "ipis": int(ipis)}  # fmt: skip


_TIMES = re.compile(r"^times:((?: [\d.e+-]+){6})$", re.MULTILINE)
_NEAR = re.compile(r"^near: ([\d.]+)$", re.MULTILINE)
_LATE = re.compile(r"^late: (\d+)$", re.MULTILINE)
_TIERS = re.compile(r"^tiers:((?: [\d.]+){10})$", re.MULTILINE)


def _numbers(match: re.Match[str]) -> list[float]:
    return list(map(float, match[1].split()))


def own(words: str) -> Figures | None:
    """Read what programs of ours say."""
    times, near, late = _TIMES.search(words), _NEAR.search(words), _LATE.search(words)
    if not times:
        return None
    names = ("per_s", "p50_us", "p99_us", "p999_us", "longest_us", "cpu_us")
    figures: dict[str, float] = dict(zip(names, _numbers(times), strict=True))
    figures |= {"near": float(near[1])} if near else {}
    return figures | ({"late": int(late[1])} if late else {})


@dataclass(frozen=True)
class Workload:
    """One workload; its suite and what is recorded of it have its name.

    The suite gets: the copier (off, cpu, mtcopy or dcbm), live (0 or 1), for how many us memory may
    be inaccessible, pages (2m, 64k or 4k), `requests`, in open loop `rate`, `late_us`, and the us
    from one move of 660 MB to the next, and the words of all `cases`. After a line
    "case: <case> <state>" it says what `figures` reads; that returns None if a figure lacks.
    What it says besides while memory moves, and only then, `moved` reads.
    """

    name: str
    group: str
    """Its name in the report and in claims."""
    requests: int
    """How many, or how much of what the program does."""
    cases: Mapping[str, str]
    """The suite's words for them, and the report's."""
    figures: Callable[[str], Figures | None] = own
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Debian's; none for programs that are in each image."""
    files: tuple[str, ...] = ()
    """Patterns of what the programs need besides libraries."""
    folios_kib: tuple[int, ...] = (HUGE_KIB, PAGE_KIB)
    ways: tuple[Way, ...] = ("vanilla", "off", "dcbm", "dcbm live", "cpu live")
    moved: Callable[[str], Figures | None] = migrated
    what: str = "requests"
    """The unit of what is counted by the second."""
    kernels: tuple[str, str] = ("programs", "programs-vanilla")
    """Ours, and an unmodified one."""
    rate: int = 0
    """How many requests are due a second; 0 is for what only moves."""
    late_us: int = 0
    """A request that takes longer is late."""
    states: tuple[State, ...] = ("rest", "moving")


REDIS = Workload(
    name="redis",
    group="redis while its memory moves",
    packages=("redis-server", "redis-tools"),
    programs=("redis-server", "redis-cli"),
    requests=120_000,
    cases={"mixed": "nine GETs to a SET"},
    ways=("vanilla", "off", "dcbm", "dcbm 50us", "dcbm live", "dsa live", "cpu live"),
    rate=170_000,
    late_us=200,
)

_TPS = re.compile(r"^tps = ([\d.]+) ", re.MULTILINE)
_LATENCY = re.compile(r"^latency us: (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)


def pgbench(words: str) -> Figures | None:
    """Read what pgbench says, and what the suite makes of its log."""
    tps, latency, late = _TPS.search(words), _LATENCY.search(words), _LATE.search(words)
    if not (tps and latency and late):
        return None
    names = ("p50_us", "p99_us", "p999_us", "longest_us")
    times = dict(zip(names, map(float, latency.groups()), strict=True))
    return {"per_s": float(tps[1]), "late": int(late[1])} | times


_LIBRARY, _SHARE = "usr/lib/postgresql/17", "usr/share/postgresql/17"

POSTGRES = Workload(
    name="postgres", group="PostgreSQL while its memory moves", packages=("postgresql-17",),
    programs=(
        f"{_LIBRARY}/bin/initdb", f"{_LIBRARY}/bin/postgres", f"{_LIBRARY}/bin/pgbench",
        f"{_LIBRARY}/bin/psql",
    ),
    files=(  # what initdb(1) reads
        f"{_SHARE}/*", f"{_SHARE}/extension/plpgsql*", f"{_SHARE}/timezonesets/*",
        f"{_SHARE}/tsearch_data/*", f"{_LIBRARY}/lib/dict_snowball.so",
        f"{_LIBRARY}/lib/plpgsql.so",
    ),
    requests=40_000, cases={"select": "select-only"}, figures=pgbench, rate=50_000, late_us=500,
)  # fmt: skip

READERS = Workload(
    name="readers",
    group="Threads that use memory while it moves",
    requests=40_000,
    cases={number: f"{number} threads" for number in ("2", "4", "8")},
    ways=tuple(way for way in REDIS.ways if way != "dsa live"),
    what="accesses",
    kernels=("base", "lab-vanilla"),
    rate=100_000,
    late_us=20,
)


def tiered(words: str) -> Figures | None:
    """Read what was demoted and promoted, from counts before and after."""
    match = _TIERS.search(words)
    if not match:
        return None
    numbers = _numbers(match)
    demoted, promoted, used, ipis, seconds = (
        after - before for before, after in zip(numbers[:5], numbers[5:], strict=True)
    )
    return {
        "demoted_per_s": demoted / seconds,
        "promoted_per_s": promoted / seconds,
        "mover_ms": used / 1000,  # of the thread that demotes; the reader itself promotes
        "moves": 1,
        "gb": demoted * PAGE_KIB * 1024e-9,
        "ipis": int(ipis),
    }


TIERING = Workload(
    name="tiering",
    group="A hot set that moves between tiers",
    requests=200,
    cases={"hot": "reads of a hot set that moves"},
    folios_kib=(HUGE_KIB, 64, PAGE_KIB),
    moved=tiered,
    what="reads",
    kernels=("base", "lab-vanilla"),
    rate=770_000,
    late_us=20,
)


MOVERS = Workload(
    name="movers",
    group="Movers at once",
    requests=250,  # ms of virtual time
    cases={number: f"movers: {number}" for number in ("1", "2", "4", "8")},
    ways=("vanilla", "off", "mtcopy", "dcbm", "dcbm live"),
    what="moves of 128 MB",
    kernels=("base", "lab-vanilla"),
    states=("moving",),
)


WORKLOADS = {workload.name: workload for workload in (REDIS, POSTGRES, READERS, TIERING, MOVERS)}
