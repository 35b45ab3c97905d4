"""What is made of a reply, from a real HTTP server: text, usage, log-probabilities, and what is no reply."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from inference.chat import Schema
from inference.structured import field_logprobs
from tests.inference.conftest import ASK, ask, endpoint, failure
from tests.scripted import MODEL, Completion, Raw, Request, completion


async def test_a_reply_has_text_usage_model_and_times(serve):
    before = time.time()
    reply = await ask(serve(lambda _: Completion("four words are here", delay=0.05)))
    assert (reply.text, reply.model, reply.finish_reason, reply.cached) == ("four words are here", MODEL, "stop", False)
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 5)
    assert before <= reply.started <= time.time()
    assert 0.05 <= reply.seconds < 5
    assert reply.tokens == ()


async def test_prompt_tokens_from_the_prefix_cache_are_counted(serve):
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}
    body = {"id": "c", "object": "chat.completion", "model": "m-2", "choices": [choice], "usage": usage}
    reply = await ask(serve(lambda _: Raw(body=json.dumps(body))))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens, reply.model) == (9, 2, 8, "m-2")


async def test_a_reply_without_usage_or_finish_reason_counts_as_zero_tokens(serve):
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}
    reply = await ask(serve(lambda _: Raw(body=json.dumps(body))))
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.finish_reason) == ("x", 0, 0, "")


async def test_tokens_come_with_their_bytes_and_log_probabilities(serve):
    tokens = [('{"answer": "', -0.5), (b"\xf0\x9f", -1.5), (b"\x99\x82", -0.25), ('"}', -0.125)]
    server = serve(lambda _: Completion('{"answer": "🙂"}', tokens=tokens))
    reply = await endpoint(server).complete(ASK, request_id="i", top_logprobs=0)
    assert [(token.text, token.logprob) for token in reply.tokens] == [
        (text if isinstance(text, bytes) else text.encode(), logprob) for text, logprob in tokens
    ]
    assert [token.logprob for token in field_logprobs(reply.text, reply.tokens, ["answer"])] == [-1.5, -0.25]


async def test_alternatives_come_by_their_text(serve):
    top = [{"token": "Yes", "bytes": [89, 101, 115], "logprob": -0.1}, {"token": " No", "bytes": None, "logprob": -2.5}]
    row = {"token": "Yes", "bytes": None, "logprob": -0.1, "top_logprobs": top}
    choice = {"index": 0, "logprobs": {"content": [row]}, "message": {"role": "assistant", "content": "Yes"}}
    server = serve(lambda _: Raw(body=json.dumps({"choices": [choice]})))
    (token,) = (await ask(server)).tokens
    assert token == (b"Yes", -0.1, {"Yes": -0.1, " No": -2.5})


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": [{"token": "a", "logprob": None}]},
        {"content": ["a"]},
        {"content": [{}]},
    ],
)
async def test_log_probabilities_that_cannot_be_read_do_not_cost_the_reply(serve, logprobs):
    choice = {"index": 0, "logprobs": logprobs, "message": {"role": "assistant", "content": "a"}}
    reply = await ask(serve(lambda _: Raw(body=json.dumps({"choices": [choice]}))))
    assert (reply.text, reply.tokens) == ("a", ())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<think>I guess {"answer": "no"}</think>\n\n{"answer": "x"}', '{"answer": "x"}'),
        ("\n<think>\n\n</think>\n\nx", "x"),
        ('The template opened the block. {"answer": "no"}\n</think>\n{"answer": "x"}', '{"answer": "x"}'),
        ("<think>cut off in the middle", ""),
        ('{"answer": "what <think> and </think> mean"}', '{"answer": "what <think> and </think> mean"}'),
        ('```json\n{"answer": "</think>"}\n```', '```json\n{"answer": "</think>"}\n```'),
        ("I think <think> is a tag", "I think <think> is a tag"),
    ],
)
async def test_the_reasoning_of_thinking_models_is_no_part_of_the_text(serve, content, text):
    reply = await ask(serve(lambda _: Completion(content)))
    assert reply.text == text


@pytest.mark.parametrize(("logprob", "read"), [(0.004, 0.0), (-1e308, -10_000.0)])
async def test_log_probabilities_that_are_rounded_or_of_the_impossible_are_kept_in_bounds(serve, logprob, read):
    server = serve(lambda r: Completion("yes", tokens=[("yes", logprob)]))
    reply = await endpoint(server).complete(ASK, request_id="x", top_logprobs=0)
    assert [token.logprob for token in reply.tokens] == [read]


@pytest.mark.parametrize("logprob", [float("nan"), float("inf"), 1e308, 3.0])
async def test_a_log_probability_that_can_be_none_makes_all_of_them_worth_nothing(serve, logprob):
    server = serve(lambda r: Completion("yes no", tokens=[("yes", -0.5), (" no", logprob)]))
    assert (await endpoint(server).complete(ASK, request_id="x", top_logprobs=0)).tokens == ()


@pytest.mark.parametrize("count", [2**70, -5])
async def test_counts_and_names_that_no_server_can_mean_are_not_kept(serve, count):
    body = completion(Request("", {"messages": []}, {}, 0.0), "yes")
    body["usage"] = {"prompt_tokens": count, "completion_tokens": 1, "total_tokens": 1}
    body["model"] = "m" * 100_000
    reply = await ask(serve(lambda r: Raw(body=json.dumps(body))))
    assert (reply.prompt_tokens, reply.completion_tokens) == (0, 1)
    assert len(reply.model) == 200


async def test_reasoning_in_a_field_of_its_own_is_kept_out_of_text_and_confidence(serve):
    reasoning = [('{"answer": "', -7.0), ("Rome", -7.0), ('"}', -7.0), ("</think>", -7.0)]
    tokens = [*reasoning, ('{"answer": "', -0.1), ("Rome", -0.5), ('"}', -0.1)]
    server = serve(lambda _: Completion('{"answer": "Rome"}', tokens=tokens, reasoning='{"answer": "Rome"}'))
    reply = await endpoint(server).complete(ASK, request_id="i", top_logprobs=0)
    assert reply.text == '{"answer": "Rome"}'
    assert [token.logprob for token in field_logprobs(reply.text, reply.tokens, ["answer"])] == [-0.5]


async def test_an_empty_reply_is_an_empty_text(serve):
    assert (await ask(serve(lambda _: Completion(None)))).text == ""


async def test_a_cut_reply_keeps_its_text_and_says_so(serve):
    server = serve(lambda _: Completion('{"answer": "Par', finish_reason="length"))
    reply = await endpoint(server).complete(ASK, request_id="i", schema=Schema("answer", {"type": "object"}))
    assert (reply.text, reply.finish_reason) == ('{"answer": "Par', "length")


async def test_halves_of_surrogate_pairs_in_a_reply_are_replaced(serve):
    body = '{"choices": [{"index": 0, "message": {"role": "assistant", "content": "a\\ud800b"}}]}'
    assert (await ask(serve(lambda _: Raw(body=body)))).text == "a\ufffdb"


def body(choices: Any) -> Raw:
    return Raw(body=json.dumps({"id": "c", "object": "chat.completion", "choices": choices}))


@pytest.mark.parametrize(
    "reply",
    [
        Raw(body="<html><body>Please log in</body></html>", content_type="text/html"),
        Raw(body="<html><body>Please log in</body></html>"),
        Raw(body="", content_type="text/plain"),
        Raw(body='{"choices": [{"mess'),
        Raw(body='{"result": "ok"}'),
        Raw(body="[]"),
        Raw(body="null"),
        Raw(body='{"error": {"message": "out of memory"}}'),
        body([]),
        body(None),
        body("text"),
        body([{"index": 0, "message": None}]),
        body([{"index": 0}]),
    ],
    ids=lambda reply: reply.body[:40] or "empty",
)
async def test_a_reply_that_is_no_completion_names_the_url_and_is_not_tried_again(serve, reply):
    server = serve(lambda _: reply)
    error = await failure(server, llm_retries=3)
    assert error.message.startswith(f"{server.url} answered with something that is not a chat completion: ")
    assert "check HOPGRAPH_LLM_URL" in error.hint
    assert len(server.requests) == 1
    assert "<html>" not in error.message
