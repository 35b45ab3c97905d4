"""A node's call of the model over real HTTP: what is requested, what is repaired, and what is told of it."""

from __future__ import annotations

import hashlib
import json

import pytest
from pydantic import BaseModel

from inference.errors import EndpointError
from inference.settings import get_settings
from inference.structured import EACH
from nodes.kit.abstention import GUESS
from nodes.kit.model import Items, ask_model
from tests.scripted import Completion, Raw

VALUES = {"question": "Where?"}
AT = "root/analyzer"


class Parts(BaseModel):
    """An output."""

    subquestions: list[str]
    answer: str = ""


GOOD = {"subquestions": ["Who?"], "answer": "Oslo"}


async def call(runtime, output=Parts, prompt="prism/analyzer", values=VALUES, **options):
    return await ask_model(runtime, prompt, output, values, at=AT, **options)


def replies(*texts):
    """A script of one reply after another."""
    left = list(texts)
    return lambda request: left.pop(0)


async def test_a_reply_is_read_and_its_call_recorded(model, node):
    server = model(replies(GOOD))
    asked = await call(node())
    assert asked.value == Parts(**GOOD)
    assert (asked.problem, asked.cut, asked.truncated, asked.logprobs, asked.each, asked.probability) == (
        "", "", 0, [], [], None,
    )  # fmt: skip
    [request], [entry] = server.requests, asked.calls
    assert request.id == entry["id"] == f"local.prism.adder.{hashlib.sha256(AT.encode()).hexdigest()[:8]}"
    assert request.body["response_format"]["json_schema"]["name"] == "prism__adder"
    assert "logprobs" not in request.body
    assert (entry["node"], entry["step"], entry["prompt"], entry["repair"]) == ("adder", AT, "prism/analyzer", False)
    told = [(event["type"], event["step"], event["node"], event["call"], event["problem"]) for event in node.heard]
    assert told == [("replied", AT, "adder", entry["id"], "")]


async def test_a_node_may_name_its_calls_otherwise(model, node):
    server = model(replies(GOOD))
    await call(node(), node="analyzer")
    assert server.nodes() == ["analyzer"]
    assert node.heard[0]["node"] == "analyzer"


async def test_a_reply_that_can_not_be_used_is_requested_again_once(model, node):
    server = model(replies("no JSON " * 500, GOOD))
    asked = await call(node())
    first, second = server.requests
    assert (asked.value, asked.problem) == (Parts(**GOOD), "")
    assert [entry["repair"] for entry in asked.calls] == [False, True]
    assert second.id == f"{first.id}r"
    *before, said, problem = second.body["messages"]
    assert before == first.body["messages"]
    assert said == {"role": "assistant", "content": ("no JSON " * 500)[:2000]}
    assert problem["content"].startswith("That reply could not be used: ")
    assert '{"properties":' in problem["content"], "the server did not hold to the schema: the prompt has it"
    assert [event["problem"] for event in node.heard] == ["a repair was requested", ""]


async def test_an_empty_reply_is_quoted_as_one(model, node):
    server = model(replies("", GOOD))
    await call(node())
    assert server.requests[1].body["messages"][-2]["content"] == "(empty)"


async def test_the_second_reply_is_the_last(model, node):
    server = model(replies("x", "y"))
    asked = await call(node())
    assert len(server.requests) == len(asked.calls) == 2
    assert asked.value is None
    assert asked.problem
    assert [event["problem"] for event in node.heard] == ["a repair was requested", asked.problem]


async def test_a_reply_that_was_cut_twice_is_used_as_far_as_it_goes(model, node):
    cut = Completion('{"subquestions": ["Who?", "Whe', finish_reason="length")
    server = model(replies(cut, cut))
    asked = await call(node(max_tokens=64))
    assert asked.value == Parts(subquestions=["Who?"])
    assert (asked.problem, asked.cut) == ("", "the reply was cut at max_tokens=64")
    assert '{"properties":' not in server.requests[1].prompt, "it was no fault of the form"
    model(replies(cut, cut))
    scored = await call(node(max_tokens=64), score=("subquestions",))
    assert scored.value is None, "its log-probabilities are not those of the whole field"


async def test_a_repair_that_does_not_fit_the_context_is_not_requested(model, node):
    server = model(replies("many words " * 200), context=500)
    asked = await call(node(max_tokens=64))
    assert (len(server.requests), asked.value) == (1, None)


async def test_a_model_with_a_format_of_its_own_gets_no_schema_and_no_second_try(model, node):
    server = model(replies("Oslo"))
    asked = await call(node(), read=lambda text: Parts(subquestions=[text]))
    assert asked.value == Parts(subquestions=["Oslo"])
    assert "response_format" not in server.requests[0].body


async def test_the_worst_items_are_left_out_and_counted(model, node):
    server = model(replies(GOOD), context=400)
    blocks = [f"block{number} " + "word " * 60 for number in range(5)]
    values = {"question": "Where?", "subquestions": "1. Who?", "current": "(none)"}
    asked = await call(node(max_tokens=16), prompt="prism/setwise", values=values, items=Items("candidates", blocks))
    assert 0 < asked.truncated < 5
    shown = [number for number in range(5) if f"block{number}" in server.requests[0].prompt]
    assert shown == list(range(5 - asked.truncated))


class Answer(BaseModel):
    """An answer with parts that have none."""

    class Reason(BaseModel):
        """Why."""

        text: str

    answer: str
    reasons: list[Reason] = []
    argument: int = 0


