"""The rules of patches and cover letters."""

from dataclasses import replace

import pytest

from harness.core.errors import HarnessError
from harness.kernel.topics import Step, Topic
from harness.series.rules import check, cover_problems, header, patch_problems

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


def test_a_patch_without_problems() -> None:
    assert header(PATCH, "From") == "A Developer <dev@example.com>"
    assert header(PATCH, "Subject") == (
        "mm/migrate: count what is counted when the subject of a patch is folded"
    )
    assert patch_problems(PATCH) == []


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
        ("Date: Fri, 20 Nov 2026 18:00:00 +0000\n", "", "no date"),
        ("--- a/mm", "new file mode 100644\n--- a/mm", "creates mm/migrate.c: new files bel"),
        ("--- a/mm/migrate.c\n+++ b/mm/migrate.c\n", "", "changes nothing"),
    ],
)
def test_patch_problems(old: str, new: str, problem: str) -> None:
    assert old in PATCH
    problems = patch_problems(PATCH.replace(old, new, 1))
    assert any(problem in line for line in problems), problems


def test_long_link_is_allowed() -> None:
    link = "Link: https://lore.kernel.org/" + "x" * 70
    assert patch_problems(PATCH.replace("Nobody did.", f"\n\n{link}")) == []


def test_overlay_files_alone_are_a_patch() -> None:
    text = PATCH.split("---\n", maxsplit=1)[0]
    assert patch_problems(text) == ["changes nothing"]
    assert patch_problems(text, ["mm/new.c"]) == []


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
    assert any(problem in line for line in cover_problems(cover))


def test_check_names_topic_and_step() -> None:
    step = Step("mm", "0001-a.patch", PATCH)
    good = Topic("mm", (step,), (), "mm: a series\n\nIt does something.\n")
    check([good])
    bad = replace(step, text=PATCH.replace("is folded", "is folded."))
    for topic, problem in {
        replace(good, steps=(bad,)): "mm/0001-a.patch: subject ends",
        replace(good, cover="x"): "mm/cover-letter.txt: no blank",
        replace(good, steps=()): "mm: the topic is empty",
    }.items():
        with pytest.raises(HarnessError, match=problem):
            check([topic])
