"""limits.toml: the most lines that a part of the tree may have."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.checks.lint import added, names
from harness.core import ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import topics

# Kinds of lines, by the paths of files in the kernel tree: the first that fits.
KINDS = {
    "tests": ("tools/testing/*", "*/tests/*", "*kunit*", "samples/*"),
    "tools": ("tools/*",),
    "docs": ("Documentation/*", "MAINTAINERS"),
    "drivers": ("drivers/*",),
    "mm": ("*",),
}


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The most lines of a part: files of the repository, or lines that patches add.

    Patterns are those of added.matches(). `net` takes off the lines that patches remove.
    """

    name: str
    cap: int
    room: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    files: tuple[str, ...] = ("*",)
    net: bool = False

    def __post_init__(self) -> None:
        """Refuse a limit that counts nothing."""
        if bool(self.room) == bool(self.patches):
            raise ValueError(f"{self.name}: either `room` or `patches`")

    def count(self, lines: "Lines") -> int | None:
        """Return how many lines the part has, None if there is no such part."""
        if self.room:
            counts = [n for name, n in lines.tree.items() if added.matches(self.room, name)]
        else:
            counts = [
                len(change.added) - change.removed * self.net
                for step, files in lines.steps.items()
                if added.matches(self.patches, step)
                for file, change in files.items()
                if added.matches(self.files, file)
            ]
        return sum(counts) if counts else None


class Lines(msgspec.Struct, frozen=True):
    """All lines: of the repository's files by name, and of each patch by file."""

    tree: Mapping[str, int]
    steps: Mapping[str, Mapping[str, added.Change]]


def load(text: str) -> list[Limit]:
    """Read the table [lines] of limits.toml."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(text).get("lines", {})
    try:
        return [msgspec.convert({"name": name, **table}, Limit) for name, table in tables.items()]
    except ValueError as error:  # msgspec's are, too
        raise HarnessError(f"limits.toml: {error}") from error


def measure(paths: Paths) -> Lines:
    """Count all lines; nothing is built for that. A binary file has none."""
    tree = {
        name: 0 if "\0" in text else text.count("\n")
        for name, text in names.project_files(paths).items()
    }
    steps = topics.all_steps(topics.read(paths))
    return Lines(tree, {step.name: added.changes(step.mail(paths.overlay)) for step in steps})


def by_series(lines: Lines) -> dict[str, Counter[str]]:
    """Return how many patches each series has, and how many lines of each kind they add."""
    series: dict[str, Counter[str]] = {}
    for step, files in lines.steps.items():
        counts = series.setdefault(step.partition("/")[0], Counter())
        counts["patches"] += 1
        for file, change in files.items():
            kind = next(name for name, some in KINDS.items() if added.matches(some, file))
            counts[kind] += len(change.added)
    return series


def table(lines: Lines, limits: Sequence[Limit]) -> list[str]:
    """Return the lines by series and kind, and each limit, as a table."""
    kinds = ("patches", "mm", "drivers", "tests", "tools", "docs")
    series = by_series(lines)
    series["all"] = sum(series.values(), Counter())
    rows = [f"{'series':28}" + "".join(f"{kind:>9}" for kind in kinds)]
    for name, counts in series.items():
        rows.append(f"{name:28}" + "".join(f"{counts[kind]:9,}" for kind in kinds))
    rows += ["", f"{'limit':28}{'lines':>9}{'cap':>9}"]
    for limit in limits:
        rows.append(f"{limit.name:28}{limit.count(lines) or 0:9,}{limit.cap:9,}")
    return rows


def problems(lines: Lines, limits: Sequence[Limit]) -> list[str]:
    """Return the parts above their cap, those that are gone, and series without a limit."""
    wrong = []
    for limit in limits:
        count = limit.count(lines)
        if count is None:
            wrong.append(f"limits.toml: {limit.name}: no file fits")
        elif count > limit.cap:
            wrong.append(f"{limit.name}: {count:,} lines, {limit.cap:,} allowed")
    # A limit of all series is none of one.
    narrow = [part for part in limits if part.patches and not added.matches(part.patches, "?/?")]
    wrong += [
        f"limits.toml: no limit counts {step}"
        for step in lines.steps
        if not any(added.matches(part.patches, step) for part in narrow)
    ]
    return wrong


def check(paths: Paths) -> list[str]:
    """Hold the tree against limits.toml; the table follows what is wrong."""
    limits = load((paths.root / "limits.toml").read_text())
    lines = measure(paths)
    wrong = problems(lines, limits)
    return [*wrong, "", *table(lines, limits)] if wrong else []


def main(paths: Paths) -> int:
    """Run `make lines`."""
    limits = load((paths.root / "limits.toml").read_text())
    ui.plain("\n".join(table(measure(paths), limits)))
    return 0
