"""The methods over a real index: real Chroma, real BM25, the real encoder; only the model is scripted."""

from __future__ import annotations

import pytest

from hopgraph import load
from hopgraph.run import ask, make_context, resume
from inference.errors import InputError, StoreError
from inference.ledger import cost_of
from stores.build import build_index
from stores.checkpoints import open_checkpoints
from stores.index import open_index
from stores.passages import Passage
from tests.scripted import Completion, Raw

QUESTION = "Where was the director of Zorba's Night born?"
REASONED = {"thought": "t", "answer": "Paris"}
TEXTS = {
    "film": ("Zorba's Night", "Zorba's Night is a 1971 film directed by Ann Lee. It was shot in Greece."),
    "lee": ("Ann Lee", "Ann Lee was a film director. She was born in Paris."),
    "paris": ("Paris", "Paris is the capital of France."),
    "banana": ("Banana", "Bananas are yellow fruits of the tropics."),
    "greece": ("Greece", "Greece is a country in Europe."),
    "piano": ("Piano", "A piano has black and white keys."),
    "moon": ("Moon", "The Moon goes round the Earth in a month."),
    "hat": ("Hat", "A hat is worn on the head."),
}


def build(texts=TEXTS):
    return build_index("small", [Passage(id=key, title=title, text=text) for key, (title, text) in texts.items()])


@pytest.fixture
def index(home):
    build()
    return "small"


async def test_standard_rag_answers_from_the_top_k(model, index):
    server = model(lambda request: {"answer": "Paris"})
    state = await load("standard_rag").ainvoke({"question": QUESTION}, context={"index": index, "top_k": 3})
    assert len(state["evidence"]) == 3
    assert {"film", "lee"} < {ref["id"] for ref in state["evidence"]}  # the hit, and the person it names
    assert all(ref["id"] in open_index(index) for ref in state["evidence"])
    assert "directed by Ann Lee" in server.requests[0].prompt
    assert "Bananas" not in server.requests[0].prompt
    assert cost_of(state["ledger"])["searches"] == 1
    assert state["index"] == {"name": index, "hash": open_index(index).hash}


async def test_prism_searches_for_the_question_and_every_subquestion(model, index):
    lines = {
        "analyzer": {"subquestions": ["Who directed Zorba's Night?", "Which fruits are yellow?", QUESTION]},
        "selector": {"evidence": ["1"]},
        "adder": {"evidence": []},
        "generator": {"answer": "Paris"},
    }
    server = model(lambda request: lines[request.node])
    state = await load("prism").ainvoke({"question": QUESTION}, context={"index": index, "top_k": 2})
    searched = [step["question"] for step in state["trajectory"] if step["kind"] == "retrieve"]
    assert searched == [QUESTION, "Who directed Zorba's Night?", "Which fruits are yellow?"]
    assert cost_of(state["ledger"])["searches"] == 3
    assert cost_of(state["ledger"])["steps"] == 1
    assert "banana" in [ref["id"] for ref in state["pool"]]
    assert len({ref["id"] for ref in state["pool"]}) == len(state["pool"])
    assert "Bananas are yellow" in server.requests[1].prompt


async def test_the_pool_is_capped(model, index):
    lines = {
        "analyzer": {"subquestions": ["banana", "piano", "moon", "hat"]},
        "selector": {"evidence": []},
        "adder": {"evidence": []},
        "generator": {"answer": ""},
    }
    model(lambda request: lines[request.node])
    state = await load("prism").ainvoke({"question": QUESTION}, context={"index": index, "pool_size": 4})
    assert [ref["id"] for ref in state["pool"]] == ["lee", "banana", "piano", "moon"]  # first hits first


@pytest.mark.parametrize("settings", [{"ablate": ["analyzer"]}, {"ablate": ["analyzer", "loop"]}])
async def test_without_sub_questions_the_question_alone_fills_the_pool(model, index, settings):
    """The ablation (Table 5) takes the sub-questions away, and not three quarters of the candidates."""
    model(lambda request: {"answer": "x"} if request.node == "generator" else {"evidence": []})
    context = {"index": index, "top_k": 2, "pool_size": 6, **settings}
    state = await load("prism").ainvoke({"question": QUESTION}, context=context)
    assert len(state["pool"]) == 6
    assert cost_of(state["ledger"])["searches"] == 1


@pytest.mark.parametrize(
    ("condition", "searches"), [("full_context", "hybrid"), ("setwise", "hybrid"), ("oner", "sparse")]
)
async def test_prism_s_conditions_search_once(model, index, condition, searches):
    server = model(lambda r: {"evidence": ["1"]} if r.node == "selector" else {"answer": "x"})
    state = await load("prism").ainvoke(
        {"question": QUESTION}, context={"index": index, "condition": condition, "top_k": 2, "pool_size": 8}
    )
    assert cost_of(state["ledger"])["searches"] == 1
    assert "analyzer" not in server.nodes()
    if searches == "sparse":
        assert {ref["found_by"] for ref in state["pool"]} == {"sparse"}
        assert len(state["pool"]) <= 2
    else:
        assert len(state["pool"]) == 8


