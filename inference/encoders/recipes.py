"""Input formats of known embedding models: prefixes, pooling, normalisation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
_BGE = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model's input format."""

    query: str = ""
    """Text put before a query."""
    passage: str = ""
    """Text put before a passage."""
    pooling: Literal["mean", "cls", "last", ""] = ""
    """Pooling of token vectors. Most models' files declare it; vLLM takes `--pooler-config`."""
    normalize: bool = True
    """Whether vectors are compared at unit length; Contriever's lengths carry meaning."""


_RECIPES: tuple[tuple[str, Recipe], ...] = (
    (r"contriever", Recipe(pooling="mean", normalize=False)),
    (r"multilingual-e5.*instruct", Recipe(query=_WEB_SEARCH, pooling="mean")),
    (r"e5-mistral|gte-qwen|qwen3-embedding", Recipe(query=_WEB_SEARCH, pooling="last")),
    (r"\be5[-_](small|base|large)", Recipe(query="query: ", passage="passage: ", pooling="mean")),
    (r"bge-(small|base|large)-zh", Recipe(query="为这个句子生成表示以用于检索相关文章：", pooling="cls")),
    (r"bge-(small|base|large)-en", Recipe(query=_BGE, pooling="cls")),
    (r"arctic-embed.*v2", Recipe(query="query: ", pooling="cls")),
    (r"arctic-embed|mxbai-embed", Recipe(query=_BGE, pooling="cls")),
    (r"bge-m3|gte-(small|base|large)", Recipe(pooling="cls")),
    (r"nomic-embed", Recipe(query="search_query: ", passage="search_document: ", pooling="mean")),
)
"""First match wins. Sources: each model's own card."""


def recipe_of(model: str) -> Recipe:
    """A model's known recipe. Default: no prefixes, unit length."""
    return next((recipe for pattern, recipe in _RECIPES if re.search(pattern, model, re.IGNORECASE)), Recipe())
