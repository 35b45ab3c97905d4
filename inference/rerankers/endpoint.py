"""A reranker behind any `/rerank` server in the form of Jina and Cohere, such as vLLM."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from inference.blocking_http import BlockingClient, halved, shortened
from inference.errors import EndpointError
from inference.http import Refusal
from inference.rerankers.scores import Scores
from inference.settings import Settings

VARIABLE = "HOPGRAPH_RERANK_URL"
PATIENCE = 10.0
"""Maximum seconds from a request's first failure to its last retry: a search goes on without the reranker."""
AWAY = 60.0
"""Seconds after a failure in which the server is not asked: each search would wait for it anew."""


def endpoint_reranker(settings: Settings) -> EndpointReranker:
    """The reranker of `HOPGRAPH_RERANK_URL`, one instance per process and configuration.

    Raises:
        InputError: The address is no http(s) URL.
    """
    return _reranker(
        (settings.rerank_url or "").rstrip("/"),
        settings.rerank_model or "",
        settings.rerank_api_key.get_secret_value() if settings.rerank_api_key else "",
        settings.rerank_timeout,
        settings.llm_retries,
        min(settings.llm_patience, PATIENCE),
    )


@lru_cache(maxsize=8)
def _reranker(url: str, model: str, key: str, timeout: float, retries: int, patience: float) -> EndpointReranker:
    return EndpointReranker(url, model, key=key, timeout=timeout, retries=retries, patience=patience)


class EndpointReranker:
    """A model behind `/rerank`.

    Args:
        url: Base URL, to which `/rerank` is added if it does not end in it.
        model: Model name; "" leaves it out of the request.
        key: API key, if the server wants one.
        timeout: Seconds to wait for one request.
        retries: Retries after a refused connection, a time-out, 408, 409, 425, 429 or 5xx.
        patience: Seconds from the first failure to the last retry, at most.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        *,
        key: str = "",
        timeout: float = 30.0,
        retries: int = 100,
        patience: float = PATIENCE,
    ) -> None:
        self._client = BlockingClient(url, VARIABLE, key=key, timeout=timeout, retries=retries, patience=patience)
        self.url = url if url.endswith("/rerank") else f"{url}/rerank"
        self._model = model
        self._lock = threading.Lock()
        self._away_until, self._why = 0.0, ""

    @property
    def id(self) -> str:
        """The model's name; without one, what the server is called."""
        return self._model or "the server's only model"

    def rerank(self, query: str, texts: Sequence[str]) -> Scores:
        """Scores of the texts, in one request; texts too long for the model's context are halved until they fit.

        Raises:
            EndpointError: The server can't be reached, is overloaded, or failed less than `AWAY` seconds ago; with
                `permanent`, it refuses, or answers with something that is not scores.
        """
        with self._lock:
            if time.monotonic() < self._away_until:
                raise EndpointError(self._why)
        cut = list(texts)
        while True:
            # Some servers refuse an empty document.
            body: dict[str, Any] = {"query": query, "documents": [text or " " for text in cut]}
            answer = self._post(body | ({"model": self._model} if self._model else {}))
            if answer.status_code == 200:
                truncated = sum(len(short) < len(text) for short, text in zip(cut, texts, strict=True))
                return self._parse(answer.text, answer, len(texts), truncated)
            shorter = halved(cut, answer)
            if shorter is None:
                raise self._refused(answer.status_code, answer.text)
            cut = shorter

    def _post(self, body: dict[str, Any]) -> Any:
        import httpx

        try:
            return self._client.post(self.url, body)
        except Refusal as error:
            raise self._away(f"it answered with status {error.status}: {shortened(str(error.detail))}") from None
        except httpx.HTTPError as error:
            raise self._away(f"{type(error).__name__}: {shortened(str(error))}") from error

    def _parse(self, text: str, answer: Any, count: int, truncated: int) -> Scores:
        try:
            found = answer.json()
            rows = {int(row["index"]): float(row["relevance_score"]) for row in found["results"]}
            if sorted(rows) != list(range(count)) or len(found["results"]) != count:
                raise ValueError(f"{len(found['results'])} results for {count} texts")
            if not all(map(math.isfinite, rows.values())):
                raise ValueError("scores with NaN or infinity")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise EndpointError(
                f"{self.url} answered with something that is not a ranking ({error}): {shortened(text)}",
                hint="check HOPGRAPH_RERANK_URL and HOPGRAPH_RERANK_MODEL: does this server serve a reranking model?",
                permanent=True,
            ) from None
        model = found.get("model")
        named = self._model or (model if isinstance(model, str) else "") or self.id
        return Scores([rows[i] for i in range(count)], named, _tokens(found), truncated)

    def _away(self, why: str) -> EndpointError:
        with self._lock:
            self._why = f"the reranker at {self.url} is away: {why}"
            self._away_until = time.monotonic() + AWAY
            return EndpointError(self._why, hint="is it running? Searches go on without it")

    def _refused(self, status: int, text: str) -> EndpointError:
        hints = {
            401: "set HOPGRAPH_RERANK_API_KEY",
            403: "set HOPGRAPH_RERANK_API_KEY",
            404: "check HOPGRAPH_RERANK_URL (`/rerank` is added to it) and HOPGRAPH_RERANK_MODEL",
        }
        return EndpointError(
            f"{self.url} refused the request with status {status}: {shortened(text)}",
            hint=hints.get(status, "see the server's log"),
            permanent=True,
        )


def _tokens(found: dict[str, Any]) -> int:
    """Tokens as vLLM and Jina (`usage`) or Cohere (`meta.tokens`) report them; 0 if not reported."""
    usage, meta = found.get("usage"), found.get("meta")
    tokens = meta.get("tokens") if isinstance(meta, dict) else None
    for place, name in ((usage, "total_tokens"), (usage, "prompt_tokens"), (tokens, "input_tokens")):
        value = place.get(name) if isinstance(place, dict) else None
        if isinstance(value, int | float) and math.isfinite(value) and value > 0:
            return int(value)
    return 0
