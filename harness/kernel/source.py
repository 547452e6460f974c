"""A pristine Linux 7.3 tree: Debian's linux-source-7.3, or what LINUX_SRC names.

The tree ends up in <cache>/linux/<id>/pristine. It is never written to afterwards, and
neither is a tree that the user brought: that one is copied.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.core import jsonio, process, space, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import debian

SERIES = "7.3"
PACKAGE = f"linux-source-{SERIES}"
SUITE = "trixie-backports"
HINT = "LINUX_SRC=<tree or tarball> names a source of your own"

_CHUNK = 1 << 20
_TREE_GB = 2.0  # 1.8, unpacked

# What a build leaves in a source tree: kbuild refuses to build out of tree next to it.
_BUILD_PRODUCTS = (
    ".git", "__pycache__", "*.o", "*.a", "*.ko", ".*.cmd", "/vmlinux*",
    "/.config", "/.config.old",
    "/include/config", "/include/generated", "/arch/*/include/generated",
)  # fmt: skip


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


def parse_version(makefile: str) -> str:
    """Return the version that the head of a kernel Makefile declares, or ''."""
    found = re.findall(r"^([A-Z]+) *= *(\S*)$", makefile, re.MULTILINE)
    fields: dict[str, str] = dict(found)
    if not fields.get("VERSION") or not fields.get("PATCHLEVEL"):
        return ""
    version = f"{fields['VERSION']}.{fields['PATCHLEVEL']}"
    if fields.get("SUBLEVEL", "0") not in ("", "0"):
        version += f".{fields['SUBLEVEL']}"
    return version + fields.get("EXTRAVERSION", "")


def check_version(version: str, origin: str) -> None:
    """Refuse what is not a 7.3 release."""
    if not version:
        raise HarnessError(f"{origin} is not a Linux source tree (no version in its Makefile)")
    if not re.fullmatch(rf"{re.escape(SERIES)}(\.\d+)?(?!-rc)([-+].*)?", version):
        raise HarnessError(f"{origin} is Linux {version}, but the patches are for {SERIES}")


def tree_version(tree: Path) -> str:
    """Return the version of a source tree, or ''."""
    try:
        return parse_version((tree / "Makefile").read_text(errors="replace"))
    except OSError:
        return ""


def newest(packages: list[Path]) -> Path | None:
    """Return the package file with the highest version."""
    best: Path | None = None
    for package in packages:
        if best is None or _version_above(_package_version(package), _package_version(best)):
            best = package
    return best


def _package_version(package: Path) -> str:
    return package.name.split("_")[1].replace("%3a", ":")


def _version_above(one: str, other: str) -> bool:
    return not subprocess.run(
        ["dpkg", "--compare-versions", one, "gt", other], check=False
    ).returncode


def get(paths: Paths) -> Source:
    """Return a pristine tree, fetched and unpacked if it is not there yet."""
    own = os.environ.get("LINUX_SRC", "")
    if own:
        path = Path(own).expanduser().resolve()
        if path.is_dir():
            return _from_tree(paths, path)
        if path.is_file():
            return _from_tarball(paths, path)
        raise HarnessError(f"LINUX_SRC={own}: no such file or directory")
    return _from_debian(paths)


def _from_debian(paths: Paths) -> Source:
    downloads = paths.cache / "download"
    with ui.step("source") as step:
        package = newest(list(downloads.glob(f"{PACKAGE}_*.deb")))
        fetched = package is None
        if package is None:
            package = _download(paths, downloads, step)
        home = paths.cache / "linux" / re.sub(r"[^\w.+-]", "-", _package_version(package))
        unpacked = not (home / "pristine").exists()
        if unpacked:
            _unpack_package(package, home, step)
        version = tree_version(home / "pristine")
        check_version(version, package.name)
        text = f"Linux {version} from {package.name}"
        if fetched or unpacked:
            step.done(text)
        else:
            step.reused(text)
    return Source(version, home, revision=home.name, package=package.stem)


def _download(paths: Paths, downloads: Path, step: ui.Step) -> Path:
    """Fetch the package through apt, with lists and state of our own."""
    return debian.from_any_mirror(
        lambda mirror: _download_from(mirror, paths, downloads, step),
        step,
        f"{PACKAGE} from {SUITE}; {HINT}",
    )


def _download_from(mirror: str, paths: Paths, downloads: Path, step: ui.Step) -> Path:
    apt = debian.private_apt(paths.cache / "apt", mirror, SUITE)
    step.progress("asking apt for the package list")
    process.run_logged([*apt, "update"], paths.logs / "apt-update.log", "apt-get update")

    partial = downloads / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    child = process.start(
        [*apt, "download", PACKAGE],
        cwd=partial,
        env=process.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        while True:
            try:
                output, _ = child.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                size = sum(f.stat().st_size for f in partial.iterdir() if f.is_file())
                step.progress(f"downloading {PACKAGE}, {size >> 20} MB of about 160")
    finally:
        process.stop(child)
    (paths.logs / "apt-download.log").write_text(output)
    package = newest(list(partial.glob("*.deb")))
    if child.returncode or package is None:
        raise HarnessError(f"apt-get download: {process.first_error(output)}")
    return package.rename(downloads / package.name)


def _unpack_package(package: Path, home: Path, step: ui.Step) -> None:
    """Unpack the tarball inside a Debian package, without a copy of it on disk."""
    member = f"./usr/src/{PACKAGE}.tar.xz"
    with (
        process.start(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as outer,
        process.start(
            ["tar", "-xOf", "-", member], stdin=outer.stdout, stdout=subprocess.PIPE
        ) as inner,
    ):
        assert inner.stdout is not None
        # The tarball is nearly all of the package, so that one's size does for both.
        _untar(inner.stdout, package.stat().st_size, ["--xz"], home, step, str(package))


def compression(head: bytes) -> list[str]:
    """Return tar's option for a compressed file that begins with `head`."""
    magics = {
        b"\xfd7zXZ": "--xz",
        b"\x1f\x8b": "--gzip",
        b"BZh": "--bzip2",
        b"\x28\xb5\x2f\xfd": "--zstd",
    }
    return [option for magic, option in magics.items() if head.startswith(magic)]


