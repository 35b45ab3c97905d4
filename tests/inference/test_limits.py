"""Texts that are longer than they may be."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import BaseModel

from inference.limits import Limited, close_json, shorten
from inference.structured import parse_output


class Output(BaseModel):
    thought: str = ""
    answer: Annotated[str, Limited(40)]
    items: list[Annotated[str, Limited(20)]] = []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Paris", "Paris"),
        ("x" * 38 + "y.", "x" * 38 + "y."),  # just as long, and a whole sentence
        ("It is in Paris, the capital. And then there is more of it.", "It is in Paris, the capital."),
        ("A. The rest of this text has no end that is near", "A. The rest of this text has no end…"),
        ("x" * 60, "x" * 39 + "…"),
        ("The city of Paris in France, at the rive", "The city of Paris in France, at the…"),  # stopped by the server
    ],
)
def test_a_text_is_cut_at_a_sentence_or_a_word(text, shown):
    assert shorten(text, 40) == shown
    assert len(shown) <= 40


def test_a_text_that_is_too_long_is_cut_with_a_note_and_not_refused():
    notes = []
    long = {"answer": "word " * 20, "items": ["short", "an item that is too long by far"]}
    value = parse_output(json.dumps(long), Output, notes)
    assert value.answer == "word word word word word word word word…"
    assert value.items == ["short", "an item that is too…"]
    assert notes == ["answer cut at 40 characters", "items cut at 20 characters"]
    assert parse_output(json.dumps(long), Output) == value  # who does not listen gets the same


def test_the_schema_tells_the_server_the_limit():
    properties = Output.model_json_schema()["properties"]
    assert properties["answer"]["maxLength"] == 40
    assert properties["items"]["items"]["maxLength"] == 20


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ('{"answer": "It is Par', {"answer": "It is Par"}),
        ('{"thought": "a", "answer": "say \\"Par', {"thought": "a", "answer": 'say "Par'}),
        ('{"answer": "caf\\u00', {"answer": "caf"}),
        ('{"answer": "caf\\', {"answer": "caf"}),
        ('{"answer": "C:\\\\', {"answer": "C:\\"}),
        ('{"answer": "a", "items": ["one", "two", "thr', {"answer": "a", "items": ["one", "two"]}),
        ('{"answer": "a", "items": [{"q": "one"}, {"q": "tw', {"answer": "a", "items": [{"q": "one"}]}),
        ('{"answer": "a", "items": ["on', {"answer": "a", "items": ["on"]}),
        ('{"answer": "a"} and more', {"answer": "a"}),
    ],
)
def test_json_that_was_cut_off_is_closed(cut, whole):
    value, _ = json.JSONDecoder().raw_decode(close_json(cut))
    assert value == whole


@pytest.mark.parametrize("cut", ["", "no JSON", '{"answer"', '{"answer": ', "}]}"])
def test_what_can_t_be_closed_raises_nothing(cut):
    assert close_json(cut).startswith(cut)
