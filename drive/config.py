"""Configuration: a frozen dataclass per job, filled from YAML, with strict keys and types."""

import math
import re
import types
from argparse import ArgumentError
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from drive.contracts import UserError
from drive.files import sha256_json, write_atomic

T = TypeVar("T")
_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)  # ValueError: a date such as 2026-13-45


@dataclass(frozen=True)
class Bounds:
    """Range of a number, as a note in Annotated; noted on a container or dataclass, of every number inside.

    Attributes:
        low, high: Smallest and largest value.
        above: `low` itself is refused as well.
        within: Field of the dataclass this is noted on -> its own bounds.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    within: Mapping[str, "Bounds"] = field(default_factory=dict, hash=False)

    def problem(self, value: float) -> str:
        """Why `value` is out of range, "" if it is not. NaN and infinities are in no range."""
        if not math.isfinite(value):
            return "must be a finite number"
        if value < self.low or (self.above and value == self.low):
            return f"must be {'above' if self.above else 'at least'} {self.low:.10g}"
        return f"must be at most {self.high:.10g}" if value > self.high else ""


Count = Annotated[int, Bounds(0, 2**31 - 1)]
AtLeastOne = Annotated[int, Bounds(1, 2**31 - 1)]
NotNegative = Annotated[float, Bounds(0)]
Positive = Annotated[float, Bounds(0, above=True)]
Share = Annotated[float, Bounds(0, 1)]
_ANY = Bounds()
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def load_config(cls: type[T], path: str | Path, overrides: Sequence[str] = ()) -> T:
    """Read a YAML file into the dataclass `cls`.

    Args:
        cls: A (frozen) dataclass; fields may be dataclasses, tuples and dicts of them, Optional, Literal, and
            numbers with Bounds.
        path: YAML file.
        overrides: "dotted.key=value" strings that win over the file; values are read as YAML.

    Raises:
        UserError: File missing, not YAML, unknown or missing key, wrong type, number out of its bounds, or a
            value the class refuses. The message names file, key path and, for unknown keys, the nearest one.
    """
    values = _read_yaml(Path(path))
    for override in overrides:
        _apply_override(values, override)
    return build_config(cls, values, str(path))


def changed(config: T, overrides: Sequence[str], where: str) -> T:
    """A config with some "dotted.key=value" strings applied.

    Raises:
        UserError: As for `load_config`; `where` says where the strings come from.
    """
    values = config_dict(config)
    for override in overrides:
        _apply_override(values, override)
    return build_config(type(config), values, where)


def build_config(cls: type[T], values: Any, where: str) -> T:
    """Check plain values, as YAML and JSON give them, against the dataclass `cls`, and build it.

    Args:
        cls: As for `load_config`.
        values: Should be a mapping; anything is allowed to come.
        where: Source of the values, for messages.

    Raises:
        UserError: As for `load_config`.
    """
    try:
        _check_keys(cls, values, "", tuple(_key_paths(cls)), _ANY)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
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
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder{_nearest_file(path / 'x')}; give one file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read as a config file ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file ({error}); give a YAML file") from None
    except _NOT_YAML as error:
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
        raise UserError(f"override {_short(override)!r}: write it as dotted.key=value")
    try:
        value = yaml.safe_load(text)
    except _NOT_YAML:
        raise UserError(f"override {_short(override)!r}: the value is not valid YAML") from None
    if isinstance(value, str) and " #" in text and text[0] not in "'\"":
        value = text.strip()  # a path with a #; a comment makes no sense here
    *parents, last = key.strip().split(".")
    node = values
    for name in parents:
        child = node.get(name)
        node[name] = child = child if isinstance(child, dict) else {}
        node = child
    node[last] = value


def _check_keys(cls: type, values: Any, at: str, known: Sequence[str], bounds: Bounds) -> None:
    """Raise UserError at the first key that `cls` does not have or lacks, or at the first wrong value."""
    if not isinstance(values, Mapping):
        raise UserError(f"{at}: expected 'key: value' pairs, got {_short(values)}".removeprefix(": "))
    hints = get_type_hints(cls, include_extras=True)
    names = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in names:
            raise UserError(_unknown_key(f"{at}.{key}".lstrip("."), at, names, known))
    for name, entry in names.items():
        here = f"{at}.{name}".lstrip(".")
        if name in values:
            _check_value(hints[name], values[name], here, known, bounds.within.get(name, bounds))
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise UserError(f"key {here!r} is missing and has no default")


def _unknown_key(key: str, at: str, names: Mapping[str, Any], known: Sequence[str]) -> str:
    siblings = [f"{at}.{n}".lstrip(".") for n in names]
    near = get_close_matches(key, siblings, 1, 0.6) or get_close_matches(key, known, 1, 0.6)
    last = key.rsplit(".", 1)[-1]
    near = near or [k for k in known if k.rsplit(".", 1)[-1] == last][:1]
    tail = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(siblings)}"
    return f"unknown key {key!r}; {tail}"


def _check_value(hint: Any, value: Any, at: str, known: Sequence[str], bounds: Bounds) -> None:
    """Raise UserError, with the key path, at the first part of `value` that is not what `hint` says."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        noted = [note for note in args[1:] if isinstance(note, Bounds)]
        _check_value(args[0], value, at, known, noted[0] if noted else bounds)
    elif value is None:
        if type(None) not in (hint, *args):
            raise UserError(f"{at}: null is not allowed here")
    elif isinstance(hint, type) and is_dataclass(hint):
        _check_keys(hint, value, at, known, bounds)
    elif origin in (Union, types.UnionType):  # the form of the value says which option is meant
        options = [option for option in args if option is not type(None)]
        meant = [option for option in options if _is_list(option) == isinstance(value, list)]
        _check_value((meant or options)[0], value, at, known, bounds)
    elif _is_list(hint):
        for i, (inner, item) in enumerate(zip(_item_hints(args, value, at), value, strict=True)):
            _check_value(inner, item, f"{at}[{i}]", known, bounds)
    elif origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise UserError(f"{at}: expected 'key: value' pairs, got {_short(value)}")
        for key, item in value.items():
            _check_scalar(args[0], key, f"{at}.{key}", bounds)
            _check_value(args[1], item, f"{at}.{key}", known, bounds)
    elif origin is Literal:
        if value not in args:
            raise UserError(f"{at}: expected one of {', '.join(map(str, args))}, got {_short(value)}")
    else:
        _check_scalar(hint, value, at, bounds)


