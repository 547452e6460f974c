"""gcc with W=1 and sparse: clean in our files, and nothing new in those that we edit."""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.checks.lint import diagnostics
from harness.checks.lint.diagnostics import Diagnostic
from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build
from harness.kernel.tree import Tree


def kernel_sources(names: Iterable[str]) -> list[str]:
    """Return the C files that are compiled into the kernel or a module."""
    return [name for name in names if re.match(r"(?!tools/|samples/).*\.c$", name)]


def by_config(sources: Sequence[str]) -> dict[str, list[str]]:
    """Return which configuration's kernel has each source: an architecture's own, or base."""
    configs: dict[str, list[str]] = {"base": []}
    for name in sources:
        own = re.match(r"arch/([^/]+)/", name)
        config = own[1] if own and own[1] in build.CONFIGS else "base"
        configs.setdefault(config, []).append(name)
    return configs


def complaints(paths: Paths, tree: Tree, home: Path) -> list[Diagnostic]:
    """Return what gcc and sparse say that the series has to answer for.

    `home` holds the objects of single files of both trees.
    """
    ours: list[Diagnostic] = []
    for config, sources in by_config(kernel_sources(tree.files)).items():
        build.configure(paths, tree, config)
        pristine = tree.source.pristine
        patched = _compile(paths, tree.path, home / f"patched-{config}", tree, config, sources)
        suspects = diagnostics.suspects(patched, sources, tree.files.__contains__)
        before = [name for name in suspects if (pristine / name).exists()]
        known = _compile(paths, pristine, home / f"vanilla-{config}", tree, config, before)
        ours += diagnostics.ours(patched, known, tree.files.__contains__)
    return ours


def _compile(
    paths: Paths, root: Path, objects: Path, tree: Tree, config: str, sources: Sequence[str]
) -> list[Diagnostic]:
    """Compile single files below `root` as the configuration of `tree` has them."""
    if not sources:
        return []
    root = root.resolve()  # the pristine tree may be a link, and compilers print its target
    architecture = build.CONFIGS[config].architecture
    objects.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build.object_dir(tree, config) / ".config", objects / ".config")
    log = paths.logs / f"lint-{objects.name}.log"

    def make(*targets: str) -> list[str]:
        return build.make(root, objects, *targets, architecture=architecture)

    process.run_logged(make("olddefconfig", "prepare"), log, f"lint: {objects.name} tree")
    targets = [f"{source.removesuffix('.c')}.o" for source in sources]
    for target in targets:
        (objects / target).unlink(missing_ok=True)
    options = ["-k", "W=1", "C=2", f"CHECK={sparse_command(objects.parent)}"]
    # Kbuild makes an object of arch/*/lib from two directories, at once if it may.
    libraries = [target for target in targets if re.match(r"arch/\w+/lib/", target)]
    others = [target for target in targets if target not in libraries]
    status, text = 0, ""
    for part, jobs in ((libraries, ["-j1"]), (others, [])):
        if part:
            failed, output = process.attempt([*make(*part), *options, *jobs], root)
            status, text = status or failed, text + output
    log.write_text(text)
    looked_at = set(re.findall(r"^  CHECK +(\S+)$", text, re.MULTILINE))
    printed = diagnostics.parse(diagnostics.COMPILER, text, root)
    for file, target in zip(sources, targets, strict=True):
        if not (objects / target).exists():
            printed.append(Diagnostic(file, 1, "error", f"does not compile (log: {log})"))
        elif file not in looked_at:
            printed.append(Diagnostic(file, 1, "error", f"no CHECK by sparse (log: {log})"))
    if status and not any(line.level != "warning" for line in printed):
        what = f"{objects.name} tree: {process.first_error(text)} (log: {log})"
        raise HarnessError(what, process.tail(text))
    return printed


def sparse_command(directory: Path) -> Path:
    """Write a command that runs sparse with what it must be told about this kernel.

    Debian's sparse does not know __typeof_unqual__ (kbuild would skip it without a failure)
    and does not fold the __builtin_strlen() in the static assertions of MODULE_*(); after
    one error it keeps all warnings to itself. gcc checks static assertions anyway.
    """
    if not shutil.which("sparse"):
        raise HarnessError("sparse is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    probe = directory / "probe.c"
    probe.write_text("static const int a;\nstatic __typeof_unqual__(a) b;\n")
    _, text = process.attempt(["sparse", str(probe)], directory)
    options = ["'-D_Static_assert(...)='"]
    if "error" in text:
        options.append("-D__typeof_unqual__=__typeof__")
    command = directory / "sparse"
    command.write_text(f'#!/bin/sh\nexec sparse {" ".join(options)} "$@"\n')
    command.chmod(0o755)
    return command
