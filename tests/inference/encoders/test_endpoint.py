"""Encoders behind HTTP: a scripted server answers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from inference.encoders.configured import get_encoder
from inference.encoders.endpoint import EndpointEncoder
from inference.encoders.recipes import recipe_of
from inference.errors import EndpointError, InputError
from inference.settings import get_settings


class Server(ThreadingHTTPServer):
    """Answers with a text's length as its vector, unless `answer` says otherwise."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.answer = lambda request: (200, embeddings(request))
        self.models = ["bge-small-en-v1.5"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


def embeddings(request, dimension: int = 4):
    rows = [
        {"index": i, "embedding": [float(len(text)), 1.0] + [0.0] * (dimension - 2)}
        for i, text in enumerate(request["input"])
    ]
    return {"object": "list", "data": rows[::-1]}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(200, {"data": [{"id": model} for model in self.server.models]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers.get("Authorization"))
        self.reply(*self.server.answer(request))

    def reply(self, status, body, headers=()):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("inference.retries.FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("inference.retries.MAX_BACKOFF", 0.01)


def encoder(server, model="plain", **kwargs):
    return EndpointEncoder(server.url, model, **{"retries": 2, "timeout": 5.0, **kwargs})


def test_vectors_come_back_in_the_order_of_the_texts(server):
    texts = ["x" * n for n in (5, 300, 1, 77, 0, 2)] * 40
    vectors = encoder(server, "contriever").encode_passages(texts)
    assert vectors.shape == (240, 4)
    assert vectors[:, 0].tolist() == [float(max(len(text), 1)) for text in texts]
    assert len(server.requests) == 4
    assert max(len(request["input"]) for request in server.requests) == 64


def test_vectors_are_scaled_to_unit_length_unless_the_model_means_their_length(server):
    assert np.allclose(np.linalg.norm(encoder(server, "bge-m3").encode_queries(["abc"]), axis=1), 1)
    assert encoder(server, "facebook/contriever-msmarco").encode_queries(["abc"])[0].tolist() == [3, 1, 0, 0]


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("BAAI/bge-large-en-v1.5", "Represent this sentence for searching relevant passages: q", "p"),
        ("intfloat/e5-base-v2", "query: q", "passage: p"),
        ("intfloat/multilingual-e5-small", "query: q", "passage: p"),
        ("facebook/contriever", "q", "p"),
        ("BAAI/bge-m3", "q", "p"),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: q", "search_document: p"),
        ("my-own-model", "q", "p"),
    ],
)
def test_a_known_model_gets_its_prefixes(server, model, query, passage):
    made = encoder(server, model)
    made.encode_queries(["q"])
    made.encode_passages(["p"])
    assert [request["input"] for request in server.requests] == [[query], [passage]]
    assert server.requests[0]["model"] == model


def test_prefixes_can_be_set_also_to_nothing(server):
    made = encoder(server, "e5-large", query_prefix="", passage_prefix="doc: ")
    made.encode_queries(["q"])
    made.encode_passages(["p"])
    assert [request["input"] for request in server.requests] == [["q"], ["doc: p"]]


def test_the_passage_prefix_is_part_of_the_identity_and_the_address_is_not(server):
    assert encoder(server, "e5-large").id != encoder(server, "e5-large", passage_prefix="").id
    assert encoder(server, "e5-large").id == EndpointEncoder("http://elsewhere/v1", "e5-large").id
    assert encoder(server, "e5-large").id == encoder(server, "e5-large", query_prefix="other").id


def test_recipes_know_pooling():
    assert recipe_of("facebook/contriever").pooling == "mean"
    assert recipe_of("BAAI/bge-base-en-v1.5").pooling == "cls"
    assert recipe_of("Qwen/Qwen3-Embedding-0.6B").pooling == "last"


def test_settings_choose_the_endpoint_and_the_only_model_is_asked_for(server, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_EMBED_URL", server.url + "/")
    monkeypatch.setenv("HOPGRAPH_EMBED_API_KEY", "secret")
    get_settings.cache_clear()
    made = get_encoder()
    assert made is get_encoder()
    assert made.id == "bge-small-en-v1.5"
    made.encode_queries(["a"])
    assert server.keys == ["Bearer secret"]
    assert server.requests[0]["model"] == "bge-small-en-v1.5"


def test_several_models_and_none_named_is_an_error(server):
    server.models = ["a", "b"]
    with pytest.raises(InputError, match="serves 2 models: a, b"):
        _ = encoder(server, "").id


def test_an_address_that_is_none_is_refused():
    with pytest.raises(InputError, match="not an http"):
        EndpointEncoder("localhost:8000")


def test_a_server_that_is_down_is_named():
    with pytest.raises(EndpointError, match=r"can't reach .*127.0.0.1:9/v1") as error:
        EndpointEncoder("http://127.0.0.1:9/v1", "m", retries=1).encode_queries(["a"])
    assert "HOPGRAPH_EMBED_URL" in error.value.hint


def test_a_slow_server_is_named(server):
    gate = threading.Event()
    server.answer = lambda request: (gate.wait(2), (200, embeddings(request)))[1]
    with pytest.raises(EndpointError, match="ReadTimeout"):
        encoder(server, timeout=0.1, retries=0).encode_queries(["a"])
    gate.set()


def test_a_status_that_never_passes_is_not_retried(server):
    server.answer = lambda request: (501, "no embeddings here")
    with pytest.raises(EndpointError, match="status 501: no embeddings here"):
        encoder(server).encode_queries(["x"])
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_passing_failures_are_tried_again(server, status):
    answers = iter([(status, "busy", [("Retry-After", "9999")]), (status, "busy")])
    server.answer = lambda request: next(answers, None) or (200, embeddings(request))
    assert encoder(server).encode_queries(["a"]).shape == (1, 4)
    assert len(server.requests) == 3


def test_retries_are_bounded(server):
    server.answer = lambda request: (503, "<html>overloaded</html>")
    with pytest.raises(EndpointError, match="status 503: <html>overloaded"):
        encoder(server).encode_queries(["a"])
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "hint"), [(400, "log"), (401, "HOPGRAPH_EMBED_API_KEY"), (404, "HOPGRAPH_EMBED_MODEL")]
)
def test_refusals_are_not_tried_again(server, status, hint):
    server.answer = lambda request: (status, '{"error": "no"}')
    with pytest.raises(EndpointError, match=f"status {status}") as error:
        encoder(server).encode_queries(["a"])
    assert hint in error.value.hint
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        "<html>hello</html>",
        "",
        "[]",
        {"data": []},
        {"data": [{"index": 0}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": [None, 1.0]}]},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        '{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}',
        {"choices": [{"message": {"content": "Hello!"}}]},
    ],
)
def test_what_is_no_embeddings_is_called_that(server, body):
    server.answer = lambda request: (200, body)
    with pytest.raises(EndpointError, match="not embeddings"):
        encoder(server).encode_queries(["a"])


def test_a_dimension_that_changes_is_noticed(server):
    made = encoder(server)
    made.encode_queries(["a"])
    server.answer = lambda request: (200, embeddings(request, 8))
    with pytest.raises(EndpointError, match="8 dimensions after ones of 4"):
        made.encode_queries(["a"])


def test_texts_that_are_too_long_for_the_model_are_cut_until_they_fit(server):
    def answer(request):
        if max(map(len, request["input"])) > 1_000:
            return 400, {"error": {"message": "This model's maximum context length is 512 tokens."}}
        return 200, embeddings(request)

    server.answer = answer
    lengths = encoder(server, "contriever").encode_passages(["x" * 100_000, "y" * 900])[:, 0]
    assert 500 <= lengths[0] <= 1_000
    assert lengths[1] <= 900
    server.answer = lambda request: (400, "maximum context length is 3")
    with pytest.raises(EndpointError, match="status 400"):
        encoder(server).encode_passages(["x" * 100_000])
