"""What a checkpoint keeps of a model call."""

from __future__ import annotations

import json
import zlib

import pytest

from inference.chat import Message
from nodes.model import pack_prompt, unpack_prompt


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
