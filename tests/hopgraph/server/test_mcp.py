"""The MCP tools through the SDK's own client, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from hopgraph.methods import METHODS
from tests.hopgraph.server.conftest import until
from tests.replies import proper_text
from tests.scripted import Completion, Raw, ScriptedModel
from tests.small import INDEX, QUESTION, build_small

PROPER = lambda request: proper_text(request, 3)  # noqa: E731
TOOLS = {"ask", "search", "read_passage", "list_indexes", "list_methods", "get_run"}


def answering(request):
    if request.node in ("selector", "adder"):
        return {"evidence": ["1.0"]}  # a thread's id is random, and with it what PROPER replies
    return {"answer": "Paris"} if request.node == "generator" else PROPER(request)


async def test_the_tools_are_few_with_short_schemas_and_without_oracle_fields(server):
    async with Client(f"{server.url}/mcp") as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        text = json.dumps(tool.input_schema)
        assert tool.description
        assert len(text) < 1000
        assert "gold" not in text
        assert tool.output_schema
        assert all(field.get("description") for field in tool.input_schema["properties"].values())


async def test_ask_gives_answer_and_evidence_and_tells_each_step(server, model):
    model(answering)
    told = []

    async def on_progress(progress, total, message):
        told.append((progress, message))

    async with Client(f"{server.url}/mcp") as client:
        asked = {"question": QUESTION, "method": "prism", "index": INDEX}
        result = await client.call_tool("ask", asked, progress_callback=on_progress)
        answer = result.structured_content
        assert not result.is_error
        assert (answer["answer"], answer["status"]) == ("Paris", "answered")
        assert {"number", "id", "title", "text", "page", "headings", "file"} == set(answer["evidence"][0])
        assert [number for number, _ in told] == list(range(1, len(told) + 1))
        assert any(message.startswith("Search: ") for _, message in told)
        run = (await client.call_tool("get_run", {"thread": answer["thread"]})).structured_content
    assert (run["answer"], run["method"], run["question"], run["status"]) == ("Paris", "prism", QUESTION, "answered")
    assert run["evidence"] == answer["evidence"]
    assert {"analyzer", "generator"} <= {step["node"] for step in run["steps"]}


async def test_ask_takes_settings_of_the_method(server, model):
    model(answering)
    async with Client(f"{server.url}/mcp") as client:
        asked = {"question": QUESTION, "method": "standard_rag", "settings": {"top_k": 1}}
        result = await client.call_tool("ask", asked)
    assert len(result.structured_content["evidence"]) == 1


async def test_search_and_read_passage_find_the_same_text(server):
    async with Client(f"{server.url}/mcp") as client:
        found = (await client.call_tool("search", {"query": "Ann Lee born", "index": INDEX, "k": 2})).structured_content
        assert len(found["passages"]) == 2
        first = found["passages"][0]
        read = (await client.call_tool("read_passage", {"id": first["id"], "index": INDEX})).structured_content
        assert read == {key: value for key, value in first.items() if key != "score"}
        indexes = (await client.call_tool("list_indexes", {})).structured_content
        assert indexes == {"indexes": [{"name": INDEX, "passages": 5, "state": "complete"}]}
        methods = (await client.call_tool("list_methods", {})).structured_content["methods"]
        assert {row["id"]: row["indexes"] for row in methods}["prism"] == [INDEX]
        assert len(methods) == len(METHODS)


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("ask", {"question": "x", "method": "nothing"}, "does not exist"),
        ("ask", {"question": "x", "index": "../x"}, "does not exist"),
        ("ask", {"question": " "}, "is empty"),
        ("ask", {"question": "x", "settings": {"top_k": 0}}, "top_k: Input should be greater"),
        ("ask", {"question": "x", "settings": {"gold": []}}, "gold: unknown setting"),
        ("ask", {"question": "x", "settings": {"index": "other"}}, "is an argument of its own"),
        ("ask", {"question": "x", "settings": []}, "settings"),
        ("search", {"query": "x", "index": "../../etc"}, "index"),
        ("search", {"query": " ", "index": INDEX}, "is empty"),
        ("search", {"query": "x", "index": INDEX, "where": "year >"}, "where, column 7: expected a value"),
        ("search", {"query": "x", "index": INDEX, "k": 1000}, "less than or equal to 50"),
        ("read_passage", {"id": "nothing", "index": INDEX}, "is not in index"),
        ("get_run", {"thread": "../../x"}, "is not a thread id"),
        ("get_run", {"thread": "unknown"}, "unknown thread"),
    ],
)
async def test_what_is_wrong_is_said_as_the_tool_s_result(server, model, tool, given, said):
    calls = model(PROPER)
    async with Client(f"{server.url}/mcp") as client:
        result = await client.call_tool(tool, given)
    assert result.is_error
    assert said in result.content[0].text
    assert not calls.requests


async def test_a_failed_run_is_said_so_and_can_be_read(server, model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda request: Raw(400, '{"error": {"message": "no such thing"}}'))
    async with Client(f"{server.url}/mcp") as client:
        result = await client.call_tool("ask", {"question": QUESTION, "method": "standard_rag"})
    assert result.is_error
    assert "no such thing" in result.content[0].text


async def test_a_cancelled_call_cancels_its_run(server, model):
    calls = model(lambda request: Completion(json.dumps({"answer": "late"}), delay=60))
    async with Client(f"{server.url}/mcp") as client:
        asking = asyncio.create_task(client.call_tool("ask", {"question": QUESTION, "method": "standard_rag"}))
        await until(lambda: calls.requests)
        asking.cancel()
        await until(lambda: not server.service.admission.running)


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}])
async def test_other_sites_can_t_use_the_tools(server, headers):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream"}
    async with server.http() as client:
        assert (await client.post("/mcp", json=call, headers=accept)).status_code != 403
        assert (await client.post("/mcp", json=call, headers={**accept, **headers})).status_code == 403


async def test_hopgraph_mcp_serves_the_same_tools_on_standard_input_and_output(home):
    build_small()
    with ScriptedModel(answering).running() as scripted:
        variables = {**os.environ, "HOPGRAPH_HOME": str(home), "HOPGRAPH_LLM_URL": scripted.url}
        words = ["-c", "from hopgraph.cli import main; main()", "mcp"]
        process = StdioServerParameters(command=sys.executable, args=words, env=variables)
        async with Client(stdio_client(process)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            result = await client.call_tool("ask", {"question": QUESTION, "method": "standard_rag"})
    assert result.structured_content["answer"] == "Paris"
