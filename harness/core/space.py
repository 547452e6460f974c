"""Disk space: asked for before a big step, and named when it is gone."""

import errno
import shutil
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.paths import Paths

WHOLE_GB = 12
"""The size of the cache and out/ after `make check`."""

GONE = (errno.ENOSPC, errno.EDQUOT)
_GB = 1e9
_FULL_GB = 0.1


def need(directory: Path, gigabytes: float, what: str) -> None:
    """Refuse to begin something that needs more than is free."""
    free = shutil.disk_usage(_existing(directory)).free / _GB
    if free < gigabytes:
        raise HarnessError(
            f"{what} needs {gigabytes:g} GB, but {_file_system(directory)} has {free:.1f} GB "
            f"left ({directory})"
        )


def gone(paths: Paths) -> str:
    """Say which file system is full, and what the harness needs in all."""
    used = (paths.cache, paths.shared, paths.out, Path("/tmp"))
    places = dict.fromkeys(map(_file_system, used))
    full = [place for place in places if shutil.disk_usage(place).free < _FULL_GB * _GB]
    where = " and ".join(map(str, full or places))
    return f"no space left on {where}; {paths.cache} and {paths.out} need {WHOLE_GB} GB in all"


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _file_system(path: Path) -> Path:
    """Return where the file system of a path is mounted."""
    path = _existing(path)
    return path if path.is_mount() else _file_system(path.parent)
