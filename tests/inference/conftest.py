"""Clients of a scripted model behind real HTTP, for the tests of what they send, read and try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import inference.retries
from inference.chat import Message, Reply
from inference.endpoint import Endpoint
from inference.errors import EndpointError
from inference.settings import Settings
from tests.scripted import MODEL, Request, ScriptedModel

ASK = [Message("system", "Be brief."), Message("user", 'Who? {"a": 1} {{b}} \\g<0>')]
NOTHING_LISTENS = "http://127.0.0.1:9/v1"
KEY = "sk-very-secret-123"

Serve = Callable[..., ScriptedModel]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(script: Any, **options: Any) -> ScriptedModel:
            return stack.enter_context(ScriptedModel(script, **options).running())

        yield start


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further tries come at once."""
    monkeypatch.setattr(inference.retries, "FIRST_BACKOFF", 0.01)


def endpoint(server: ScriptedModel | str, model: str = MODEL, **settings: Any) -> Endpoint:
    url = server if isinstance(server, str) else server.url
    return Endpoint(url, model, Settings(**{"llm_retries": 0, "llm_timeout": 5.0, **settings}))


async def ask(server: ScriptedModel | str, **settings: Any) -> Reply:
    return await endpoint(server, **settings).complete(ASK, request_id="t.prism.selector.1")


async def failure(server: ScriptedModel | str, **settings: Any) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await ask(server, **settings)
    return caught.value


def in_turn(*replies: Any) -> Callable[[Request], Any]:
    """A script that gives the replies one after another, the last one for ever."""
    rest = list(replies)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]
