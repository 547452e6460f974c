"""Where everything lives."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Paths:
    """The project's own directories; everything below `cache` and `out` is generated."""

    root: Path
    cache: Path
    out: Path

    @property
    def overlay(self) -> Path:
        """New kernel files, at their paths in the kernel tree."""
        return self.root / "kernel" / "overlay"

    @property
    def patches(self) -> Path:
        """Edits to existing kernel files, and the series file."""
        return self.root / "kernel" / "patches"

    @property
    def configs(self) -> Path:
        """Kconfig fragments."""
        return self.root / "kernel" / "configs"

    @property
    def guest(self) -> Path:
        """Files of the guest: init, suites and what they share."""
        return self.root / "guest"

    @property
    def shared(self) -> Path:
        """The cache of all clones, of things that never change: bootstrap.sh links it."""
        return (self.cache / "shared").resolve()

    @property
    def logs(self) -> Path:
        """Logs of the steps that fill the cache."""
        return self.cache / "log"


def default_paths() -> Paths:
    """Return the paths of this checkout; CACHE_DIR moves the cache."""
    cache = os.environ.get("CACHE_DIR") or str(ROOT / ".cache")
    return Paths(root=ROOT, cache=Path(cache).resolve(), out=ROOT / "out")
