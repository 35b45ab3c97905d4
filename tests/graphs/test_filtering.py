"""`where` in whole methods: searches see only passages that meet it."""

from __future__ import annotations

import pytest

from hopgraph import load
from hopgraph.methods import METHODS, make_context
from hopgraph.run import ask
from inference.encoders.configured import get_encoder
from inference.errors import InputError
from stores.build import build_index
from stores.checkpoints import open_checkpoints
from stores.index import open_index
from stores.knowledge_base import writing
from stores.passages import Passage, content_id
from stores.readings import Pair, Reading, pair_text
from tests.replies import proper_text
from tests.small import PAIRS, QUESTION, TEXTS, VARIANTS

YEARS = {"film": 1971, "lee": 1971, "opera": 1911, "ray": 1911}


@pytest.fixture
def index(home):
    """Two passages of 1971, two of 1911, one without a year; and their pairs."""
    build_index(
        "years",
        [
            Passage(key, title, text, metadata={"year": YEARS[key]} if key in YEARS else {})
            for key, (title, text) in TEXTS.items()
        ],
    )
    opened = open_index("years")
    with writing(opened) as base:
        base.rebase(opened, get_encoder())
        for key, rows in PAIRS.items():
            pairs = [Pair(key, n, *row) for n, row in enumerate(rows, start=1)]
            vectors = get_encoder().encode_passages([pair_text(pair) for pair in pairs])
            base.add(Reading(key, content_id(*TEXTS[key])), pairs, vectors)
    return "years"


@pytest.mark.parametrize("method", [method for method in METHODS if method != "no_retrieval"])
async def test_every_method_searches_only_what_meets_the_filter(model, index, method):
    model(lambda request: proper_text(request, 1))
    settings = {**VARIANTS.get(method, [{}])[0], "index": index, "top_k": 4, "where": "year > 1911 or year is missing"}
    async with open_checkpoints() as saver:
        result = await ask(QUESTION, make_context(method, settings), saver, thread="t")
    assert result["status"] in ("answered", "unanswerable")
    assert set(result["retrieved"]) <= {"film", "lee", "moon"}
    assert bool(result["retrieved"]) == bool(result["cost"]["searches"])


async def test_given_passages_are_not_filtered(model, index):
    model(lambda request: {"answer": "Oslo"})
    state = await load("standard_rag").ainvoke(
        {"question": "Where was Bob Ray born?", "contexts": ["ray"]}, context={"index": index, "where": "year = 1971"}
    )
    assert [ref["id"] for ref in state["evidence"]] == ["ray"]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("year >", "where: column 7: expected a value"),
        ("yaer = 1", "where: no passage of index 'years' has a field 'yaer'"),
        (1971, "where: Input should be a valid string"),
    ],
)
async def test_a_bad_filter_is_refused_before_any_call(model, index, where, problem):
    server = model(lambda request: {"answer": "x"})
    with pytest.raises(InputError) as caught:
        async with open_checkpoints() as saver:
            await ask(QUESTION, make_context("standard_rag", {"index": index, "where": where}), saver, thread="t")
    assert caught.value.message.startswith(problem)
    assert not server.requests


def test_a_blank_filter_is_none():
    assert make_context("prism", {"where": " "}).where is None
