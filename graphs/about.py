"""What a graph file says of its method: `ABOUT`, read without importing the graph."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

Kind = Literal["baseline", "method", "reader"]
"""A reader answers no question: it prepares an index for a method."""

_FOLDER = Path(__file__).parent
_NO_GRAPHS = ("__init__", "about")
_FORM = 'ABOUT = About(name="...", summary="...", citation="...", published="2026-01", kind="method")'


@dataclass(frozen=True)
class About:
    """A method in brief. Graph files give it in literals: it is read by `ast`, which takes milliseconds."""

    name: str
    """As its paper writes it."""
    summary: str
    """What it does, in a few words."""
    citation: str
    """Authors and title of its paper; "" where there is none."""
    published: str
    """Year and month of the paper's first version, `2026-01`; "" where there is none."""
    kind: Kind

    @property
    def line(self) -> str:
        """Name and summary; of a method without a paper, whose id says as much as its name, the summary."""
        return f"{self.name}: {self.summary}" if self.citation else self.summary


def read_abouts(folder: Path = _FOLDER) -> dict[str, About]:
    """All graphs of a folder by id: baselines, methods, readers, each by publication, then by id.

    Raises:
        InputError: A file has no well-formed `ABOUT`; the message names file and line.
    """
    found = {path.stem: read_about(path) for path in folder.glob("*.py") if path.stem not in _NO_GRAPHS}
    kinds = get_args(Kind)
    return dict(sorted(found.items(), key=lambda row: (kinds.index(row[1].kind), row[1].published, row[0])))


def read_about(path: Path) -> About:
    """`ABOUT` of a graph file.

    Raises:
        InputError: It is missing or malformed; the message names file and line.
    """
    try:
        module = ast.parse(path.read_text("utf-8"))
    except SyntaxError as error:
        _refuse(path, error.lineno or 1, f"is not Python ({error.msg})")
    except (OSError, ValueError) as error:
        _refuse(path, 1, f"can't be read ({error})")
    for line in module.body:
        if isinstance(line, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ABOUT" for t in line.targets):
            return _about(path, line.value)
    _refuse(path, 1, "ABOUT is missing")


def _about(path: Path, call: ast.expr) -> About:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "About" or call.args:
        _refuse(path, call.lineno, "ABOUT must be About(...) with its fields by name")
    values: dict[str, Any] = {}
    wanted = [field.name for field in fields(About)]
    for field in call.keywords:
        if field.arg not in wanted:
            _refuse(path, field.lineno, f"ABOUT: no such field: {field.arg or '**'}")
        if not isinstance(field.value, ast.Constant) or not isinstance(field.value.value, str):
            _refuse(path, field.lineno, f"ABOUT: {field.arg} must be text, and a literal")
        values[field.arg] = field.value.value
        if problem := _problem(field.arg, values[field.arg]):
            _refuse(path, field.lineno, f"ABOUT: {field.arg} {problem}")
    if missing := [name for name in wanted if name not in values]:
        _refuse(path, call.lineno, f"ABOUT: {missing[0]} is missing")
    return About(**values)


def _problem(field: str, value: str) -> str:
    if "\n" in value:
        return "must be one line"
    if field in ("name", "summary") and not value.strip():
        return "is empty"
    if field == "published" and value and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", value):
        return f"must be year and month, such as 2026-01, not {value!r}"
    if field == "kind" and value not in get_args(Kind):
        return f"must be one of {', '.join(get_args(Kind))}, not {value!r}"
    return ""


def _refuse(path: Path, line: int, problem: str) -> NoReturn:
    from inference.errors import InputError

    raise InputError(f"{path}, line {line}: {problem}", hint=_FORM)
