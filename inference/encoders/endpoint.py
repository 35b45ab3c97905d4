"""An encoder behind any OpenAI-compatible `/v1/embeddings` server."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.blocking_http import BlockingClient, halved, shortened
from inference.encoders.recipes import Recipe, recipe_of
from inference.encoders.vectors import Vectors, unit
from inference.errors import EndpointError, InputError
from inference.http import Refusal
from inference.settings import Settings

if TYPE_CHECKING:
    import httpx

BATCH = 64
"""Texts per request."""
IN_FLIGHT = 4
"""Concurrent requests."""


def endpoint_encoder(settings: Settings) -> EndpointEncoder:
    """The encoder of `HOPGRAPH_EMBED_URL`, one instance per process and configuration.

    Raises:
        InputError: The address is no http(s) URL.
    """
    key = settings.embed_api_key.get_secret_value() if settings.embed_api_key else ""
    return _encoder(
        (settings.embed_url or "").rstrip("/"),
        settings.embed_model or "",
        key,
        settings.embed_query_prefix,
        settings.embed_passage_prefix,
        settings.llm_timeout,
        settings.llm_retries,
        settings.llm_patience,
    )


@lru_cache(maxsize=8)
def _encoder(
    url: str,
    model: str,
    key: str,
    query: str | None,
    passage: str | None,
    timeout: float,
    retries: int,
    patience: float,
) -> EndpointEncoder:
    return EndpointEncoder(
        url,
        model,
        key=key,
        query_prefix=query,
        passage_prefix=passage,
        timeout=timeout,
        retries=retries,
        patience=patience,
    )


class EndpointEncoder:
    """A model behind `/v1/embeddings`.

    Args:
        url: Base URL that ends in /v1.
        model: Model name; "" for the only one the server has.
        key: API key, if the server wants one.
        query_prefix: Text put before every query; None for the model's default.
        passage_prefix: Likewise for passages.
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
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        timeout: float = 300.0,
        retries: int = 100,
        patience: float = 300.0,
    ) -> None:
        self._client = BlockingClient(
            url, "HOPGRAPH_EMBED_URL", key=key, timeout=timeout, retries=retries, patience=patience
        )
        self.url = url
        self._named = model
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._lock = threading.Lock()
        self._dimension: int | None = None

    @property
    def model(self) -> str:
        """The configured model, else the only one the server has.

        Raises:
            EndpointError: The server can't be asked.
            InputError: None is named and the server has several, or none.
        """
        with self._lock:
            if not self._named:
                self._named = self._only_model()
            return self._named

    @property
    def recipe(self) -> Recipe:
        """The model's known recipe; explicitly set prefixes override it."""
        known = recipe_of(self.model)
        return Recipe(
            query=known.query if self._query_prefix is None else self._query_prefix,
            passage=known.passage if self._passage_prefix is None else self._passage_prefix,
            pooling=known.pooling,
            normalize=known.normalize,
        )

    @property
    def id(self) -> str:
        """Model and passage prefix, which determine a passage's vector. The address may change."""
        prefix = self.recipe.passage
        return self.model + (f" with passage prefix {prefix!r}" if prefix else "")

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, shape (texts, dimension).

        Raises:
            EndpointError: The server can't be reached, refuses, or answers with something that is not vectors.
        """
        return self._encode([self.recipe.passage + text for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, shape (texts, dimension); errors as for passages."""
        return self._encode([self.recipe.query + text for text in texts])

    def _encode(self, texts: list[str]) -> Vectors:
        # Sort by length: servers pad a batch to its longest text.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            parts = list(pool.map(lambda batch: self._vectors([texts[i] for i in batch]), batches))
        if not parts:
            return np.empty((0, self._dimension or 0), np.float32)
        result = np.empty((len(texts), parts[0].shape[1]), np.float32)
        for batch, part in zip(batches, parts, strict=True):
            result[batch] = part
        return unit(result) if self.recipe.normalize else result

    def _vectors(self, texts: list[str]) -> Vectors:
        """One request; texts longer than the model's context are halved until they fit."""
        while True:
            # Some servers refuse an empty input.
            answer = self._post({"model": self.model, "input": [t or " " for t in texts], "encoding_format": "float"})
            if answer.status_code == 200:
                return self._parse(answer, len(texts))
            shorter = halved(texts, answer)
            if shorter is None:
                raise self._refused(answer.status_code, answer.text)
            texts = shorter

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            return self._client.post(f"{self.url}/embeddings", body)
        except Refusal as error:
            raise self._refused(error.status, str(error.detail)) from None
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _parse(self, answer: httpx.Response, count: int) -> Vectors:
        try:
            rows = answer.json()["data"]
            rows = sorted(rows, key=lambda row: int(row["index"]))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError):
            raise self._garbage(shortened(answer.text)) from None
        if vectors.ndim != 2 or [row["index"] for row in rows] != list(range(count)) or not vectors.shape[1]:
            raise self._garbage(f"{len(rows)} vectors for {count} texts, shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise self._garbage("vectors with NaN or infinity")
        with self._lock:
            self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._garbage(f"vectors of {vectors.shape[1]} dimensions after ones of {self._dimension}")
        return vectors

    def _only_model(self) -> str:
        import httpx

        try:
            answer = self._client.get(f"{self.url}/models", 30.0)
            if answer.status_code in (401, 403):
                raise self._refused(answer.status_code, answer.text)
            models = [str(row["id"]) for row in answer.json()["data"]]
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        except (ValueError, KeyError, TypeError):
            raise self._garbage("/models lists no models") from None
        if len(models) != 1:
            raise InputError(
                f"HOPGRAPH_EMBED_MODEL is not set and {self.url} serves {len(models)} models: {', '.join(models[:10])}",
                hint="name one of them in HOPGRAPH_EMBED_MODEL",
            )
        return models[0]

    def _unreachable(self, error: Exception) -> EndpointError:
        return EndpointError(
            f"can't reach the embeddings server at {self.url}: {type(error).__name__}: {shortened(str(error))}",
            hint="is it running? Unset HOPGRAPH_EMBED_URL for the built-in encoder",
        )

    def _refused(self, status: int, text: str) -> EndpointError:
        hints = {
            401: "set HOPGRAPH_EMBED_API_KEY",
            403: "set HOPGRAPH_EMBED_API_KEY",
            404: "check HOPGRAPH_EMBED_URL (it usually ends in /v1) and HOPGRAPH_EMBED_MODEL",
            429: "the server is rate-limited; run the command again later: finished batches are kept",
        }
        return EndpointError(
            f"{self.url}/embeddings refused the request with status {status}: {shortened(text)}",
            hint=hints.get(status, "see the server's log"),
        )

    def _garbage(self, what: str) -> EndpointError:
        return EndpointError(
            f"{self.url}/embeddings answered with something that is not embeddings: {what}",
            hint="check HOPGRAPH_EMBED_URL and HOPGRAPH_EMBED_MODEL: does this server serve an embedding model?",
        )
