"""Files that the harness writes and reads again: whole or not at all, and checked."""

import hashlib
import json
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core.errors import HarnessError

T = TypeVar("T")


def digest(*parts: str) -> str:
    """Name some content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def key(parts: object) -> str:
    """Name a document of JSON's own types, in 16 digits; the order of members does not count."""
    return digest(json.dumps(parts, sort_keys=True))[:16]


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step: a reader, or a crash, never meets half of it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def write(path: Path, document: object) -> None:
    """Replace a JSON file in one step."""
    write_text(path, json.dumps(msgspec.to_builtins(document), indent=2) + "\n")


def decode(kind: type[T], text: str | bytes, where: str) -> T:
    """Return JSON text as `kind`; HarnessError says `where` and what does not fit."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise HarnessError(f"{where}: {error}") from error


def load(kind: type[T], path: Path) -> T:
    """Return a JSON file that a user or a program wrote; HarnessError names the file."""
    try:
        return decode(kind, path.read_bytes(), str(path))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error


def recall(kind: type[T], path: Path) -> T | None:
    """Return the harness's own note, or None if it is missing or damaged: then do it again."""
    try:
        return load(kind, path)
    except HarnessError:
        return None
