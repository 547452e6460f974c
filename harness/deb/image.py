"""`make image`: a kernel with programs in it that boots by EFI, PXE or kexec, and keeps nothing."""

import shutil

from harness.core import lock, ui
from harness.core.paths import Paths
from harness.guest import image, suite
from harness.kernel import build

CONFIG = "image"


def main(paths: Paths) -> int:
    """Link the kernel once more, with the guests' programs and the menu in deb/ inside it."""
    kernel = suite.prepare(paths, CONFIG, debian=True)
    files = {"init": "menu", "usr/sbin/migrate-offload": "migrate-offload"}
    ours = {name: (paths.root / "deb" / file).read_bytes() for name, file in files.items()}
    cpio, target = kernel.out / "image.cpio", paths.out / "migrate-offload.efi"
    cpio.write_bytes(image.path(kernel).read_bytes() + image.archive(ours))
    with lock.cache(paths), ui.step("image") as step:
        tree = build.tree(paths, CONFIG)
        build.get(paths, tree, CONFIG, objects=True)
        build.run(paths, tree, CONFIG, "bzImage", f"CONFIG_INITRAMFS_SOURCE={cpio}")
        shutil.copyfile(build.object_dir(tree, CONFIG) / kernel.architecture.image, target)
        step.done(f"{target}, {target.stat().st_size / 1e6:.0f} MB")
    return 0
