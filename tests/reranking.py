"""A server with `/rerank`: it scores a document by how often the query is in it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, str | dict[str, Any]]


def vllm(request: dict[str, Any]) -> Answer:
    """vLLM's form: sorted by relevance, each with its document."""
    rows = [{**row, "document": {"text": request["documents"][row["index"]]}} for row in _ranked(request)]
    tokens = _tokens(request)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, json.dumps({"id": "rerank-1", "model": "served", "usage": usage, "results": rows})


def cohere(request: dict[str, Any]) -> Answer:
    """Cohere's form."""
    meta = {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": float(_tokens(request))}}
    return 200, json.dumps({"id": "1", "results": _ranked(request), "meta": meta})


def _ranked(request: dict[str, Any]) -> list[dict[str, Any]]:
    scores = [float(text.lower().count(request["query"].lower())) for text in request["documents"]]
    rows = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    return sorted(rows, key=lambda row: -row["relevance_score"])


def _tokens(request: dict[str, Any]) -> int:
    return sum(len(f"{request['query']} {text}".split()) for text in request["documents"]) - 1


class RerankServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[dict[str, Any]], Answer] = vllm
        self.delay = 0.0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: Any) -> None:
        """A client that has left is no news."""

    @contextmanager
    def running(self) -> Iterator[RerankServer]:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RerankServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        self.server.paths.append(self.path)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        time.sleep(self.server.delay)
        status, body = self.server.answer(request)
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass
