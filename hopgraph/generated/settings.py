"""The tables of docs/settings.md: all settings and environment variables, with default, values and meaning."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from hopgraph.methods import ABOUTS, METHODS, context_class
from inference.settings import Settings
from nodes.kit.context import Context

_UNSET = "–"


def common() -> str:
    """The settings common to all methods."""
    return _table("setting", _common_rows())


def of_methods() -> str:
    """A section per method: its own settings, other defaults, its paper's settings, its prompts."""
    return "\n\n".join(f"### `{method}`\n\n{_of(context_class(method))}" for method in ABOUTS)


def variables() -> str:
    """The environment variables."""
    meanings = _docstrings(Settings)
    defaults = {"home": "the user's data folder"}
    rows = [
        _row(f"HOPGRAPH_{name.upper()}", field, meanings[name], defaults.get(name, ""))
        for name, field in Settings.model_fields.items()
    ]
    return _table("variable", rows)


def _table(first: str, rows: list[str]) -> str:
    return "\n".join([f"| {first} | default | values | meaning |", "|---|---|---|---|", *rows])


def _common_rows() -> list[str]:
    return [_row(name, field, field.description or "") for name, field in Context.model_fields.items()]


def _of(chosen: type[Context]) -> str:
    fields = chosen.model_fields.items()
    rows = [_row(name, field, field.description or "") for name, field in fields if name not in chosen.prompts()]
    own = [row for row in rows if row not in _common_rows()]
    prompts = f"Prompts: {', '.join(f'`{field}`' for field in chosen.prompts())}." if chosen.prompts() else ""
    presets = " ".join(filter(None, [_embedded(chosen), _paper(chosen)]))
    return "\n\n".join(filter(None, [_table("setting", own) if own else "", presets, prompts]))


def _embedded(chosen: type[Context]) -> str:
    """The defaults of the embedded model; "" if they are the usual ones."""
    return f"Embedded model: {_listed_values(chosen.embedded)}." if chosen.embedded else ""


def _paper(chosen: type[Context]) -> str:
    """The settings of `preset=paper`; "" if they are the defaults."""
    searches = chosen.searches and chosen.method in METHODS
    values = ({"retriever": chosen.paper_retriever} if searches else {}) | chosen.paper
    changed = {name: value for name, value in values.items() if chosen.model_fields[name].default != value}
    return f"`preset=paper`: {_listed_values(changed)}." if changed else ""


def _listed_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in values.items())


def _row(name: str, field: FieldInfo, meaning: str, default: str = "") -> str:
    return f"| `{name}` | {default or _default(field)} | {_values(field)} | {' '.join(meaning.split())} |"


def _default(field: FieldInfo) -> str:
    """A default, as written with `--set` or in the environment."""
    value = field.get_default()
    if value is None or field.default_factory is dict:
        return _UNSET
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _values(field: FieldInfo) -> str:
    """Allowed values of a setting."""
    parts = _parts(field.annotation)
    kind: Any = next(part for part in parts if part is not type(None))
    if get_origin(kind) is list:
        return f"a list of {_listed(get_args(kind)[0])}"
    if get_origin(kind) is Literal:
        return ", or ".join([_listed(kind), *("a path" for part in parts if part is Path)])
    if get_origin(kind) is dict:
        return "a JSON object"
    if kind in (int, float):
        words = [_listed(part) for part in parts if get_origin(part) is Literal]
        return ", or ".join([_bounded("whole number" if kind is int else "number", field), *words])
    return {bool: "`true`, `false`", Path: "a path"}.get(kind, "text")


def _parts(annotation: Any) -> list[Any]:
    """The types of a union, without their annotations."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    return [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]


def _listed(literal: Any) -> str:
    return ", ".join(f"`{choice}`" for choice in get_args(literal))


def _bounded(kind: str, field: FieldInfo) -> str:
    # In a union, one of its parts has the bounds.
    inner = [mark for part in get_args(field.annotation) for info in get_args(part)[1:] for mark in info.metadata]
    marks = [*field.metadata, *inner]
    bounds = {name: getattr(mark, name) for mark in marks for name in ("ge", "gt", "le") if hasattr(mark, name)}
    shown = {name: f"{value:,.0f}" for name, value in bounds.items()}
    if "gt" in shown:
        return f"{kind} above {shown['gt']}, at most {shown['le']}"
    return f"{kind}, {shown['ge']} to {shown['le']}" if "le" in shown else f"{kind}, at least {shown['ge']}"


def _docstrings(cls: type) -> dict[str, str]:
    """Docstrings of a class's fields."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101
    return {
        field.target.id: str(text.value.value)
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