async def test_prunerag_searches_a_node_and_its_entities(model, index):
    def script(request):
        if request.node == "decomposer":
            return {"type": "entity", "entities": ["Ann Lee", "Zorba's Night"]}
        return {"summary": "Ann Lee was born in Paris."} if request.node == "summarizer" else REASONED

    server = model(script)
    state = await load("prunerag").ainvoke(
        {"question": QUESTION}, context={"index": index, "top_k": 2, "ablate": ["confidence"]}
    )
    assert state["answer"] == "Paris"
    assert {"film", "lee"} <= {ref["id"] for ref in state["evidence"]}
    assert cost_of(state["ledger"])["searches"] == 3
    assert "She was born in Paris." in server.requests[1].prompt


async def test_parrag_searches_densely_and_again_by_words(model, index):
    lines = {
        "planner": {"steps": [{"thought": "", "question": QUESTION, "action": "Retrieve"}]},
        "actor": {"answer": "Rome [1]"},
        "reviser": {"answer": "Paris [1]"},
        "accuracy_judge": {"score": 0.1},
        "attribution_judge": {"label": "contradictory"},
        "generator": REASONED,
    }
    model(lambda request: lines[request.node])
    state = await load("parrag").ainvoke(
        {"question": QUESTION}, context={"index": index, "top_k": 2, "hop_count": 2, "exemplars": "none"}
    )
    found_by = [{ref["found_by"] for ref in attempt["documents"]} for attempt in state["plan"][0]["attempts"]]
    assert found_by == [{"dense"}, {"sparse"}]


@pytest.mark.parametrize(("settings", "found_by"), [({"preset": "paper"}, "sparse"), ({"retriever": "dense"}, "dense")])
async def test_hanrag_searches_for_each_seed_question(model, index, settings, found_by):
    seeds = iter(["Who directed Zorba's Night?", "Where was Ann Lee born?"])
    lines = {
        "router": {"route": "complex"},
        "relevance_discriminator": {"relevant": True},
        "ending_discriminator": {"sufficient": False},
    }
    model(lambda r: {"question": next(seeds)} if r.node == "refiner" else lines.get(r.node, {"answer": "Paris"}))
    context = {"index": index, "top_k": 2, "max_steps": 2, **settings}
    state = await load("hanrag").ainvoke({"question": QUESTION}, context=context)
    assert {ref["found_by"] for hop in state["chain"] for ref in hop["retrieved"]} == {found_by}
    assert [hop["retrieved"][0]["id"] for hop in state["chain"]] == ["film", "lee"]
    cost = cost_of(state["ledger"])
    assert (cost["searches"], cost["steps"]) == (2, 2)


async def test_a_hop_that_finds_nothing_asks_nothing(model, index):
    server = model(lambda r: {"route": "single_step"})
    state = await load("hanrag").ainvoke({"question": "???"}, context={"index": index, "retriever": "sparse"})
    assert server.nodes() == ["router"]
    assert (state["status"], state["evidence"]) == ("unanswerable", [])
    assert state["trajectory"][-1]["verdict"] == "nothing found"


async def test_passages_can_be_given_by_id(model, index):
    server = model(lambda request: {"answer": "Paris"})
    state = await load("standard_rag").ainvoke(
        {"question": QUESTION, "contexts": ["moon", {"title": "Own", "text": "Something else."}]},
        context={"index": index},
    )
    assert [ref["title"] for ref in state["evidence"]] == ["Moon", "Own"]
    assert "The Moon goes round" in server.requests[0].prompt
    with pytest.raises(InputError, match="contexts: passage 'nowhere' is not in index small"):
        await load("standard_rag").ainvoke({"question": QUESTION, "contexts": ["nowhere"]}, context={"index": index})


async def test_resuming_on_another_index_is_refused(model, index, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    lines = {"analyzer": {"subquestions": ["Who?"]}, "selector": {"evidence": ["1"]}, "adder": {"evidence": ["1"]}}
    down = [True]
    model(lambda r: Raw(503, "{}") if r.node == "selector" and down[0] else lines.get(r.node, {"answer": "Paris"}))
    async with open_checkpoints() as saver:
        failed = await ask(QUESTION, make_context("prism", {"index": index}), saver, thread="t")
        assert failed["status"] == "failed"
        down[0] = False
        build({**TEXTS, "new": ("New", "A new passage.")})
        with pytest.raises(StoreError, match="index small has changed since this run started"):
            await resume("t", saver)
        build()
        assert (await resume("t", saver))["status"] == "answered"


async def test_a_search_that_finds_nothing_is_no_error(model, index):
    model(lambda r: {"answer": "Not Answerable"} if r.node == "generator" else {"subquestions": ["???"]})
    state = await load("prism").ainvoke({"question": "???"}, context={"index": index, "retriever": "sparse"})
    assert state["pool"] == []
    assert state["status"] == "unanswerable"


async def test_the_preview_in_the_state_is_short(model, home):
    build_index("small", [Passage(id="long", title="Long", text="word " * 150)])
    model(lambda request: Completion('{"answer": "x"}'))
    state = await load("standard_rag").ainvoke({"question": "word"}, context={"index": "small"})
    assert all(len(ref["preview"]) <= 120 for ref in state["evidence"])
