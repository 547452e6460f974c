"""`make deb`: the kernel and its headers, by its own bindeb-pkg, and the tools; for apt.

All have the kernel's version and the time of the build, so that apt takes the newer ones.
`make image` has them in one file instead, which boots and installs nothing.
"""

import shutil
import time
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import image, suite
from harness.kernel import build, debian
from harness.kernel.build import Kernel
from harness.kernel.tree import Tree

TOOLS = "migrate-offload-tools"
AUTHOR, ADDRESS = "The copy-offload project", "copy-offload@localhost"

# Debugging symbols are not built, and Debian's linux-libc-dev must stay.
_PROFILES = "pkg.linux-upstream.nokerneldbg"
_SOURCES = ("migrate_bench.c", "migrate_measure", "migrate_offload_doctor", "migrate_lib")
"""Of tools/mm."""
DISTRIBUTION = "trixie"
IMAGE = "migrate-offload.efi"
_OF_IMAGE = ("redis-server", "redis-tools", "numactl")
_PROGRAMS = ("redis-server", "redis-benchmark", "redis-cli", "migratepages")


@dataclass(frozen=True)
class Packages:
    """The headers, the kernel and the tools, and the release of the kernel."""

    release: str
    files: tuple[Path, ...]


def version_of(upstream: str, now: float) -> str:
    """Return a version that is higher than of an earlier build.

    It has no Debian revision: bindeb-pkg would compile that into the kernel.
    """
    return f"{upstream}+{time.strftime('%Y%m%d.%H%M%S', time.gmtime(now))}"


def changelog(version: str, now: float) -> str:
    """Return debian/changelog of the tools."""
    return (
        f"{TOOLS} ({version}) {DISTRIBUTION}; urgency=medium\n\n"
        f"  * From the sources of the kernel with this version.\n\n"
        f" -- {AUTHOR} <{ADDRESS}>  {formatdate(now)}\n"
    )


def get(paths: Paths, config: str, out: Path) -> Packages:
    """Build the packages of a configuration into `out`; objects that are there are used."""
    tree = build.tree(paths, config)
    kernel = build.get(paths, tree, config, objects=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    now = time.time()
    version = version_of(tree.source.version, now)
    with ui.step("packages") as step:
        step.progress("bindeb-pkg")
        files = _kernel(paths, tree, kernel, version, out)
        step.progress(TOOLS)
        files += _tools(paths, tree.path / "tools/mm", changelog(version, now), out)
        command = [str(paths.root / "deb/repository"), str(out), str(paths.cache / "gnupg")]
        process.run_logged(command, paths.logs / "deb-repository.log", "repository")
        sizes = ", ".join(f"{p.name} ({p.stat().st_size // 1000} kB)" for p in files)
        step.done(f"{sizes} in {out}")
    return Packages(kernel.release, files)


def _kernel(paths: Paths, tree: Tree, kernel: Kernel, version: str, out: Path) -> tuple[Path, ...]:
    """Package a kernel and its headers; bindeb-pkg works in the objects, and writes beside them."""
    env = {
        "DEB_BUILD_PROFILES": _PROFILES, "DEBFULLNAME": AUTHOR, "DEBEMAIL": ADDRESS,
        "KDEB_PKGVERSION": version, "KDEB_CHANGELOG_DIST": DISTRIBUTION,
    }  # fmt: skip
    build.run(paths, tree, kernel.config, "bindeb-pkg", env=env)
    home, made = tree.source.home, f"linux-*_{version}_*"
    wanted = [f"linux-{name}-*_{version}_*.deb" for name in ("headers", "image")]
    return _collect(home, made, out, *wanted)


def _tools(paths: Paths, sources: Path, changes: str, out: Path) -> tuple[Path, ...]:
    """Package the tools, from deb/ and their sources in a patched tree."""
    home = paths.cache / "deb"
    work = home / TOOLS
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(paths.root / "deb", work)
    for name in _SOURCES:
        process.capture(["cp", "-r", str(sources / name), str(work)])
    (work / "debian/changelog").write_text(changes)
    command = ["dpkg-buildpackage", "--build=binary", "--unsigned-changes"]
    env = {"DEB_BUILD_OPTIONS": "noautodbgsym"}
    process.run_logged(command, paths.logs / "deb-tools.log", TOOLS, cwd=work, env=env)
    return _collect(home, f"{TOOLS}_*", out, f"{TOOLS}_*.deb")


def _collect(directory: Path, made: str, out: Path, *wanted: str) -> tuple[Path, ...]:
    """Move one package for each pattern to `out`, and remove what else was made."""
    files = [path for pattern in wanted for path in sorted(directory.glob(pattern))]
    if len(files) != len(wanted):
        raise HarnessError(f"{directory} has {len(files)} files {' '.join(wanted)}")
    packages = tuple(Path(shutil.move(path, out)) for path in files)
    for path in directory.glob(made):
        if path.is_file():
            path.unlink()
    return packages


def main(paths: Paths, config: str) -> int:
    """Build the packages, and say how to install them."""
    out = paths.out / "apt"
    names = " ".join(f"./{path.name}" for path in get(paths, config, out).files)
    ui.say(f"install: cd {out} && sudo apt install {names}")
    ui.say(f"for apt's sources: deb [signed-by={out}/migrate-offload.asc] file:{out} ./")
    return 0


def main_image(paths: Paths) -> int:
    """Make the image: a kernel that is linked again, with all that guests have, and more."""
    config, tree = "image", build.tree(paths, "image")
    build.get(paths, tree, config, objects=True)
    kernel = suite.prepare(paths, config, debian=True)
    root = debian.userland(paths, "amd64", _OF_IMAGE, debian.RELEASE)
    ours = {"init": "menu", "usr/sbin/migrate-offload": "migrate-offload"}
    files = {name: (paths.root / "deb" / source).read_bytes() for name, source in ours.items()}
    files |= image.programs(root, _PROGRAMS, "")
    cpio, target = kernel.out / "image.cpio", paths.out / IMAGE
    with ui.step(IMAGE) as step:
        cpio.write_bytes(image.path(kernel).read_bytes() + image.archive(files))
        words = ("bzImage", f"CONFIG_INITRAMFS_SOURCE={cpio}")
        build.run(paths, tree, config, *words, on_line=step.progress)
        shutil.copyfile(build.object_dir(tree, config) / kernel.architecture.image, target)
        step.done(f"{target}, {target.stat().st_size / 1e6:.0f} MB: README.md says how to boot it")
    return 0
