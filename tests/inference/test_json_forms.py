"""Servers that take no JSON schema, or take one and do not keep to it."""

from __future__ import annotations

import json
import logging

import pytest

from hopgraph.cli import run_app
from hopgraph.methods import METHODS
from hopgraph.run import ask, make_context
from inference.chat import Message, Schema
from inference.endpoint import get_endpoint
from inference.errors import EndpointError
from nodes.kit.model import open_endpoint
from stores.checkpoints import open_checkpoints
from tests.scripted import Completion, Raw, _instance
from tests.small import INDEX, QUESTION, build_small

ASKED = [Message("system", "You name colours."), Message("user", "Name one.")]
SCHEMA = Schema(
    "test__colour",
    {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 9}}, "required": ["colour"]},
)
REFUSALS = [
    "This response_format type is unavailable now",
    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "json_schema is not supported",
]


def refused(message=REFUSALS[0], status=400):
    return Raw(status, json.dumps({"error": {"message": message}}))


def form_of(request):
    return request.body.get("response_format", {}).get("type", "prompt")


def described_in(request):
    """The schema that stands in the prompt."""
    _, found, text = request.body["messages"][-1]["content"].partition("JSON schema:\n")
    assert found
    return json.loads(text)


def taking(*forms, wrap="{}", **refusal):
    """A server that takes these forms alone, and replies with what the schema in the prompt describes."""

    def script(request):
        if form_of(request) not in forms:
            return refused(**refusal)
        schema = described_in(request)
        text = json.dumps(_instance(schema, schema.get("$defs", {})))
        return Completion(wrap.replace("{}", text), tokens=[(text, -0.01, {text: -0.01})])

    return script


async def complete(**options):
    return await get_endpoint().complete(ASKED, request_id="t.test.colour.1", schema=SCHEMA, **options)


@pytest.mark.parametrize("message", REFUSALS)
@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_without_schemas_is_asked_for_a_json_object(model, caplog, message, status):
    server = model(taking("json_object", message=message, status=status))
    with caplog.at_level(logging.WARNING):
        assert json.loads((await complete()).text) == {"colour": "Paris"}
        assert json.loads((await complete()).text) == {"colour": "Paris"}
    assert [form_of(request) for request in server.requests] == ["json_schema", "json_object", "json_object"]
    assert described_in(server.requests[1]) == SCHEMA.schema
    assert "JSON" in server.requests[1].prompt
    assert server.requests[1].body["messages"][0]["content"] == "You name colours."
    assert [record.message for record in caplog.records] == [
        f"{server.url} refuses JSON schemas: JSON objects are asked for, and the schema stands in the prompt"
    ]


async def test_a_server_without_any_json_mode_is_asked_by_the_prompt_alone(model, caplog):
    server = model(taking("prompt"))
    with caplog.at_level(logging.WARNING):
        assert json.loads((await complete()).text) == {"colour": "Paris"}
    await complete()
    assert [form_of(request) for request in server.requests] == ["json_schema", "json_object", "prompt", "prompt"]
    assert described_in(server.requests[-1]) == SCHEMA.schema
    assert len(caplog.records) == 1


async def test_another_refusal_is_none_of_the_form(model):
    server = model(lambda _: refused("the prompt has a bad word in it"))
    with pytest.raises(EndpointError, match="bad word"):
        await complete()
    assert len(server.requests) == 1


async def test_a_form_is_given_up_only_when_a_weaker_one_was_taken(model):
    turns = iter([refused(), refused("out of order", 400)])
    server = model(lambda request: next(turns, None) or json.dumps({"colour": "red"}))
    with pytest.raises(EndpointError, match="out of order"):
        await complete()
    await complete()
    assert [form_of(request) for request in server.requests] == ["json_schema", "json_object", "json_schema"]


async def test_plain_text_is_never_asked_for_as_json(model):
    server = model(taking("json_object"))
    await complete()
    server.script = lambda _: "ok"
    await get_endpoint().complete(ASKED, request_id="x")
    assert server.requests[-1].body["messages"] == [
        {"role": "system", "content": "You name colours."},
        {"role": "user", "content": "Name one."},
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["json_object", "prompt"])
async def test_every_method_runs_on_a_server_without_schemas(model, method, form):
    build_small()
    server = model(taking(form))
    settings = {"index": INDEX} | ({"ablate": ["confidence"]} if method == "prunerag" else {})
    async with open_checkpoints() as saver:
        result = await ask(QUESTION, make_context(method, settings), saver, thread="t")
    assert result["status"] == "answered", result["error"]
    assert {form_of(request) for request in server.requests if request.finished} == {form}


async def test_a_server_that_ignores_the_schema_and_writes_prose_is_shown_it_with_the_repair(model):
    build_small()
    fenced = (
        'Sure! Of {all cities}, and with "{}" in mind:\n```json\n{\n  "answer": "Paris"\n}\n```\nI hope this helps.'
    )
    server = model(lambda r: fenced if "JSON schema:\n" in r.prompt else "The answer is Paris.")
    async with open_checkpoints() as saver:
        result = await ask(QUESTION, make_context("standard_rag", {"index": INDEX}), saver, thread="t")
    assert (result["answer"], result["cost"]["repairs"]) == ("Paris", 1)
    assert described_in(server.requests[-1])["required"] == ["answer"]


@pytest.mark.parametrize(
    ("forms", "said"),
    [(("json_object",), "json_object: "), (("prompt",), "prompt only: ")],
)
def test_doctor_says_how_json_is_asked_for(model, capsys, forms, said):
    server = model(lambda _: "")
    answering = taking(*forms)
    server.script = lambda r: answering(r) if form_of(r) != "prompt" or "JSON schema:\n" in r.prompt else "ok"
    run_app(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = next(row for row in findings if row["what"] == "structured output")
    assert (found["state"], found["found"].startswith(said)) == ("note", True)


async def test_room_is_kept_for_a_schema_in_the_prompt(model):
    model(taking("json_object"), context=1000)
    endpoint = await open_endpoint(None)
    await endpoint.describe()
    prompt = [Message("user", "word " * 300)]
    assert await endpoint.fits(prompt, 400)
    await complete()
    assert not await get_endpoint().fits(prompt, 400)
