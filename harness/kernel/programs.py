"""Guest programs: kselftests, built with headers of the patched tree, tools and workloads."""

import shutil
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.paths import Paths
from harness.kernel import build
from harness.kernel.arch import X86_64, Architecture
from harness.kernel.tree import Tree

OURS = ("migrate_offload", "migrate_large")

# The tree's own tests that the feature must not change the outcome of, and the feature's.
MM_TESTS = (
    "migration", "compaction_test", "cow", "gup_longterm", "split_huge_page_test", "rmap",
    "hmm-tests", "migrate_offload",
)  # fmt: skip

# Of six tests that take 20 s each, and all processors.
_MM_FLAGS = "EXTRA_CFLAGS=-DRUNTIME=1"

_TOOLS = "tools/mm"
_SELFTESTS = "tools/testing/selftests"
_UAPI = r"(^|/)include/uapi/"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread")
_GENERATED = ("local_config.mk", "local_config.h_gen")  # by mm's Makefile, in its source


def get(paths: Paths, tree: Tree, architecture: Architecture = X86_64) -> dict[str, Path]:
    """Return directories for the guest by their names there, built if their sources changed.

    For another architecture programs are static, and the tree's own mm tests are left out:
    those need libraries of the host.
    """
    suffix = "" if architecture.native else f"-{architecture.name}"
    home = tree.source.home / f"programs{suffix}"
    headers = tree.source.home / f"build-headers{suffix}"
    variables = architecture.make_variables
    static = [] if architecture.native else ["LDFLAGS=-static"]
    make = ["make", "-C", str(tree.path), f"O={headers}", *variables, "headers"]
    built = False

    def part(output: Path, patterns: tuple[str, ...], argv: list[str]) -> Path:
        """Make a directory anew if the command or a file of such a name changed."""
        nonlocal built
        # Where the tree is does not matter: a mutant's own makes the same programs.
        command = " ".join(argv).replace(str(tree.path), "")
        key = f"{tree.subset_key(*patterns)} {command}"
        stamp = output.with_name(f"{output.name}.key")
        if not stamp.exists() or stamp.read_text() != key:
            built = True
            step.progress(output.name)
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            log = paths.logs / f"programs-{output.name}{suffix}.log"
            jobs = {"MAKEFLAGS": f"-j{build.jobs()}"}
            process.run_logged(argv, log, f"guest programs, {output.name}", env=jobs)
            jsonio.write_text(stamp, key)
        return output

    def selftests(name: str, directories: str, *targets: str) -> Path:
        output = home / name
        # Ours share migrate_lib with the tools; one has the doctor's judge.
        patterns = (rf"^{_SELFTESTS}/({directories}|[^/]*$|lib/)", _UAPI, "^tools/include/",
                    rf"^{_TOOLS}/migrate_lib/",
                    rf"^{_TOOLS}/migrate_offload_doctor/(doctor|verdict)\.")  # fmt: skip
        argv = ["make", "-C", str(tree.path / _SELFTESTS / name), f"OUTPUT={output}",
                f"KHDR_INCLUDES=-isystem {headers}/usr/include",
                *variables, *static, *targets]  # fmt: skip
        return part(output, patterns, argv)

    with ui.step("guest programs") as step:
        part(headers, (_UAPI,), make)
        ours = [selftests(name, "migrate_.*/", "install", f"INSTALL_PATH={home / name}")
                for name in OURS]  # fmt: skip
        files = {f"selftests/{path.name}": path for path in ours}
        if architecture.native:
            targets = [f"{home}/mm/{test}" for test in MM_TESTS]
            files["selftests/mm"] = selftests("mm", "mm/", _MM_FLAGS, *targets)
            for generated in _GENERATED:
                (tree.path / _SELFTESTS / "mm" / generated).unlink(missing_ok=True)

        def tool(directory: str, name: str, *patterns: str) -> Path:
            output = home / directory
            sources = [str(path) for pattern in (*patterns, "migrate_lib/*.c")
                       for path in sorted((tree.path / _TOOLS).glob(pattern))]  # fmt: skip
            argv = [architecture.compiler, *_FLAGS, "-o", str(output / name), *sources]
            return part(output, (f"^{_TOOLS}/",), argv)

        files["usr/bin"] = tool("tools", "migrate_bench", "migrate_bench.c", "migrate_measure/*.c")
        files["usr/sbin"] = tool("doctor", "migrate-offload-doctor", "migrate_offload_doctor/*.c")
        workloads = _workloads(paths, home / "workloads", architecture)
        files["usr/local/bin"] = part(home / "workloads", (), workloads)
        step.done(f"in {home}", reused=not built)
    return files


def _workloads(paths: Paths, output: Path, architecture: Architecture) -> list[str]:
    """Return the command that builds guest/programs; their content is part of it."""
    home = paths.guest / "programs"
    content = jsonio.digest(*(path.read_text() for path in sorted(home.iterdir())))
    names = " ".join(sorted(path.stem for path in home.glob("*.c")))
    line = f'for name in {names}; do "$@" -o {output}/$name {home}/$name.c || exit; done'
    return ["sh", "-c", f"{line} # {content}", "sh", architecture.compiler, *_FLAGS]
