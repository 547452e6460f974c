"""Command line: one subcommand for each target of the Makefile."""

import argparse
import glob
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness import demo
from harness.bench import copy
from harness.checks import debian
from harness.checks import main as check
from harness.checks.lint import limits
from harness.checks.lint import run as lint
from harness.core import lock, space, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths, default_paths
from harness.deb import packages
from harness.guest import suite
from harness.kernel import build, qemu
from harness.kernel.debian import pin
from harness.lab.model import preset
from harness.layouts import run as layouts
from harness.mutants import run as mutants
from harness.series import edit, export

_WITHOUT_COMPILER = ("edit", "save", "report", "lines")

Main = Callable[..., int]
"""A command's function: it gets the paths, and the values of the command's options in order."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; the usage is for those who ask."""
        self.exit(2, f"error: {self.prog}: {message}\n")


def _option(what: str, default: Any = None, **more: Any) -> dict[str, Any]:
    return {"help": what, "default": default, **more}


def _flag(what: str) -> dict[str, Any]:
    return {"help": what, "action": "store_true"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _Parser(prog="harness", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, what: str, main: Main, **options: dict[str, Any] | str) -> None:
        """Add a command; an option that is only a text is an argument."""
        sub = commands.add_parser(name, help=what, description=what)
        sub.set_defaults(main=main, options=list(options))
        for option, given in options.items():
            if isinstance(given, str):
                sub.add_argument(option, help=given)
            else:
                sub.add_argument(f"--{option}", **given)

    config = _option("which kernel", "base", choices=list(build.CONFIGS))
    engine = _option("which one", demo.DMASIM.name, choices=list(demo.ENGINES))
    what = "migrate process memory through a DMA engine, and verify every byte"
    command("demo", what, demo.main, engine=engine)
    stages = _option("stages, by name, prefix or glob: a,b", "")
    turn = _option("groups that are left out otherwise: a,b, or all", "")
    command("check", "run tests and count them", check.main, only=stages, turn=turn)
    command("check-debian", "use packages on a Debian 13 machine", _locked(debian.main))
    command("kernel", "build the patched kernel and its modules", _kernel, config=config)
    native = [name for name, config in build.CONFIGS.items() if config.architecture.native]
    ours = _option("which kernel", "debian", choices=native)
    what = "build Debian packages of the kernel and its tools"
    command("deb", what, _locked(packages.main), config=ours)
    command("image", "build a kernel that needs no disk", _locked(packages.main_image))
    command("image-check", "boot the image in three ways", _locked(debian.image_check))
    command("qemu", "build the emulators that guests run in", _qemu)
    command(
        "series", "write each topic as a series for git am", _locked(export.main),
        build=_flag("build the kernel at every step"),
        test=_option("series to build and test with only their needs: a,b, or all", ""),
    )  # fmt: skip
    discard, patch = _flag("drop an edit that is not saved"), "<topic>/<number>, or part of a name"
    what = "check a git tree of the kernel out at a patch"
    command("edit", what, _locked(edit.main_edit), patch=patch, discard=discard)
    command("save", "write the edit back to kernel/", _locked(edit.main_save))
    command("lint", "run all linters", _locked(lint.main))
    command("lines", "count lines by series, and beside limits.toml", limits.main)
    args = _option("comma separated arguments of the suite", "")
    machine = _option("one of harness/kernel/arch.py, instead of the suite's", "")
    turn = _option("groups whose long tests run: a,b", "")
    command(
        "guest", "run one suite in the guest", suite.main, config=config,
        suite="a file in guest/suites", args=args, machine=machine, turn=turn,
    )  # fmt: skip
    command("shell", "boot a guest with a shell on this terminal", suite.shell, config=config)
    command(
        "lab", "measure against a modelled engine in virtual time", _lab,
        preset=_option("engine: a file in lab/presets", preset.DEFAULT),
        quick=_flag("a part of it, in 3 minutes"),
        workload=_option("a program while its memory moves, or writers", ""),
    )  # fmt: skip
    command(
        "layouts", "compare random layouts of memory with vanilla", _layouts,
        vcpus=_option("processors", 1, type=int, choices=(1, 2)),
        config=_option("kernel", "base", choices=list(layouts.TWINS)),
        offload=_flag("an engine copies"), pressure=_flag("there is too little memory"),
        seed=_option("the first one", layouts.SEED, type=int),
        count=_option("how many", 500, type=int),
    )  # fmt: skip
    command("record", "build vanilla, and record what its guests print", _record)
    command(
        "mutants", "break the code on purpose, and see tests go red", mutants.main,
        only=_option("files of mutants/, names, prefixes or globs: a,b", ""),
    )  # fmt: skip
    what = "results.json, or files that migrate_bench wrote; quote a name with a space twice"
    to = _option("directory (default: beside the first file)")
    options = {"from": _option(what, [], nargs="*"), "to": to}
    command("report", "write the lab's report from results", _report, **options)
    command("bench-copy", "measure the kernel's copy primitives on this machine", copy.main)
    return top


def _locked(main: Main) -> Main:
    """Return a command that keeps the cache to itself from its first step to its last."""

    def locked(paths: Paths, *values: Any) -> int:
        with lock.cache(paths):
            return main(paths, *values)

    return locked


@_locked
def _kernel(paths: Paths, config: str) -> int:
    build.get(paths, build.tree(paths, config), config)
    return 0


@_locked
def _qemu(paths: Paths) -> int:
    qemu.get(paths)
    return 0


def _lab(paths: Paths, preset_name: str, quick: bool, workload: str) -> int:
    # these import matplotlib, which takes a while
    from harness.lab import programs  # noqa: PLC0415
    from harness.lab import run as lab  # noqa: PLC0415

    if workload == "writers":
        return lab.writers(paths, preset_name)
    if workload:
        return programs.main(paths, preset_name, workload)
    return lab.main(paths, preset_name, quick)


def _layouts(
    paths: Paths, vcpus: int, config: str, offload: bool, pressure: bool, seed: int, count: int
) -> int:
    machine = layouts.Machine(vcpus, config, offload, pressure)
    return layouts.main(paths, machine, seed, count)


def _record(paths: Paths) -> int:
    from harness.checks import record  # noqa: PLC0415 (imports matplotlib)

    return record.main(paths)


def _report(_: Paths, words: Sequence[str], to: str | None) -> int:
    from harness.lab.report import report  # noqa: PLC0415 (imports matplotlib)

    return report.main(files(words), Path(to) if to else None)


def files(words: Sequence[str]) -> list[Path]:
    """Return the files that words name: a path each, or several as a shell takes them apart."""
    names: list[str] = []
    for word in words:
        parts = [word] if Path(word).is_file() else shlex.split(word)
        for part in parts:
            names += sorted(glob.glob(part)) or [part]  # noqa: PTH207 (any directory)
    return [Path(name) for name in names]


def main(argv: Sequence[str]) -> int:
    """Run one command; an error that a user is meant to see is told in one line."""
    args = parser().parse_args(argv)
    paths = default_paths()
    try:
        with lock.checkout(paths):
            if args.command not in _WITHOUT_COMPILER:
                pin(paths)
            return int(args.main(paths, *(getattr(args, name) for name in args.options)))
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
