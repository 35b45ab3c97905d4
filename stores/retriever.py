"""An index as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from stores.index import Mode, open_index


class HopgraphRetriever(BaseRetriever):
    """Searches an index by name: `HopgraphRetriever(index="wiki", k=10).invoke("...")`.

    A document's `page_content` is the passage's text; `metadata` has `title`, `source`, `score`, `found_by`,
    `dense_rank`, `sparse_rank`, `named_in` and `sentences`. Errors as for `stores.index.open_index` and `Index.search`.
    """

    index: str
    """Name of the index."""
    k: int = 5
    """Number of passages."""
    mode: Mode = "hybrid"
    """See `stores.index.Mode`."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        index = open_index(self.index)
        hits = index.search(query, kwargs.get("k", self.k), kwargs.get("mode", self.mode))
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
                    "sentences": list(passage.sentences),
                },
            )
            for hit, passage in zip(hits, passages, strict=True)
        ]
