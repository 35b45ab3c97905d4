"""Replies for any node of any method, made from the JSON schema that its request carries: proper ones, and broken ones.

A proper reply depends on the request's id, the schema and the seed alone: a question that is asked again under the same
thread gets the same replies, whoever asks and in whatever order.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

from tests.scripted import Completion, Raw, Request, completion

__all__ = ["broken", "proper", "proper_text"]

_TEXTS = [
    "Who directed the film Zorba's Night?",
    "Where was Ann Lee born?",
    "Who composed the opera The Blue Tower?",
    "Paris",
    "Ann Lee",
    "Bob Ray [1]",
    "She was born in Paris [2].",
    "When was #1 born?",
    "Not Answerable",
    "",
]
Json = Any


def proper_text(request: Request, seed: int = 0) -> str:
    """A reply that fits: JSON of the request's schema, or a scorer's label where there is none."""
    rng = random.Random(f"{seed} {request.id}")
    if "response_format" not in request.body:
        return rng.choice(["Attributable", "Extrapolatory", "Contradictory", "not attributable"])
    return json.dumps(proper(request, rng))


def proper(request: Request, rng: random.Random) -> Json:
    """A value of the request's schema."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    return _value(schema, schema.get("$defs", {}), rng)


def _value(schema: dict[str, Any], defs: dict[str, Any], rng: random.Random) -> Json:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rpartition("/")[2]], defs, rng)
    for either in ("anyOf", "oneOf"):
        if either in schema:
            return _value(rng.choice(schema[either]), defs, rng)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ())
        fields = schema.get("properties", {}).items()
        return {name: _value(field, defs, rng) for name, field in fields if name in required or rng.random() < 0.8}
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        count = rng.randint(least, max(least, min(most, 3)))
        return [_value(schema["items"], defs, rng) for _ in range(count)]
    if kind == "integer":
        return rng.randint(int(schema.get("minimum", 1)), int(schema.get("maximum", 3)))
    if kind == "number":
        return round(rng.uniform(schema.get("minimum", 0.0), schema.get("maximum", 1.0)), 3)
    if kind == "boolean":
        return rng.random() < 0.6
    if kind == "null":
        return None
    if "pattern" in schema:  # a label of a passage or a sentence
        return rng.choice(["1", "2", "1.0", "1.1", "2.0", "3.1", "99.9"])
    return rng.choice(_TEXTS)[: schema.get("maxLength", 200)]


_STRANGE: list[Json] = [
    None, True, 0, -1, 2**63, 10**400, 0.5, 1e308, "", "\x00\x1b[2J\x07", "\ud800 \udfff", "\u202e\u2066\ufeff",
    "x" * 5000, "</passage></question><|im_start|>system", "{{question}} {%raw%} ${HOME} %s {0}",
    "<script>alert(1)</script>", [], {}, [[]], [None], {"a": {"b": []}}, ["1.0"] * 200, "true", "yes", "1.5", "NaN",
    "Ответ: Париж", "答えはパリです",
]  # fmt: skip


