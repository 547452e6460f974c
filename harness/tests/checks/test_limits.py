"""limits.toml: lines and words are counted, and a part above its limit is named."""

import pytest

from harness.checks.lint import added, limits, words
from harness.core.errors import HarnessError
from harness.tests.kernel_project import Project

PATCH = """\
Subject: mm: add a line

+++ b/of/the/message
---
--- a/mm/a.c
+++ b/mm/a.c
@@ -1,3 +1,4 @@
 one
-two
+++ b/looks/like/a/file
+--- a/neither
 three
@@ -9 +10 @@ x
-old
+new
diff --git a/mm/b.c b/mm/b.c
--- /dev/null
+++ b/mm/b.c
@@ -0,0 +1,2 @@
+b
+--
\\ No newline at end of file
"""


def lines(**steps: str) -> limits.Lines:
    changes = {f"{name}/0001-x.patch": added.changes(text) for name, text in steps.items()}
    return limits.Lines({"a.py": 5, "tests/a.py": 3}, changes)


def test_a_binary_file_has_no_lines(project: Project) -> None:
    project.write(project.paths.root / "record.xz", "\0\n\n")
    tree = limits.measure(project.paths).tree
    assert (tree["record.xz"], tree["kernel/patches/topics"]) == (0, 3)


def limit(text: str) -> limits.Limit:
    (parsed,) = limits.load(f"[lines]\npart = {{ {text} }}")
    return parsed


def test_changes_are_read_from_hunks_only() -> None:
    changes = added.changes(PATCH)
    assert list(changes) == ["mm/a.c", "mm/b.c"]
    assert changes["mm/a.c"].added == ["++ b/looks/like/a/file", "--- a/neither", "new"]
    assert changes["mm/a.c"].removed == 2
    assert changes["mm/b.c"].added == ["b", "--"]
    with pytest.raises(HarnessError, match=r"last hunk of mm/b\.c"):
        added.changes(PATCH.replace("1,2", "1,3"))


def test_the_last_pattern_decides() -> None:
    assert added.matches(["*", "!tests/*"], "a/b.c")
    assert not added.matches(["*", "!tests/*"], "tests/b.c")
    assert not added.matches(["a/*"], "b/a/c")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('room = ["*"]', 8), ('room = ["*", "!tests/*"]', 5), ('patches = ["live/*"]', 5),
        ('patches = ["live/*"], files = ["mm/a.c"]', 3),
        ('patches = ["live/*"], files = ["mm/a.c"], net = true', 1), ('patches = ["gone/*"]', None),
    ],
)  # fmt: skip
def test_a_part_above_its_cap_fails(text: str, count: int | None) -> None:
    tree = lines(live=PATCH)
    enough = limit(f"{text}, cap = {count or 0}")
    assert enough.count(tree) == count
    every = limit('patches = ["live/*"], cap = 9')
    if count is None:
        assert limits.problems(tree, [enough, every]) == ["limits.toml: part: no file fits"]
        return
    assert limits.problems(tree, [enough, every]) == []
    above = limit(f"{text}, cap = {count - 1}")
    assert limits.problems(tree, [above, every]) == [f"part: {count} lines, {count - 1} allowed"]


def test_each_series_has_a_limit_of_its_own() -> None:
    tree = lines(live=PATCH, new=PATCH)
    some = [limit('patches = ["*"], cap = 99'), limit('patches = ["live/*"], cap = 99')]
    assert limits.problems(tree, some) == ["limits.toml: no limit counts new/0001-x.patch"]


@pytest.mark.parametrize(
    "text",
    ["cap = 1", 'room = ["*"]', 'room = ["*"], cap = 1, x = 1'],
)
def test_a_limit_that_limits_nothing_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match=r"limits\.toml"):
        limit(text)


def test_the_table_has_each_series_and_each_limit() -> None:
    table = limits.table(lines(live=PATCH), [limit('room = ["*"], cap = 1_000')])
    assert table[1].split() == ["live", "1", "5", "0", "0", "0", "0"]
    assert table[-1].split() == ["part", "8", "1,000"]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("The engine copies; a folio waits.", []), ("Nobody\nwaits", ["Nobody waits"]),
        (" * so\n * many of them", ["so many of them"]), ("it shall wait", ["shall wait"]),
        ("/* What copies has to wait. */", ["What copies has to wait. */"]),
        ("a rule: who waits, sleeps", ["who waits, sleeps"]),
        ("the one who waits, or what it needs", []), ("What does it cost? Who pays?", []),
        ("What:\t\t/sys/kernel/x", []), ("case WHAT: what = 1;", []),
        ("a topic, double the laboratory", []),
    ],
)  # fmt: skip
def test_words(text: str, refused: list[str]) -> None:
    assert words.refused(text) == refused


@pytest.mark.parametrize(
    "code",
    ["{} = 1", "{}: int", "x.{} = 1", "[x for x, {} in y]", "with x as {}: pass", "import x as {}",
     "lambda *{}: 1", "def f(*, {}=2): pass", "def {}(): pass", "class {}: pass"],
)  # fmt: skip
def test_a_name_that_says_nothing_is_refused(code: str) -> None:
    for name in ("one", "said", "_found", "ASKED", "found_in"):
        assert words.hollow(code.format(name)) == [f"1: {name}"]
    assert words.hollow(f"{code.format('folios_asked')}; paths == one(found=said.asked)") == []


def test_messages_have_no_word_of_ours() -> None:
    refused = words.refused("A topic of the laboratory doubles it.", message=True)
    assert [phrase.split()[0] for phrase in refused] == ["topic", "laboratory", "doubles"]
