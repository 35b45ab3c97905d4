"""An index as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from stores.index import DEFAULT_MODE, Mode, open_index
from stores.reranking import search_reranked


class HopgraphRetriever(BaseRetriever):
    """Searches an index by name: `HopgraphRetriever(index="wiki", k=10).invoke("...")`.

    A document's `page_content` is the passage's text; `metadata` has `title`, `source`, `score`, `found_by`,
    `dense_rank`, `sparse_rank`, `named_in`, `relevance`, `sentences` and the passage's own `metadata`. Errors as for
    `stores.index.open_index`, `Index.search` and, with `rerank`, `stores.reranking.search_reranked`.
    """

    index: str
    """Name of the index."""
    k: int = 5
    """Number of passages."""
    mode: Mode = DEFAULT_MODE
    """See `stores.index.Mode`."""
    where: str | None = None
    """Search only passages whose metadata meet this filter; see `stores.where`."""
    rerank: bool = False
    """Rerank four times as many candidates by the configured cross-encoder. If its server is away, the search's order
    is kept, and `relevance` is None."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        index = open_index(self.index)
        k, mode = kwargs.get("k", self.k), kwargs.get("mode", self.mode)
        reranks = kwargs.get("rerank", self.rerank)
        where = kwargs.get("where", self.where)
        hits = search_reranked(index, query, k, mode, where).hits if reranks else index.search(query, k, mode, where)
        passages = index.get([hit.id for hit in hits])
        return [
            Document(
                id=hit.id,
                page_content=passage.text,
                metadata={
                    "title": passage.title,
                    "source": passage.source,
                    "page": passage.page,
                    "headings": list(passage.headings),
                    "score": hit.score,
                    "found_by": hit.found_by,
                    "dense_rank": hit.dense_rank,
                    "sparse_rank": hit.sparse_rank,
                    "named_in": hit.named_in,
                    "relevance": hit.relevance,
                    "sentences": list(passage.sentences),
                    "metadata": dict(passage.metadata),
                },
            )
            for hit, passage in zip(hits, passages, strict=True)
        ]
