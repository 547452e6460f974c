"""Command line: one subcommand for each target of the Makefile."""

import argparse
import glob
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from harness import demo
from harness.bench import copy, mt
from harness.checks import main as check
from harness.checks.lint import run as lint
from harness.core import lock, space, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.guest import suite
from harness.kernel import build
from harness.lab.model import preset
from harness.layouts import run as layouts
from harness.mutants import run as mutants
from harness.series import edit, export

Command = Callable[[Paths, argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; the usage is for those who ask."""
        self.exit(2, f"error: {self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _Parser(prog="harness", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, run: Command, what: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=what, description=what)
        sub.set_defaults(run=run)
        return sub

    def config(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "--config", choices=list(build.CONFIGS), default="base", help="which kernel"
        )

    one = command(
        "demo",
        lambda paths, args: demo.main(paths, args.engine),
        "migrate process memory through a DMA engine, and verify every byte",
    )
    one.add_argument(
        "--engine", choices=list(demo.ENGINES), default=demo.DMASIM.name, help="which one"
    )
    command("check", lambda paths, _: check.main(paths), "run all tests and count them")
    config(command("kernel", _kernel, "build the patched kernel and its modules"))
    one = command("series", _series, "write each topic as a series for git am")
    one.add_argument("--build", action="store_true", help="build the kernel at every step")
    one = command("edit", _edit, "check a git tree of the kernel out at a patch")
    one.add_argument("--discard", action="store_true", help="drop an edit that is not saved")
    one.add_argument("patch", help="<topic>/<number>, or part of a name")
    command("save", _save, "write the edit back to kernel/patches and kernel/overlay")
    command("lint", _lint, "run all linters")

    one = command(
        "guest",
        lambda paths, args: suite.main(paths, args.config, args.suite, args.args),
        "run one suite in the guest",
    )
    config(one)
    one.add_argument("--args", default="", help="comma separated arguments of the suite")
    one.add_argument("suite", help="a file in guest/suites")
    config(
        command(
            "shell",
            lambda paths, args: suite.shell(paths, args.config),
            "boot a guest with a shell on this terminal",
        )
    )

    one = command("lab", _lab, "measure against a modelled engine in virtual time")
    one.add_argument("--preset", default=preset.DEFAULT, help="engine: a file in lab/presets")
    one.add_argument("--quick", action="store_true", help="a part of it, in 3 minutes")
    one = command("layouts", _layouts, "compare random layouts of memory with vanilla")
    one.add_argument("--count", type=int, default=500, help="how many")
    one.add_argument("--seed", type=int, default=1, help="the first one")
    one.add_argument("--vcpus", type=int, choices=(1, 2), default=1, help="processors")
    one.add_argument("--config", choices=list(layouts.TWINS), default="lab", help="kernel")
    one.add_argument("--offload", action="store_true", help="an engine copies")
    one.add_argument("--pressure", action="store_true", help="there is too little memory")
    one = command(
        "mutants",
        lambda paths, args: mutants.main(paths, args.only),
        "break the code on purpose, and see tests go red",
    )
    one.add_argument("--only", default="", help="names, prefixes, globs or claims: a,b")
    one = command("report", _report, "write the lab's report from results")
    one.add_argument(
        "--from",
        dest="files",
        nargs="*",
        default=[],
        help="results.json, or files that migrate_bench wrote; quote a name with a space twice",
    )
    one.add_argument("--to", help="directory (default: beside the first file)")
    command(
        "bench-copy",
        lambda paths, _: copy.main(paths),
        "measure the kernel's copy primitives on this machine",
    )
    command(
        "bench-mt",
        lambda paths, _: mt.main(paths),
        "measure what a second thread brings to mtcopy on this machine",
    )
    return top


def _kernel(paths: Paths, args: argparse.Namespace) -> int:
    with lock.cache(paths):
        build.get(paths, build.tree(paths, args.config), args.config)
    return 0


def _series(paths: Paths, args: argparse.Namespace) -> int:
    with lock.cache(paths):
        return export.main(paths, steps=args.build)


def _edit(paths: Paths, args: argparse.Namespace) -> int:
    with lock.cache(paths):
        return edit.main_edit(paths, args.patch, discard=args.discard)


def _save(paths: Paths, _: argparse.Namespace) -> int:
    with lock.cache(paths):
        return edit.main_save(paths)


def _lint(paths: Paths, _: argparse.Namespace) -> int:
    with lock.cache(paths):
        return lint.main(paths)


def _lab(paths: Paths, args: argparse.Namespace) -> int:
    from harness.lab import run as lab  # noqa: PLC0415 (imports matplotlib, which takes a while)

    return lab.main(paths, args.preset, args.quick)


def _layouts(paths: Paths, args: argparse.Namespace) -> int:
    machine = layouts.Machine(args.vcpus, args.config, args.offload, args.pressure)
    return layouts.main(paths, machine, args.seed, args.count)


def _report(_: Paths, args: argparse.Namespace) -> int:
    from harness.lab.report import report  # noqa: PLC0415 (imports matplotlib)

    return report.main(files(args.files), Path(args.to) if args.to else None)


def files(words: Sequence[str]) -> list[Path]:
    """Return the files that words name: a path each, or several as a shell takes them apart."""
    found: list[str] = []
    for word in words:
        parts = [word] if Path(word).is_file() else shlex.split(word)
        for part in parts:
            found += sorted(glob.glob(part)) or [part]  # noqa: PTH207 (any directory)
    return [Path(name) for name in found]


def main(argv: Sequence[str]) -> int:
    """Run one command; an error that a user is meant to see is told in one line."""
    args = parser().parse_args(argv)
    paths = default_paths()
    run: Command = args.run
    try:
        with lock.checkout(paths):
            return run(paths, args)
    except HarnessError as error:
        if error.detail:
            ui.plain(error.detail)
        reason = str(error)
    except OSError as error:
        if error.errno not in space.GONE:
            raise
        reason = space.gone(paths)
    sys.stdout.flush()
    print(f"error: {reason}", file=sys.stderr)
    return 1
