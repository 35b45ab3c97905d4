"""`hopgraph mcp` as installed, with the embedded model, in the MCP Inspector and under the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from hopgraph.methods import METHODS
from tests.installed.blocks import read_blocks
from tests.installed.places import LIMIT, ROOT, Place

pytestmark = pytest.mark.installed

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
ASKED = {"question": "Where was the director of the film Days of Betrayal born?", "index": "demo"}


@pytest.fixture(scope="module")
def config(base: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that docs/serve.md gives to clients, with the path of the installed command."""
    (documented,) = [b.code for b in read_blocks(ROOT / "docs" / "serve.md") if "mcpServers" in b.code]
    servers = json.loads(documented)
    server = servers["mcpServers"]["hopgraph"]
    assert server["command"] == "hopgraph"
    server |= {"command": str(base.bin / "hopgraph"), "env": base.variables}
    file = tmp_path_factory.mktemp("inspector") / "config.json"
    file.write_text(json.dumps(servers))
    return file


def inspect(config: Path, *words: str) -> dict:
    """What the Inspector prints."""
    command = ["npx", "--yes", INSPECTOR, "--cli", "--config", str(config), "--server", "hopgraph", *words]
    done = subprocess.run(command, cwd=config.parent, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("npx") is None, reason="the MCP Inspector needs node")
def test_the_inspector_lists_the_tools_and_asks(config):
    tools = inspect(config, "--method", "tools/list")["tools"]
    assert {tool["name"] for tool in tools} == {
        "ask",
        "search",
        "read_passage",
        "list_indexes",
        "list_methods",
        "get_run",
    }
    words = [f"{name}={value}" for name, value in (ASKED | {"method": "standard_rag"}).items()]
    result = inspect(config, "--method", "tools/call", "--tool-name", "ask", *(f"--tool-arg={word}" for word in words))
    answer = result["structuredContent"]
    assert answer["status"] in ("answered", "unanswerable")
    assert answer["thread"]


async def test_every_step_is_reported_and_the_run_can_be_read(config):
    server = json.loads(config.read_text())["mcpServers"]["hopgraph"]
    told = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with Client(stdio_client(StdioServerParameters(**server))) as client:
        result = await client.call_tool("ask", ASKED | {"method": "hanrag"}, progress_callback=on_progress)
        assert not result.is_error, result.content
        run = await client.call_tool("get_run", {"thread": result.structured_content["thread"]})
    assert any("Search" in message for message in told), told
    assert {"router", "retriever"} <= {step["node"] for step in run.structured_content["steps"]}


async def test_every_method_answers(config):
    server = json.loads(config.read_text())["mcpServers"]["hopgraph"]

    async def ask(client: Client, method: str) -> str:
        given = {"settings": {"max_tokens": 32, "top_k": 1}}
        if method == "no_retrieval":
            given = {"settings": {"max_tokens": 32}, "index": None}
        asked = ASKED | given | {"method": method}
        result = await client.call_tool("ask", asked, read_timeout_seconds=LIMIT)
        return result.content[0].text if result.is_error else result.structured_content["status"]

    async with Client(stdio_client(StdioServerParameters(**server))) as client:
        found = await asyncio.gather(*(ask(client, method) for method in METHODS))
    # What so small a model writes need not be of any use, and then an error in words says so.
    answered = [said in ("answered", "unanswerable") for said in found]
    assert not any("Traceback" in said for said in found), found
    assert sum(answered) > len(METHODS) / 2, found
