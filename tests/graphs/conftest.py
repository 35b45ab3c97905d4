"""What tests of whole methods share: scripts by node, and runs that are cut off at every one of their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hopgraph.run import ask, make_context, resume
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
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

    Resumed, a run has the same result, and no call that was answered is made again.
    """
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    # One call at a time: one that is in flight beside the one that fails may be made again.
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")

    async def check(method: str, script: Callable[[], Script], question: str, contexts: Any, **settings: Any) -> Any:
        server = model(script())
        get_settings.cache_clear()
        async with open_checkpoints() as saver:
            context = make_context(method, settings)
            whole = await ask(question, context, saver, thread="whole", contexts=contexts)
            for down_at in range(len(server.requests)):
                thread, replies = f"cut-{down_at}", script()
                server.requests.clear()
                server.script = _down(server, replies, down_at)
                failed = await ask(question, context, saver, thread=thread, contexts=contexts)
                assert failed["status"] == "failed"
                assert failed["error"]["kind"] == "endpoint"
                assert failed["error"]["node"] in {request.node for request in server.requests[down_at:]}
                server.script = replies
                result = await resume(thread, saver)
                assert _plain(result) == _plain(whole)
                answered = [request.id for request in server.requests if request.finished]
                assert sorted(answered) == sorted(set(answered))
        return whole

    return check


def _down(server: Any, replies: Script, at: int) -> Script:
    """The endpoint is down from a call on. It fails slowly: what was answered before is committed by then."""

    def script(request: Request) -> Any:
        if not any(late is request for late in server.requests[at:]):
            return replies(request)
        return Raw(503, "{}", drip=0.1)

    return script


def _plain(result: Any) -> Any:
    return {**result, "thread": "", "cost": {**result["cost"], "seconds": 0}}
