"""Documents of the kernel tree: syntax, links, the format of ABI files."""

import re
from pathlib import Path

import pytest

from harness.checks.lint.docs import abi_problems, link_problems, rst_problems, unlisted
from harness.core import process
from harness.core.paths import ROOT

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


def test_syntax_errors_are_found() -> None:
    assert any("underline too short" in p for p in rst_problems("Titles\n====\n\nx\n", "x.rst"))
    assert any("Unknown directive" in p for p in rst_problems(".. kerneldoc:: x\n", "x.rst"))
    assert any("Unexpected indentation" in p for p in rst_problems("a\nb\n  c\n", "x.rst"))


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


def test_abi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "Documentation/ABI/testing/x"
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    output = ""
    monkeypatch.setattr(process, "attempt", lambda *_: (0, output))

    def problems(text: str) -> list[str]:
        file.write_text(text)
        return abi_problems(tmp_path, [name])

    assert problems(ABI) == []
    assert problems(ABI.replace("Contact:	A list <list@example.com>\n", "", 1)) == [
        f"{name}: entry 1 lacks Contact"
    ]
    assert problems(ABI.replace("November 2026", "").replace("Date:", "Dated:")) == [
        f"{name}: entry {number} lacks Date" for number in (1, 2)
    ]
    assert problems("") == [f"{name}: describes nothing (no What:)"]
    output = f"[WARNING] {tmp_path}/{name}:3: tag 'what' is invalid\n[WARNING] other:1: x\n"
    assert problems(ABI) == [f"[WARNING] {name}:3: tag 'what' is invalid"]


def reached(source: str, name: str, depth: int = 3) -> str:
    """Return a test, macro or function of C or of a shell, and those of this file that it calls."""
    start = rf"^(?:#define |\w[^\n]*\b)?{name}\b"
    end = r"[^\n]*(?:\n\{.*?\n\}|(?:(?<=\\)\n[^\n]*)+|$)"
    match = re.search(start + end, source, re.MULTILINE | re.DOTALL)
    text = match[0] if match else ""
    called = {*re.findall(r"\b(\w{4,})\(", text), name} - {name} if depth else ()
    return text + "".join(reached(source, other, depth - 1) for other in sorted(called))


def test_the_doctors_verdicts_are_those_that_tests_expect() -> None:
    tests = ROOT / "kernel/overlay/tools/testing/selftests/migrate_offload/doctor"
    sources = {"doctor": tests / "migrate_doctor.c", "one": tests / "doctor_verdict.c"}
    codes = {"do not": "DO_NOT", "use it": "USE_IT", "could not tell": "COULD_NOT_TELL"}
    document = (ROOT / "docs/hardware.md").read_text()
    table = re.findall(r"^\|[^|]*\| ([^|]*) \| `(.*)` \| (.*) \|$", document, re.MULTILINE)
    assert len(table) >= 10
    for verdict, words, named in table:
        for suite, test in (name.split() for name in named.split(", ")):
            source = sources.get(suite.split("-")[0], ROOT / "guest/suites" / suite)
            code = codes.get(verdict, "") if source.suffix else ""
            body = reached(source.read_text(), test)
            assert words in body and code in body, (suite, test, verdict, words)
            assert (ROOT / "guest/suites" / suite).exists()
