"""A pristine Linux 7.3 tree: Debian's linux-source-7.3, or what LINUX_SRC names.

And Debian's configuration of it, or what KCONFIG names.

All clones share the tree, and <cache>/linux/<id>/pristine is a link to it, or a copy if it is
on another file system. It is never written to, and neither is a tree that the user brought:
that one is copied.
"""

import gzip
import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from harness.core import jsonio, process, space, store, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian

SERIES = "7.3"
PACKAGE = f"linux-source-{SERIES}"
SUITE = "trixie-backports"
CONFIG_PACKAGE = f"linux-config-{SERIES}"
CONFIG_MEMBER = f"./usr/src/{CONFIG_PACKAGE}/config.amd64_none_amd64.xz"

_TREE_GB = 2.0  # 1.8, unpacked

# Files that a build leaves in a source tree: kbuild refuses to build out of tree next to it.
_BUILD_PRODUCTS = (
    ".git", "__pycache__", "*.o", "*.a", "*.ko", ".*.cmd", "/vmlinux*",
    "/.config", "/.config.old",
    "/include/config", "/include/generated", "/arch/*/include/generated",
)  # fmt: skip

# Scripts for bash that unpack $1, which tar knows the compression of, into the directory $2.
_TAR = 'tar -x --no-same-owner --strip-components=1 --checkpoint=1000 -C "$2"'
_UNPACK_TARBALL = f'{_TAR} -f "$1"'
_UNPACK_PACKAGE = (
    f'dpkg-deb --fsys-tarfile "$1" | tar -xO ./usr/src/{PACKAGE}.tar.xz | {_TAR} -J -f -'
)


@dataclass(frozen=True)
class Source:
    """A pristine tree in the cache.

    `revision` changes whenever a file of the pristine tree does; `package` is Debian's name
    of what it came in.
    """

    version: str
    home: Path
    revision: str
    package: str = ""

    @property
    def pristine(self) -> Path:
        """The unmodified tree."""
        return self.home / "pristine"


def tree_version(tree: Path, origin: str) -> str:
    """Return the version of a tree that came from `origin`; refuse all but 7.3 releases."""
    makefile = tree / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    fields: dict[str, str] = dict(re.findall(r"^([A-Z]+) *= *(\S*)$", text, re.MULTILINE))
    if not fields.get("VERSION") or not fields.get("PATCHLEVEL"):
        raise HarnessError(f"{origin} is not a Linux source tree (no version in its Makefile)")
    version = f"{fields['VERSION']}.{fields['PATCHLEVEL']}"
    if fields.get("SUBLEVEL", "0") not in ("", "0"):
        version += f".{fields['SUBLEVEL']}"
    version += fields.get("EXTRAVERSION", "")
    if not re.fullmatch(rf"{re.escape(SERIES)}(\.\d+)?(?!-rc)([-+].*)?", version):
        raise HarnessError(f"{origin} is Linux {version}, but the patches are for {SERIES}")
    return version


def get(paths: Paths) -> Source:
    """Return a pristine tree, fetched and unpacked if it is not there yet."""
    own = os.environ.get("LINUX_SRC", "")
    path = Path(own).expanduser().resolve()
    with ui.step("source") as step:
        if not own:
            return _from_debian(paths, step)
        if path.is_dir():
            return _from_tree(paths, path, step)
        if path.is_file():
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
            home = paths.cache / "linux" / f"tarball-{digest}"
            return _unpacked(paths, home, path, _UNPACK_TARBALL, step)
        raise HarnessError(f"LINUX_SRC={own}: no such file or directory")


def configuration(paths: Paths, own: str, step: ui.Step) -> str:
    """Return Debian's configuration for amd64, or that in the file `own` if it has a name.

    That may be compressed, as /proc/config.gz, or Ubuntu's, which names keys of its sources.
    """
    if own:
        try:
            content = Path(own).read_bytes()
            text = (gzip.decompress(content) if own.endswith(".gz") else content).decode()
        except (OSError, EOFError, UnicodeError) as error:
            raise HarnessError(f"KCONFIG={own}: {error}") from error
        if "CONFIG_64BIT=y" not in text:
            raise HarnessError(f"KCONFIG={own} is not the configuration of a 64-bit kernel")
        return re.sub(r"^(CONFIG_SYSTEM_\w+_KEYS)=.+", r'\1=""', text, flags=re.MULTILINE)
    file = f"{CONFIG_PACKAGE}_*_amd64.deb"
    package = debian.download(paths, CONFIG_PACKAGE, SUITE, file, step)
    script = 'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | xz -dc'
    return process.capture(
        ["bash", "-o", "pipefail", "-c", script, "bash", str(package), CONFIG_MEMBER]
    )


