"""A scripted model behind real HTTP: an OpenAI-compatible server whose replies a test decides. It logs all requests."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted"


@dataclass
class Request:
    """One request as the server saw it."""

    id: str
    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""
    started: float
    finished: bool = False
    ended: float = 0.0
    left: bool = False
    """The client went away in mid-stream."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when a stream has ended, however that came."""

    @property
    def node(self) -> str:
        """The node that asked, from the schema's name; without a schema, from the request's id."""
        if "json_schema" not in self.body.get("response_format", {}):
            return self.id.rsplit(".", 2)[-2]
        return self.body["response_format"]["json_schema"]["name"].partition("__")[2]

    @property
    def prompt(self) -> str:
        """All messages as one text."""
        return "\n".join(message["content"] for message in self.body["messages"])


@dataclass
class Raw:
    """A reply that is not a completion: any status, body and type."""

    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0
    """Seconds between one byte of the body and the next."""


@dataclass
class Completion:
    """A completion with its particulars."""

    text: str | None
    finish_reason: str = "stop"
    tokens: Sequence[tuple[str | bytes, float] | tuple[str | bytes, float, Mapping[str, float]]] | None = None
    """Spelling and log-probability of each token, and its alternatives with theirs; by default pieces of four
    characters with -0.1 each and no alternatives."""
    delay: float = 0.0
    reasoning: str | None = None
    cut: int | None = None
    """A stream breaks off after this many tokens."""
    between: Callable[[int], None] = lambda _: None
    """Called before each token of a stream, with its number from 0."""


Script = Callable[[Request], "str | dict[str, Any] | Raw | Completion"]


