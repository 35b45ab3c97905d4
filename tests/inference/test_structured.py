"""Structured output: what is taken from a reply, and which tokens spell a field of it."""

from __future__ import annotations

import json
import math
import random
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from inference.structured import (
    EACH,
    BadOutput,
    Span,
    Token,
    field_logprobs,
    field_paths,
    field_span,
    parse_output,
    true_probability,
    well_formed,
)


class Answer(BaseModel):
    answer: str


class Scored(BaseModel):
    model_config = ConfigDict(extra="forbid")

    score: float
    items: list[Any] = Field(default_factory=list)


def tokens(*pieces: str | bytes | tuple[str | bytes, float]) -> list[Token]:
    """Tokens with log-probabilities -1, -2, -3, ... unless given."""
    rows = [piece if isinstance(piece, tuple) else (piece, -float(n)) for n, piece in enumerate(pieces, start=1)]
    return [Token(text.encode() if isinstance(text, str) else text, logprob, {}) for text, logprob in rows]


def numbers(text: str, spelled: list[Token], *path: str | int) -> list[float]:
    return [token.logprob for token in field_logprobs(text, spelled, path or ("answer",))]


def value(text: str, *path: str | int) -> str | None:
    span = field_span(text, path or ("answer",))
    return None if span is None else text[span.start : span.end]


# Parsing


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "Paris"}',
        '\n {"answer":"Paris"}\n\n',
        '```json\n{"answer": "Paris"}\n```',
        'Sure! Here it is:\n{"answer": "Paris"}\nI hope that this helps {you}.',
        'A {set} of braces, then {"answer": "Paris"}',
        '{{"answer": "Paris"}}',
        '{"answer": "Paris"}{"answer": "London"}',
        '{"answer": "London", "answer": "Paris"}',
        '{"answer": "P\\u0061ris"}',
    ],
)
def test_the_first_json_object_of_a_reply_is_its_value(text):
    assert parse_output(text, Answer).answer == "Paris"


@pytest.mark.parametrize("answer", ['say "hi" {now}', "a}b{c", "São 🙂", "back\\slash", "tab\there", "", "[]", "null"])
def test_an_answer_comes_through_whatever_it_contains(answer):
    for ascii_only in (True, False):
        assert parse_output(json.dumps({"answer": answer}, ensure_ascii=ascii_only), Answer).answer == answer


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the reply is empty"),
        (" \n\t ", "the reply is empty"),
        ("Paris", "there is no JSON object in the reply"),
        ('["Paris"]', "there is no JSON object in the reply"),
        ('{"answer": "Par', "not valid JSON: Unterminated string"),
        ('{"answer": ', "not valid JSON: Expecting value"),
        ("{'answer': 'Paris'}", "not valid JSON: Expecting property name"),
        ('{"answer": 5}', "answer: Input should be a valid string"),
        ('{"answer": null}', "answer: Input should be a valid string"),
        ('{"reply": "Paris"}', "answer: Field required"),
        ("{}", "answer: Field required"),
    ],
)
def test_a_reply_that_cannot_be_used_is_refused_with_the_reason(text, problem):
    with pytest.raises(BadOutput, match=problem):
        parse_output(text, Answer)


def test_an_object_inside_a_cut_reply_is_not_taken_for_the_reply():
    for cut in ('{"steps": [{"answer": "draft"}, {"answer": "Par', '{"steps": [{"answer": "draft"}, {"ok": tru'):
        with pytest.raises(BadOutput, match="not valid JSON"):
            parse_output(cut, Answer)
        assert field_span(cut, ["answer"]) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(number):
    text = f'{{"score": {number}, "items": [{{"score": 1}}]}}'
    with pytest.raises(BadOutput, match=f"{number} is not JSON"):
        parse_output(text, Scored)
    assert field_span(text, ["score"]) is None


def test_a_huge_integer_is_refused_and_not_an_accident():
    with pytest.raises(BadOutput, match="not valid JSON: Exceeds the limit"):
        parse_output('{"score": ' + "9" * 5000 + "}", Scored)
    assert parse_output('{"score": ' + "9" * 50 + "}", Scored).score == pytest.approx(1e50)


@pytest.mark.parametrize("depth", [300, 500, 700, 900, 990, 5_000, 100_000])
def test_deep_nesting_is_bad_output_or_a_value_but_never_a_crash(depth):
    text = '{"score": 1, "items": ' + "[" * depth + "]" * depth + "}"
    if depth <= 300:
        assert parse_output(text, Scored).score == 1
    elif depth >= 900:
        with pytest.raises(BadOutput, match="nested too deeply"):
            parse_output(text, Scored)
    else:
        with suppress(BadOutput):
            parse_output(text, Scored)
    assert field_span(text, ["score"]) in (Span(10, 11), None)


