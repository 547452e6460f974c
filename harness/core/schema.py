"""Documents from outside (JSON, TOML) as typed dataclasses; a mistake is told in one line."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from harness.core.errors import HarnessError

T = TypeVar("T")

_SCALARS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def decode(cls: type[T], value: object, where: str, lenient: bool = False) -> T:
    """Return an instance of dataclass `cls` made of parsed JSON or TOML.

    Fields may be scalars, Literal, Optional, tuple[X, ...], Mapping[str, X] and dataclasses.
    Every field must be there, and nothing else unless `lenient`. Numbers are finite. What
    `__post_init__` of a dataclass refuses with a ValueError is refused here.

    HarnessError begins with `where` and the path of the value, as in "r.json: runs[3].gbps".
    """
    if not isinstance(value, Mapping):
        raise HarnessError(f"{where}: is {_shown(value)}, not an object")
    hints = get_type_hints(cls)
    if missing := sorted(set(hints) - set(value)):
        raise HarnessError(f"{where}: lacks {', '.join(missing)}")
    if (unknown := sorted(set(value) - set(hints))) and not lenient:
        raise HarnessError(f"{where}: has unknown {', '.join(unknown)}")
    separator = "." if where.endswith("]") or ": " in where else ": "
    fields = {
        name: _field(hint, value[name], f"{where}{separator}{name}", lenient)
        for name, hint in hints.items()
    }
    try:
        return cls(**fields)
    except ValueError as error:
        raise HarnessError(f"{where}: {error}") from error


def _field(hint: Any, value: object, where: str, lenient: bool) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        (hint,) = (one for one in arguments if one is not type(None))
        return _field(hint, value, where, lenient)
    if origin in (tuple, Mapping):
        return _container(origin, arguments, value, where, lenient)
    if dataclasses.is_dataclass(hint):
        return decode(hint, value, where, lenient)  # type: ignore[arg-type]
    return _scalar(hint, value, where)


def _container(
    origin: Any, arguments: tuple[Any, ...], value: object, where: str, lenient: bool
) -> Any:
    if origin is tuple:
        if not isinstance(value, list):
            raise HarnessError(f"{where}: is {_shown(value)}, not a list")
        return tuple(
            _field(arguments[0], item, f"{where}[{number}]", lenient)
            for number, item in enumerate(value)
        )
    if not isinstance(value, Mapping):
        raise HarnessError(f"{where}: is {_shown(value)}, not an object")
    return {
        key: _field(arguments[1], item, f"{where}.{key}", lenient)
        for key, item in value.items()
    }


def _scalar(hint: Any, value: object, where: str) -> Any:
    if hint is object:
        return value
    if get_origin(hint) is Literal:
        allowed = get_args(hint)
        if not any(type(value) is type(one) and value == one for one in allowed):
            names = ", ".join(map(str, allowed))
            raise HarnessError(f"{where}: is {_shown(value)}, not one of {names}")
        return value
    kinds = (int, float) if hint is float else (hint,)
    wrong_bool = isinstance(value, bool) and hint is not bool
    if not isinstance(value, kinds) or wrong_bool:
        raise HarnessError(f"{where}: is {_shown(value)}, not {_SCALARS[hint]}")
    if hint is float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise HarnessError(f"{where}: is {_shown(value)}, not a finite number")
        return number
    return value


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def load_json(path: Path) -> object:
    """Return what a JSON file holds; HarnessError names the file and what is wrong."""
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: not JSON: {error}") from error
    return document
