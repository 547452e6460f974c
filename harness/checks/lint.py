"""`make lint`: everything that can be judged without running the kernel.

Files that are ours must be clean; files that we edit must have no complaint that the
vanilla file, compiled in the same way, does not have.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.checks import diagnostics, docs
from harness.checks.diagnostics import Diagnostic
from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.guest.ktap import Case, Status
from harness.kernel import build, source
from harness.kernel import tree as patches
from harness.series import export

_SHOWN = 200  # complaints of one check that are printed


@dataclass(frozen=True)
class Ignored:
    """A checkpatch type that does not apply to some files, and why.

    `text` narrows it to complaints that contain this.
    """

    kind: str
    files: str
    reason: str
    text: str = ""


_TRACE = "include/trace/events/*"
_SELFTESTS = "tools/testing/selftests/*"
_DMAENGINE = "include/linux/dmaengine.h"
_ASSEMBLY = "tools/mm/copy_pages/linux/linkage.h"

CHECKPATCH_IGNORED = (
    Ignored("FILE_PATH_CHANGES", "*", "the check 'maintainers' reads the final MAINTAINERS"),
    Ignored("OPEN_ENDED_LINE", _TRACE, "every TRACE_EVENT() is laid out like this"),
    Ignored("PARENTHESIS_ALIGNMENT", _TRACE, "every TRACE_EVENT() is laid out like this"),
    Ignored("PARENTHESIS_ALIGNMENT", _DMAENGINE, "callbacks there are laid out like this"),
    Ignored("CAMELCASE", "*", "page flag functions are named so", text="SetPage"),
    Ignored("SPACING", _SELFTESTS, "FIXTURE_DATA(x) *self is a pointer", text="that '*'"),
    Ignored("BIT_MACRO", _SELFTESTS, "user space lacks the kernel's macro"),
    Ignored("VOLATILE", _SELFTESTS, "user space lacks READ_ONCE()"),
    Ignored("MULTISTATEMENT_MACRO_USE_DO_WHILE", _SELFTESTS, "these macros declare variants"),
    Ignored("COMPLEX_MACRO", _SELFTESTS, "these macros declare variants"),
    Ignored("MACRO_ARG_REUSE", _SELFTESTS, "arguments of test macros are plain names"),
    Ignored("UNDOCUMENTED_SETUP", "mm/copy_pages.c", "the patch that brings it documents it"),
    Ignored("COMPLEX_MACRO", _ASSEMBLY, "it is assembly, which checkpatch takes for C"),
    Ignored("SPACING", _ASSEMBLY, "it is assembly, which checkpatch takes for C"),
    Ignored("MACRO_ARG_REUSE", "*_kunit.c", "arguments of test macros are plain names"),
)

# Hosts that a link in our files may point to.
_LINK_HOSTS = re.compile(r"^((docs|git|lore|www)\.kernel\.org|www\.linux-mm\.org)$")
_LINK = re.compile(r"\b(?:https?|ftp|git|ssh)://(?:[^\s/@]+@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
_MIRROR = re.compile(
    r"\b(?:[\w-]+\.)*(?:archive|cdn|deb|files|ftp\d*|index|mirrors?|proxy|pypi|registry|security"
    r"|snapshot)[\w-]*(?:\.[\w-]+)*\.(?:com|dev|io|net|org)\b",
    re.IGNORECASE,
)
_PLACEHOLDER_HOSTS = re.compile(r"(?:^|\.)(?:localhost|example(?:\.(?:com|net|org))?|invalid)$")
_HOME = re.compile(r"(?<![\w.$}])/(?:home|Users)/\w+|(?<![\w.$}])/(?:root|work)/\w")


def run_lint(paths: Paths, tree: patches.Tree) -> list[Case]:
    """Run every check; each prints one line, and is one case of the result."""
    linter = _Linter(paths, tree)
    checks: dict[str, Callable[[], list[str]]] = {
        "checkpatch": linter.checkpatch,
        "maintainers": linter.maintainers,
        "W=1": linter.gcc,
        "sparse": linter.sparse,
        "kernel-doc": linter.kernel_doc,
        "documentation": linter.documentation,
        "ruff check": lambda: linter.python("ruff", "check", "--output-format=concise"),
        "ruff format": lambda: linter.python(
            "ruff", "format", "--check", "--output-format=concise"
        ),
        "mypy": lambda: run_tool(["mypy", "--strict", "harness"], paths.root),
        "shellcheck": linter.shellcheck,
        "names": linter.names,
    }
    return [run_check(name, check) for name, check in checks.items()]


def run_check(name: str, check: Callable[[], list[str]]) -> Case:
    """Run one check, with a line for it and one for each complaint."""
    with ui.step(f"lint: {name}") as step:
        try:
            problems = check()
        except HarnessError as error:
            problems = [str(error), *error.detail.splitlines()]
        step.done(f"FAILED, {len(problems)} complaints" if problems else "clean")
    for problem in problems[:_SHOWN]:
        ui.plain(f"    {problem}")
    if problems:
        return Case(name, Status.FAILED, "\n".join(problems))
    return Case(name, Status.PASSED)


def main(argv: Sequence[str]) -> int:
    """Run `make lint`."""
    argparse.ArgumentParser(prog="lint", description="all linters").parse_args(argv)
    paths = default_paths()
    cases = run_lint(paths, patches.get(paths, source.get(paths)))
    failed = [case.name for case in cases if case.status is Status.FAILED]
    if failed:
        raise HarnessError(
            f"lint: {len(failed)} of {len(cases)} checks fail: {', '.join(failed)}"
        )
    ui.say(f"lint: all {len(cases)} checks are clean")
    return 0


def kernel_sources(names: Iterable[str]) -> list[str]:
    """Return the C files that are compiled into the kernel or a module."""
    return [
        name
        for name in names
        if name.endswith(".c") and not name.startswith(("tools/", "samples/"))
    ]


# Sources that one configuration alone has, though no directory says so.
_CONFIG_OF = {"drivers/dma/dmasim_iova.c": "debug"}


def by_config(sources: Sequence[str]) -> dict[str, list[str]]:
    """Return which configuration's kernel has each source: an architecture's own, or base."""
    found: dict[str, list[str]] = {"base": []}
    for name in sources:
        own = re.match(r"arch/([^/]+)/", name)
        config = own[1] if own and own[1] in build.CONFIGS else _CONFIG_OF.get(name, "base")
        found.setdefault(config, []).append(name)
    return found


def documented(names: Iterable[str]) -> list[str]:
    """Return the files in which kernel-doc comments may be."""
    return [
        name for name in names if name.endswith((".c", ".h")) and not name.startswith("tools/")
    ]


def is_ignored(found: Diagnostic) -> bool:
    """Tell whether CHECKPATCH_IGNORED allows a complaint."""
    return any(
        found.kind == ignored.kind
        and fnmatch.fnmatch(found.file, ignored.files)
        and ignored.text in found.text
        for ignored in CHECKPATCH_IGNORED
    )


def maintained(name: str, before: str, after: str) -> bool:
    """Tell whether somebody looks after a new file, by MAINTAINERS before and after.

    What counts is an F: line that came with the series, or an older one for exactly the
    file's directory; the catch-alls for whole subsystems do not.
    """
    old = set(_file_patterns(before))
    if any(pattern not in old and _covers(pattern, name) for pattern in _file_patterns(after)):
        return True
    return f"{Path(name).parent}/" in old


def _file_patterns(maintainers: str) -> list[str]:
    return re.findall(r"^F:\s*(\S+)", maintainers, re.MULTILINE)


def _covers(pattern: str, name: str) -> bool:
    if pattern.endswith("/"):
        return name.startswith(pattern)
    return fnmatch.fnmatch(name, pattern) and name.count("/") == pattern.count("/")


def is_shell(name: str, head: str) -> bool:
    """Tell whether a file is a shell script, by its name or its first line."""
    return name.endswith(".sh") or bool(
        re.match(r"#!\s*\S*(?:/|env )(?:ba|da|a)?sh\b|#!\s*\S*busybox", head)
    )


def name_problems(name: str, text: str, forbidden: Mapping[str, str]) -> list[str]:
    """Return the hosts and paths in a file which mean something on one machine only.

    `forbidden` maps further strings that must not occur to what they are.
    """
    problems = []
    patch = name.endswith(".patch")
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}:{number}"
        if patch and line.startswith((" ", "-")):
            continue  # the kernel's own lines
        for host in _LINK.findall(line):
            if not _LINK_HOSTS.search(host) and not _PLACEHOLDER_HOSTS.search(host):
                problems.append(f"{where}: link to {host}")
        problems += [f"{where}: host name {match[0]}" for match in _MIRROR.finditer(line)]
        problems += [f"{where}: path {match[0]}..." for match in _HOME.finditer(line)]
        problems += [
            f"{where}: {what} {word}" for word, what in forbidden.items() if word in line
        ]
    return problems


class _Linter:
    """The checks, and what several of them share."""

    def __init__(self, paths: Paths, tree: patches.Tree) -> None:
        self._paths = paths
        self._tree = tree
        self._pristine = tree.source.pristine
        self._home = tree.source.home / "lint"
        self._overlay = patches.overlay_files(paths)
        self._edited = sorted(tree.files.keys() - set(self._overlay))
        self._compiled: tuple[list[Diagnostic], list[Diagnostic]] | None = None

    def checkpatch(self) -> list[str]:
        """Check the series as it would be mailed: its patches have our new files too."""
        _, _, exported = export.export(self._paths, self._tree.source, self._home / "series")
        # The longest first, so that none is left over at the end.
        runs = sorted(exported[1:], key=lambda path: -path.stat().st_size)
        command = ["perl", "scripts/checkpatch.pl", "--strict", "--no-signoff", "--terse",
                   "--show-types", "--showfile", "--no-summary", "--color=never"]  # fmt: skip

        def check(patch: Path) -> list[str]:
            status, text = _run([*command, str(patch)], self._tree.path)
            found = diagnostics.parse_checkpatch(text)
            lines = [line for line in text.splitlines() if line.strip()]
            if status not in (0, 1) or len(lines) != len(found) or (status and not found):
                return [f"checkpatch.pl {patch.name} ended with status {status}", *lines]
            return [str(one) for one in found if not is_ignored(one)]

        try:
            with ThreadPoolExecutor(build.jobs()) as pool:
                return [problem for problems in pool.map(check, runs) for problem in problems]
        finally:
            for cache in self._tree.path.glob(".checkpatch-*"):  # it leaves one where it runs
                cache.unlink()

    def maintainers(self) -> list[str]:
        """Check that MAINTAINERS names every new file."""
        before = (self._pristine / "MAINTAINERS").read_text()
        after = (self._tree.path / "MAINTAINERS").read_text()
        return [
            f"{name}: no F: line of MAINTAINERS covers it"
            for name in self._overlay
            if not maintained(name, before, after)
        ]

    def gcc(self) -> list[str]:
        """Check that W=1 finds nothing in our files, and nothing new in edited ones."""
        found, vanilla = self._compile_both()
        return [
            str(one)
            for one in diagnostics.ours(found, vanilla, self._tree.files.__contains__)
            if one.from_gcc or one.level != "warning"
        ]

    def sparse(self) -> list[str]:
        """Check that sparse finds nothing in our files, and nothing new in edited ones."""
        found, vanilla = self._compile_both()
        new = diagnostics.ours(found, vanilla, self._tree.files.__contains__)
        return [str(one) for one in new if not one.from_gcc]

    def _compile_both(self) -> tuple[list[Diagnostic], list[Diagnostic]]:
        if self._compiled is None:
            found: list[Diagnostic] = []
            vanilla: list[Diagnostic] = []
            for config, sources in by_config(kernel_sources(self._tree.files)).items():
                before = [name for name in sources if (self._pristine / name).exists()]
                build.configure(self._paths, self._tree, config)
                found += self._compile(self._tree.path, "patched", config, sources)
                vanilla += self._compile_vanilla(config, before)
            self._compiled = (found, vanilla)
        return self._compiled

    def _config(self, config: str) -> Path:
        return build.object_dir(self._tree, config) / ".config"

    def _compile_vanilla(self, config: str, sources: Sequence[str]) -> list[Diagnostic]:
        """Compile pristine files once, and remember what was said."""
        if not sources:
            return []
        compiler = build.CONFIGS[config].architecture.compiler
        parts = [self._tree.source.revision, self._config(config).read_text(), *sources]
        parts += [process.capture([tool, "--version"]) for tool in (compiler, "sparse")]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        record = self._home / f"vanilla-{config}.json"
        known = json.loads(record.read_text()) if record.exists() else {}
        if known.get("key") == key:
            return [Diagnostic(*fields) for fields in known["found"]]
        found = self._compile(self._pristine, "vanilla", config, sources)
        fields = [[one.file, one.line, one.level, one.text, one.kind] for one in found]
        record.write_text(json.dumps({"key": key, "found": fields}))
        return found

    def _compile(
        self, tree: Path, name: str, config: str, sources: Sequence[str]
    ) -> list[Diagnostic]:
        """Compile single files of a tree with W=1 and sparse."""
        architecture = build.CONFIGS[config].architecture
        name = f"{name}-{config}"
        objects = self._home / name
        objects.mkdir(parents=True, exist_ok=True)
        (objects / ".config").write_text(self._config(config).read_text())
        log = self._paths.logs / f"lint-{name}.log"

        def make(*targets: str) -> list[str]:
            return build.make(tree, objects, *targets, architecture=architecture)

        process.run_logged(make("olddefconfig", "prepare"), log, f"lint: {name} tree")
        targets = [f"{source.removesuffix('.c')}.o" for source in sources]
        for target in targets:
            (objects / target).unlink(missing_ok=True)
        options = ["-k", "W=1", "C=2", f"CHECK={sparse_command(self._home)}"]
        status, text = _run([*make(*targets), *options], tree)
        log.write_text(text)
        looked_at = set(re.findall(r"^  CHECK +(\S+)$", text, re.MULTILINE))
        found = diagnostics.parse_compiler(text, tree)
        for file, target in zip(sources, targets, strict=True):
            if not (objects / target).exists():
                found.append(Diagnostic(file, 1, "error", f"does not compile (log: {log})"))
            elif file not in looked_at:
                found.append(Diagnostic(file, 1, "error", f"no CHECK by sparse (log: {log})"))
        if status and not any(one.level != "warning" for one in found):
            raise HarnessError(
                f"{name} tree: {process.first_error(text)} (log: {log})", process.tail(text)
            )
        return found

    def kernel_doc(self) -> list[str]:
        """Check kernel-doc comments: none wrong in our files, none newly so in edited ones."""
        names = documented(self._tree.files)
        before = [name for name in names if (self._pristine / name).exists()]
        found = self._kernel_doc(self._tree.path, names)
        return [
            str(one)
            for one in diagnostics.new_ones(found, self._kernel_doc(self._pristine, before))
        ]

    def _kernel_doc(self, tree: Path, names: Sequence[str]) -> list[Diagnostic]:
        if not names:
            return []
        _, text = _run(["scripts/kernel-doc", "-none", "-Wall", *names], tree)
        found = diagnostics.parse_kernel_doc(text, tree)
        strange = [
            line
            for line in text.splitlines()
            if not re.match(r"(Warning|Error|Info): |\d+ ", line)
        ]
        if strange:
            raise HarnessError(f"kernel-doc: {strange[-1]}", text)
        return found

    def documentation(self) -> list[str]:
        """Check the .rst and ABI files, as far as that goes without Sphinx."""
        tree = self._tree.path
        mine = set(self._overlay)
        problems = []
        for name in self._tree.files:
            if name.startswith("Documentation/ABI/"):
                problems += docs.abi_problems((tree / name).read_text(), name)
            elif name.startswith("Documentation/") and name.endswith(".rst"):
                try:
                    found = docs.rst_problems((tree / name).read_text(), name)
                except ModuleNotFoundError:
                    return ["docutils is not installed"]
                problems += found if name in mine else []
                problems += docs.link_problems(tree, name)
        new = [
            name
            for name in self._overlay
            if name.startswith("Documentation/") and name.endswith(".rst")
        ]
        return problems + docs.unlisted(tree, new)

    def python(self, *command: str) -> list[str]:
        """Run a linter on every Python file of the project."""
        names = [name for name, _ in self._project_files() if name.endswith(".py")]
        return run_tool([*command, *names], self._paths.root)

    def shellcheck(self) -> list[str]:
        """Check every shell script of the project."""
        scripts = [name for name, text in self._project_files() if is_shell(name, text[:80])]
        if not scripts:
            return ["there is no shell script: the list of files must be wrong"]
        return run_tool(
            ["shellcheck", "--external-sources", "--format=gcc", *scripts], self._paths.root
        )

    def names(self) -> list[str]:
        """Check that no file holds a name that means something on one machine only."""
        forbidden = {}
        for path, what in (
            (self._paths.root, "the checkout's path"),
            (Path.home(), "a home directory"),
        ):
            if len(path.parts) > 2:
                forbidden[f"{path}/"] = what
        return [
            problem
            for name, text in self._project_files()
            for problem in name_problems(name, text, forbidden)
        ]

    def _project_files(self) -> list[tuple[str, str]]:
        """Return name and text of every file that is, or could be, committed."""
        root = self._paths.root
        try:
            listing = process.capture(
                ["git", "-c", "safe.directory=*", "ls-files", "-z", "-c", "-o",
                 "--exclude-standard"],
                cwd=root,
            )  # fmt: skip
            names = [name for name in set(listing.split("\0")) if name]
        except HarnessError:  # not a checkout
            names = walk(root, (self._paths.cache, self._paths.out))
        return [
            (name, (root / name).read_text(errors="replace"))
            for name in sorted(names)
            if (root / name).is_file()
        ]


def walk(root: Path, generated: Iterable[Path]) -> list[str]:
    """Return all files but those that tools or we generate."""
    skipped = {".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
    names = []
    for directory, subdirectories, files in os.walk(root):
        here = Path(directory)
        subdirectories[:] = [
            name
            for name in subdirectories
            if name not in skipped and here / name not in generated
        ]
        names += [str((here / name).relative_to(root)) for name in files]
    return names


def run_tool(command: Sequence[str], cwd: Path) -> list[str]:
    """Run a linter that reports by its status."""
    status, text = _run(command, cwd)
    return (text.splitlines() or [f"{command[0]} ended with status {status}"]) if status else []


def _run(command: Sequence[str], cwd: Path) -> tuple[int, str]:
    """Run a command that may fail; return its status and all that it printed."""
    try:
        done = subprocess.run(
            list(command),
            cwd=cwd,
            env=process.environment({"PYTHONDONTWRITEBYTECODE": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{command[0]} is not installed") from error
    return done.returncode, done.stdout


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
    _, text = _run(["sparse", str(probe)], directory)
    options = ["'-D_Static_assert(...)='"]
    if "error" in text:
        options.append("-D__typeof_unqual__=__typeof__")
    command = directory / "sparse"
    command.write_text(f'#!/bin/sh\nexec sparse {" ".join(options)} "$@"\n')
    command.chmod(0o755)
    return command
