"""Rerankers behind HTTP: a server that speaks as vLLM's `/rerank` does, or Cohere's."""

from __future__ import annotations

import json
import math

import pytest

from inference.errors import EndpointError, InputError
from inference.rerankers import endpoint
from inference.rerankers.configured import get_reranker
from inference.rerankers.endpoint import EndpointReranker
from inference.settings import get_settings
from tests.reranking import RerankServer, cohere, vllm

TEXTS = ["a", "a zorba", "zorba zorba", "b"]


@pytest.fixture
def server():
    with RerankServer().running() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("inference.retries.FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("inference.retries.MAX_BACKOFF", 0.01)


@pytest.mark.parametrize("form", [vllm, cohere])
def test_scores_come_in_the_order_of_the_texts(server, form):
    server.answer = form
    scores = EndpointReranker(server.url, "bge").rerank("zorba", TEXTS)
    assert scores.values == [0.0, 1.0, 2.0, 0.0]
    assert (scores.model, scores.tokens, scores.truncated) == ("bge", 9, 0)
    assert server.requests == [{"model": "bge", "query": "zorba", "documents": TEXTS}]


@pytest.mark.parametrize("end", ["", "/", "/rerank"])
def test_the_settings_name_the_server(server, monkeypatch, end):
    monkeypatch.setenv("HOPGRAPH_RERANK_URL", server.url + end)
    monkeypatch.setenv("HOPGRAPH_RERANK_API_KEY", "secret")
    get_settings.cache_clear()
    scores = get_reranker().rerank("zorba", ["zorba", ""])
    assert (scores.values, scores.model) == ([1.0, 0.0], "served")
    assert server.requests == [{"query": "zorba", "documents": ["zorba", " "]}]
    assert server.headers[0]["authorization"] == "Bearer secret"
    assert server.paths == ["/v1/rerank"]


def test_a_bad_address_is_refused():
    with pytest.raises(InputError, match="HOPGRAPH_RERANK_URL: not an http"):
        EndpointReranker("vllm:8000")


def test_passing_failures_are_retried(server):
    replies = iter([(503, "{}"), (429, "{}"), (408, "{}")])
    server.answer = lambda request: next(replies, None) or vllm(request)
    assert EndpointReranker(server.url).rerank("zorba", ["zorba"]).values == [1.0]
    assert len(server.requests) == 4


def test_a_server_that_stays_away_is_not_asked_again_for_a_while(server, monkeypatch):
    server.answer = lambda request: (503, '{"error": "overloaded"}')
    away = EndpointReranker(server.url, retries=2)
    for _ in range(3):
        with pytest.raises(EndpointError, match="is away: it answered with status 503") as caught:
            away.rerank("zorba", TEXTS)
        assert not caught.value.permanent
    assert len(server.requests) == 3
    monkeypatch.setattr(endpoint, "AWAY", 0.0)
    away._away_until = 0.0
    server.answer = vllm
    assert away.rerank("zorba", ["zorba"]).values == [1.0]


def test_a_dead_server_and_a_slow_one_are_away(server):
    server.delay = 2.0
    with pytest.raises(EndpointError, match="is away: ReadTimeout"):
        EndpointReranker(server.url, timeout=0.05, retries=0).rerank("zorba", TEXTS)
    with pytest.raises(EndpointError, match="is away: ConnectError"):
        EndpointReranker("http://127.0.0.1:9/v1", retries=1).rerank("zorba", TEXTS)


def test_texts_too_long_for_the_model_are_halved_until_they_fit(server):
    def answer(request):
        if max(map(len, request["documents"])) > 300:
            return 400, {"error": {"message": "This model's maximum context length is 100 tokens"}}
        return vllm(request)

    server.answer = answer
    scores = EndpointReranker(server.url).rerank("zorba", ["x " * 500, "zorba", "zorba " * 50])
    assert (scores.values, scores.truncated) == ([0.0, 1.0, 41.0], 2)
    assert [max(map(len, r["documents"])) for r in server.requests] == [1000, 500, 250]


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_retried_and_lasts(server, status):
    server.answer = lambda request: (status, '{"message": "no"}')
    with pytest.raises(EndpointError, match=f"refused the request with status {status}") as caught:
        EndpointReranker(server.url).rerank("zorba", TEXTS)
    assert caught.value.permanent
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "[]",
        {"results": []},
        {"results": [{"index": 0, "relevance_score": 1.0}] * 2},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 2, "relevance_score": 1.0}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": math.nan}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": None}]},
        {"results": [{"index": 0}, {"index": 1}]},
        {"data": [{"index": 0, "embedding": [1.0]}]},
        "[" * 100_000,
    ],
)
def test_what_is_not_a_ranking_is_refused(server, body):
    server.answer = lambda request: (200, body if isinstance(body, str) else json.dumps(body))
    with pytest.raises(EndpointError, match="not a ranking") as caught:
        EndpointReranker(server.url).rerank("zorba", ["a", "b"])
    assert caught.value.permanent


@pytest.mark.parametrize("usage", [None, [], {"total_tokens": "9"}, {"total_tokens": -1}, {"total_tokens": math.inf}])
def test_tokens_that_are_not_reported_count_as_none(server, usage):
    server.answer = lambda request: (200, json.dumps(json.loads(vllm(request)[1]) | {"usage": usage, "model": 7}))
    scores = EndpointReranker(server.url).rerank("zorba", ["a"])
    assert (scores.tokens, scores.model) == (0, "the server's only model")
