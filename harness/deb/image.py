"""`make image`: a kernel with programs and a menu in it, which boots anywhere and keeps nothing."""

import shutil
from pathlib import Path

from harness.core import ui
from harness.core.paths import Paths
from harness.guest import image, suite
from harness.kernel import build, debian

CONFIG = "image"
_PACKAGES = ("redis-server", "redis-tools", "numactl")
_PROGRAMS = ("redis-server", "redis-benchmark", "redis-cli", "migratepages")


def get(paths: Paths) -> Path:
    """Return the image: the kernel of CONFIG, linked again with what guests have, and more."""
    kernel = suite.prepare(paths, CONFIG, debian=True)
    root, deb = debian.userland(paths, "amd64", _PACKAGES, debian.RELEASE), paths.root / "deb"
    ours = {f"usr/sbin/{path.name}": path.read_bytes() for path in deb.glob("migrate-offload*")}
    ours |= image.programs(root, _PROGRAMS, "") | {"init": (deb / "menu").read_bytes()}
    cpio, target = kernel.out / "image.cpio", paths.out / "migrate-offload.efi"
    cpio.write_bytes(image.path(kernel).read_bytes() + image.archive(ours))
    tree = build.tree(paths, CONFIG)
    build.get(paths, tree, CONFIG, objects=True)
    build.run(paths, tree, CONFIG, "bzImage", f"CONFIG_INITRAMFS_SOURCE={cpio}")
    shutil.copyfile(build.object_dir(tree, CONFIG) / kernel.architecture.image, target)
    return target


def main(paths: Paths) -> int:
    """Make the image, and say where it is."""
    target = get(paths)
    ui.say(f"{target}, {target.stat().st_size / 1e6:.0f} MB: README.md says how to boot it")
    return 0