def _untar(
    stream: IO[bytes], total: int, options: list[str], home: Path, step: ui.Step, origin: str
) -> None:
    """Unpack a tarball into home/pristine, which appears only when it is whole."""
    fresh = home / "pristine.new"
    space.need(home, _TREE_GB, f"unpacking {origin}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    with process.start(
        ["tar", "-x", "--strip-components=1", "--no-same-owner", *options, "-C", str(fresh)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as tar:
        assert tar.stdin is not None
        done = 0
        try:
            while chunk := stream.read(_CHUNK):
                tar.stdin.write(chunk)
                done += len(chunk)
                step.progress(f"unpacking, {min(99, 100 * done // total)} %")
        except BrokenPipeError:
            pass  # tar has given up; its status says so below
        _, errors = tar.communicate()
    if tar.returncode:
        words = errors.decode(errors="replace").strip().splitlines()
        raise HarnessError(f"cannot unpack {origin}: {words[0] if words else 'tar failed'}")
    fresh.rename(home / "pristine")


def _from_tarball(paths: Paths, tarball: Path) -> Source:
    with ui.step("source") as step:
        with tarball.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
        home = paths.cache / "linux" / f"tarball-{digest}"
        unpacked = not (home / "pristine").exists()
        if unpacked:
            with tarball.open("rb") as stream:
                options = compression(stream.read(8))
                stream.seek(0)
                size = max(1, tarball.stat().st_size)
                _untar(stream, size, options, home, step, str(tarball))
        version = tree_version(home / "pristine")
        try:
            check_version(version, str(tarball))
        except HarnessError:
            shutil.rmtree(home)
            raise
        text = f"Linux {version} from {tarball}"
        if unpacked:
            step.done(text)
        else:
            step.reused(text)
    return Source(version=version, home=home, revision=digest)


def _from_tree(paths: Paths, tree: Path) -> Source:
    """Copy what changed in the user's tree since the last time."""
    version = tree_version(tree)
    check_version(version, str(tree))
    # Another release at the same path may have older timestamps than our objects have,
    # hence a home of its own.
    digest = hashlib.sha256(f"{tree}\0{version}".encode()).hexdigest()[:12]
    home = paths.cache / "linux" / f"tree-{digest}"
    stamp = home / "revision"
    with ui.step("source") as step:
        if not stamp.exists():
            space.need(home, _TREE_GB, f"copying {tree}")
        (home / "pristine").mkdir(parents=True, exist_ok=True)
        excludes = [f"--exclude={pattern}" for pattern in _BUILD_PRODUCTS]
        changed = 0

        def count(line: str) -> None:
            nonlocal changed
            if line[:2] in (">f", "cL", "*d"):
                changed += 1
                step.progress(f"copying {tree}, {changed} files")

        process.run_logged(
            ["rsync", "-a", "--delete", "--modify-window=-1", "--itemize-changes",
             *excludes, f"{tree}/", f"{home}/pristine/"],
            paths.logs / "source-copy.log",
            "copying the tree",
            on_line=count,
        )  # fmt: skip
        if changed or not (stamp.exists() and stamp.read_text().strip()):
            jsonio.write_text(stamp, f"{time.time_ns()}\n")
            step.done(f"Linux {version}, {changed} files copied from {tree}")
        else:
            step.reused(f"Linux {version} from {tree}")
    return Source(version=version, home=home, revision=stamp.read_text().strip())
