"""Documents of the kernel tree: syntax, links, the format of ABI files."""

from pathlib import Path

from harness.checks.docs import (
    abi_problems,
    link_problems,
    rst_problems,
    toctree_entries,
    unlisted,
)

GOOD = """\
.. SPDX-License-Identifier: GPL-2.0

=====
Title
=====

Text with :ref:`a label <label>`, :c:func:`f()`, ``code`` and::

	a literal block

.. kernel-doc:: include/linux/x.h
   :identifiers: one two

.. toctree::
   :maxdepth: 1

   other
   Named <dir/third>

More text.
"""

ABI = """\
What:		/sys/kernel/mm/x/enabled
Date:		November 2026
Contact:	A list <list@example.com>
Description:
		The switch.

What:		/sys/kernel/mm/x/a
What:		/sys/kernel/mm/x/b
Date:		November 2026
Contact:	A list <list@example.com>
Description:	Two files.
"""


def test_good_document() -> None:
    assert rst_problems(GOOD, "x.rst") == []


def test_syntax_errors_are_found() -> None:
    assert any("underline too short" in p for p in rst_problems("Titles\n====\n\nx\n", "x.rst"))
    assert any("Unknown directive" in p for p in rst_problems(".. kerneldoc:: x\n", "x.rst"))
    assert any("Unexpected indentation" in p for p in rst_problems("a\nb\n  c\n", "x.rst"))


def test_toctree_entries() -> None:
    assert toctree_entries(GOOD) == ["other", "dir/third"]


def test_links(tmp_path: Path) -> None:
    docs = tmp_path / "Documentation/mm"
    (docs / "dir").mkdir(parents=True)
    (docs / "x.rst").write_text(GOOD)
    (docs / "other.rst").touch()
    assert link_problems(tmp_path, "Documentation/mm/x.rst") == [
        "Documentation/mm/x.rst: kernel-doc: include/linux/x.h does not exist",
        "Documentation/mm/x.rst: document dir/third does not exist",
    ]
    (docs / "dir/third.rst").touch()
    (tmp_path / "include/linux").mkdir(parents=True)
    (tmp_path / "include/linux/x.h").touch()
    assert link_problems(tmp_path, "Documentation/mm/x.rst") == []


def test_unlisted(tmp_path: Path) -> None:
    docs = tmp_path / "Documentation/mm"
    docs.mkdir(parents=True)
    (docs / "index.rst").write_text(GOOD)
    names = ["Documentation/mm/other.rst", "Documentation/mm/new.rst"]
    assert unlisted(tmp_path, names) == ["Documentation/mm/new.rst: in no table of contents"]


def test_abi() -> None:
    assert abi_problems(ABI, "x") == []
    assert abi_problems(ABI.replace("Contact:	A list <list@example.com>\n", "", 1), "x") == [
        "x: entry 1 lacks Contact"
    ]
    assert abi_problems(ABI.replace("Date:", "Dated:", 1), "x") == [
        "x:2: unknown field Dated",
        "x: entry 1 lacks Date",
    ]
    assert abi_problems(ABI.replace("x/b", "x/a"), "x") == [
        "x: /sys/kernel/mm/x/a is described twice"
    ]
    assert abi_problems("", "x") == ["x:1: describes nothing (no What:)"]
