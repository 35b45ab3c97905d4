"""An OpenTelemetry collector: a real HTTP server that takes OTLP posts and decodes them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Received:
    """A span as it came."""

    name: str
    id: bytes
    parent_id: bytes
    trace: bytes
    attributes: dict[str, Any]
    failed: bool
    message: str
    events: list[str]
    start: int
    end: int
    service: str


@dataclass
class Collector:
    """What came, and how it answers."""

    status: int = 200
    spans: list[Received] = field(default_factory=list)
    posts: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers of each."""
    raw: bytes = b""
    url: str = ""

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def only(self, name: str) -> Received:
        (span,) = self.named(name)
        return span

    def parent(self, span: Received) -> Received:
        (found,) = [row for row in self.spans if row.id == span.parent_id]
        return found

    def path(self, span: Received) -> str:
        """Names from the root to a span."""
        return f"{self.path(self.parent(span))} > {span.name}" if span.parent_id else span.name

    def take(self, body: bytes) -> None:
        self.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _plain(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [
                    Received(
                        span.name,
                        span.span_id,
                        span.parent_span_id,
                        span.trace_id,
                        _plain(span.attributes),
                        span.status.code == 2,
                        span.status.message,
                        [event.name for event in span.events],
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        service,
                    )
                    for span in scope.spans
                ]

    @contextmanager
    def running(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.posts.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                if outer.status == 200:
                    outer.take(body)
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


def _plain(attributes: Any) -> dict[str, Any]:
    return {row.key: _value(row.value) for row in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)
