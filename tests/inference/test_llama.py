"""The endpoint against llama.cpp itself, with the embedded model: the shapes that the scripted server imitates."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from inference.chat import Message, Schema
from inference.embedded import ensure_server
from inference.endpoint import Endpoint
from inference.errors import EndpointError, PromptTooLong
from inference.settings import Settings, get_settings
from inference.structured import field_logprobs, field_span, parse_output
from inference.weights import smollm2_path
from nodes.kit.rendering import quoted

pytestmark = pytest.mark.slow


class Copied(BaseModel):
    note: str
    answer: str


SCHEMA = Schema(
    "test__copy",
    {
        "type": "object",
        "properties": {"note": {"type": "string", "maxLength": 40}, "answer": {"type": "string", "maxLength": 40}},
        "required": ["note", "answer"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2_path(tmp_path_factory.mktemp("weights"))


@pytest.fixture
async def llama(weights: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_CONTEXT", "2048")
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_IDLE", "1")
    get_settings.cache_clear()
    server = ensure_server(str(weights))
    endpoint = Endpoint(server.url, "", Settings(llm_retries=0))
    yield endpoint
    await endpoint.close()
    server.release()


async def test_it_says_what_it_is(llama):
    info = await llama.describe()
    assert (info.kind, info.context) == ("llama.cpp", 2048)
    assert await llama.model_name() == info.models[0]


@pytest.mark.parametrize(
    "messages",
    [
        [Message("user", "Who?")],
        [Message("system", "Be brief."), Message("user", "1234567890 né 🙂 日本語 " * 20)],
        [Message("user", "a"), Message("assistant", "b"), Message("user", "c")],
    ],
)
async def test_prompts_are_counted_as_the_server_counts_them(llama, messages):
    reply = await llama.complete(messages, request_id="i", max_tokens=1)
    assert await llama._count(messages) == reply.prompt_tokens > 0
    assert reply.finish_reason == "length"


async def test_what_fits_is_answered_and_what_does_not_fit_is_refused(llama):
    words = 1900
    while not await llama.fits([Message("user", "word " * words)], 64):
        words -= 1
    assert words > 1500
    await llama.complete([Message("user", "word " * words)], request_id="i", max_tokens=1)
    with pytest.raises(PromptTooLong, match=r"exceeds the available context size \(2048 tokens\)"):
        await llama.complete([Message("user", "word " * 3000)], request_id="i", max_tokens=1)


@pytest.mark.parametrize("name", ["São Tomé 🙂", 'the "x" {y}'])
async def test_the_tokens_of_a_field_spell_it(llama, name):
    shown = json.dumps({"note": name, "answer": name}, ensure_ascii=False)
    ask = [Message("user", f"Copy this exactly: {shown}")]
    reply = await llama.complete(ask, request_id="i", schema=SCHEMA, top_logprobs=0, max_tokens=120)
    copied = parse_output(reply.text, Copied)
    assert b"".join(token.text for token in reply.tokens).decode() == reply.text
    for field in ("note", "answer"):
        span = field_span(reply.text, [field])
        assert span is not None
        spelled = b"".join(token.text for token in field_logprobs(reply.text, reply.tokens, [field])).decode()
        assert reply.text[span.start : span.end] in spelled
        assert len(spelled) <= span.end - span.start + 8
        assert json.loads(f'"{reply.text[span.start : span.end]}"') == getattr(copied, field)
    assert all(token.logprob <= 0 for token in reply.tokens)


async def test_greedy_replies_repeat(llama):
    first, second = [await llama.complete([Message("user", "Count.")], request_id="i", max_tokens=16) for _ in range(2)]
    assert first.text == second.text


async def test_control_words_are_one_token_to_it_and_text_once_defused(llama):
    """Why passages are defused: what looks like text to us ends the turn for the model."""
    words = "<|im_end|>" * 50
    nothing, raw, defused = [await llama._count([Message("user", text)]) for text in ("x", words, quoted(words))]
    assert raw - nothing < 60
    assert defused - nothing > 150


async def test_a_bad_field_is_refused_with_its_words(llama):
    bad = Endpoint(llama.url, "", Settings(llm_retries=0, llm_extra={"repeat_penalty": "much"}))
    with pytest.raises(EndpointError, match=r"status 400: .*repeat_penalty"):
        await bad.complete([Message("user", "x")], request_id="i", max_tokens=1)
