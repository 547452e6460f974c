"""fast.py WHAT SUITE ARGS: in the view: a module of base changed (mutant NAME, or 'vanilla'), built alone, and a suite; then undone."""
import re, shutil, subprocess, sys
from pathlib import Path
from harness.core import lock, process
from harness.core.paths import default_paths
from harness.guest import image, suite
from harness.kernel import build, programs, source, stack, topics
from harness.kernel import tree as patches
from harness.mutants import mutant as model

what, config, name, args = sys.argv[1:5]
paths = default_paths()
out = paths.out / ("kernel" if config == "base" else f"kernel-{config}")
D = "drivers/dma/amd/"
with lock.cache(paths):
    tree = build.tree(paths, config)
    kernel = build.get(paths, tree, config)
    progs = programs.get(paths, tree, kernel.architecture)
    edits, kos = {}, []
    if what == "vanilla":
        for f in [D + "ptdma/" + f for f in ("ptdma-dmaengine.c", "ptdma-dev.c", "ptdma-pci.c", "ptdma.h", "ptdma-debugfs.c")] + [D + "ae4dma/" + f for f in ("ae4dma-dev.c", "ae4dma-pci.c", "ae4dma.h")]:
            edits[f] = topics.read_text(tree.source.pristine / f)
        kos = [D + "ptdma/ptdma.ko"]
    elif what != "none":
        (m,) = [m for m in model.load(paths.root / "mutants") if m.name.split(".")[-1] == what]
        edits[m.file] = m.broken(tree.path)
        kos = [D + "ptdma/ptdma.ko"] if "amd/ptdma" in m.file else ["drivers/dma/idxd/idxd.ko"]
    saved = {f: topics.read_text(tree.path / f) for f in edits}
    olds = {}
    try:
        for f, t in edits.items():
            (tree.path / f).unlink(); topics.write_text(tree.path / f, t)
        if kos:
            build.run(paths, tree, config, "modules", env={"KBUILD_MODPOST_WARN": "1"})
        for ko in kos:
            (target,) = (out / "modules").glob(f"**/{Path(ko).name}*")
            olds[target] = target.read_bytes()
            target.unlink(); shutil.copyfile(build.object_dir(tree, config) / ko, target)
        for k in list((out).glob("initramfs*")):
            k.unlink()
        image.build(paths, kernel, progs)
        suite.accelerator(paths, kernel)
        done = suite.run_suite(paths, kernel, name, args, paths.out / "fast" / f"{what}-{name}")
        print("RESULT", what, done.run.verdict, [(c.name, c.status) for c in done.cases])
    finally:
        for f, t in saved.items():
            (tree.path / f).unlink(); topics.write_text(tree.path / f, t)
        for target, data in olds.items():
            target.unlink(); target.write_bytes(data)
        if kos:
            build.run(paths, tree, config, "modules", env={"KBUILD_MODPOST_WARN": "1"})
        for k in list((out).glob("initramfs*")):
            k.unlink()