def test_many_broken_objects_end_soon_with_the_first_problem():
    with pytest.raises(BadOutput, match=r"Expecting property name.*line 1 column 2 "):
        parse_output("{x" * 200_000 + '{"answer": "too late"}', Answer)


def test_halves_of_surrogate_pairs_and_nul_can_be_stored_after_parsing():
    answer = parse_output('{"answer": "a\\ud800b\\u0000c"}', Answer).answer
    assert answer == "a\ufffdb\ufffdc"
    assert well_formed({"k\udfff": ["\ud83d\ude42", 3, None]}) == {"k\ufffd": ["🙂", 3, None]}


def test_extra_fields_are_refused_where_the_output_says_so():
    with pytest.raises(BadOutput, match="extra: Extra inputs are not permitted"):
        parse_output('{"score": 1, "extra": 2}', Scored)


# Where a field stands


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"answer": "Paris"}', ["answer"], "Paris"),
        ('{"reason": "Paris is Paris", "answer": "Paris"}', ["answer"], "Paris"),
        ('{"a": {"b": ["x", {"c": "deep"}]}}', ["a", "b", 1, "c"], "deep"),
        ('{"a": ["x" , "y"]}', ["a", 1], "y"),
        ('{"n": -12.5e3}', ["n"], "-12.5e3"),
        ('{"n":42}', ["n"], "42"),
        ('{"yes": true, "no": null}', ["yes"], "true"),
        ('{"list": [1, 2], "o": {"x": 1}}', ["list"], "[1, 2]"),
        ('{"list": [1, 2], "o": {"x": 1}}', ["o"], '{"x": 1}'),
        ('{"answer": "a \\"quoted\\" } brace", "x": 1}', ["answer"], 'a \\"quoted\\" } brace'),
        ('{"answer": "caf\\u00e9"}', ["answer"], "caf\\u00e9"),
        ('{"answer": "first", "answer": "last"}', ["answer"], "last"),
        ('{"answer": ""}', ["answer"], ""),
        ('text ```json\n{ "answer" :\t"Paris" }\n```', ["answer"], "Paris"),
        ('{"na\\u006de": "escaped key"}', ["name"], "escaped key"),
        ('{"a": [], "b": {}, "answer": "x"}', ["answer"], "x"),
    ],
)
def test_a_field_is_found_by_walking_the_json(text, path, expected):
    assert value(text, *path) == expected


def test_the_place_is_counted_in_characters():
    assert field_span('{"à": 1, "answer": "ñ🙂"}', ["answer"]) == Span(20, 22)


@pytest.mark.parametrize("path", [["other"], ["a", "x"], ["a", 2], ["a", 0, "x"], [0]])
def test_a_missing_field_has_no_place(path):
    assert field_span('{"a": ["x", "y"]}', path) is None
    assert field_logprobs('{"a": ["x", "y"]}', tokens('{"a": ["x", "y"]}'), path) == []


def test_a_reply_without_json_has_no_fields():
    assert field_span("Paris", ["answer"]) is None
    assert field_logprobs("Paris", tokens("Paris"), ["answer"]) == []


# Tokens of a field


def test_the_tokens_of_the_answer_and_no_others_are_found():
    text = '{"answer": "New York"}'
    spelled = tokens('{"', "answer", '":', ' "', ("New", -0.25), (" York", -0.75), '"}')
    assert numbers(text, spelled) == [-0.25, -0.75]


def test_the_answer_is_found_where_it_stands_and_not_where_its_text_occurs_before():
    text = '{"reason": "Paris, surely Paris", "answer": "Paris"}'
    spelled = tokens(
        '{"reason": "', ("Paris", -9.0), ", surely ", ("Paris", -8.0), '", "answer": "', ("Paris", -0.5), '"}'
    )
    assert numbers(text, spelled) == [-0.5]


def test_tokens_that_straddle_the_quotes_count():
    text = '{"answer": "Paris"}'
    assert numbers(text, tokens('{"answer":', ' "Pa', "ri", 's"}')) == [-2, -3, -4]
    assert numbers(text, tokens('{"answer": "Paris"}')) == [-1]
    assert numbers(text, tokens('{"answer": "', "Paris", '"', "}")) == [-2]


def test_a_character_split_between_tokens_counts_with_all_its_parts():
    text = '{"answer": "né🙂"}'
    raw = "é".encode(), "🙂".encode()
    split = tokens('{"answer": "', "n", raw[0][:1], raw[0][1:], raw[1][:2], raw[1][2:3], raw[1][3:], '"}')
    assert numbers(text, split) == [-2, -3, -4, -5, -6, -7]


