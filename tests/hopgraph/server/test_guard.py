"""Attacks on the server: other sites, other names, no key, oversized and disguised bodies."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

from hopgraph.server.guard import Guard
from hopgraph.server.options import Options
from tests.replies import proper_text
from tests.small import QUESTION, build_small

JSON = {"content-type": "application/json"}
CHAT = {"model": "standard_rag", "messages": [{"role": "user", "content": QUESTION}]}


async def status(server, headers, method="POST", path="/v1/chat/completions"):
    async with server.http() as client:
        answer = await client.request(method, path, json=CHAT if method == "POST" else None, headers=headers)
        return answer.status_code


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://evil.example", "host": "evil.example"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "127.0.0.1@evil.example"},
        {"host": "["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_other_sites_and_other_names_are_refused(server, model, headers):
    calls = model(lambda request: proper_text(request, 3))
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/metrics")):
        assert await status(server, headers, method, path) == 403
    assert not calls.requests


async def test_programs_and_pages_of_this_server_may_ask(server, model):
    model(lambda request: proper_text(request, 3))
    port = server.url.rpartition(":")[2]
    assert await status(server, {}) == 200
    assert await status(server, {"host": f"localhost:{port}"}) == 200
    assert await status(server, {"origin": server.url, "sec-fetch-site": "same-origin"}) == 200


async def test_pages_that_are_named_may_ask_and_are_told_so(home, start, model):
    build_small()
    model(lambda request: proper_text(request, 3))
    page = "http://chat.example:3000"
    server = await start(origins=(page,))
    assert await status(server, {"origin": page, "sec-fetch-site": "cross-site"}) == 200
    assert await status(server, {"origin": "http://evil.example"}) == 403
    async with server.http() as client:
        asked = {"origin": page, "access-control-request-method": "POST",
                 "access-control-request-headers": "authorization,content-type"}  # fmt: skip
        answer = await client.options("/v1/chat/completions", headers=asked)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)
        answer = await client.options("/v1/chat/completions", headers={**asked, "origin": "http://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


async def test_with_a_key_nothing_but_health_is_open_and_any_name_may_be_used(home, start, model):
    build_small()
    calls = model(lambda request: proper_text(request, 3))
    server = await start(key="s3cret")
    wrong = ["", "Bearer", "Bearer wrong", "Bearer s3cre", "Bearer s3cret2", "s3cret", "Basic s3cret", "Bearer gehéim"]
    for value in wrong:
        headers = {"authorization": value.encode()}
        assert await status(server, headers) == 401
        assert await status(server, headers, "GET", "/v1/models") == 401
        assert await status(server, headers, "GET", "/metrics") == 401
    assert not calls.requests
    assert await status(server, {}, "GET", "/health") == 200
    right = {"authorization": "Bearer s3cret", "host": "hopgraph.example"}
    assert await status(server, right) == 200
    assert await status(server, {**right, "origin": "https://evil.example"}) == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
async def test_a_body_that_a_form_could_send_is_refused(server, kind):
    async with server.http() as client:
        headers = {"content-type": kind} if kind else {}
        answer = await client.post("/v1/chat/completions", content=json.dumps(CHAT), headers=headers)
    assert answer.status_code == 415


@pytest.mark.parametrize("declared", [True, False])
async def test_an_oversized_body_is_refused(home, start, declared):
    async def in_pieces():
        for _ in range(20):
            yield b" " * 100

    server = await start(body=1000)
    async with server.http() as client:
        content = b" " * 2000 if declared else in_pieces()
        answer = await client.post("/v1/chat/completions", content=content, headers=JSON)
    assert answer.status_code == 413


async def test_of_a_body_without_end_no_more_is_read_than_allowed():
    read = 0
    sent = []

    async def receive():
        nonlocal read
        read += 100
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        await Request(scope, receive).body()

    scope = {"type": "http", "method": "POST", "path": "/", "root_path": "",
             "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")]}  # fmt: skip
    await Guard(app, Options(body=1000))(scope, receive, send)
    assert read == 1100
    assert sent[0]["status"] == 413


async def test_websockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    await Guard(None, None)({"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
