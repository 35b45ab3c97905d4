"""Bridging: hits of a fused search, and among them the passages that the best of these name.

What a multi-hop question misses is often not similar to it: it is the page that the first hit names. The weights below
were set on the development questions of six sets together (`benchmarks/recall.py`). A hit's score is about that of the
fusion, and a link's score says at which of these it is worth a place. BM25 guards the hits' places against links but
does not change the hits' order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.links import MOST, Links
from stores.sparse import Sparse

SOURCES = 5
"""Best hits whose links are followed."""
BM25 = 0.15
"""Weight of the BM25 scores, relative to the highest, in what the hits' places are worth against links."""
NAMED_HIT = 0.35
"""Weight of a hit's best link from another one: the fused score of that one times the name's rarity."""
NOTHING = -0.06
"""Score of a link before the following."""
RARE = 0.15
"""Weight of the name's rarity: 1 if it makes one link, 0 if it makes `MOST`, logarithmic between."""
IN_QUERY = 0.1
"""Weight of the name's rarity where the query has the naming passage's title."""
UNCOVERED = 0.95
"""Weight of the rarity times the share of the query that the named passage has and the naming one lacks."""
SOURCE = 0.56
"""Weight of the naming passage's fused score times the share of the query that it has."""


class Bridged(NamedTuple):
    """A row of the result."""

    row: int
    score: float
    named_in: int | None
    """The row that names it, if it scores more by that than as a hit."""


def bridge(
    query: str,
    fused: Sequence[tuple[int, float]],
    bm25: Mapping[int, float],
    sparse: Sparse,
    links: Links,
    k: int,
    allowed: NDArray[np.bool_] | None = None,
) -> list[Bridged]:
    """The k best of the hits and of what the first hits name; ties go to the better hit.

    Args:
        query: The query.
        fused: Rows and scores of the fusion, best first.
        bm25: BM25 scores of the rows that the sparse half found.
        sparse: The sparse half.
        links: The links between rows.
        k: Number of rows.
        allowed: Whether each row may be in the result, shape (rows,); default: all may. Those of `fused` may.
    """
    sources = [row for row, _ in fused[:SOURCES]]
    strength = dict(fused)
    mentions = [(source, mention) for source in sources for mention in links.of(source)]
    if allowed is not None:
        mentions = [
            (source, mention._replace(rows=mention.rows[allowed[mention.rows]])) for source, mention in mentions
        ]
    named = list(dict.fromkeys(row for _, mention in mentions for row in mention.rows.tolist() if row not in sources))
    shares = sparse.coverage(query, [*sources, *named])
    column = {row: i for i, row in enumerate([*sources, *named])}
    in_query = dict(zip(sources, sparse.titled(query, sources), strict=True))

    bonus: dict[int, float] = {}
    best: dict[int, tuple[float, int]] = {}
    for source, mention in mentions:
        rarity = 1 - math.log(mention.links) / math.log(MOST)
        has = shares[:, column[source]]
        always = NOTHING + rarity * (RARE + IN_QUERY * in_query[source]) + SOURCE * strength[source] * float(has.sum())
        lacks = shares[has == 0].sum(axis=0)
        for row in mention.rows.tolist():
            bonus[row] = max(bonus.get(row, 0.0), strength[source] * rarity)
            score = always + UNCOVERED * rarity * float(lacks[column[row]])
            if row not in best or score > best[row][0]:
                best[row] = (score, source)

    highest = max(bm25.values(), default=1.0)
    ranked = {row: score + NAMED_HIT * bonus.get(row, 0.0) for row, score in strength.items()}
    # The hits in their order take the places in theirs: BM25 changes what a place is worth, not whose it is.
    places = sorted((score + BM25 * bm25.get(row, 0.0) / highest for row, score in ranked.items()), reverse=True)
    hits = dict(zip(sorted(ranked, key=lambda row: -ranked[row]), places, strict=True))
    found = []
    for row in dict.fromkeys([*hits, *best]):
        if row in hits and (row not in best or hits[row] >= best[row][0]):
            found.append(Bridged(row, hits[row], None))
        else:
            found.append(Bridged(row, *best[row]))
    found.sort(key=lambda item: -item.score)
    return found[:k]