@pytest.mark.parametrize(
    "parts",
    [
        ["\ufffd", "\ufffd", "\ufffd"],  # Ollama, older vLLM: each part is unknown
        ["", "", "🙂"],  # vLLM: nothing until the character is complete
        ["ð\x9f", "\x99", "\x82"],  # bytes read as Latin-1 (SGLang)
    ],
)
def test_split_characters_count_however_the_server_spells_their_parts(parts):
    text = '{"answer": "🙂 ok 🙂", "sure": true}'
    spelled = tokens('{"answer": "', *parts, " ok ", *parts, '",', ' "sure": true}', "")
    assert numbers(text, spelled) == [-2, -3, -4, -5, -6, -7, -8]
    assert numbers(text, spelled, "sure") == [-10]


def test_tokens_that_come_without_their_leading_spaces_are_aligned():
    text = '{"answer": "New York City", "n": 2}'
    assert numbers(text, tokens('{"', "answer", '":', '"', "New", "York", "City", '",', '"n":', "2", "}")) == [
        -5,
        -6,
        -7,
    ]
    assert numbers(text, tokens('{"', "answer", '":', 'Ġ"', "New", "ĠYork", "ĠCity", '",', 'Ġ"n":', "Ġ2", "}")) == [
        -5,
        -6,
        -7,
    ]


def test_a_quote_and_a_character_that_is_not_ascii_in_one_token():
    text = '{"answer": "É", "note": "é"}'
    assert numbers(text, tokens('{"answer": ', '"É', '", "note": "', 'é"', "}")) == [-2]
    assert numbers(text, tokens('{"answer": ', '"É', '", "note": "', 'é"', "}"), "note") == [-4]


def test_escapes_are_spelled_by_their_tokens():
    text = '{"answer": "a \\"b\\" caf\\u00e9 }", "x": 1}'
    spelled = tokens('{"answer": "', "a", ' \\"', "b", '\\"', " caf", "\\u00", "e9", " }", '", "x": 1}')
    assert numbers(text, spelled) == [-2, -3, -4, -5, -6, -7, -8, -9]


def test_numbers_booleans_and_lists_have_their_tokens():
    text = '{"n": 42, "yes": true, "list": ["a", "b"]}'
    spelled = tokens('{"n":', " 4", "2", ', "yes":', " true", ', "list":', ' ["', "a", '", "', "b", '"]', "}")
    assert numbers(text, spelled, "n") == [-2, -3]
    assert numbers(text, spelled, "yes") == [-5]
    assert numbers(text, spelled, "list") == [-7, -8, -9, -10, -11]
    assert numbers(text, spelled, "list", 1) == [-10]


def test_a_path_with_each_stands_for_every_item_of_an_array():
    text = '{"tree": [{"q": "a", "subs": ["b", "c"]}, {"q": "b", "subs": []}, {"q": "c"}]}'
    paths = field_paths(text, ("tree", EACH, "subs"))
    assert paths == [["tree", 0, "subs"], ["tree", 1, "subs"], ["tree", 2, "subs"]]
    pieces = tokens(*(text[i : i + 3] for i in range(0, len(text), 3)))
    spelled = [b"".join(token.text for token in field_logprobs(text, pieces, path)).decode() for path in paths]
    assert '["b", "c"]' in spelled[0]
    assert "[]" in spelled[1]
    assert spelled[2] == ""
    assert field_paths(text, ("tree", 0, "q")) == [("tree", 0, "q")]
    assert field_paths("no JSON", ("tree", EACH)) == []
    assert len(field_paths('{"tree": [' + ", ".join("1" * 500) + "]}", ("tree", EACH))) == 100


def test_an_empty_answer_has_no_tokens():
    text = '{"answer": ""}'
    assert numbers(text, tokens('{"answer": "', '"}')) == []
    assert numbers(text, tokens('{"answer": ""}')) == []


def test_of_a_repeated_key_the_last_counts_as_in_parsing():
    text = '{"answer": "draft", "answer": "final"}'
    spelled = tokens('{"answer": "', "draft", '", "answer": "', "final", '"}')
    assert parse_output(text, Answer).answer == "final"
    assert numbers(text, spelled) == [-4]


def test_reasoning_before_the_reply_is_kept_out_even_if_it_contains_the_reply():
    text = '{"answer": "Paris"}'
    spelled = tokens("<think>", text, " or so", "</think>", "\n\n", '{"answer": "', "Paris", '"}', "<|im_end|>")
    assert numbers(text, spelled) == [-7]


def test_an_end_token_is_no_part_of_a_field_at_the_end_of_the_reply():
    text = '{"answer": "Paris", "list": [1]}'
    spelled = tokens('{"answer": "Paris", "list": ', "[", "1", "]", "}", "", b"\xff")
    assert numbers(text, spelled, "list") == [-2, -3, -4]
    assert [token.logprob for token in field_logprobs(text, spelled, [])] == [-1, -2, -3, -4, -5]
    assert [token.logprob for token in field_logprobs(text, tokens("\n\n", "", text, "\n"), [])] == [-3]


