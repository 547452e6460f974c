"""Things that never change, by name, for all clones: downloads, sources, emulators, kernels.

An entry is a directory. It appears when it is whole, and a process that uses one holds a shared
flock on it until it ends; eviction removes only what it can lock for itself. Its maker locks an
entry that is not finished, which has another name until then.

Needs only Python's own library: `make clean` runs this file before there is more.
"""

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

GB = 10**9
_MAKING = ".new"
_GOING = ".old"

_held: dict[Path, int] = {}


def find(paths: Paths, name: str) -> Path | None:
    """Return an entry, which stays until this process ends, or None if there is none."""
    entry = paths.shared / name
    if entry not in _held:
        file = _lock(entry, fcntl.LOCK_SH)
        if file is None:
            return None
        _held[entry] = file
    os.utime(entry)  # the last use
    return entry


def get(paths: Paths, name: str, fill: Callable[[Path], None]) -> Path:
    """Return an entry as find() does; `fill` makes one, in a directory that is empty."""
    made = False
    while not (entry := find(paths, name)):
        _make(paths.shared / name, fill)
        made = True
    if made:
        evict(paths.shared, int(_most_gb() * GB))
    return entry


def copy(paths: Paths, name: str, out: Path, fill: Callable[[Path], None]) -> bool:
    """Make a directory of this clone a copy of an entry; tell whether there was one."""
    existed = True

    def bring(directory: Path) -> None:
        nonlocal existed
        entry = find(paths, name)
        existed = entry is not None
        shutil.copytree(entry or get(paths, name, fill), directory, dirs_exist_ok=True)

    renew(out, name, bring)
    return existed


def renew(out: Path, name: str, fill: Callable[[Path], None]) -> bool:
    """Fill a directory of this clone, unless it is what a name says; tell whether it is."""
    key = out / "key"
    if key.is_file() and key.read_bytes() == name.encode():
        return True
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    fill(out)
    key.write_text(name)
    return False


def empty(directory: Path) -> None:
    """Remove all that is in a directory."""
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def evict(shared: Path, most: int) -> list[Path]:
    """Remove entries, least recently used first, until `most` bytes are left; return the rest.

    One that a process uses stays. Unfinished entries without a maker go in any case.
    """
    directories = [path for path in shared.iterdir() if path.is_dir()]
    left = [path for path in directories if path.suffix in (_MAKING, _GOING)]
    entries = sorted(set(directories) - set(left), key=_last_use)
    sizes = _sizes(entries)
    total = sum(sizes.values())
    for path in left:
        _remove(path)
    kept = []
    for path in entries:
        if (not most or total > most) and _remove(path):  # a tmpfs says that some take no room
            total -= sizes.get(path, 0)
        else:
            kept.append(path)
    return kept


def _most_gb() -> float:
    wanted = os.environ.get("SHARED_GB", "") or "20"
    try:
        return float(wanted)
    except ValueError:
        raise HarnessError(f"SHARED_GB={wanted} is not a number of gigabytes") from None


def _lock(directory: Path, how: int) -> int | None:
    """Lock a directory; None if there is none (any more), or with LOCK_NB if it is taken."""
    try:
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, how)
        if os.path.samestat(os.fstat(file), directory.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(file)
    return None


def _make(entry: Path, fill: Callable[[Path], None]) -> None:
    """Make an entry, unless another process does so, or has done so."""
    fresh = entry.with_name(f"{entry.name}{_MAKING}")
    fresh.mkdir(parents=True, exist_ok=True)
    file = _lock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if file is None:
        if fresh.exists():
            ui.say(f"waiting for another harness that makes {entry}")
        # Not for oneself: the maker may go on to use what it has made, as long as it likes.
        if (waited := _lock(fresh, fcntl.LOCK_SH)) is not None:
            os.close(waited)
        return
    try:
        empty(fresh)
        if not entry.exists():
            fill(fresh)
            fresh.rename(entry)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(file)


def _remove(path: Path) -> bool:
    """Remove an entry that no process has locked; a crash leaves no half of it behind."""
    file = _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if file is None:
        return False
    try:
        going = path.with_name(f"{path.name}.{os.getpid()}{_GOING}")
        path.rename(going)
        shutil.rmtree(going)
    finally:
        os.close(file)
    return True


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:  # another process has just removed it
        return 0


def _sizes(entries: list[Path]) -> dict[Path, int]:
    if not entries:
        return {}
    _, output = process.attempt(["du", "-s", "-B1", "--", *map(str, entries)], Path("/"))
    lines = re.findall(r"^(\d+)\t(.*)$", output, re.MULTILINE)
    return {Path(name): int(size) for size, name in lines}


if __name__ == "__main__":
    for directory in evict(Path(sys.argv[1]), 0):
        ui.plain(f"another harness is using {directory}")
