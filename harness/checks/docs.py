"""Checks of documentation in the kernel tree that need no Sphinx."""

import fnmatch
import functools
import importlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What Sphinx and the kernel's extensions add to reStructuredText.
_DIRECTIVES = (
    "c:function", "c:macro", "c:struct", "c:type", "code-block", "flat-table", "glossary",
    "index", "kernel-doc", "kernel-figure", "literalinclude", "only", "seealso", "toctree",
)  # fmt: skip
_ROLES = (
    "c:data", "c:enum", "c:expr", "c:func", "c:macro", "c:member", "c:struct", "c:type", "doc",
    "download", "envvar", "file", "kbd", "manpage", "option", "ref", "term",
)  # fmt: skip

_KERNEL_DOC = re.compile(r"^\s*\.\. kernel-doc::\s*(\S+)", re.MULTILINE)
_TOCTREE = re.compile(
    r"^( *)\.\. toctree::[^\n]*\n((?:\1[ \t]+\S[^\n]*\n|[ \t]*\n)*)", re.MULTILINE
)
_DOC_ROLE = re.compile(r":doc:`(?:[^`<]*<)?([^`>]+)>?`")
_ABI_FIELD = re.compile(r"^(\w+):")
_ABI_REQUIRED = ("What", "Date", "Contact", "Description")
_ABI_FIELDS = frozenset((*_ABI_REQUIRED, "KernelVersion", "Users"))


@functools.cache
def _docutils() -> Any:
    """Return docutils' core after teaching it the names that Sphinx adds."""
    nodes: Any = importlib.import_module("docutils.nodes")
    rst: Any = importlib.import_module("docutils.parsers.rst")
    roles: Any = importlib.import_module("docutils.parsers.rst.roles")

    class AnyOption(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return rst.directives.unchanged

    def run(_directive: Any) -> list[Any]:
        return []

    accept = type(
        "Accept",
        (rst.Directive,),
        {
            "optional_arguments": 1,
            "final_argument_whitespace": True,
            "has_content": True,
            "option_spec": AnyOption(
                {"": rst.directives.unchanged}
            ),  # an empty one forbids options
            "run": run,
        },
    )
    for name in _DIRECTIVES:
        rst.directives.register_directive(name, accept)

    def role(
        _name: str, raw: str, text: str, *_: Any, **__: Any
    ) -> tuple[list[Any], list[Any]]:
        return [nodes.inline(raw, text)], []

    for name in _ROLES:
        roles.register_local_role(name, role)
    return importlib.import_module("docutils.core")


def rst_problems(text: str, name: str) -> list[str]:
    """Return what docutils finds wrong with a document's syntax."""
    stream = io.StringIO()
    settings = {
        "report_level": 2,
        "halt_level": 5,
        "warning_stream": stream,
        "file_insertion_enabled": False,
        "_disable_config": True,
    }
    _docutils().publish_doctree(text, source_path=name, settings_overrides=settings)
    return [line for line in stream.getvalue().splitlines() if line.startswith(f"{name}:")]


def toctree_entries(text: str) -> list[str]:
    """Return the documents that the tables of contents in a document list."""
    entries = []
    for _, block in _TOCTREE.findall(text):
        for line in block.splitlines():
            word = line.strip()
            if word and not word.startswith(":"):
                match = re.search(r"<([^>]+)>$", word)
                entries.append(match[1] if match else word)
    return entries


def link_problems(tree: Path, document: str) -> list[str]:
    """Return what a document points to that does not exist."""
    text = (tree / document).read_text()
    problems = [
        f"{document}: kernel-doc: {name} does not exist"
        for name in _KERNEL_DOC.findall(text)
        if not (tree / name).is_file()
    ]
    for name in (*toctree_entries(text), *_DOC_ROLE.findall(text)):
        base = tree / "Documentation" if name.startswith("/") else (tree / document).parent
        target = os.path.normpath(base / f"{name.strip('/').removesuffix('.rst')}.rst")
        found = list(base.glob(f"{name}.rst")) if "*" in name else Path(target).is_file()
        if not found:
            problems.append(f"{document}: document {name} does not exist")
    return problems


def unlisted(tree: Path, documents: Iterable[str]) -> list[str]:
    """Return the documents that no table of contents of their directory lists."""
    problems = []
    for document in documents:
        path = Path(document)
        listed = [
            os.path.normpath(index.parent / entry.removesuffix(".rst"))
            for directory in (path.parent, path.parent.parent)
            for index in sorted((tree / directory).glob("*.rst"))
            for entry in toctree_entries(index.read_text(errors="replace"))
        ]
        wanted = os.path.normpath(tree / path.with_suffix(""))
        if not any(fnmatch.fnmatch(wanted, entry) for entry in listed):
            problems.append(f"{document}: in no table of contents")
    return problems


def abi_problems(text: str, name: str) -> list[str]:
    """Return what is wrong with a file of Documentation/ABI (its README has the format)."""
    problems = []
    entries: list[list[str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _ABI_FIELD.match(line)
        if match and match[1] == "What" and (not entries or set(entries[-1]) != {"What"}):
            entries.append(["What"])
        elif match and match[1] not in _ABI_FIELDS:
            problems.append(f"{name}:{number}: unknown field {match[1]}")
        elif match and entries:
            entries[-1].append(match[1])
        elif line[:1].strip() and not match:
            problems.append(f"{name}:{number}: neither a field nor indented")
    if not entries:
        problems.append(f"{name}:1: describes nothing (no What:)")
    for number, fields in enumerate(entries, 1):
        problems += [
            f"{name}: entry {number} lacks {field}"
            for field in _ABI_REQUIRED
            if field not in fields
        ]
    paths = re.findall(r"^What:\s*(\S+)", text, re.MULTILINE)
    problems += [
        f"{name}: {path} is described twice"
        for path in sorted(set(paths))
        if paths.count(path) > 1
    ]
    return problems
