"""docs/settings.md says what the code says, line by line; docs/evaluation.md leaves no column and no field out."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.datasets import read_questions
from hopgraph.methods import METHODS, READERS, context_class
from hopgraph.views.table import COUNTS, SHARES
from inference.settings import Settings
from nodes.context import Context

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "settings.md").read_text()
EVALUATION = (DOCS / "evaluation.md").read_text()
METHODS_AND_READERS = [*METHODS, *READERS]
UNSET = "–"


def variable_rows():
    """A row of the table for each variable."""
    meanings = docstrings(Settings)
    return [
        row(f"HOPGRAPH_{name.upper()}", field, meanings[name], "the user's data folder" if name == "home" else "")
        for name, field in Settings.model_fields.items()
    ]


def common_rows():
    """A row for each setting that every method has."""
    return [row(name, field, field.description) for name, field in Context.model_fields.items()]


def own_rows(method):
    """A row for each setting that a method alone has, or has with another default, other values or another meaning."""
    chosen = context_class(method)
    rows = [row(name, f, f.description) for name, f in chosen.model_fields.items() if name not in chosen.prompts()]
    return [line for line in rows if line not in common_rows()]


def prompt_line(method):
    """The settings that replace a prompt."""
    return f"Prompts: {', '.join(f'`{field}`' for field in context_class(method).prompts())}."


def paper_line(method):
    """What `preset=paper` stands for; empty where that is the defaults."""
    chosen = context_class(method)
    values = {"retriever": chosen.paper_retriever, **chosen.paper}
    changed = [f"`{name}={value}`" for name, value in values.items() if chosen.model_fields[name].default != value]
    return f"`preset=paper`: {', '.join(changed)}." if changed else ""


def row(name, field, meaning, default=""):
    return f"| `{name}` | {default or default_of(field)} | {values_of(field)} | {' '.join(meaning.split())} |"


def default_of(field):
    """A default as `--set` and the environment take it."""
    value = field.get_default()
    if value is None or field.default_factory is dict:
        return UNSET
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def values_of(field):
    """What a setting may be."""
    kind = next(part for part in parts_of(field.annotation) if part is not type(None))
    if get_origin(kind) is list:
        return f"a list of {listed(get_args(kind)[0])}"
    if get_origin(kind) is Literal:
        return listed(kind)
    if get_origin(kind) is dict:
        return "a JSON object"
    if kind in (int, float):
        words = [listed(part) for part in parts_of(field.annotation) if get_origin(part) is Literal]
        return ", or ".join([bounded("whole number" if kind is int else "number", field), *words])
    return {bool: "`true`, `false`", Path: "a path"}.get(kind, "text")


def parts_of(annotation):
    """The types of a union, without their annotations."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    return [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]


def listed(literal):
    return ", ".join(f"`{choice}`" for choice in get_args(literal))


def bounded(kind, field):
    # In a union the bounds are those of a part of it.
    inner = [mark for part in get_args(field.annotation) for info in get_args(part)[1:] for mark in info.metadata]
    marks = [*field.metadata, *inner]
    bounds = {name: getattr(mark, name) for mark in marks for name in ("ge", "gt", "le") if hasattr(mark, name)}
    said = {name: f"{value:,.0f}" for name, value in bounds.items()}
    if "gt" in said:
        return f"{kind} above {said['gt']}, at most {said['le']}"
    return f"{kind}, {said['ge']} to {said['le']}" if "le" in said else f"{kind}, at least {said['ge']}"


def docstrings(cls):
    """The texts under a class's fields."""
    body = ast.parse(inspect.getsource(cls)).body[0].body
    return {
        field.target.id: text.value.value
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def section(method):
    """What the page says of a method."""
    return PAGE.partition(f"\n### `{method}`\n")[2].partition("\n### ")[0]


@pytest.mark.parametrize("line", [*variable_rows(), *common_rows()])
def test_every_variable_and_every_common_setting_is_on_the_page(line):
    assert line in PAGE.splitlines()


@pytest.mark.parametrize("method", METHODS_AND_READERS)
def test_every_setting_of_a_method_is_in_its_section(method):
    for line in filter(None, [*own_rows(method), prompt_line(method), paper_line(method)]):
        assert line in section(method).splitlines()


def test_the_page_names_no_setting_that_there_is_not():
    known = {*variable_rows(), *common_rows(), *(line for method in METHODS_AND_READERS for line in own_rows(method))}
    assert [line for line in PAGE.splitlines() if line.startswith("| `") and line not in known] == []


@pytest.mark.parametrize("label", [*SHARES.values(), *COUNTS.values()])
def test_every_column_of_the_result_tables_is_explained(label):
    legend = EVALUATION.partition("\n## Reading the tables\n")[2].partition("\n## ")[0]
    assert f"`{label}`" in legend


@pytest.mark.parametrize("field", [field.name for field in fields(Question)])
def test_every_field_of_a_question_is_in_the_table(field):
    table = EVALUATION.partition("\n## Questions of your own\n")[2].partition("\n## ")[0]
    assert f"| `{'supporting_facts' if field == 'gold_sentences' else field}`" in table


def test_the_example_of_a_question_can_be_read(tmp_path):
    (tmp_path / "own.jsonl").write_text(re.search(r"```json\n(.*?)```", EVALUATION, re.DOTALL)[1])
    [question] = read_questions(tmp_path / "own.jsonl")
    assert question.gold_sentences[1] == ("The Silent Harbour: Ann Lee", 1)
    assert [step.answer for step in question.decomposition] == ["Ann Lee", "Paris"]