@pytest.mark.parametrize(("abstain", "least"), [("on", None), ("off", 1)])
async def test_where_abstaining_is_off_an_answer_is_not_empty_and_a_guess_is_asked_for(model, node, abstain, least):
    server = model(replies({"answer": "Oslo"}))
    values = {"question": "Where?", "evidence": "[1] ..."}
    await call(node(abstain=abstain), Answer, "prism/answer", values)
    schema = server.requests[0].body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"].get("minLength") == least
    assert schema["$defs"]["Reason"]["properties"]["text"].get("minLength") == least
    assert "minLength" not in schema["properties"]["argument"]
    assert (GUESS in server.requests[0].prompt) == (abstain == "off")
    server = model(replies({"answer": "Oslo"}))
    await call(node(abstain=abstain), Answer)
    plain = server.requests[0].body["response_format"]["json_schema"]["schema"]
    assert plain["properties"]["answer"].get("minLength") == least


@pytest.mark.parametrize(
    ("role", "settings", "name"),
    [
        ("llm", {}, "scripted"),
        ("llm", {"model": "small", "generator_model": "large"}, "small"),
        ("generator", {"model": "small", "generator_model": "large"}, "large"),
        ("generator", {"model": "small"}, "small"),
        ("synthesizer", {"model": "small", "generator_model": "large"}, "large"),
        ("synthesizer", {"model": "small"}, "small"),
        ("judge", {"model": "small", "generator_model": "large"}, "small"),
    ],
)
async def test_a_role_s_model_is_the_context_s(model, node, role, settings, name):
    server = model(replies(GOOD))
    await call(node(**settings), role=role)
    assert server.requests[0].body["model"] == name


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"GENERATOR_MODEL": "g"}, "g"),
        ({"GENERATOR_MODEL": "g", "SYNTHESIZER_MODEL": "s"}, "s"),
        ({"SYNTHESIZER_MODEL": "s"}, "s"),
    ],
)
async def test_the_synthesizer_is_the_generator_unless_it_has_a_model_of_its_own(
    model, node, monkeypatch, given, asked
):
    main, generator = model(replies(GOOD)), model(replies(GOOD))
    monkeypatch.setenv("HOPGRAPH_LLM_URL", main.url)
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", generator.url)
    for name, value in given.items():
        monkeypatch.setenv(f"HOPGRAPH_{name}", value)
    get_settings.cache_clear()
    await call(node(), role="synthesizer")
    assert [request.body["model"] for request in generator.requests] == [asked]
    own = model(replies(GOOD))
    monkeypatch.setenv("HOPGRAPH_LLM_URL", main.url)
    monkeypatch.setenv("HOPGRAPH_SYNTHESIZER_URL", own.url)
    get_settings.cache_clear()
    await call(node(), role="synthesizer")
    assert (len(own.requests), len(generator.requests), main.requests) == (1, 1, [])


class Verdict(BaseModel):
    """A scored output."""

    good: bool
    marks: list[str] = []


SCORED = Completion(
    '{"good": true, "marks": ["ab", "c"]}',
    tokens=[
        ('{"good": ', -0.1), ("true", -0.2, {"true": -0.2, "false": -2.0}), (', "marks": ["', -0.1), ("a", -0.3),
        ("b", -0.4), ('", "', -0.1), ("c", -0.5), ('"]}', -0.1),
    ],
)  # fmt: skip


async def test_the_log_probabilities_are_of_the_scored_field_alone(model, node):
    server = model(lambda request: SCORED)
    asked = await call(node(), Verdict, score=("good",))
    assert (asked.logprobs, asked.each, asked.probability) == ([-0.2], [], None)
    assert server.requests[0].body["logprobs"] is True
    assert server.requests[0].body.get("top_logprobs", 0) == 0
    asked = await call(node(), Verdict, score=("marks", EACH))
    assert (asked.logprobs, asked.each) == ([-0.3, -0.4, -0.5], [[-0.3, -0.4], [-0.5]])


async def test_a_yes_or_no_has_its_probability_from_the_ten_likeliest_tokens(model, node):
    server = model(lambda request: SCORED)
    asked = await call(node(), Verdict, score=("good",), binary=True)
    assert asked.probability == pytest.approx(0.858, abs=0.001)
    assert server.requests[0].body["top_logprobs"] == 10


async def test_a_server_without_log_probabilities_is_refused_where_they_are_needed(model, node):
    model(lambda request: Completion(json.dumps({"good": True}), tokens=[]))
    with pytest.raises(EndpointError, match="gives no log-probabilities, and prism needs them") as refused:
        await call(node(), Verdict, score=("good",))
    assert refused.value.permanent, "another try would say the same"
    assert (await call(node(), Verdict)).value == Verdict(good=True)


async def test_replies_are_kept_for_later_runs_only_where_that_is_asked_for(model, node, home, monkeypatch):
    server = model(lambda request: GOOD)
    for _ in range(2):
        await call(node())
    assert len(server.requests) == 2
    assert not (home / "responses.sqlite").exists()
    monkeypatch.setenv("HOPGRAPH_CACHE", "on")
    server = model(lambda request: GOOD)
    entries = [(await call(node())).calls[0] for _ in range(2)]
    assert len(server.requests) == 1
    assert [entry["cached"] for entry in entries] == [False, True]
    assert (home / "responses.sqlite").is_file()


async def test_times_in_the_ledger_are_milliseconds(model, node):
    model(lambda request: GOOD)
    [entry] = (await call(node())).calls
    assert (entry["started"], entry["seconds"]) == (round(entry["started"], 3), round(entry["seconds"], 3))
    assert entry["started"] > 1e9


async def test_a_server_that_is_down_is_no_reply(model, node, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda request: Raw(503, "{}"))
    with pytest.raises(EndpointError):
        await call(node())
    assert node.heard == []
