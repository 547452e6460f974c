"""Command line: one subcommand for each target of the Makefile."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import demo
from harness.checks import main as check
from harness.checks.lint import run as lint
from harness.core import lock, ui
from harness.core.errors import HarnessError
from harness.core.paths import default_paths
from harness.guest import suite
from harness.kernel import build
from harness.lab.model import preset
from harness.mutants import run as mutants
from harness.series import export

Command = Callable[[argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(prog="python3 -m harness", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    def command(name: str, run: Command, help_text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text)
        sub.set_defaults(run=run)
        return sub

    def config(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--config", choices=list(build.CONFIGS), default="base")

    show = command("demo", _demo, "migrate process memory through a DMA engine, and verify")
    show.add_argument("--engine", choices=list(demo.ENGINES), default=demo.DMASIM.name)
    command("check", _check, "all tests")
    config(command("kernel", _kernel, "the patched kernel and modules"))
    command("series", _series, "a series for git am")
    command("lint", _lint, "all linters")
    one = command("guest", _guest, "one suite in the guest")
    config(one)
    one.add_argument("--args", default="", help="comma separated arguments of the suite")
    one.add_argument("suite")
    lab = command("lab", _lab, "measure against a modelled engine in virtual time")
    lab.add_argument("--preset", default=preset.DEFAULT, help="engine, a file in lab/presets")
    lab.add_argument("--quick", action="store_true", help="a part of it, in 3 minutes")
    layouts = command("layouts", _layouts, "random layouts of memory, against vanilla")
    layouts.add_argument("--count", type=int, default=500, help="how many")
    layouts.add_argument("--seed", type=int, default=1, help="the first one")
    layouts.add_argument("--vcpus", type=int, default=1, help="1 or 2")
    report = command("report", _report, "the lab's report, from results.json")
    files = report.add_argument("--from", dest="files", nargs="*", type=Path, default=[])
    files.help = "results.json, or files written by migrate_bench"
    report.add_argument("--to", help="directory (default: beside the first file)")
    command("bench-copy", _bench_copy, "the kernel's copy primitives on this machine")
    command("bench-mt", _bench_mt, "what a second thread brings to mtcopy on this machine")
    mutants = command("mutants", _mutants, "break the code on purpose, and see tests go red")
    mutants.add_argument("--only", default="", help="names, prefixes, globs or claims: a,b")
    config(command("shell", _shell, "an interactive shell in the guest"))
    return top


def _demo(args: argparse.Namespace) -> int:
    return demo.main(default_paths(), args.engine)


def _check(_: argparse.Namespace) -> int:
    return check.main(default_paths())


def _kernel(args: argparse.Namespace) -> int:
    suite.kernel(default_paths(), args.config)
    return 0


def _series(args: argparse.Namespace) -> int:
    with lock.cache(default_paths()):
        return export.main(args.rest)


def _lint(args: argparse.Namespace) -> int:
    with lock.cache(default_paths()):
        return lint.main(args.rest)


def _guest(args: argparse.Namespace) -> int:
    return suite.main(default_paths(), args.config, args.suite, args.args)


def _shell(args: argparse.Namespace) -> int:
    return suite.shell(default_paths(), args.config)


def _lab(args: argparse.Namespace) -> int:
    from harness.lab import run as lab  # noqa: PLC0415 (imports matplotlib, which takes a while)

    return lab.main(default_paths(), args.preset, args.quick)


def _layouts(args: argparse.Namespace) -> int:
    from harness.layouts import run as layouts  # noqa: PLC0415 (as the laboratory, whose kernels it takes)

    return layouts.main(default_paths(), args.seed, args.count, args.vcpus)


def _mutants(args: argparse.Namespace) -> int:
    return mutants.main(default_paths(), args.only)


def _report(args: argparse.Namespace) -> int:
    from harness.lab.report import report as lab_report  # noqa: PLC0415 (imports matplotlib, which takes a while)

    return lab_report.main(args.files, Path(args.to) if args.to else None)


def _bench_copy(_: argparse.Namespace) -> int:
    from harness.bench import copy  # noqa: PLC0415 (as the two above)

    return copy.main(default_paths())


def _bench_mt(_: argparse.Namespace) -> int:
    from harness.bench import mt  # noqa: PLC0415 (takes a while, and few need it)

    return mt.main(default_paths())


def main(argv: Sequence[str]) -> int:
    """Run one command; a HarnessError is told in one line."""
    top = parser()
    args, rest = top.parse_known_args(argv)
    args.rest = rest
    if rest and args.run not in (_series, _lint):  # these parse the rest themselves
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        run: Command = args.run
        return run(args)
    except HarnessError as error:
        if error.detail:
            ui.plain(error.detail)
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
