"""The workloads of `make lab WORKLOAD=...`, and the output of their load generators.

Programs of Debian's whose memory migratepages(8) moves; and where the kernel moves memory by
itself, two of guest/programs and Debian's redis.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.lab.model.published import PAGE_KIB
from harness.lab.plan import HUGE_KIB
from harness.lab.results import WAY_NAMES, State, Way

Figures = Mapping[str, float]
"""Fields of a Program, or what it has counts of, in virtual time."""

_MOVES = re.compile(r"^moves: (\d+) ([\d.]+) (\d+)$", re.MULTILINE)


def migratepages(words: str) -> Figures | None:
    """Read how often all memory moved, and what that took."""
    found = _MOVES.search(words)
    if not found:
        return None
    number, seconds, used = int(found[1]), float(found[2]), int(found[3])
    return {"moves": number, "move_ms": seconds * 1000 / number, "mover_ms": used / 1000}


@dataclass(frozen=True)
class Workload:
    """One workload; its suite and what is recorded of it have its name.

    The suite gets: who copies (off, cpu or dcbm), live (0 or 1), for how many us memory may be
    inaccessible, pages (2m or 4k), `requests`, and the words of all `cases`. After a line
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
    figures: Callable[[str], Figures | None]
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Debian's; none for programs that are in each image."""
    files: tuple[str, ...] = ()
    """Patterns of what the programs need besides libraries."""
    folios_kib: tuple[int, ...] = (HUGE_KIB, PAGE_KIB)
    ways: tuple[Way, ...] = tuple(way for way in WAY_NAMES if way != "dcbm 50us")
    moved: Callable[[str], Figures | None] = migratepages
    what: str = "requests"
    """The unit of what is counted by the second."""
    kernels: tuple[str, str] = ("programs", "programs-vanilla")
    """Ours, and an unmodified one."""
    tiers: bool = False
    """Whether the second node is slower than the first."""

    def states(self, way: Way) -> tuple[State, ...]:
        """Return what each case is measured in."""
        busy = way == "vanilla" and self.moved is migratepages
        return ("rest", "busy", "moving") if busy else ("rest", "moving")


_PER_SECOND = re.compile(r"throughput summary: ([\d.]+) requests per second")
_AT_MOST = re.compile(r"^([\d.]+)% <= ([\d.]+) milliseconds", re.MULTILINE)
_SUMMARY = re.compile(r"^ +avg +min +p50 +p95 +p99 +max *\n +(.+)$", re.MULTILINE)


def redis_benchmark(words: str) -> Figures | None:
    """Read what redis-benchmark says, with its times in ms."""
    per_second, summary = _PER_SECOND.search(words), _SUMMARY.search(words)
    rare = [float(ms) for percent, ms in _AT_MOST.findall(words) if float(percent) >= 99.9]
    if not (per_second and summary and rare):
        return None
    _, _, p50, _, p99, longest = map(float, summary[1].split())
    times = {"p50_us": p50, "p99_us": p99, "p999_us": rare[0], "longest_us": longest}
    return {"per_s": float(per_second[1])} | {name: ms * 1000 for name, ms in times.items()}


REDIS = Workload(
    name="redis",
    group="redis while its memory moves",
    packages=("redis-server", "redis-tools", "numactl"),
    programs=("redis-server", "redis-benchmark", "redis-cli", "migratepages"),
    requests=60_000,
    cases={
        f"{operation}-{pipeline}": f"{operation}, pipeline of {pipeline}"
        for operation in ("GET", "SET")
        for pipeline in (1, 16)
    },
    figures=redis_benchmark,
    ways=tuple(WAY_NAMES),
)