def _is_list(hint: Any) -> bool:
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_origin(hint) in (tuple, list, Sequence)


def _item_hints(args: tuple[Any, ...], value: Any, at: str) -> Sequence[Any]:
    """Type of each item of a list; tuple[A, B] wants exactly two."""
    if not isinstance(value, list):
        raise UserError(f"{at}: expected a list, got {_short(value)}; write [{_short(value)}]")
    if len(args) == 1 or args[1] is Ellipsis:
        return [args[0]] * len(value)
    if len(value) != len(args):
        raise UserError(f"{at}: expected {len(args)} items, got {len(value)}")
    return args


def _check_scalar(hint: Any, value: Any, at: str, bounds: Bounds) -> None:
    if hint in (int, float):
        number = _number(value, hint)
        if number is None:
            raise UserError(f"{at}: expected {hint.__name__}, got {_short(value)}")
        if problem := bounds.problem(number):
            raise UserError(f"{at}: {problem}, got {_short(value)}")
    elif hint in (bool, str, Path):
        wanted_type = str if hint is Path else hint
        if not isinstance(value, wanted_type):
            raise UserError(f"{at}: expected {wanted_type.__name__}, got {_short(value)}")


def _number(value: Any, kind: type) -> float | None:
    """As a float, None if `value` is not of the kind int or float; YAML reads 1e-4 as text."""
    exponent = kind is float and isinstance(value, str) and _EXPONENT.fullmatch(value)
    if not exponent and (
        isinstance(value, bool) or not isinstance(value, int if kind is int else int | float)
    ):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _short(value: Any) -> str:
    """A value as one short line."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _key_paths(cls: type, at: str = "") -> Iterator[str]:
    """Every dotted key of `cls` and the dataclasses directly inside it."""
    hints = get_type_hints(cls)  # without the notes of Annotated
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
