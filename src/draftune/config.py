"""Frozen keyword-only dataclasses made from plain settings; a setting nobody knows is an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args, get_type_hints

import pydantic

from draftune import errors

ConfigT = TypeVar("ConfigT")


def make(kind: type[ConfigT], settings: Mapping[str, Any], *, doing: str) -> ConfigT:
    """An instance of the dataclass `kind`, its values checked and converted ("0.5" -> 0.5).

    Raises ConfigError for a name that `kind` does not have, and for a value of the wrong type or range.
    """
    hints = get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    values = {}
    for name, value in settings.items():
        if name not in known:
            raise errors.ConfigError(doing=doing, met=f"unknown setting {name!r}", todo=errors.nearest(name, known))
        values[name] = _convert(hints[name], value, doing=f"{doing}, setting {name!r}")
    try:
        return kind(**values)
    except errors.DraftuneError:
        raise
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(doing=doing, met=str(error), todo="correct the setting") from error


def _convert(hint: Any, value: Any, *, doing: str) -> Any:
    if isinstance(value, str) and value.lower() == "none" and type(None) in get_args(hint):
        return None
    if isinstance(value, Mapping) and _is_config(hint):
        return make(hint, value, doing=doing)
    try:
        adapter = pydantic.TypeAdapter(hint, config=pydantic.ConfigDict(arbitrary_types_allowed=True))
    except pydantic.PydanticUserError:  # a dataclass carries its own configuration
        adapter = pydantic.TypeAdapter(hint)
    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        met = f"{value!r} does not fit ({error.errors()[0]['msg'].lower()})"
        raise errors.ConfigError(doing=doing, met=met, todo="correct the value") from error


def _is_config(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def to_dict(config: Any) -> dict[str, Any]:
    """Plain JSON-able settings from which `make` builds the same config again."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config) if field.init}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def at_least(config: Any, *, doing: str, **least: float) -> None:
    """Raise ConfigError where a numeric setting of `config` lies below what is possible; None passes."""
    for name, low in least.items():
        value = getattr(config, name)
        if isinstance(value, int | float) and not value >= low:
            raise errors.ConfigError(doing=doing, met=f"{name} = {value}", todo=f"give at least {low:g}")


def override(config: ConfigT, assignments: Iterable[str], *, doing: str) -> ConfigT:
    """`config` with dotted settings replaced, as in `override(config, ["recent.settings.width=256"])`."""
    settings = to_dict(config)
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals:
            raise errors.ConfigError(doing=doing, met=f"{assignment!r} has no '='", todo="write NAME=VALUE")
        *parents, last = path.strip().split(".")
        level: Any = settings
        for parent in parents:
            if not isinstance(level.get(parent), dict):
                raise errors.ConfigError(
                    doing=doing, met=f"unknown setting {path!r}", todo=errors.nearest(parent, level)
                )
            level = level[parent]
        level[last] = value.strip()
    return make(type(config), settings, doing=doing)
