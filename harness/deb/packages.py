"""`make deb`: the kernel as Debian's package, by its own bindeb-pkg, and one of the tools.

Both have the kernel's version and the time of the build, so that apt takes the newer one.
"""

import shutil
import time
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build
from harness.kernel.build import Kernel
from harness.kernel.tree import Tree

TOOLS = "migrate-offload-tools"
AUTHOR, ADDRESS = "The copy-offload project", "copy-offload@localhost"

# Of what bindeb-pkg makes, only the kernel: headers want a compiler of another name, debugging
# symbols are not built, and Debian's linux-libc-dev must stay.
_PROFILES = "pkg.linux-upstream.nokernelheaders pkg.linux-upstream.nokerneldbg"
_SOURCES = ("migrate_bench.c", "migrate_measure", "migrate_offload_doctor", "migrate_lib")
"""Of tools/mm."""
DISTRIBUTION = "trixie"


@dataclass(frozen=True)
class Packages:
    """Both packages, and the release of the kernel in the first."""

    release: str
    kernel: Path
    tools: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """The files to give apt."""
        return self.kernel, self.tools


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
    """Build both packages of a configuration into `out`; objects that are there are used."""
    tree = build.tree(paths, config)
    kernel = build.get(paths, tree, config, objects=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    now = time.time()
    version = version_of(tree.source.version, now)
    with ui.step("packages") as step:
        step.progress("bindeb-pkg")
        image = _kernel(paths, tree, kernel, version, out)
        step.progress(TOOLS)
        tools = _tools(paths, tree.path / "tools/mm", changelog(version, now), out)
        sizes = ", ".join(f"{p.name} ({p.stat().st_size // 1000} kB)" for p in (image, tools))
        step.done(f"{sizes} in {out}")
    return Packages(kernel.release, image, tools)


def _kernel(paths: Paths, tree: Tree, kernel: Kernel, version: str, out: Path) -> Path:
    """Package a built kernel; bindeb-pkg works in the objects, and writes beside them."""
    env = {
        "DEB_BUILD_PROFILES": _PROFILES, "DEBFULLNAME": AUTHOR, "DEBEMAIL": ADDRESS,
        "KDEB_PKGVERSION": version, "KDEB_CHANGELOG_DIST": DISTRIBUTION,
    }  # fmt: skip
    build.run(paths, tree, kernel.config, "bindeb-pkg", env=env)
    made = f"linux-*_{version}_*"
    return _collect(tree.source.home, made, f"linux-image-*_{version}_*.deb", out)


def _tools(paths: Paths, sources: Path, changes: str, out: Path) -> Path:
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
    return _collect(home, f"{TOOLS}_*", f"{TOOLS}_*.deb", out)


def _collect(directory: Path, made: str, wanted: str, out: Path) -> Path:
    """Move the one package that is wanted to `out`, and remove what else was made."""
    found = sorted(directory.glob(wanted))
    if len(found) != 1:
        raise HarnessError(f"{directory} has {len(found)} files {wanted}")
    package = shutil.move(found[0], out)
    for path in directory.glob(made):
        if path.is_file():
            path.unlink()
    return Path(package)


def main(paths: Paths, config: str) -> int:
    """Build the packages, and say how to install them."""
    packages = get(paths, config, paths.out / "deb")
    names = " ".join(f"./{path.name}" for path in packages.files)
    ui.say(f"install: cd {paths.out / 'deb'} && sudo apt install {names}")
    return 0
