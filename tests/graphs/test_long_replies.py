"""Replies that are longer than their schema allows, or that max_tokens cuts off."""

from __future__ import annotations

import json

import pytest

from hopgraph.methods import METHODS
from hopgraph.run import ask, make_context
from nodes.kit.steps import Work
from stores.checkpoints import open_checkpoints
from tests.scripted import Completion, plausible
from tests.small import INDEX, QUESTION, build_small

LONG = "Paris is the capital of France, and it has been that for a long time. " * 100


def wordy(request):
    """A plausible reply with every free text far too long; the labels of the Selector and the Adder are none."""
    if request.node in ("selector", "adder"):
        return {"evidence": ["1"]}
    reply = plausible(request)
    return Completion(reply.text.replace('"Paris"', json.dumps(LONG)), tokens=reply.tokens)


async def run(method, **settings):
    async with open_checkpoints() as saver:
        return await ask(QUESTION, make_context(method, {"index": INDEX, **settings}), saver, thread="t")


def settings_of(method):
    # What spells the answer of PruneRAG is not what the script says the tokens are: its confidence is left out.
    return {"ablate": ["confidence"]} if method == "prunerag" else {}


@pytest.mark.parametrize("method", METHODS)
async def test_no_method_fails_because_a_text_is_too_long(model, method):
    build_small()
    server = model(wordy)
    result = await run(method, **settings_of(method))
    assert result["status"] == "answered", result["error"]
    assert 200 < len(result["answer"]) <= 3000
    assert result["answer"].endswith((".", "…"))
    assert not any("that reply could not be used" in request.prompt.lower() for request in server.requests)
    last = next(row for row in reversed(result["trajectory"]) if row["kind"] == "answer" or "cut at" in row["fallback"])
    assert "cut at 1,600 characters" in last["fallback"]


def replies_with(text):
    """By method: the node that writes sub-questions, follow-up questions or a plan, and a reply of it."""
    return {
        "prism": ("analyzer", {"subquestions": [text]}),
        "hanrag": ("decomposer", {"thought": "", "subquestions": [text]}),
        "compactrag": ("decomposer", {"subquestions": [{"question": text, "depends_on": []}]}),
        "parrag": ("planner", {"steps": [{"thought": "", "question": text, "action": "Retrieve"}]}),
        "self_ask": ("asker", {"type": "follow_up", "question": text}),
        "prunerag": ("decomposer", {"type": "query", "queries": [text, "Who is it?"]}),
    }


@pytest.mark.parametrize(("length", "noted"), [(560, False), (1200, True)])
@pytest.mark.parametrize("method", replies_with(""))
async def test_a_sub_question_has_600_characters_and_the_step_says_if_it_was_longer(model, method, length, noted):
    build_small()
    text = ("Which article, published by one of the papers that wrote about the merger, says so? " * 20)[
        :length
    ].strip()
    node, reply = replies_with(text)[method]
    first = iter([reply])
    server = model(lambda request: next(first, wordy(request)) if request.node == node else wordy(request))
    settings = {"hanrag": {"route": "compound"}, "parrag": {"hop_count": 2}}.get(method, {})
    result = await run(method, **settings_of(method), **settings)
    row = next(row for row in result["trajectory"] if row["node"] == node)
    assert ("cut at 600 characters" in row["fallback"]) is noted
    texts = [row["question"] for row in result["trajectory"]] + [request.prompt for request in server.requests]
    assert any((text[:500] if noted else text) in shown for shown in texts)


async def test_a_text_that_was_cut_is_noted_beside_what_is_wrong_with_the_output():
    row = Work(at="root", node="refiner", cut="question cut at 600 characters").step(
        "decompose", problem="it is empty", instead="none"
    )
    assert row["fallback"] == "it is empty; none; question cut at 600 characters"


async def test_an_answer_that_max_tokens_cuts_twice_is_given_as_far_as_it_goes(model):
    build_small()
    server = model(lambda _: Completion('{"answer": "Paris, for it is the capital of', finish_reason="length"))
    result = await run("standard_rag")
    assert (result["status"], result["answer"]) == ("answered", "Paris, for it is the capital of")
    assert len(server.requests) == 2  # it was asked to be brief
    assert result["trajectory"][-1]["fallback"] == "the reply was cut at max_tokens=512"


async def test_a_reply_that_max_tokens_cuts_before_the_answer_fails_and_names_the_setting(model):
    build_small()
    model(lambda _: Completion('{"answer": ', finish_reason="length"))
    result = await run("standard_rag")
    assert result["status"] == "failed"
    assert "cut at the length limit (max_tokens=512)" in result["error"]["message"]


async def test_sub_questions_that_were_cut_off_are_used_as_far_as_they_are_whole(model):
    build_small()
    whole = "Who directed Zorba's Night?"

    def script(request):
        if request.node != "analyzer":
            return plausible(request)
        return Completion(f'{{"subquestions": ["{whole}", "Where was that direc', finish_reason="length")

    model(script)
    result = await run("prism")
    row = next(row for row in result["trajectory"] if row["node"] == "analyzer")
    assert (row["answer"], row["fallback"]) == (whole, "the reply was cut at max_tokens=512")
