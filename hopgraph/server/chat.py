"""`POST /v1/chat/completions`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from hopgraph.server.answers import Answer, event_text
from hopgraph.server.errors import THREAD, ApiError, of_problem
from hopgraph.server.requests import read_request
from hopgraph.server.service import final_nodes
from inference.errors import HopgraphError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hopgraph.listeners import Token
    from hopgraph.server.service import Job, Service
    from nodes.kit.events import Event

ALIVE = 15.0
"""Seconds of silence after which a stream gets a comment, so that no proxy closes it."""


async def chat(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a chat; an ASGI application, which notices that its client goes away.

    Raises:
        ApiError: The request is refused, or its run failed before the response began.
    """
    service: Service = scope["app"].state.service
    request = Request(scope, receive)
    body = await request.body()
    thread = ""
    try:
        read = await asyncio.to_thread(read_request, body, request.headers.get(THREAD), service.options)
        thread = read.thread or ""
        job = await service.prepare(read)
        thread = job.thread
        if read.stream:
            await _Stream(service, job, send).run(receive)
            return
        answer = await _until_gone(service.start(job), receive)
    except HopgraphError as problem:
        raise of_problem(problem, thread) from None
    if answer is not None:
        response = JSONResponse(_completion(read.model, answer), headers={THREAD: thread})
        await response(scope, receive, send)


async def _until_gone(task: asyncio.Task[Any], receive: Receive) -> Any:
    """The task's result; if the client goes away, the task is cancelled and the result is None."""
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _completion(model: str, answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text + answer.ending}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": answer.usage,
        "hopgraph": answer.about,
    }


class _Stream:
    """A streamed chat: steps as `reasoning_content`, then the answer.

    Tokens are sent as they come from nodes after which the graph ends; other answers may yet be revised.
    """

    def __init__(self, service: Service, job: Job, send: Send) -> None:
        self._service = service
        self._job = job
        self._send = send
        self._final = final_nodes(job.request.context.method)
        self._deltas: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
        self._message = ""
        self._sent = ""
        self._head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": job.request.model,
        }

    async def run(self, receive: Receive) -> None:
        """Send the stream, to its end or until the client goes away."""
        task = self._service.start(self._job, self._on_event, self._on_token)
        task.add_done_callback(lambda _: self._deltas.put_nowait(None))
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            (THREAD.encode(), self._job.thread.encode()),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        writing = asyncio.create_task(self._write(task))
        try:
            await _until_gone(writing, receive)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _on_event(self, event: Event) -> None:
        if text := event_text(event):
            self._deltas.put_nowait({"reasoning_content": text})

    def _on_token(self, token: Token) -> None:
        if token.inner or token.node not in self._final or not token.text:
            return
        self._message = self._message or token.message
        if token.message == self._message:  # otherwise it replaces what was sent: see `_rest`
            self._sent += token.text
            self._deltas.put_nowait({"content": token.text})

    async def _write(self, task: asyncio.Task[Answer]) -> None:
        await self._body(self._chunk({"role": "assistant", "content": ""}))
        while deltas := await self._next():
            await self._body(*map(self._chunk, deltas))
        try:
            answer = task.result()
        except asyncio.CancelledError:
            return
        except ApiError as error:
            self._service.metrics.refused(str(error.body["error"]["code"]))
            await self._body(_event(error.body), last=True)
            return
        except HopgraphError as problem:
            await self._body(_event(of_problem(problem, self._job.thread).body), last=True)
            return
        events = [
            self._chunk({"content": self._rest(answer.text) + answer.ending}),
            _event({**self._head, "choices": [_choice({}, "stop")], "hopgraph": answer.about}),
        ]
        if self._job.request.usage:
            events.append(_event({**self._head, "choices": [], "usage": answer.usage}))
        await self._body(*events, _data("[DONE]"), last=True)

    async def _next(self) -> list[dict[str, str]]:
        """The next deltas, all that are there; empty at the end."""
        while True:
            try:
                async with asyncio.timeout(ALIVE):
                    found = [await self._deltas.get()]
            except TimeoutError:
                await self._body(b": alive\n\n")
                continue
            while not self._deltas.empty():
                found.append(self._deltas.get_nowait())
            if found[-1] is None and found[1:]:  # the end comes alone
                self._deltas.put_nowait(None)
            return [delta for delta in found if delta is not None]

    def _rest(self, answer: str) -> str:
        """What is left to send of an answer."""
        if answer.startswith(self._sent):
            return answer[len(self._sent) :]
        return f"\n\n{answer}"

    def _chunk(self, delta: dict[str, str]) -> bytes:
        return _event({**self._head, "choices": [_choice(delta, None)]})

    async def _body(self, *events: bytes, last: bool = False) -> None:
        """Send events at once: each sending is a system call."""
        await self._send({"type": "http.response.body", "body": b"".join(events), "more_body": not last})


def _event(value: dict[str, Any]) -> bytes:
    return _data(json.dumps(value, ensure_ascii=False))


def _data(text: str) -> bytes:
    return f"data: {text}\n\n".encode(errors="replace")


def _choice(delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
