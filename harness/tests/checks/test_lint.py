"""The parts of the linters that decide."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks.lint import checkpatch, compilers, docs, names, run
from harness.checks.lint.diagnostics import Diagnostic
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest.ktap import Status
from harness.mutants import mutant

# Split, so that the check of names does not find them in this file.
MIRROR = "deb.debian" + ".org"
HOME = "/home" + "/someone"


def test_kernel_sources() -> None:
    files = ["mm/a.c", "include/a.h", "tools/testing/b.c", "mm/Kconfig"]
    assert compilers.kernel_sources(files) == ["mm/a.c"]
    assert docs.documented(files) == ["mm/a.c", "include/a.h"]


def test_sources_of_an_architecture_are_compiled_for_it() -> None:
    sources = compilers.by_config(["mm/a.c", "arch/arm64/mm/b.c", "arch/x86/lib/c.c"])
    assert sources == {"base": ["mm/a.c", "arch/x86/lib/c.c"], "arm64": ["arch/arm64/mm/b.c"]}


def complaint(file: str, kind: str, text: str = "") -> Diagnostic:
    return Diagnostic(file, 1, "CHECK", text, kind)


def test_ignored_types() -> None:
    assert all(ignored.reason for ignored in checkpatch.IGNORED)
    assert checkpatch.is_ignored(complaint("mm/a.c", "FILE_PATH_CHANGES"))
    assert checkpatch.is_ignored(complaint("include/trace/events/migrate.h", "OPEN_ENDED_LINE"))
    assert not checkpatch.is_ignored(complaint("mm/migrate.c", "OPEN_ENDED_LINE"))
    assert not checkpatch.is_ignored(complaint("mm/a.c", "TRAILING_WHITESPACE"))
    page = complaint("mm/a.c", "CAMELCASE", "Avoid CamelCase: <__SetPageOffline>")
    assert checkpatch.is_ignored(page)
    assert not checkpatch.is_ignored(complaint("mm/a.c", "CAMELCASE", "Avoid CamelCase: <myName>"))


def test_maintained() -> None:
    before = "X\nF:\tmm/\nF:\t*/\nF:\tdrivers/\nF:\tdrivers/dma/\n"
    after = before + "Y\nF:\tkernel/new.c\nF:\tdrivers/new/\nF:\tinclude/*/new*\n"
    for name in (
        "kernel/new.c", "drivers/new/a/b.c", "include/linux/new_thing.h", "mm/a.c",
        "drivers/dma/a.c",
    ):  # fmt: skip
        assert docs.maintained(name, before, after), name
    for name in ("kernel/other.c", "drivers/other/a.c", "include/linux/x/new.h", "mm/x/a.c"):
        assert not docs.maintained(name, before, after), name


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.sh", "", True), ("init", "#!/bin/sh\n", True), ("run", "#!/usr/bin/env bash\n", True),
        ("suite", "#!/bin/busybox sh\n", True), ("a.py", "#!/usr/bin/python3\n", False),
        ("notes", "use #!/bin/sh\n", False),
    ],
)  # fmt: skip
def test_is_shell(name: str, head: str, expected: bool) -> None:
    assert names.is_shell(name, head) is expected


@pytest.mark.parametrize(
    "line",
    [
        f"deb http://{MIRROR}/debian bookworm main", f"{MIRROR}", f"cd {HOME}/project",
        "https://" + "user:word@cache.internal/x", "ls /root" + "/src", "cp /scratch/checkout/x .",
    ],
)  # fmt: skip
def test_names_that_mean_one_machine(line: str) -> None:
    assert names.problems("f", line, {"/scratch/checkout/": "the checkout's path"})


@pytest.mark.parametrize(
    "line",
    [
        "Link: https://lore.kernel.org/linux-mm/x", "https://docs.kernel.org/mm/",
        "http://localhost:80/ and https://example.com/", "HOME=/root",
        "sources are in trixie-backports; index.rst, archive.c, proxy.py",
        "guest/root/etc and $HOME/work/x",
    ],
)  # fmt: skip
def test_names_that_mean_no_machine(line: str) -> None:
    assert names.problems("f", line, {}) == []


def test_context_lines_of_a_patch_are_the_kernels() -> None:
    assert names.problems("a.patch", f" W:\thttps://{MIRROR}/\n", {}) == []
    assert names.problems("a.patch", f"+W:\thttps://{MIRROR}/\n", {})


def test_missing_tool_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessError, match="sparse is not installed"):
        compilers.sparse_command(tmp_path)
    case = run.run_check("x", lambda: run.run_tool(["ruff", "check"], tmp_path))
    assert case.status is Status.FAILED
    assert case.detail == "ruff is not installed"


def test_sparse_command(tmp_path: Path, tool: Callable[[str, str], Path]) -> None:
    tool("sparse", 'echo "probe.c:1:1: error: what is this?"\necho "$@"')
    command = compilers.sparse_command(tmp_path / "home")
    done = subprocess.run([command, "x.c"], capture_output=True, text=True, check=True)
    assert "-D_Static_assert(...)= -D__typeof_unqual__=__typeof__ x.c" in done.stdout


def test_generated_files_are_not_the_projects(tmp_path: Path) -> None:
    for name in ("a/b.py", ".ci/run", ".git/config", "out/log", "a/__pycache__/b.pyc"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / ".gitignore").write_text("/out/\n__pycache__/\n")
    paths = Paths(tmp_path, tmp_path / ".cache", tmp_path / "out")
    files = names.project_files(paths)
    assert list(files) == [".ci/run", ".gitignore", "a/b.py"]
    assert files["a/b.py"] == "a/b.py"


def test_a_mutant_whose_line_is_not_there_once_is_named(tmp_path: Path) -> None:
    (tmp_path / "mutants").mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.c").write_text("one\ntwo\none\n")
    (tmp_path / "a.c").write_text("ours\n")
    lines = ("two", "guest"), ("one", "guest"), ("three", "guest"), ("ours", "pytest")
    (tmp_path / "mutants/room.toml").write_text(
        "".join(
            f'[{old}]\nclaim = "c"\ntest = "{runner} x"\nfile = "a.c"\nold = "{old}"\n'
            for old, runner in lines
        )
    )
    assert mutant.stale(tmp_path, tmp_path / "tree") == [
        "mutants/room.toml: one: stale: a.c has 2 times, not once: one",
        "mutants/room.toml: three: stale: a.c has 0 times, not once: three",
    ]
