"""The OpenAI API and MCP's tools in the server of Studio, by their official clients."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest
from mcp.client.client import Client

from hopgraph.methods import METHODS
from tests.studio.conftest import QUESTION

pytestmark = pytest.mark.slow

ASKED = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def client(studio):
    return openai.OpenAI(base_url=f"{studio.url}/v1", api_key="unused", max_retries=0, timeout=120)


def test_the_methods_are_models_of_the_same_server(client):
    assert {*METHODS} <= {row.id for row in client.models.list()}


def test_a_chat_is_answered_and_its_thread_is_in_the_page_s_list(client, studio):
    raw = client.chat.completions.with_raw_response.create(model="prism", messages=ASKED)
    assert raw.parse().choices[0].message.content.startswith("Paris [1]")
    thread = raw.headers["x-hopgraph-thread"]
    rows = httpx.get(f"{studio.url}/studio/api/threads", trust_env=False).json()
    (row,) = [row for row in rows if row["id"] == thread]
    assert (row["method"], row["question"]) == ("prism", QUESTION)
    assert studio.client.threads.create(thread_id=thread, graph_id="prism")["thread_id"] == thread
    assert studio.client.threads.get_state(thread)["values"]["answer"] == "Paris"


def test_a_stream_has_reasoning_and_the_answer(client):
    reasoning = content = ""
    for chunk in client.chat.completions.create(model="hanrag:small", messages=ASKED, stream=True):
        for choice in chunk.choices:
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            content += choice.delta.content or ""
    assert reasoning.startswith("router: ")
    assert content.startswith("Paris")


def test_the_tools_of_mcp_answer_and_langgraph_s_own_are_not_there(studio):
    async def use():
        async with Client(f"{studio.url}/mcp") as tools:
            names = {tool.name for tool in (await tools.list_tools()).tools}
            return names, await tools.call_tool("ask", {"question": QUESTION, "method": "standard_rag"})

    names, result = asyncio.run(use())
    assert names == {"ask", "search", "read_passage", "list_indexes", "list_methods", "get_run"}
    assert result.structured_content["answer"] == "Paris"
    assert httpx.post(f"{studio.url}/a2a/x", json={}, trust_env=False).status_code == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/mcp"])
@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "cross-site"}]
)
def test_other_sites_are_refused(studio, scripted, path, headers):
    before = len(scripted.requests)
    body = {"model": "prism", "messages": ASKED}
    assert httpx.post(f"{studio.url}{path}", json=body, headers=headers, trust_env=False).status_code == 403
    assert len(scripted.requests) == before