def _from_debian(paths: Paths, step: ui.Step) -> Source:
    try:
        package = debian.download(paths, PACKAGE, SUITE, f"{PACKAGE}_*.deb", step)
    except HarnessError as error:
        hint = "LINUX_SRC=<tree or tarball> names a source of your own"
        raise HarnessError(f"{error}; {hint}", error.detail) from error
    version = package.name.split("_")[1].replace("%3a", ":")
    home = paths.cache / "linux" / re.sub(r"[^\w.+-]", "-", version)
    return _unpacked(paths, home, package, _UNPACK_PACKAGE, step)


def _unpacked(paths: Paths, home: Path, origin: Path, script: str, step: ui.Step) -> Source:
    """Unpack a source, once for all clones."""
    pristine, name = home / "pristine", f"linux-{home.name}"
    package = origin.stem if origin.suffix == ".deb" else ""

    def watch(line: str) -> None:
        if mark := re.search(r"Read checkpoint (\d+)", line):
            step.progress(f"unpacking, {int(mark[1]) * 10240 >> 20} MB")

    def fill(fresh: Path) -> None:
        space.need(fresh, _TREE_GB, f"unpacking {origin}")
        command = ["bash", "-o", "pipefail", "-c", script, "bash", str(origin), str(fresh)]
        log, what = paths.logs / "unpack.log", f"cannot unpack {origin}"
        process.run_logged(command, log, what, on_line=watch)
        tree_version(fresh, str(origin))

    known = pristine.is_dir()
    if pristine.is_symlink() or not known:
        known = bool(store.find(paths, name))
        _bring(store.get(paths, name, fill), pristine, step)
    version = tree_version(pristine, str(origin))
    step.done(f"Linux {version} from {origin}", reused=known)
    return Source(version, home, home.name, package)


def _bring(tree: Path, pristine: Path, step: ui.Step) -> None:
    """Make `pristine` a link to a tree, or a copy of one on another file system.

    Patched trees, beside it, are made of hard links to its files.
    """
    pristine.parent.mkdir(parents=True, exist_ok=True)
    pristine.unlink(missing_ok=True)
    probe = pristine.with_name("probe")
    probe.unlink(missing_ok=True)
    try:
        probe.hardlink_to(tree / "Makefile")
        probe.unlink()
        pristine.symlink_to(tree)
    except OSError:
        step.progress("copying it from another file system")
        space.need(pristine, _TREE_GB, f"copying {tree}")
        fresh = pristine.with_name("pristine.new")
        shutil.rmtree(fresh, ignore_errors=True)
        process.capture(["cp", "-a", str(tree), str(fresh)])
        fresh.rename(pristine)


def _from_tree(paths: Paths, tree: Path, step: ui.Step) -> Source:
    """Copy what changed in the user's tree since the last time."""
    version = tree_version(tree, str(tree))
    # Another release at the same path may have older timestamps than our objects have,
    # hence a home of its own.
    home = paths.cache / "linux" / f"tree-{jsonio.digest(str(tree), version)[:12]}"
    stamp = home / "revision"
    if not stamp.exists():
        space.need(home, _TREE_GB, f"copying {tree}")
    (home / "pristine").mkdir(parents=True, exist_ok=True)
    excludes = [f"--exclude={pattern}" for pattern in _BUILD_PRODUCTS]
    rsync = ["rsync", "-a", "--delete", "--modify-window=-1", "--itemize-changes", *excludes]
    output = process.run_logged(
        [*rsync, f"{tree}/", f"{home}/pristine/"], paths.logs / "source-copy.log",
        "copying the tree", on_line=lambda line: step.progress(f"copying {line.split()[-1]}"),
    )  # fmt: skip
    changed = sum(line[:2] in (">f", "cL", "*d") for line in output.splitlines())
    fresh = changed or not jsonio.recall(int, stamp)
    if fresh:
        jsonio.write(stamp, time.time_ns())
    step.done(f"Linux {version} from {tree}, {changed} files copied", reused=not fresh)
    return Source(version, home, stamp.read_text().strip())
