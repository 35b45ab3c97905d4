"""An endpoint that replies after a fixed time, in a process of its own, with the times of every call."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
import urllib.request
from collections import defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.scripted import MODEL, Request, chunks, completion, plausible

Log = dict[str, list[tuple[float, float]]]
"""By thread: when each of its calls came and was answered."""


class RepliesAfter:
    """The endpoint, as a context.

    Args:
        seconds: Time of each reply.
    """

    def __init__(self, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, seconds), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{here.recv()}/v1"

    def __enter__(self) -> RepliesAfter:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def log(self) -> Log:
        """The calls so far."""
        with urllib.request.urlopen(f"{self.url}/log") as answer:
            found: Log = json.load(answer)
        return found


def busy_seconds(log: Log) -> dict[str, float]:
    """By thread: seconds in which at least one call was at the endpoint."""
    found = {}
    for thread, calls in log.items():
        busy = until = 0.0
        for came, answered in sorted(calls):
            busy += max(0.0, answered - max(came, until))
            until = max(until, answered)
        found[thread] = busy
    return found


def _serve(pipe: Connection, seconds: float) -> None:
    log: Log = defaultdict(list)

    async def complete(request: web.Request) -> web.StreamResponse:
        came = time.monotonic()
        asked = Request(request.headers["x-request-id"], await request.json(), {}, came)
        answer = plausible(asked)
        await asyncio.sleep(seconds - (time.monotonic() - came))
        thread = asked.id.rsplit(".", 3)[0]
        if not asked.body.get("stream"):
            body = completion(asked, answer)  # type: ignore[arg-type]
            log[thread].append((came, time.monotonic()))
            return web.json_response(body)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        events = [f"data: {json.dumps(event)}\n\n" for event in chunks(asked, answer)]  # type: ignore[arg-type]
        log[thread].append((came, time.monotonic()))
        await response.write("".join([*events, "data: [DONE]\n\n"]).encode())
        return response

    async def models(_: web.Request) -> web.Response:
        row = {"id": MODEL, "object": "model", "max_model_len": 32_768}
        return web.json_response({"object": "list", "data": [row]})

    async def log_of(_: web.Request) -> web.Response:
        return web.json_response(log)

    async def run() -> None:
        app = web.Application()
        paths: list[Any] = [web.post("/v1/chat/completions", complete), web.get("/v1/models", models)]
        app.add_routes([*paths, web.get("/v1/log", log_of)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())
