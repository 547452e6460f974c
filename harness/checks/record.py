"""The record of vanilla's guests: `make record` writes it, and `make check-all` compares it.

Both build the vanilla kernels, and boot each guest that is recorded.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from harness.core import ui
from harness.core.paths import Paths
from harness.guest import recorded
from harness.guest.ktap import Case, Status
from harness.guest.recorded import OUTSIDE, Entry, Record
from harness.kernel import source
from harness.lab import plan
from harness.lab import run as lab
from harness.layouts import run as layouts

Unlike = Callable[[str, str], list[str]]
"""Returns how two outputs of a guest differ, in words."""


def boot(paths: Paths, out: Path) -> Record:
    """Boot all that is recorded, and return the record that this checkout gives."""
    texts = lab.vanilla_again(paths, out / "lab")
    texts[layouts.TWIN.name] = layouts.twin_again(paths, out / layouts.SUITE)
    keys = recorded.keys(paths, [*plan.guests(), layouts.TWIN])
    return {name: Entry(key, texts[name]) for name, key in keys.items()}


def cases(record: Record, now: Record, unlike: Mapping[str, Unlike]) -> Iterator[Case]:
    """Compare the record with what guests print now.

    Of another compiler, QEMU or Linux there is nothing to compare. The suites and programs of
    the record must be those of this checkout. By the compiler of the record and Debian's Linux
    some guest must be comparable: else the record is of no machine, and each check builds vanilla.
    """
    outside: list[str] = []
    for name, entry in now.items():
        case = f"{name}: vanilla is as recorded"
        known = record.get(name)
        other = recorded.unlike(known, entry.key)
        if stale := [why for part, why in other.items() if part not in OUTSIDE]:
            yield Case(case, Status.FAILED, f"{stale[0]}: make record")
        elif other:
            why = next(iter(other.values()))
            if "compiler" not in other and entry.key["Linux"].startswith(f"{source.PACKAGE}_"):
                outside.append(why)
            yield Case(case, Status.SKIPPED, why)
        elif known:
            apart = unlike[name](known.text, entry.text)
            yield Case.judged(case, not apart, "\n".join(apart))
    if now and len(outside) == len(now):
        yield Case("a guest of vanilla is compared", Status.FAILED, f"{outside[0]}: make record")


def _unlike() -> dict[str, Unlike]:
    boots: dict[str, Unlike] = {boot.name: partial(lab.unlike, boot) for boot in plan.recorded()}
    return boots | {layouts.TWIN.name: layouts.unlike}


def judge(paths: Paths, out: Path) -> list[Case]:
    """Build vanilla, boot what is recorded, and compare."""
    return list(cases(recorded.load(paths), boot(paths, out), _unlike()))


def main(paths: Paths) -> int:
    """Run `make record`."""
    before, now = recorded.load(paths), boot(paths, paths.out / "record")
    recorded.write(paths, now)
    for case in cases(before, now, _unlike()):
        if case.status is not Status.PASSED:
            ui.plain(f"{case.name}: no longer: {case.detail}")
    size = (paths.root / recorded.FILE).stat().st_size
    ui.say(f"record: {len(now)} guests in {recorded.FILE}, {size >> 10} KiB")
    return 0