class ScriptedModel:
    """The server. `script` gives the reply to a request: a text, an object (sent as JSON), a `Completion` or a `Raw`.

    `pages` are its replies at other paths, in the place of vLLM's; `visits` are the requests there, with their bodies.
    """

    def __init__(
        self,
        script: Script,
        *,
        context: int | None = 32768,
        tokenize: bool = True,
        streams: bool = True,
        pages: Mapping[str, Raw | Callable[[], Raw]] | None = None,
        owned_by: str | None = "vllm",
        port: int = 0,
    ) -> None:
        self.script = script
        self.pages = pages or {}
        self.visits: list[tuple[str, Any]] = []
        self.context = context
        self.tokenize = tokenize
        self.streams = streams
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.most_in_flight = 0
        self._in_flight = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # headers and body in one packet: no wait for a delayed acknowledgement
            disable_nagle_algorithm = True

            def log_message(self, *args: Any) -> None:
                pass

            def page(self, body: Any) -> bool:
                outer.visits.append((self.path, body))
                reply = outer.pages.get(self.path)
                if reply is not None:
                    self.send(reply if isinstance(reply, Raw) else reply())
                return reply is not None

            def do_GET(self) -> None:
                if self.page(None):
                    return
                if self.path != "/v1/models":
                    self.send(Raw(404, "{}"))
                    return
                row = {"id": MODEL, "object": "model"}
                if outer.context is not None:
                    row["max_model_len"] = outer.context
                if owned_by is not None:
                    row["owned_by"] = owned_by
                self.send(Raw(body=json.dumps({"object": "list", "data": [row]})))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.endswith("/chat/completions") and self.page(body):
                    return
                if self.path == "/tokenize":
                    text = "".join(m["content"] for m in body["messages"])
                    reply = Raw(body=json.dumps({"count": len(text.split())})) if outer.tokenize else Raw(404, "{}")
                    self.send(reply)
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(headers.get("x-request-id", ""), body, headers, time.time())
                with outer.lock:
                    outer.requests.append(request)
                    outer._in_flight += 1
                    outer.most_in_flight = max(outer.most_in_flight, outer._in_flight)
                try:
                    reply = outer.reply(request)
                    if body.get("stream") and outer.streams and not isinstance(reply, Raw):
                        self.send_events(request, reply)
                        return
                    if not isinstance(reply, Raw):
                        reply = Raw(body=json.dumps(completion(request, reply)))
                finally:
                    with outer.lock:
                        outer._in_flight -= 1
                try:
                    self.send(reply)
                    request.finished, request.ended = reply.status == 200, time.time()
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def send_events(self, request: Request, reply: Any) -> None:
                if not isinstance(reply, Completion):
                    reply = Completion(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for number, event in enumerate(chunks(request, reply)):
                        reply.between(number)
                        if number == reply.cut:
                            return
                        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
                        self.wfile.flush()
                    self.wfile.write(b"data: [DONE]\n\n")
                    self.wfile.flush()
                    request.finished, request.ended = True, time.time()
                except OSError:
                    request.left = True
                finally:
                    request.over.set()

            def send(self, reply: Raw) -> None:
                data = reply.body.encode()
                self.send_response(reply.status)
                self.send_header("content-type", reply.content_type)
                self.send_header("content-length", str(len(data)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if not reply.drip:
                    self.wfile.write(data)
                    return
                for byte in data:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(reply.drip)

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client that was killed is no news
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def reply(self, request: Request) -> str | dict[str, Any] | Raw | Completion:
        """The script's reply; a mistake in the script is a 400, which nobody tries again."""
        try:
            return self.script(request)
        except Exception as error:
            return Raw(400, json.dumps({"error": {"message": f"script: {error!r}"}}))

    @contextmanager
    def running(self):
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def nodes(self) -> list[str]:
        """Which nodes asked, in order."""
        return [request.node for request in self.requests]


def plausible(request: Request) -> str | Completion:
    """A reply of the shape that a request asks for, whatever asks: the first of every choice, and as little as may be.

    Yes and no come with their probabilities; where a reply may be of several kinds, the first one is it.
    """
    form = request.body.get("response_format")
    if form is None:
        return "Paris"
    schema = form["json_schema"]["schema"]
    text = json.dumps(_instance(schema, schema.get("$defs", {})))
    tokens = [(piece, -0.01, {piece: -0.01}) for piece in re.split(r"((?<=:) (?:true|false))", text) if piece]
    return Completion(text, tokens=tokens)


def _instance(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _instance(named[schema["$ref"].rpartition("/")[2]], named)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _instance(schema[choice][0], named)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _instance(part, named) for name, part in schema.get("properties", {}).items()}
    if schema["type"] == "array":
        return [_instance(schema["items"], named) for _ in range(max(schema.get("minItems", 0), 1))]
    return {"string": "Paris", "number": 0.9, "integer": schema.get("minimum", 1), "boolean": True}[schema["type"]]


def completion(request: Request, reply: str | dict[str, Any] | Completion) -> dict[str, Any]:
    """The body of a chat completion."""
    if not isinstance(reply, Completion):
        reply = Completion(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))
    time.sleep(reply.delay)
    text = reply.text or ""
    tokens = reply.tokens if reply.tokens is not None else [(piece, -0.1) for piece in _pieces(text)]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    if request.body.get("logprobs"):
        choice["logprobs"] = {"content": [_row(*token) for token in tokens]}
    words = len(request.prompt.split())
    usage = {"prompt_tokens": words, "completion_tokens": len(tokens), "total_tokens": words + len(tokens)}
    return {
        "id": "c", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice], "usage": usage,
    }  # fmt: skip


def chunks(request: Request, reply: Completion) -> Iterator[dict[str, Any]]:
    """The events of a completion that is streamed: tokens, how it ended, and with `include_usage` its usage."""
    whole = completion(request, reply)
    (choice,) = whole["choices"]
    about = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
    tokens = reply.tokens if reply.tokens is not None else [(piece, -0.1) for piece in _pieces(reply.text or "")]
    for token in tokens:
        text = token[0] if isinstance(token[0], str) else token[0].decode(errors="replace")
        part: dict[str, Any] = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        if "logprobs" in choice:
            part["logprobs"] = {"content": [_row(*token)]}
        yield {**about, "choices": [part]}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if request.body.get("stream_options", {}).get("include_usage"):
        yield {**about, "choices": [], "usage": whole["usage"]}


def _row(token: str | bytes, logprob: float, top: Mapping[str, float] | None = None) -> dict[str, Any]:
    raw = token.encode(errors="surrogatepass") if isinstance(token, str) else token
    alternatives = [
        {"token": text, "logprob": value, "bytes": list(text.encode(errors="surrogatepass"))}
        for text, value in (top or {}).items()
    ]
    return {"token": raw.decode(errors="replace"), "logprob": logprob, "bytes": list(raw), "top_logprobs": alternatives}


def _pieces(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]
