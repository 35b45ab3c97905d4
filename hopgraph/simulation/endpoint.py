"""An OpenAI-compatible HTTP endpoint whose model is a function, with optional latency, slots and limit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Token = tuple[str, float] | tuple[str, float, Mapping[str, float]]
"""Spelling and log-probability of a token, and those of its alternatives."""


@dataclass(frozen=True)
class Request:
    """A request for a completion."""

    id: str
    """Its `X-Request-Id`."""
    body: Mapping[str, Any]

    @property
    def method(self) -> str:
        """Id of the calling method."""
        return self._place[0]

    @property
    def node(self) -> str:
        """Name of the calling node."""
        return self._place[1]

    @property
    def prompt(self) -> str:
        """The text of the first user message."""
        return next((str(m["content"]) for m in self.body["messages"] if m["role"] == "user"), "")

    @property
    def _place(self) -> tuple[str, str]:
        parts = self.id.rsplit(".", 3)
        return (parts[1], parts[2]) if len(parts) == 4 else ("", "")


@dataclass(frozen=True)
class Completion:
    """A completion."""

    text: str
    tokens: Sequence[Token] = ()
    """Default: pieces of four characters."""


Model = Callable[[Request], Completion]


class Endpoint:
    """A server on a free port of this machine.

    Args:
        model: Function from request to completion, called from several threads. An exception becomes a 400.
        name: The model's name.
        latency: Seconds per completion, fixed or by request.
        slots: Completions at a time; others wait. None: no limit.
        tells: Serve /metrics with the numbers of running and waiting requests, like vLLM.
        most: Maximum requests in flight; further ones are refused (429, `Retry-After: 1`).
    """

    def __init__(
        self,
        model: Model,
        name: str,
        *,
        latency: float | Callable[[Request], float] = 0.0,
        slots: int | None = None,
        tells: bool = False,
        most: int | None = None,
    ) -> None:
        self.requests: list[str] = []
        """Ids of the completion requests, in order of arrival."""
        self.name = name
        self.in_flight = self.refused = 0
        self._tells, self._most, self._places, self._counting = tells, most, slots, threading.Lock()
        self._model = model
        self._latency = latency if callable(latency) else lambda request: latency
        self._slots = threading.Semaphore(slots) if slots else nullcontext()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # headers and body in one packet: no wait for a delayed acknowledgement
            disable_nagle_algorithm = True

            def log_message(self, *args: Any) -> None:
                """Nothing is logged."""

            def do_GET(self) -> None:
                """The list of models."""
                if self.path == "/v1/models":
                    self._send(200, {"object": "list", "data": [outer.about]})
                elif self.path == "/metrics" and outer.metrics:
                    self._send(200, outer.metrics)
                else:
                    self._send(404, {})

            def do_POST(self) -> None:
                """A completion."""
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path != "/v1/chat/completions":
                    self._send(404, {})
                    return
                if not outer.enter():
                    self._send(429, {"error": {"message": "too many requests in flight"}}, {"retry-after": "1"})
                    return
                try:
                    self._send(200, outer.complete(Request(self.headers.get("x-request-id", ""), body)))
                except (BrokenPipeError, ConnectionResetError):
                    return
                except Exception as error:
                    self._send(400, {"error": {"message": f"simulation: {error!r}"}})
                finally:
                    outer.leave()

            def _send(
                self, status: int, body: Mapping[str, Any] | str, headers: Mapping[str, str] | None = None
            ) -> None:
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def about(self) -> dict[str, Any]:
        """The model's entry in the list of models."""
        vllm = {"owned_by": "vllm", "max_model_len": 32_768} if self._tells else {}
        return {"id": self.name, "object": "model", **vllm}

    @property
    def metrics(self) -> str:
        """vLLM's metrics of running and waiting requests; "" without `tells`."""
        if not self._tells:
            return ""
        running = min(self.in_flight, self._places or self.in_flight)
        counts = {"running": running, "waiting": self.in_flight - running}
        return "".join(f'vllm:num_requests_{what}{{model_name="x"}} {n}.0\n' for what, n in counts.items())

    def enter(self) -> bool:
        """Count a request in, or refuse it: False."""
        with self._counting:
            accepted = self._most is None or self.in_flight < self._most
            self.in_flight += accepted
            self.refused += not accepted
        return accepted

    def leave(self) -> None:
        """Count an accepted request out."""
        with self._counting:
            self.in_flight -= 1

    def complete(self, request: Request) -> dict[str, Any]:
        """The body of a chat completion, after the latency in a slot."""
        self.requests.append(request.id)
        with self._slots:
            time.sleep(self._latency(request))
        return _body(request, self._model(request), self.name)

    @contextmanager
    def running(self) -> Iterator[Endpoint]:
        """Serve within the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Disconnected clients are not logged."""


def _body(request: Request, reply: Completion, name: str) -> dict[str, Any]:
    tokens = reply.tokens or [(reply.text[at : at + 4], -0.01) for at in range(0, len(reply.text), 4)]
    message = {"role": "assistant", "content": reply.text}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if request.body.get("logprobs"):
        choice["logprobs"] = {"content": [_row(*token) for token in tokens]}
    words = sum(len(str(message["content"]).split()) for message in request.body["messages"])
    usage = {"prompt_tokens": words, "completion_tokens": len(tokens), "total_tokens": words + len(tokens)}
    about = {"id": "simulated", "object": "chat.completion", "created": 0, "model": name}
    return {**about, "choices": [choice], "usage": usage}


def _row(text: str, logprob: float, top: Mapping[str, float] | None = None) -> dict[str, Any]:
    others = [{"token": key, "logprob": value, "bytes": list(key.encode())} for key, value in (top or {}).items()]
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": others}
