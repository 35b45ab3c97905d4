"""Completions that are streamed say what whole ones do."""

from __future__ import annotations

import pytest

from inference.chat import Message
from inference.endpoints import get_endpoint
from inference.http import Refusal
from inference.sse import Joined, on_text
from tests.scripted import MODEL, Completion

PROMPT = [Message("user", "?")]
TOKENS = [('{"answer": "', -0.1, {"x": -0.2}), ("Å".encode()[:1], -0.5), ("Å".encode()[1:], -0.25), ('bo"}', -0.1)]


async def test_a_streamed_reply_is_the_same_as_a_whole_one(model):
    server = model(lambda request: Completion('{"answer": "Å' + 'bo"}', tokens=TOKENS))
    heard = []

    async def say(text):
        heard.append(text)

    endpoint = get_endpoint(MODEL)
    whole = await endpoint.complete(PROMPT, request_id="1", top_logprobs=1)
    on_text.set(say)
    streamed = await endpoint.complete(PROMPT, request_id="2", top_logprobs=1)
    assert [request.body["stream"] for request in server.requests] == [False, True]
    assert streamed.tokens == whole.tokens
    assert len(streamed.tokens) == 4
    same = ("model", "prompt_tokens", "completion_tokens", "finish_reason")
    assert [getattr(streamed, name) for name in same] == [getattr(whole, name) for name in same]
    assert heard[0] == ""
    assert heard[-1] == streamed.text
    assert heard == sorted(heard, key=len)


def test_an_error_in_mid_stream_is_a_refusal_with_its_status():
    with pytest.raises(Refusal) as refused:
        Joined().add({"error": {"code": 429, "message": "slow down"}})
    assert (refused.value.status, refused.value.detail) == (429, "slow down")