def test_prose_and_code_fences_around_the_json_are_not_in_the_field():
    text = 'Paris it is:\n```json\n{"answer": "Paris"}\n```'
    spelled = tokens("Paris it is:\n", "```json\n", '{"answer": "', ("Paris", -0.125), '"}\n', "```")
    assert numbers(text, spelled) == [-0.125]


def test_tokens_that_do_not_spell_the_reply_give_nothing():
    text = '{"answer": "Paris"}'
    assert numbers(text, tokens('{"answer": "', "London", '"}')) == []
    assert numbers(text, tokens("token_id:17", "token_id:4")) == []
    assert numbers(text, []) == []


def test_characters_replaced_in_the_reply_do_not_hinder():
    text = str(well_formed('{"answer": "a\ud800\0b"}'))
    assert numbers(text, tokens('{"answer": "', "a", b"\xed\xa0\x80", b"\x00", "b", '"}')) == [-2, -3, -4, -5]


@pytest.mark.parametrize("seed", range(20))
def test_any_cutting_into_tokens_finds_exactly_the_bytes_of_the_field(seed):
    """Compared with counting bytes, for cuts at random places."""
    random.seed(seed)
    answer = "".join(random.choice('aé🙂 "\\}{,:日') for _ in range(12)).strip() or "x"
    text = json.dumps({"reason": answer, "answer": answer, "n": seed}, ensure_ascii=bool(seed % 2))
    raw = text.encode()
    cuts = sorted({0, len(raw), *(random.randrange(len(raw)) for _ in range(25))})
    spelled = tokens(*(raw[a:b] for a, b in pairwise(cuts)))
    for key in ("reason", "answer", "n"):
        span = field_span(text, [key])
        assert span is not None
        assert json.loads(f'"{text[span.start : span.end]}"' if key != "n" else text[span.start : span.end]) in (
            answer,
            seed,
        )
        start, end = len(text[: span.start].encode()), len(text[: span.end].encode())
        expected = [token for token, a, b in zip(spelled, cuts, cuts[1:], strict=False) if a < end and b > start]
        assert field_logprobs(text, spelled, [key]) == expected


# The probability of a verdict


def verdict(said: str, top: dict[str, float], *rest: str, head: str = '{"ok":') -> float | None:
    """Of a reply whose verdict begins with the token `said`; probabilities of its alternatives, not their logs."""
    logs = {text: math.log(p) for text, p in top.items()}
    spelled = [
        Token(head.encode(), -1.0, {"x": -1.0}),
        Token(said.encode(), logs.get(said, math.log(0.5)), logs),
        *(Token(text.encode(), -0.01, {}) for text in [*rest, "}"]),
    ]
    return true_probability(head + said + "".join(rest) + "}", spelled, ["ok"])


@pytest.mark.parametrize(
    ("said", "top", "expected"),
    [
        (" true", {" true": 0.6, " false": 0.2}, 0.75),
        (" false", {" false": 0.6, " true": 0.2}, 0.25),
        (" true", {" true": 0.3, "true": 0.1, " True": 0.1, " false": 0.25, " null": 0.2}, 2 / 3),
        (" true", {" maybe": 0.4, " true": 0.03, " false": 0.01}, 0.75),
        ("true", {" false": 0.5}, 0.5),  # what was said counts, too, where it is not listed: .5 here
        (" true", {" true": 0.9, " {": 0.1}, 1.0),  # false is too unlikely to be listed
    ],
)
def test_the_probability_of_true_is_its_share_of_true_and_false(said, top, expected):
    assert verdict(said, top) == pytest.approx(expected)


def test_a_verdict_in_several_tokens_is_weighed_at_the_first():
    assert verdict(" f", {" f": 0.3, " true": 0.1, " t": 0.1}, "alse") == pytest.approx(0.4)


def test_without_alternatives_what_is_not_the_one_word_is_the_other():
    for text, expected in (('{"ok": true}', math.exp(-0.3)), ('{"ok": false}', 1 - math.exp(-0.3))):
        spelled = tokens('{"ok":', (text[6:8], -0.1), (text[8:-1], -0.2), "}")
        assert true_probability(text, spelled, ["ok"]) == pytest.approx(expected)


def test_a_field_that_is_no_boolean_or_that_the_tokens_do_not_spell_has_no_probability():
    assert true_probability('{"ok": 1}', tokens('{"ok":', " 1", "}"), ["ok"]) is None
    assert true_probability('{"ok": true}', tokens('{"no": true}'), ["ok"]) is None
    assert true_probability('{"ok": true}', tokens('{"ok": true}'), ["other"]) is None
    assert true_probability("true", tokens("true"), ["ok"]) is None
