"""What tests of whole methods share: scripts by node, and runs that are cut off at every one of their calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from hopgraph.run import ask, make_context, resume
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
from tests.kills import committed_calls
from tests.scripted import Raw, Request, Script


def by_node(**lines: Any) -> Script:
    """A script: by node, an object, a function of the request, or a list of which the last is repeated."""
    turns = {node: iter(replies[:-1]) for node, replies in lines.items() if isinstance(replies, list)}

    def script(request: Request) -> Any:
        reply = lines[request.node]
        reply = next(turns[request.node], reply[-1]) if isinstance(reply, list) else reply
        return reply(request) if callable(reply) else reply

    return script


def asked(request: Request) -> str:
    """The question of a prompt."""
    return request.body["messages"][-1]["content"].rpartition("<question>")[2].partition("</question>")[0]


def steps_of(state: Any) -> dict[str, Any]:
    """A run's steps by id."""
    return {step["id"]: step for step in state["trajectory"]}


@pytest.fixture
def cut_at_every_call(model, monkeypatch):
    """Runs a question once undisturbed, and then once for each of its calls with the endpoint down at that call.

    Resumed, a run has the same result, and no call whose reply is committed is made again. `asked_by` names the graph's
    node of calls that are recorded under another name.
    """
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    # One call at a time: one that is under way beside the one that fails may be made again.
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")

    async def check(
        method: str,
        script: Callable[[], Script],
        question: str,
        contexts: Any,
        *,
        asked_by: Mapping[str, str] = MappingProxyType({}),
        **settings: Any,
    ) -> Any:
        server = model(script())
        get_settings.cache_clear()
        async with open_checkpoints() as saver:
            context = make_context(method, settings)
            whole = await ask(question, context, saver, thread="whole", contexts=contexts)
            for down_at in range(len(server.requests)):
                thread, replies = f"cut-{down_at}", script()
                server.requests.clear()
                server.script = _down(server, replies, down_at, thread)
                failed = await ask(question, context, saver, thread=thread, contexts=contexts)
                assert failed["status"] == "failed"
                assert failed["error"]["kind"] == "endpoint"
                down = {request.node for request in server.requests[down_at:]}
                assert failed["error"]["node"] in {asked_by.get(node, node) for node in down}
                answered = {request.id for request in server.requests[:down_at]}
                assert answered <= (committed := await committed_calls(saver, thread))
                begun = len(server.requests)
                server.script = replies
                result = await resume(thread, saver)
                assert _plain(result) == _plain(whole)
                assert not committed & {request.id for request in server.requests[begun:]}
        return whole

    return check


def _down(server: Any, replies: Script, at: int, thread: str) -> Script:
    """The endpoint is down from a call on. It says so when the calls that it answered are committed."""

    def script(request: Request) -> Any:
        if not any(late is request for late in server.requests[at:]):
            return replies(request)
        answered = {early.id for early in server.requests[:at]}
        deadline = time.monotonic() + 60
        while not answered <= asyncio.run(_committed(thread)):
            assert time.monotonic() < deadline, f"not committed: {answered}"
            time.sleep(0.01)
        return Raw(503, "{}")

    return script


async def _committed(thread: str) -> set[str]:
    async with open_checkpoints() as saver:
        return await committed_calls(saver, thread)


def _plain(result: Any) -> Any:
    return {**result, "thread": "", "cost": {**result["cost"], "seconds": 0}}
