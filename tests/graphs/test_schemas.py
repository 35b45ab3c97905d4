"""What the schemas of all nodes have in common: servers compile each of them once, and no reply is endless."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from hopgraph.knowledge.reading import read_index
from hopgraph.methods import METHODS, READERS, load
from hopgraph.run import make_context
from inference.errors import InputError
from stores.build import build_index
from stores.passages import Passage
from tests.scripted import plausible

QUESTIONS = [
    "Where was the director of X born?",
    "Who is older, the author of Y or the painter Ann Lee, and why is that so?",
]
CONTEXTS = [
    {"title": "X", "text": "X is a film by Ann Lee. It is long."},
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
]

LIMITS = {"string": {"maxLength", "enum", "const", "pattern"}, "array": {"maxItems"}}


async def schemas(server, method, number):
    """Names and texts of the schemas that a run sends."""
    server.requests.clear()
    given = {"passage": CONTEXTS[number]} if method in READERS else {"question": QUESTIONS[number]}
    given |= {} if method in (*READERS, "no_retrieval", "compactrag") else {"contexts": CONTEXTS}
    await load(method).ainvoke(given, context={"index": "small"} if method == "compactrag" else {})
    forms = [request.body["response_format"]["json_schema"] for request in server.requests]
    return {(form["name"], json.dumps(form["schema"])) for form in forms}


@pytest.mark.parametrize("method", [*METHODS, *READERS])
async def test_a_bare_graph_without_a_context_says_what_is_missing(home, method):
    graph = import_module(f"graphs.{method}").builder.compile()
    with pytest.raises(InputError, match="context: none is given"):
        await graph.ainvoke({"question": QUESTIONS[0], "passage": CONTEXTS[0]})


def unbounded(schema, path="$"):
    """Places of strings and lists without a limit."""
    if isinstance(schema, list):
        return [place for number, item in enumerate(schema) for place in unbounded(item, f"{path}.{number}")]
    if not isinstance(schema, dict):
        return []
    kind = schema.get("type")  # or a property of that name
    limits = LIMITS.get(kind) if isinstance(kind, str) else None
    here = [path] if limits and not limits & set(schema) else []
    return here + [place for key, value in schema.items() for place in unbounded(value, f"{path}.{key}")]


@pytest.mark.parametrize("method", [*METHODS, *READERS])
async def test_a_node_s_schema_is_the_same_for_every_question_and_bounds_the_reply(model, method):
    server = model(plausible)
    if method == "compactrag":
        build_index("small", [Passage(id=row["title"], **row) for row in CONTEXTS])
        await read_index(make_context("compactrag_reader", {"index": "small"}))
    first, second = [await schemas(server, method, number) for number in range(2)]
    assert first
    assert first == second
    for name, text in first:
        assert unbounded(json.loads(text)) == [], name
