"""Validated settings from plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from inference.errors import InputError, did_you_mean
from nodes.kit.context import Context

Settings = TypeVar("Settings", bound=Context)


def checked(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """The context of plain values.

    Raises:
        InputError: A field is unknown, of the wrong type or out of bounds; the message names it.
    """
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "context"
        if first["type"] != "extra_forbidden":
            raise InputError(f"{name}: {first['msg']}") from None
        hint = f"{did_you_mean(name, cls.model_fields)}settings of {cls.method}: {', '.join(cls.model_fields)}"
        raise InputError(f"{name}: unknown setting", hint=hint) from None


def from_text(text: str) -> Any:
    """A setting's value given as text: parsed as JSON if possible, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
