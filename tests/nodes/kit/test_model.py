"""What a checkpoint keeps of a model call."""

from __future__ import annotations

import json
import threading
import zlib
from types import SimpleNamespace

import pytest

from inference import embedded
from inference.chat import Message
from nodes.kit.model import open_endpoint
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

    def ensure_server(model):
        threads.append(threading.current_thread())
        return SimpleNamespace(url="http://127.0.0.1:9/v1")

    monkeypatch.setattr(embedded, "ensure_server", ensure_server)
    endpoint = await open_endpoint(None)
    assert endpoint.url == "http://127.0.0.1:9/v1"
    assert await open_endpoint("other") is not endpoint
    assert threads
    assert threading.current_thread() not in threads
