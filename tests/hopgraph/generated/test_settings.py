"""The tables of docs/settings.md."""

from __future__ import annotations

from hopgraph.generated import settings
from hopgraph.methods import METHODS, READERS, context_class
from inference.settings import Settings
from nodes.kit.context import Context


def section(method):
    return settings.of_methods().partition(f"### `{method}`\n")[2].partition("\n### ")[0]


def test_each_kind_of_setting_has_its_values_and_default():
    rows = settings.common().splitlines()
    assert "| `top_k` | `5` | whole number, 1 to 100 | Passages a search returns. |" in rows
    assert any(row.startswith("| `index` | – | text | ") for row in rows)
    assert any(row.startswith("| `temperature` | `0` | number, 0 to 2 | ") for row in rows)
    assert any(row.startswith("| `node_timeout` | – | number above 0, at most 604,800 | ") for row in rows)
    assert any(
        row.startswith("| `retriever` | `bridge` | `hybrid`, `dense`, `sparse`, `bridge`, `paper` | ") for row in rows
    )
    assert "| `ablate` | `[]` | a list of `analyzer`, `loop` | " in section("prism")
    assert "| `atomic_facts` | `true` | `true`, `false` | " in section("compactrag_reader")


def test_each_kind_of_variable_has_its_values_and_default():
    rows = {row.split("`")[1]: row for row in settings.variables().splitlines()[2:]}
    assert rows["HOPGRAPH_HOME"].startswith("| `HOPGRAPH_HOME` | the user's data folder | a path | ")
    assert rows["HOPGRAPH_CACHE"].startswith("| `HOPGRAPH_CACHE` | `off` | `on`, `off` | ")
    assert set(rows) == {f"HOPGRAPH_{name.upper()}" for name in Settings.model_fields}


def test_every_setting_of_every_method_is_in_one_table():
    for method in (*METHODS, *READERS):
        for name in context_class(method).model_fields:
            in_common = f"| `{name}` |" in settings.common()
            assert in_common or f"`{name}`" in section(method), (method, name)


def test_a_method_lists_only_what_it_has_otherwise():
    assert "`top_k`" not in section("prism")
    assert "| `top_k` | `10` |" in section("parrag")
    assert "`preset=paper`: `retriever=dense`, `max_tokens=4096`." in section("prunerag")
    assert "`preset=paper`: `retriever=hybrid`." in section("prism")
    assert set(Context.model_fields).isdisjoint({"threshold"})
