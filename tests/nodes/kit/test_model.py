"""What a checkpoint keeps of a model call."""

from __future__ import annotations

import json
import threading
import zlib
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, Field

from inference import embedded
from inference.chat import Message
from inference.errors import PromptTooLong
from inference.structured import BadOutput
from nodes.kit.model import NO_ITEMS, Items, _fit, _read, _unfinished, open_endpoint, output_schema
from nodes.kit.request import pack_prompt, unpack_prompt


def test_a_packed_prompt_is_small_and_comes_back_as_it_was():
    messages = [Message("system", "Größe ✂ {x}"), Message("user", "A long story. " * 2000)]
    packed = pack_prompt(messages)
    assert len(packed) < 500
    assert unpack_prompt(packed) == [(message.role, message.content) for message in messages]


@pytest.mark.parametrize(
    "other",
    [b"", b"no prompt", None, [["user", "x"]], zlib.compress(b"[[1, 2"), zlib.compress(b"5"), zlib.compress(b"[1]")],
)
def test_what_is_no_packed_prompt_is_refused(other):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack_prompt(other)


def test_a_prompt_that_would_fill_the_memory_is_refused():
    bomb = zlib.compress(json.dumps([["user", "x" * 60_000_000]]).encode(), 9)
    with pytest.raises(ValueError, match="too long"):
        unpack_prompt(bomb)


async def test_the_embedded_server_is_looked_for_in_a_thread_alone(home, monkeypatch):
    """It connects a socket, waits for locks and may start a process: in the event loop, all runs would wait."""
    threads = []

    def ensure_server(model, role):
        threads.append(threading.current_thread())
        return SimpleNamespace(url="http://127.0.0.1:9/v1")

    monkeypatch.setattr(embedded, "ensure_server", ensure_server)
    endpoint = await open_endpoint(None)
    assert endpoint.url == "http://127.0.0.1:9/v1"
    assert await open_endpoint("other") is not endpoint
    assert threads
    assert threading.current_thread() not in threads


class Endpoint:
    """An endpoint whose context has room for so many blocks; it counts how often it is asked."""

    def __init__(self, room):
        self.room, self.asked = room, 0

    async def fits(self, messages, max_tokens):
        self.asked += 1
        return messages[0].content.count("block") <= self.room

    async def context(self):
        return 1000


class Prompt:
    """A prompt that is its items."""

    name = "x/y"

    def render(self, values):
        return [Message("user", values.get("evidence", ""))]


@pytest.mark.parametrize("blocks", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("room", [0, 1, 2, 3, 6, 7, 8, 63, 64])
async def test_as_many_items_as_fit_are_kept_best_first(blocks, room):
    endpoint = Endpoint(room)
    items = Items("evidence", [f"block {number}" for number in range(blocks)])
    [message], left_out = await _fit(endpoint, Prompt(), {}, items, 100)
    kept = min(blocks, room)
    assert left_out == blocks - kept
    assert message.content == ("\n".join(items.blocks[:kept]) or "(none)")
    assert endpoint.asked <= 1 + blocks.bit_length() + 1, "by bisection"
    if room >= blocks > 0:
        assert endpoint.asked == 1


async def test_a_prompt_that_does_not_fit_without_items_is_refused():
    with pytest.raises(PromptTooLong, match="the prompt x/y has 6 characters before any passage") as refused:
        await _fit(Endpoint(-1), Prompt(), {}, Items("evidence", ["block"]), 100)
    assert refused.value.permanent


def test_items_stand_in_their_places_and_the_worst_are_left_out():
    items = Items("evidence", ["best", "second", "third"], places=[2, 0, 1])
    assert items.shown(3) == {"evidence": "second\nthird\nbest"}
    assert items.shown(2) == {"evidence": "second\nbest"}
    assert items.shown(0) == {"evidence": "(none)"}
    assert NO_ITEMS.shown(0) == {}


class Part(BaseModel):
    """A part."""

    title: str = Field(default="", title="The title", description="Of the part.", max_length=5)


class Whole(BaseModel):
    """An output."""

    parts: list[Part]
    answer: str = "x"


def test_a_schema_allows_no_further_keys_and_says_nothing_about_itself():
    schema = output_schema(Whole)
    assert (schema["additionalProperties"], schema["$defs"]["Part"]["additionalProperties"]) == (False, False)
    assert schema["$defs"]["Part"]["properties"] == {"title": {"type": "string", "maxLength": 5}}
    assert schema["properties"]["answer"] == {"type": "string"}
    assert "description" not in schema
    assert "title" not in schema


def reply(text, reason="stop"):
    return {"text": text, "finish_reason": reason}


def parse(text):
    if not text.endswith("}"):
        raise BadOutput("no object")
    return text


def test_a_reply_that_was_cut_says_so_and_is_closed_where_that_is_the_reason():
    assert _read(reply("{}"), parse, 64) == ("{}", "")
    assert _read(reply("{"), parse, 64) == (None, "no object")
    assert _read(reply("{", "length"), parse, 64) == (
        None, "no object; it was cut at the length limit (max_tokens=64)",
    )  # fmt: skip
    assert _unfinished(reply('{"a": "b', "length"), parse) == '{"a": "b"}'
    assert _unfinished(reply('{"a": "b'), parse) is None