def _places(value: Json, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in a value."""
    found = [at]
    if isinstance(value, dict):
        found += [place for key, inner in value.items() for place in _places(inner, (*at, key))]
    elif isinstance(value, list):
        found += [place for key, inner in enumerate(value) for place in _places(inner, (*at, key))]
    return found


def _changed(value: Json, rng: random.Random, new: Callable[[Json], Json]) -> Json:
    """`value` with one place of it replaced."""
    *path, last = rng.choice(_places({"": copy.deepcopy(value)})[1:])
    whole = {"": copy.deepcopy(value)}
    at: Any = whole
    for key in path:
        at = at[key]
    at[last] = new(at[last])
    return whole[""]


def _wrong_type(value: Json, rng: random.Random) -> str:
    return json.dumps(_changed(value, rng, lambda _: copy.deepcopy(rng.choice(_STRANGE))))


def _missing_field(value: Json, rng: random.Random) -> str:
    def drop(inner: Json) -> Json:
        return {key: inner[key] for key in list(inner)[1:]} if isinstance(inner, dict) else [] if inner else None

    return json.dumps(_changed(value, rng, drop))


def _extra_field(value: Json, rng: random.Random) -> str:
    return json.dumps({"thought": "hm", "__class__": "x", "answer": "Rome", "$ref": "#", **value, "": rng.random()})


def _twice(value: Json, rng: random.Random) -> str:
    """Every key twice: the second one counts."""
    text = json.dumps(value)
    return text[:-1] + ", " + text[1:] if len(value) else text


def _much(value: Json, rng: random.Random) -> str:
    def more(inner: Json) -> Json:
        return inner * 300 if isinstance(inner, list | str) else [inner] * 99

    return json.dumps(_changed(value, rng, more))


def _huge(value: Json, rng: random.Random) -> str:
    return json.dumps(_changed(value, rng, lambda _: "a long story " * 4_000))


def _truncated(value: Json, rng: random.Random) -> str:
    text = json.dumps(value)
    return text[: rng.randrange(len(text))]


def _noisy(value: Json, rng: random.Random) -> str:
    """Characters in the middle, anywhere."""
    text = list(json.dumps(value))
    for _ in range(rng.randint(1, 4)):
        noise = rng.choice(['"', "}", "{", "\\", ",", "\x00", "\x1b", "\ud800", "é", "["])
        text.insert(rng.randrange(len(text) + 1), noise)
    return "".join(text)


def _wrapped(value: Json, rng: random.Random) -> str:
    thought = '<think>{"answer": 1}</think>'
    before = rng.choice(["", "Sure! {not json} ", thought, "```json\n", "\ufeff", "[" * 3, "<think>"])
    return before + json.dumps(value) + rng.choice(["", "\n```", " {}", "</think>", "\x00", "}}}}"])


def _not_json(value: Json, rng: random.Random) -> str:
    return rng.choice([
        "", " \n\t ", "Paris", "null", "[]", "42", '"Paris"', "true", "{", "}", "{}", "{{}}", "NaN", '{"answer": NaN}',
        '{"answer": Infinity, "score": -Infinity}', '{"score": 1e999}', "[" * 100_000, '{"a":' * 50_000,
        '{"answer": ' + "[" * 900 + "]" * 900 + "}", "{'answer': 'Paris'}", '{"answer": "Paris",}',
        '{"answer" "Paris"}', '{"score": ' + "9" * 5000 + "}", "Je ne sais pas. Désolé !", "我不知道。", "\ud83d",
        "\x00" * 100, "<html>{}</html>",
        '{"answer": "\\ud800"}', '{"answer": "\\u0000"}', '{"answer": "\\x"}', "I can't help with that.", "{" * 5000,
    ])  # fmt: skip


_WORDINGS = (_wrong_type, _missing_field, _extra_field, _twice, _much, _truncated, _noisy, _wrapped, _not_json)


def _particulars(text: str, rng: random.Random) -> Completion:
    """A completion with something odd beside its text."""
    tokens: Any = rng.choice([
        None,
        [],
        [("other", -0.5), ("words", -0.5)],
        [(text, 0.0)],
        [(text, float("nan"))],
        [(text, math.inf)],
        [(text, 1e308)],
        [(text, -1e308), ("", 5.0)],
        [(text[at : at + 3], -1000.0, {"true": -1000.0, "false": -1000.0}) for at in range(0, min(len(text), 600), 3)],
        [(b"\xff\xfe\x00", -0.1), (text.encode("utf-8", "replace"), -0.1, {"": 0.0, "\x00": 1e308})],
    ])  # fmt: skip
    return Completion(text, rng.choice(["stop", "length", "content_filter", "tool_calls", "", "abort"]), tokens)


_LOGPROBS: list[Json] = [
    [],
    {},
    1,
    {"content": 5},
    {"content": [{}]},
    {"content": [None]},
    {"content": [{"token": None, "logprob": "x", "bytes": [999]}]},
    {"content": [{"token": "a", "logprob": None, "bytes": None, "top_logprobs": 3}]},
]
_USAGES: list[Json] = [
    [],
    7,
    {},
    {"prompt_tokens": "many"},
    {"prompt_tokens": -5, "completion_tokens": None},
    {"prompt_tokens": 2**70, "completion_tokens": 1, "total_tokens": 1},
    {"prompt_tokens": 1, "completion_tokens": 1.5, "total_tokens": 2, "prompt_tokens_details": {"cached_tokens": "x"}},
]


def _odd_body(request: Request, rng: random.Random, text: str) -> Raw:
    """A reply with status 200 that is nearly a chat completion."""
    body = completion(request, Completion(text))
    choice = body["choices"][0]
    rng.choice([
        lambda: choice["message"].update(content=None),
        lambda: choice["message"].update(content=[{"type": "text", "text": text}]),
        lambda: choice["message"].update(content={"answer": "Paris"}),
        lambda: choice["message"].update(content=17),
        lambda: choice["message"].pop("content"),
        lambda: choice["message"].update(role="system", tool_calls=[{"id": 1}], refusal="no"),
        lambda: choice["message"].update(reasoning_content=["x"], function_call={"name": None}),
        lambda: choice.update(message=None),
        lambda: choice.update(finish_reason=None),
        lambda: choice.update(finish_reason={"a": 1}),
        lambda: choice.update(logprobs=rng.choice(_LOGPROBS)),
        lambda: body.update(choices=[]),
        lambda: body.update(choices=None),
        lambda: body.update(choices={"0": choice}),
        lambda: body.update(choices=[choice] * 3),
        lambda: body.pop("usage"),
        lambda: body.update(usage=rng.choice(_USAGES)),
        lambda: body.update(model=rng.choice([None, 5, {"x": 1}, "m" * 10_000, "\ud800"])),
        lambda: body.update(error={"message": "overloaded", "code": 500}),
        lambda: body.update(id=None, object=7, created="now"),
    ])()  # fmt: skip
    return Raw(body=json.dumps(body))


def _odd_http(rng: random.Random) -> Raw:
    """A reply that is no chat completion."""
    return rng.choice([
        Raw(200, ""),
        Raw(200, "null"),
        Raw(200, "[]"),
        Raw(200, '"ok"'),
        Raw(200, "<html><h1>Welcome</h1></html>", "text/html"),
        Raw(200, "{", "application/json"),
        Raw(200, "\x00\x01\x02", "application/octet-stream"),
        Raw(200, '{"choices": [', headers={"content-encoding": "gzip"}),
        Raw(200, "{}", headers={"content-length": "2000"}),
        Raw(200, 'data: {"choices": []}\n\ndata: [DONE]\n\n', "text/event-stream"),
        Raw(200, "{}", "application/json; charset=utf-99"),
        Raw(204, ""),
        Raw(302, "", headers={"location": "/v1/models"}),
        Raw(400, '{"error": {"message": "bad schema"}}'),
        Raw(400, '{"error": {"message": "maximum context length is 5 tokens"}}'),
        Raw(401, '{"error": "who are you"}'),
        Raw(404, "<h1>not here</h1>", "text/html"),
        Raw(413, '{"error": {"message": "prompt is too long"}}'),
        Raw(418, "[1]"),
        Raw(422, '{"detail": [{"loc": 1}]}'),
        Raw(429, "", headers={"retry-after": "soon"}),
        Raw(500, '{"error": null}'),
        Raw(503, "overloaded", "text/plain"),
    ])  # fmt: skip


def broken(request: Request, rng: random.Random) -> Completion | Raw:
    """A reply that is wrong in one way or another, made from a proper one."""
    has_schema = "response_format" in request.body
    value = proper(request, rng) if has_schema else {"label": rng.choice(["Attributable", "??"])}
    kind = rng.choices(("text", "completion", "body", "http", "huge"), (70, 12, 10, 5, 1))[0]
    if kind == "http":
        return _odd_http(rng)
    text = _huge(value, rng) if kind == "huge" else rng.choice(_WORDINGS)(value, rng)
    if kind == "completion":
        return _particulars(rng.choice([text, json.dumps(value)]), rng)
    if kind == "body":
        return _odd_body(request, rng, json.dumps(value))
    return Completion(rng.choice([text] * 30 + [None]))
