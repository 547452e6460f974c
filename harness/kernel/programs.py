"""Guest programs: kselftests, built against headers of the patched tree, and tools."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import build
from harness.kernel.arch import X86_64, Architecture
from harness.kernel.tree import Tree

OURS = ("migrate_copy_offload", "migrate_large")

# The tree's own tests that the feature must not change the outcome of.
MM_TESTS = (
    "migration", "compaction_test", "cow", "gup_longterm", "split_huge_page_test", "rmap",
    "hmm-tests",
)  # fmt: skip

# Our programs of tools/mm.
TOOLS = ("migrate_bench",)

_TOOLS = "tools/mm"
_SELFTESTS = "tools/testing/selftests"
_SOURCES = (".c", ".h", ".mk", ".o", ".h_gen")
_GENERATED = ("local_config.mk", "local_config.h_gen")  # by mm's Makefile, in its source
_NOT_INSTALLED = ("Makefile", ".gitignore", "config", "settings")


@dataclass(frozen=True)
class Programs:
    """Directories with what belongs into the guest."""

    ours: tuple[Path, ...]
    mm: Path
    tools: Path

    @property
    def directories(self) -> dict[str, Path]:
        """What the guest calls each directory."""
        return {
            **{f"selftests/{path.name}": path for path in self.ours},
            "selftests/mm": self.mm,
            "usr/bin": self.tools,
        }


def get(paths: Paths, tree: Tree, architecture: Architecture = X86_64) -> Programs:
    """Return the guest's programs, built if their sources or headers changed.

    For another architecture they are static, and the tree's own mm tests are left out: those
    need libraries of the host.
    """
    home = tree.source.home / _suffixed("programs", architecture)
    programs = Programs(
        ours=tuple(home / name for name in OURS), mm=home / "mm", tools=home / "tools"
    )
    for name in OURS:
        if not (tree.path / _SELFTESTS / name).is_dir():
            raise HarnessError(f"no {_SELFTESTS}/{name} in the overlay")
    with ui.step("guest programs") as step:
        step.progress("headers")
        built = _headers(paths, tree, architecture)
        if architecture.native:
            step.progress(f"{_SELFTESTS}/mm")
            targets = [f"{programs.mm}/{test}" for test in MM_TESTS]
            built |= _make(paths, tree, "mm", programs.mm, targets, architecture)
        for output in programs.ours:
            step.progress(f"{_SELFTESTS}/{output.name}")
            built |= _make(paths, tree, output.name, output, [], architecture)
        step.progress(_TOOLS)
        built |= _build_tools(paths, tree, programs.tools, architecture)
        text = f"in {home}"
        if built:
            step.done(text)
        else:
            step.reused(text)
    return programs


def _suffixed(name: str, architecture: Architecture) -> str:
    return name if architecture.native else f"{name}-{architecture.name}"


def _headers(paths: Paths, tree: Tree, architecture: Architecture) -> bool:
    """Export the kernel's headers; return whether that was necessary."""
    objects = _header_objects(tree, architecture)
    key = tree.subset_key(r"(^|/)include/uapi/")
    stamp = objects / "key"
    if stamp.exists() and stamp.read_text() == key:
        return False
    process.run_logged(
        build.make(tree.path, objects, "headers", architecture=architecture),
        paths.logs / f"{objects.name}.log",
        "headers",
    )
    jsonio.write_text(stamp, key)
    return True


def _header_objects(tree: Tree, architecture: Architecture) -> Path:
    return tree.source.home / _suffixed("build-headers", architecture)


def _make(
    paths: Paths,
    tree: Tree,
    name: str,
    output: Path,
    targets: list[str],
    architecture: Architecture,
) -> bool:
    """Build the tests of one directory; return whether that was necessary."""
    sources = [f"{part}/" for part in (OURS if name in OURS else (name,))]
    key = tree.subset_key(
        rf"^{_SELFTESTS}/({'|'.join(sources)}|[^/]*$|lib/)",
        r"(^|/)include/uapi/",
        r"^tools/include/",
    )
    key += "".join(f" {Path(target).name}" for target in targets)
    stamp = output.with_name(f"{output.name}.key")
    if stamp.exists() and stamp.read_text() == key:
        return False
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    directory = tree.path / _SELFTESTS / name
    headers = _header_objects(tree, architecture)
    static = [] if architecture.native else ["LDFLAGS=-static"]
    process.run_logged(
        ["make", "-C", str(directory), f"-j{build.jobs()}", f"OUTPUT={output}",
         f"KHDR_INCLUDES=-isystem {headers}/usr/include",
         *architecture.make_variables, *static, *targets],
        paths.logs / f"selftests-{_suffixed(name, architecture)}.log",
        f"selftests {name}",
    )  # fmt: skip
    for generated in _GENERATED:
        (directory / generated).unlink(missing_ok=True)
    if not targets:
        _copy_scripts(directory, output)
    jsonio.write_text(stamp, key)
    return True


def _build_tools(paths: Paths, tree: Tree, output: Path, architecture: Architecture) -> bool:
    """Build our programs of tools/mm; return whether that was necessary."""
    key = tree.subset_key(rf"^{_TOOLS}/")
    stamp = output.with_name(f"{output.name}.key")
    if stamp.exists() and stamp.read_text() == key:
        return False
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for tool in TOOLS:
        argv = [architecture.compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
        source = tree.path / _TOOLS / f"{tool}.c"
        log = paths.logs / f"{_suffixed(tool, architecture)}.log"
        process.run_logged([*argv, "-o", str(output / tool), str(source)], log, tool)
    jsonio.write_text(stamp, key)
    return True


def _copy_scripts(origin: Path, output: Path) -> None:
    """Add what the tests need besides compiled programs."""
    for path in origin.iterdir():
        if path.is_file() and path.suffix not in _SOURCES and path.name not in _NOT_INSTALLED:
            shutil.copy2(path, output / path.name)
