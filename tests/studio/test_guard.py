"""The local server's guard: other hosts, other origins and large bodies are refused; its page and Studio pass."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hopgraph.studio import guard
from hopgraph.studio.guard import Guard

HOSTED = "https://smith.langchain.com"
URL = "http://127.0.0.1:2024"


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def call():
    routes = [Route("/{path:path}", echo, methods=["GET", "POST", "DELETE", "OPTIONS"])]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, origins=[HOSTED], linked="/studio/")])

    async def send(method="POST", path="/threads", content=b"", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
            return (await client.request(method, path, content=content, headers=named)).status_code

    return send


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": URL, "sec_fetch_site": "same-origin"},
        {"origin": HOSTED, "sec_fetch_site": "cross-site"},
        {"host": "localhost:2024"},
        {"host": "[::1]:2024"},
    ],
)
async def test_programs_the_page_and_studio_pass(call, headers):
    assert await call(**headers) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": f"{HOSTED}.evil.example"},
        {"host": "evil.example:2024"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "["},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_other_pages_are_refused(call, headers, method):
    assert await call(method, **headers) == 403


async def test_other_sites_may_link_to_the_page_but_not_embed_or_post_to_it(call):
    followed = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert await call("GET", "/studio/?thread=x", **followed) == 200
    assert await call("POST", "/studio/", **followed) == 403
    assert await call("GET", "/studio/", **(followed | {"sec_fetch_dest": "iframe"})) == 403


async def test_a_body_beyond_the_limit_is_refused(call, monkeypatch):
    monkeypatch.setattr(guard, "LARGEST", 10)
    assert await call(content=b"x" * 10) == 200
    assert await call(content=b"x" * 11) == 413
