"""Reranking: a cross-encoder reads each candidate of a search beside the query, and the best are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inference.errors import EndpointError
from inference.rerankers.configured import get_reranker
from inference.rerankers.scores import Reranker, Scores
from stores.index import DEFAULT_MODE, Hit, Index, Mode
from stores.passages import Passage
from stores.records import searchable

CANDIDATES = 4
"""Candidates retrieved for each passage wanted."""


@dataclass(frozen=True)
class Reranked:
    """Hits of one search, reranked and cut."""

    hits: list[Hit]
    """Best first, with `relevance`; in the search's order, without it, if there is a problem."""
    scores: Scores | None
    """None if there is a problem, or there was nothing to rank."""
    problem: str
    """Why the search's order was kept; "" if it was not."""
    started: float
    """Unix time in seconds."""
    seconds: float


def search_reranked(
    index: Index, query: str, k: int = 5, mode: Mode = DEFAULT_MODE, where: str | None = None
) -> Reranked:
    """`Index.search`, reranked by the configured cross-encoder. Errors as for both, and as for `get_reranker`."""
    reranker = get_reranker()
    hits = index.search(query, CANDIDATES * k, mode, where)
    passages = {passage.id: passage for passage in index.get([hit.id for hit in hits])}
    return rerank(query, hits, passages, k, reranker)


def rerank(query: str, hits: Sequence[Hit], passages: Mapping[str, Passage], k: int, reranker: Reranker) -> Reranked:
    """The k most relevant hits; ties go to the better hit. A reranker that is away leaves the search's order.

    Args:
        query: The query.
        hits: Candidates, best first.
        passages: Their passages, by id.
        k: Number of hits.
        reranker: The reranker.

    Raises:
        EndpointError: The reranker's server refuses, or answers with something that is not scores.
        InputError: The reranker's files can't be used.
    """
    started, clock = time.time(), time.perf_counter()
    try:
        scores = reranker.rerank(query, [searchable(passages[hit.id]) for hit in hits]) if hits else None
    except EndpointError as error:
        if error.permanent:
            raise
        return Reranked(list(hits[:k]), None, error.message, started, time.perf_counter() - clock)
    values = scores.values if scores else []
    order = sorted(range(len(hits)), key=lambda i: -values[i])
    best = [replace(hits[i], relevance=values[i]) for i in order[:k]]
    return Reranked(best, scores, "", started, time.perf_counter() - clock)
