"""Configuration: a frozen dataclass per job, filled from YAML, with strict keys and types."""

import re
import types
from argparse import ArgumentError
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from drive.contracts import UserError
from drive.files import sha256_json, write_atomic

T = TypeVar("T")


def load_config(cls: type[T], path: str | Path, overrides: Sequence[str] = ()) -> T:
    """Read a YAML file into the dataclass `cls`.

    Args:
        cls: A (frozen) dataclass; fields may be dataclasses, tuples and dicts of them, Optional, Literal.
        path: YAML file.
        overrides: "dotted.key=value" strings that win over the file; values are read as YAML.

    Raises:
        UserError: File missing, not YAML, unknown or missing key, wrong type, or a value the class refuses.
            The message names file, key path and, for unknown keys, the nearest known one.
    """
    where = str(path)
    values = _read_yaml(Path(path))
    for override in overrides:
        _apply_override(values, override)
    _check_keys(cls, values, "", where, tuple(_key_paths(cls)))
    return _build(cls, values, where)


def dump_config(obj: Any, path: Path) -> None:
    """Write a config dataclass as YAML that `load_config` reads back to an equal object."""
    write_atomic(path, yaml.safe_dump(config_dict(obj), sort_keys=False, allow_unicode=True))


def config_sha(obj: Any) -> str:
    """First 12 hex digits of the SHA-256 of a config's values; independent of file layout and comments."""
    return sha256_json(config_dict(obj))[:12]


def config_dict(value: Any) -> Any:
    """Config value as plain dicts, lists and scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: config_dict(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): config_dict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [config_dict(v) for v in value]
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, Path) else value


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such config file{_nearest_file(path)}") from None
    except (IsADirectoryError, PermissionError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as a config file ({error})") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected 'key: value' lines at the top level, got {type(values).__name__}")
    return values


def _nearest_file(path: Path) -> str:
    """Say what is there instead of a missing config."""
    names = sorted(p.name for p in path.parent.glob("*.yaml"))
    return f"; {path.parent} has {', '.join(names)}" if names else ""


def _apply_override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"override {override!r}: write it as dotted.key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UserError(f"override {override!r}: the value is not valid YAML") from None
    *parents, last = key.strip().split(".")
    node = values
    for name in parents:
        child = node.get(name)
        node[name] = child = child if isinstance(child, dict) else {}
        node = child
    node[last] = value


def _check_keys(cls: type, values: Any, at: str, where: str, known: Sequence[str]) -> None:
    """Raise UserError at the first key that `cls` does not have or lacks."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: {at}: expected 'key: value' pairs, got {values!r}")
    hints = get_type_hints(cls)
    names = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in names:
            raise UserError(_unknown_key(f"{at}.{key}".lstrip("."), at, names, where, known))
    for name, entry in names.items():
        here = f"{at}.{name}".lstrip(".")
        if name in values:
            if values[name] is None and type(None) not in (hints[name], *get_args(hints[name])):
                raise UserError(f"{where}: {here}: null is not allowed here")
            for inner, nested, path in _nested(hints[name], values[name], here):
                _check_keys(inner, nested, path, where, known)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise UserError(f"{where}: key {here!r} is missing and has no default")


def _unknown_key(key: str, at: str, names: Mapping[str, Any], where: str, known: Sequence[str]) -> str:
    siblings = [f"{at}.{n}".lstrip(".") for n in names]
    near = get_close_matches(key, siblings, 1, 0.6) or get_close_matches(key, known, 1, 0.6)
    last = key.rsplit(".", 1)[-1]
    near = near or [k for k in known if k.rsplit(".", 1)[-1] == last][:1]
    tail = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(siblings)}"
    return f"{where}: unknown key {key!r}; {tail}"


def _nested(hint: Any, value: Any, at: str) -> Iterator[tuple[type, Any, str]]:
    """Yield (dataclass, value, key path) for each dataclass-typed part of `value`."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, value, at
    elif origin in (Union, types.UnionType):
        candidates = [a for a in args if isinstance(a, type) and is_dataclass(a)]
        if len(candidates) == 1 and isinstance(value, Mapping):
            yield candidates[0], value, at
    elif origin in (tuple, list, Sequence) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _nested(args[0], item, f"{at}[{i}]")
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _nested(args[1], item, f"{at}.{key}")


def _key_paths(cls: type, at: str = "") -> Iterator[str]:
    """Every dotted key of `cls` and the dataclasses directly inside it."""
    hints = get_type_hints(cls)
    for entry in fields(cls):
        here = f"{at}.{entry.name}".lstrip(".")
        yield here
        for option in (hints[entry.name], *get_args(hints[entry.name])):
            if isinstance(option, type) and is_dataclass(option):
                yield from _key_paths(option, here)


def _build(cls: type[T], values: dict[str, Any], where: str) -> T:
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls)
    try:
        built = parser.instantiate(parser.parse_object(values))
        return cls(**{f.name: getattr(built, f.name) for f in fields(cls)})  # type: ignore[arg-type]
    except ArgumentError as error:
        raise UserError(f"{where}: {_readable(str(error))}") from None
    except (UserError, ValueError, TypeError) as error:  # refused by the class itself
        raise UserError(f"{where}: {error}") from None


def _readable(message: str) -> str:
    """A message of jsonargparse as one line: 'train.steps: expected int, got 1.5'."""
    line = " ".join(message.split())
    line = re.sub(r"<class '([\w.]+)'>", r"\1", line)
    line = re.sub(r"Parser key \"([^\"]+)\":", r"\1:", line)
    line = re.sub(r"Expected an? (.+?)\. Got value: (.*)", r"expected \1, got \2", line)
    return line.replace("typing.", "").replace("_type'>", "")