_TPS = re.compile(r"^tps = ([\d.]+) ", re.MULTILINE)
_LATENCY = re.compile(r"^latency us: (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)


def pgbench(words: str) -> Figures | None:
    """Read what pgbench says, and what the suite makes of its log."""
    tps, latency = _TPS.search(words), _LATENCY.search(words)
    if not (tps and latency):
        return None
    names = ("p50_us", "p99_us", "p999_us", "longest_us")
    times = dict(zip(names, map(float, latency.groups()), strict=True))
    return {"per_s": float(tps[1])} | times


_LIBRARY, _SHARE = "usr/lib/postgresql/17", "usr/share/postgresql/17"

POSTGRES = Workload(
    name="postgres",
    group="PostgreSQL while its memory moves",
    packages=("postgresql-17", "numactl"),
    programs=(
        f"{_LIBRARY}/bin/initdb", f"{_LIBRARY}/bin/postgres", f"{_LIBRARY}/bin/pgbench",
        f"{_LIBRARY}/bin/psql", "migratepages",
    ),
    files=(  # what initdb(1) reads
        f"{_SHARE}/*", f"{_SHARE}/extension/plpgsql*", f"{_SHARE}/timezonesets/*",
        f"{_SHARE}/tsearch_data/*", f"{_LIBRARY}/lib/dict_snowball.so",
        f"{_LIBRARY}/lib/plpgsql.so",
    ),
    requests=10_000,
    cases={"select": "select-only", "tpcb": "TPC-B"},
    figures=pgbench,
)  # fmt: skip

_CPU = re.compile(r"^cpu us: ([\d.e+-]+)$", re.MULTILINE)
_TIMES = re.compile(r"^times:((?: [\d.e+-]+){6})$", re.MULTILINE)
_NEAR = re.compile(r"^near: ([\d.]+)$", re.MULTILINE)
_TIERS = re.compile(r"^tiers:((?: [\d.]+){8})$", re.MULTILINE)
_HUGE = re.compile(r"^huge:((?: \d+){7})$", re.MULTILINE)


def _numbers(found: re.Match[str]) -> list[float]:
    return list(map(float, found[1].split()))


def own(words: str) -> Figures | None:
    """Read what programs of ours say."""
    times, near = _TIMES.search(words), _NEAR.search(words)
    if not times:
        return None
    names = ("per_s", "p50_us", "p99_us", "p999_us", "longest_us", "cpu_us")
    figures = dict(zip(names, _numbers(times), strict=True))
    return figures | ({"near": float(near[1])} if near else {})


def tiered(words: str) -> Figures | None:
    """Read what was demoted and promoted, from counts before and after."""
    found = _TIERS.search(words)
    if not found:
        return None
    numbers = _numbers(found)
    demoted, promoted, used, seconds = (
        after - before for before, after in zip(numbers[:4], numbers[4:], strict=True)
    )
    return {
        "demoted_per_s": demoted / seconds,
        "promoted_per_s": promoted / seconds,
        "mover_ms": used / 1000,
    }


def heap(words: str) -> Figures | None:
    """Read what a program of ours says, or redis-benchmark and the suite of redis."""
    found, cpu = redis_benchmark(words), _CPU.search(words)
    return {**found, "cpu_us": float(cpu[1])} if found and cpu else own(words)


def compacted(words: str) -> Figures | None:
    """Read which large pages there were, and what compaction did for them."""
    found = _HUGE.search(words)
    if not found:
        return None
    names = ("huge", "huge_missed", "stalls", "compactions_failed", "compactions", "moved")
    *counts, used = _numbers(found)
    return dict(zip(names, counts, strict=True)) | {"mover_ms": used / 1000}


TIERING = Workload(
    name="tiering", group="A hot set that moves between tiers", requests=200,
    cases={"hot": "reads of a hot set that moves"}, figures=own, moved=tiered, what="reads",
    kernels=("base", "lab-vanilla"), tiers=True,
)  # fmt: skip

COMPACTION = Workload(
    name="compaction", group="A heap that grows in large pages", requests=64, moved=compacted,
    packages=REDIS.packages, programs=REDIS.programs, figures=heap, folios_kib=(HUGE_KIB,),
    cases={"grow": "first writes", "redis": "SETs into an empty redis"}, what="writes",
)  # fmt: skip

WORKLOADS = {one.name: one for one in (REDIS, POSTGRES, TIERING, COMPACTION)}
