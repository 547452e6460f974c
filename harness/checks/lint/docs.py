"""Documentation in the kernel tree: syntax, links, ABI files, kernel-doc, MAINTAINERS.

Sphinx would bring 20 more packages, and read every document of a directory to check one.
"""

import io
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath

from docutils import core  # type: ignore[import-untyped]

from harness.checks.lint import diagnostics
from harness.checks.lint.diagnostics import Diagnostic
from harness.core import process
from harness.core.errors import HarnessError
from harness.kernel.tree import Tree

# Directives and roles that Sphinx and the kernel's extensions add to reStructuredText.
_SPHINX = frozenset((
    "c:data", "c:enum", "c:expr", "c:func", "c:function", "c:macro", "c:member", "c:struct",
    "c:type", "code-block", "doc", "download", "envvar", "file", "flat-table", "glossary",
    "index", "kbd", "kernel-doc", "kernel-figure", "literalinclude", "manpage", "only",
    "option", "ref", "seealso", "term", "toctree",
))  # fmt: skip
_UNKNOWN = re.compile(r'Unknown (?:directive type|interpreted text role) "([^"]+)"')
_KERNEL_DOC = re.compile(r"^\s*\.\. kernel-doc::\s*(\S+)", re.MULTILINE)
_TOCTREE = re.compile(
    r"^( *)\.\. toctree::[^\n]*\n((?:\1[ \t]+\S[^\n]*\n|[ \t]*\n)*)", re.MULTILINE
)
_DOC_ROLE = re.compile(r":doc:`(?:[^`<]*<)?([^`>]+)>?`")


def rst_problems(text: str, name: str) -> list[str]:
    """Return what docutils finds wrong with a document's syntax."""
    stream = io.StringIO()
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": stream,
                "file_insertion_enabled": False, "_disable_config": True}  # fmt: skip
    core.publish_doctree(text, source_path=name, settings_overrides=settings)
    problems = []
    for line in stream.getvalue().splitlines():
        unknown = _UNKNOWN.search(line)
        if line.startswith(f"{name}:") and not (unknown and unknown[1] in _SPHINX):
            problems.append(line)
    return problems


def toctree_entries(text: str) -> list[str]:
    """Return the documents that the tables of contents in a document list."""
    lines = (line.strip() for _, block in _TOCTREE.findall(text) for line in block.splitlines())
    return [re.sub(r".*<([^>]+)>$", r"\1", line) for line in lines if line[:1] not in ("", ":")]


def link_problems(tree: Path, document: str) -> list[str]:
    """Return what a document points to that does not exist."""
    text = (tree / document).read_text()
    lost = [name for name in _KERNEL_DOC.findall(text) if not (tree / name).is_file()]
    problems = [f"{document}: kernel-doc: {name} does not exist" for name in lost]
    for name in (*toctree_entries(text), *_DOC_ROLE.findall(text)):
        base = tree / "Documentation" if name.startswith("/") else (tree / document).parent
        target = os.path.normpath(base / f"{name.strip('/').removesuffix('.rst')}.rst")
        exists = list(base.glob(f"{name}.rst")) if "*" in name else Path(target).is_file()
        if not exists:
            problems.append(f"{document}: document {name} does not exist")
    return problems


def unlisted(tree: Path, documents: Iterable[str]) -> list[str]:
    """Return the documents that no table of contents of their directory lists."""

    def listed(directory: Path) -> set[str]:
        texts = (index.read_text(errors="replace") for index in directory.glob("*.rst"))
        return {entry.removesuffix(".rst") for text in texts for entry in toctree_entries(text)}

    return [
        f"{document}: in no table of contents"
        for document in documents
        if Path(document).stem not in listed((tree / document).parent)
    ]


def abi_problems(tree: Path, names: Iterable[str]) -> list[str]:
    """Return what is wrong with files of Documentation/ABI (its README has the format)."""
    command = ["python3", "tools/docs/get_abi.py", "--dir", str(tree / "Documentation/ABI")]
    status, text = process.attempt([*command, "validate"], tree)
    if status:
        raise HarnessError("get_abi.py cannot read Documentation/ABI", text)
    lines = text.replace(f"{tree}/", "").splitlines()
    problems = []
    for name in names:
        problems += [line for line in lines if name in line]
        # The tool does not ask for these.
        entries = re.split(r"(?:^What:.*\n)+", (tree / name).read_text(), flags=re.MULTILINE)
        problems += [f"{name}: describes nothing (no What:)"] * (len(entries) < 2)
        problems += [
            f"{name}: entry {number} lacks {field}"
            for number, entry in enumerate(entries[1:], 1)
            for field in ("Date", "Contact")
            if not re.search(f"^{field}:", entry, re.MULTILINE)
        ]
    return problems


def check(tree: Path, files: Collection[str], new: Collection[str]) -> list[str]:
    """Check documents that the series touches; those that are `new` must be faultless."""
    abi = [name for name in files if name.startswith("Documentation/ABI/")]
    documents = [name for name in files if re.match(r"Documentation/.*\.rst$", name)]
    problems = abi_problems(tree, abi)
    for name in documents:
        if name in new:
            problems += rst_problems((tree / name).read_text(), name)
        problems += link_problems(tree, name)
    return problems + unlisted(tree, [name for name in documents if name in new])


def kernel_doc(tree: Tree) -> list[str]:
    """Check kernel-doc comments: none wrong in our files, none newly so in edited ones."""
    names, pristine = documented(tree.files), tree.source.pristine
    before = [name for name in names if (pristine / name).exists()]
    known = _kernel_doc(pristine, before) if before else []
    complaints = _kernel_doc(tree.path, names)
    return [str(complaint) for complaint in diagnostics.fresh(complaints, known)]


def documented(names: Iterable[str]) -> list[str]:
    """Return the files in which kernel-doc comments may be."""
    return [name for name in names if re.match(r"(?!tools/).*\.[ch]$", name)]


def _kernel_doc(tree: Path, names: Sequence[str]) -> list[Diagnostic]:
    _, text = process.attempt(["scripts/kernel-doc", "-none", "-Wall", *names], tree)
    known = re.compile(r"(Warning|Error|Info): | \* |\d+ ")  # " * " is the line complained of
    if strange := [line for line in text.splitlines() if not known.match(line)]:
        raise HarnessError(f"kernel-doc: {strange[-1]}", text)
    return diagnostics.parse(diagnostics.KERNEL_DOC, text, tree)


def unmaintained(tree: Tree, new: Iterable[str]) -> list[str]:
    """Return the new files that MAINTAINERS does not name."""
    before = (tree.source.pristine / "MAINTAINERS").read_text()
    after = (tree.path / "MAINTAINERS").read_text()
    return [
        f"{name}: no F: line of MAINTAINERS covers it"
        for name in new
        if not maintained(name, before, after)
    ]


def maintained(name: str, before: str, after: str) -> bool:
    """Tell whether a new file has a maintainer, by MAINTAINERS before and after.

    What counts is an F: line that came with the series, or an older one for exactly the
    file's directory; the catch-alls for whole subsystems do not.
    """
    path = PurePosixPath(name)
    old, new = (re.findall(r"^F:\s*(\S+)", text, re.MULTILINE) for text in (before, after))
    return f"{path.parent}/" in old or any(
        part.match(pattern)
        for pattern in set(new) - set(old)
        for part in (path.parents if pattern.endswith("/") else [path])
    )
