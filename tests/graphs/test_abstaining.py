"""Abstaining in all methods: what counts as an abstention, and `abstain=off`."""

from __future__ import annotations

import pytest

from hopgraph.knowledge.reading import read_index
from hopgraph.methods import METHODS, context_class, load
from hopgraph.results import result_of
from hopgraph.run import make_context
from nodes.kit.abstention import GUESS
from prompts.loader import load_prompt
from prompts.parsing import COMMON
from stores.build import build_index
from stores.passages import Passage
from tests.scripted import plausible

QUESTION = "Which film did Ann Lee make?"
CONTEXTS = [
    {"title": "X", "text": "X is a film by Ann Lee. It is long."},
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
]
NO_ANSWER = COMMON["no_answer"]


async def run(method, **context):
    given = {} if method in ("no_retrieval", "compactrag") else {"contexts": CONTEXTS}
    if method == "compactrag":
        context["index"] = "small"
    return await load(method).ainvoke({"question": QUESTION, **given}, context=context)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_in_a_prompt_what_to_do_where_there_is_no_answer(method):
    texts = [load_prompt(name).messages for name in context_class(method).prompts().values()]
    assert any("{{no_answer}}" in message.content for messages in texts for message in messages)


@pytest.mark.parametrize("method", METHODS)
async def test_with_abstaining_off_the_final_prompt_asks_for_a_guess(model, method):
    server = model(plausible)
    if method == "compactrag":
        build_index("small", [Passage(id=row["title"], **row) for row in CONTEXTS])
        await read_index(make_context("compactrag_reader", {"index": "small"}))
    settings = {"hanrag": {"route": "single_step"}, "prunerag": {"ablate": ["adaptive"]}}.get(method, {})
    for abstain, said, unsaid in (("on", NO_ANSWER, GUESS), ("off", GUESS, NO_ANSWER)):
        server.requests.clear()
        await run(method, abstain=abstain, **settings)
        last = server.requests[-1].prompt
        assert said in last
        assert unsaid not in last


@pytest.mark.parametrize("route", ["straightforward", "single_step", "compound", "complex"])
async def test_hanrag_guesses_in_the_end_of_every_route_and_in_no_hop_before(model, route):
    server = model(plausible)
    await run("hanrag", abstain="off", route=route)
    *before, last = [request.prompt for request in server.requests]
    assert GUESS in last
    assert not any(GUESS in prompt for prompt in before)


async def test_only_the_last_node_of_a_tree_guesses(model):
    server = model(plausible)
    await run("prunerag", abstain="off", ablate=["adaptive"])
    aggregations = [request.prompt for request in server.requests if request.node == "aggregator"]
    assert len(aggregations) > 1
    assert [GUESS in prompt for prompt in aggregations] == [False] * (len(aggregations) - 1) + [True]


@pytest.mark.parametrize(
    "method", ["no_retrieval", "standard_rag", "self_ask", "ircot", "iter_retgen", "prism", "react", "search_o1"]
)
async def test_with_abstaining_off_the_schema_wants_an_answer(model, method):
    server = model(plausible)
    for abstain in ("on", "off"):
        await run(method, abstain=abstain)
        assert ('"minLength": 1' in str(server.requests[-1].body).replace("'", '"')) is (abstain == "off")


async def test_a_text_that_replaces_a_prompt_need_not_say_it(model):
    server = model(lambda request: {"answer": "X"})
    await run("standard_rag", abstain="off", prompt_answer="{{question}} {{evidence}}")
    assert GUESS not in server.requests[-1].prompt


@pytest.mark.parametrize("said", ["None", "No answer.", "Insufficient information.", "The passages do not mention it."])
@pytest.mark.parametrize("method", ["no_retrieval", "standard_rag", "prism", "ircot", "iter_retgen"])
async def test_an_abstention_in_any_wording_is_unanswerable_and_the_result_has_its_words(model, method, said):
    model(lambda request: {"answer": said, "thought": "", "sentence": "So the answer is: ?", "evidence": ["1.0"],
                           "subquestions": ["Who?"]})  # fmt: skip
    state = await run(method)
    assert (state["status"], state["answer"], state["abstention"]) == ("unanswerable", "", said)
    result = result_of(state, id="q", method=method, question=QUESTION, thread="t")
    assert result["abstention"] == said


async def test_unknown_is_an_answer_where_abstaining_is_off(model):
    model(lambda request: {"answer": "Unknown"})
    on, off = await run("standard_rag"), await run("standard_rag", abstain="off")
    assert (on["status"], on["answer"], on["abstention"]) == ("unanswerable", "", "Unknown")
    assert (off["status"], off["answer"], off["abstention"]) == ("answered", "Unknown", "")


async def test_a_sure_none_is_not_passed_up_prunerag_s_tree(model):
    def script(request):
        return {"type": "answer", "answer": "None"} if request.node == "decomposer" else {"answer": "Paris"}

    model(script)
    state = await run("prunerag", max_depth=1, threshold=0.0)
    [root] = state["tree"]
    assert root["answer"] == ""
    assert root["verdict"] != "accepted"


@pytest.mark.parametrize(
    ("method", "mode"),
    [
        ("standard_rag", "dense"), ("self_ask", "dense"), ("search_o1", "dense"), ("iter_retgen", "dense"),
        ("ircot", "sparse"), ("react", "sparse"), ("adaptive_rag", "sparse"),
    ],
)  # fmt: skip
def test_the_paper_s_preset_of_a_baseline_searches_as_the_papers_do(method, mode):
    assert make_context(method, {"preset": "paper"}).mode == mode


async def test_an_inner_node_that_says_none_has_no_answer_though_abstaining_is_off(model):
    def script(request):
        return {"thought": "t", "answer": "None"} if request.node == "aggregator" else plausible(request)

    model(script)
    state = await run("prunerag", abstain="off", ablate=["adaptive"], max_depth=3)
    results = {node["id"]: node["result"] for node in state["tree"] if node["branches"]}
    assert results.pop("root") == "None"
    assert results
    assert not any(results.values())
