"""The plan of the series: every overlay file in one step, every message in order."""

import pytest

from harness.core.errors import HarnessError
from harness.kernel.tree import parse_series
from harness.series.plan import (
    assign_overlay,
    cover_problems,
    make_plan,
    message_problems,
    parse_message,
)

PATCH = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Developer <dev@example.com>
Date: Fri, 20 Nov 2026 18:00:00 +0000
Subject: [PATCH 2/9] mm/migrate: count what is counted when the subject of a
 patch is folded

Count it. Nobody did.

---
 mm/migrate.c | 1 +

diff --git a/mm/migrate.c b/mm/migrate.c
--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -1 +1,2 @@
 one
+two
"""
COVER = "mm: a series\n\nIt does something.\n"


def problems_of(
    series: str, texts: dict[str, str], overlay: list[str], cover: str = COVER
) -> str:
    with pytest.raises(HarnessError) as caught:
        make_plan(series, texts, overlay, cover)
    return f"{caught.value}\n{caught.value.detail}"


def test_parse_message() -> None:
    message = parse_message(PATCH)
    assert message.author == "A Developer <dev@example.com>"
    assert message.subject == (
        "mm/migrate: count what is counted when the subject of a patch is folded"
    )
    assert message.body == ("Count it. Nobody did.",)
    assert message_problems(message) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("mm/migrate: count", "Count", "subject is not 'subsystem: summary'"),
        ("is folded", "is folded.", "full stop"),
        ("is folded", "is folded, and then longer than it may be", "subject has"),
        ("Count it. Nobody did.\n", "", "no message body"),
        ("Nobody", "Nobody " * 15, "message line 1 has"),
        ("Nobody did.", "\n\nSigned-off-by: A <a@example.com>", "sign-off"),
        ("From: A Developer <dev@example.com>\n", "", "no author"),
    ],
)
def test_message_problems(old: str, new: str, problem: str) -> None:
    assert old in PATCH
    found = message_problems(parse_message(PATCH.replace(old, new, 1)))
    assert any(problem in one for one in found), found


def test_long_link_is_allowed() -> None:
    link = "Link: https://lore.kernel.org/" + "x" * 70
    assert message_problems(parse_message(PATCH.replace("Nobody did.", f"\n\n{link}"))) == []


@pytest.mark.parametrize(
    ("cover", "problem"),
    [
        ("", "not a subject"),
        ("subject\n", "no blank line and body"),
        ("subject\nbody\n", "no blank line and body"),
        ("s" * 80 + "\n\nbody\n", "not a subject"),
        ("subject\n\n" + "b" * 80 + "\n", "80 columns"),
        ("subject\n\nSigned-off-by: A <a@example.com>\n", "sign-off"),
    ],
)
def test_cover_problems(cover: str, problem: str) -> None:
    assert any(problem in one for one in cover_problems(cover))


def test_overlay_directories_are_expanded() -> None:
    entries = parse_series("0001-a.patch dir/ mm/x.c # comment\n# none\n0002-b.patch dir2\n")
    files = ["dir/a", "dir/b/c", "dir2/d", "mm/x.c"]
    assigned, problems = assign_overlay(entries, files)
    assert assigned == [("dir/a", "dir/b/c", "mm/x.c"), ("dir2/d",)]
    assert problems == []


def test_overlay_file_in_no_step() -> None:
    assert "mm/b.c: overlay file is in no step" in problems_of(
        "0001-a.patch mm/a.c", {"0001-a.patch": PATCH}, ["mm/a.c", "mm/b.c"]
    )


def test_overlay_file_in_two_steps() -> None:
    texts = {"0001-a.patch": PATCH, "0002-b.patch": PATCH}
    assert "step 2 (0002-b.patch): mm/a.c already belongs to step 1" in problems_of(
        "0001-a.patch mm/a.c\n0002-b.patch mm/", texts, ["mm/a.c"]
    )


def test_overlay_file_that_is_not_there() -> None:
    assert "step 1 (0001-a.patch): mm/a.c is not in the overlay" in problems_of(
        "0001-a.patch mm/a.c", {"0001-a.patch": PATCH}, []
    )


def test_patch_that_is_missing_unlisted_twice_or_out_of_order() -> None:
    found = problems_of(
        "0002-b.patch\n0001-a.patch\n0001-a.patch",
        {"0001-a.patch": PATCH, "0003-c.patch": PATCH},
        [],
    )
    assert "series names 0002-b.patch, which does not exist" in found
    assert "series names 0001-a.patch twice" in found
    assert "0003-c.patch is not in the series" in found
    assert "not in the order" in found


def test_patch_must_not_create_or_edit_our_files() -> None:
    new = PATCH.replace("--- a/mm", "new file mode 100644\n--- a/mm")
    found = problems_of("0001-a.patch mm/migrate.c", {"0001-a.patch": new}, ["mm/migrate.c"])
    assert "creates mm/migrate.c: new files belong in the overlay" in found
    assert "edits mm/migrate.c, an overlay file" in found


def test_empty_series() -> None:
    assert "the series is empty" in problems_of("# nothing\n", {}, [])


def test_plan() -> None:
    plan = make_plan("0001-a.patch mm/", {"0001-a.patch": PATCH}, ["mm/a.c"], COVER)
    assert plan.touched == ["mm/a.c", "mm/migrate.c"]
    assert plan.steps[0].label == "step 1 (0001-a.patch)"
