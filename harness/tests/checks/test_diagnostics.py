"""Complaints of tools, and those that the series has to answer for."""

from pathlib import Path

from harness.checks.lint.diagnostics import COMPILER, Diagnostic, fresh, ours, parse, suspects

TREE = Path("/t/tree")
OUTPUT = """\
  CC      mm/migrate.o
/t/tree/mm/migrate.c: In function 'f':
/t/tree/mm/migrate.c:10:5: warning: unused variable 'x' [-Wunused-variable]
   10 | int x;
/t/tree/mm/migrate.c:20:1: warning: symbol 'y' was not declared. Should it be static?
/t/tree/include/linux/h.h:3:1: error: too long token expansion
/t/tree/include/linux/h.h:3:1: error: too long token expansion
make[4]: *** [/t/tree/scripts/Makefile.build:287: mm/migrate.o] Error 1
"""


def test_parse_compiler() -> None:
    gcc, sparse, header = parse(COMPILER, OUTPUT, TREE)
    assert str(gcc) == "mm/migrate.c:10: warning: unused variable 'x' [-Wunused-variable]"
    assert gcc.from_gcc
    assert (sparse.file, sparse.line, sparse.from_gcc) == ("mm/migrate.c", 20, False)
    assert header.level == "error"


def warning(file: str, line: int, text: str, level: str = "warning") -> Diagnostic:
    return Diagnostic(file, line, level, text)


def test_fresh_ones_ignore_moved_lines_but_not_repetition() -> None:
    before = [warning("a.c", 1, "unused 'x'")]
    after = [warning("a.c", 9, "unused 'x'"), warning("a.c", 12, "unused 'x'")]
    assert fresh(after, before) == [after[1]]


def test_ours() -> None:
    vanilla = [warning("mm/edited.c", 1, "old")]
    patched = [
        warning("mm/edited.c", 5, "old"),
        warning("mm/edited.c", 6, "new"),
        warning("include/other.h", 7, "noise of a header"),
        warning("include/other.h", 8, "which silences sparse", "error"),
    ]
    assert ours(patched, vanilla, {"mm/edited.c"}.__contains__) == [patched[1], patched[3]]


def test_vanilla_sources_with_nothing_to_forgive_are_not_compiled() -> None:
    sources = ["mm/edited.c", "mm/clean.c"]
    touched = {*sources, "include/ours.h"}.__contains__
    noise = warning("include/other.h", 7, "noise of a header")
    assert suspects([noise], sources, touched) == []
    assert suspects([noise, warning("mm/edited.c", 5, "old")], sources, touched) == sources[:1]
    for header in (warning("include/ours.h", 1, "old"), warning("other.h", 1, "x", "error")):
        assert suspects([header], sources, touched) == sources
