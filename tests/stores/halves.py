"""Writes the sparse half and the links of a corpus without the rest of an index."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stores.bm25 import write_sparse
from stores.languages import ENGLISH
from stores.links import Links, write_links
from stores.sparse import Sparse
from stores.words import Words


def sparse_of(folder: Path, corpus: Iterable[tuple[str, str]], language: str = ENGLISH) -> Sparse:
    """The sparse half of titles and texts."""
    folder.mkdir(parents=True, exist_ok=True)
    with Words.within(folder, corpus, language) as words:
        write_sparse(folder / "sparse", words)
    return Sparse(folder / "sparse", language)


def links_of(folder: Path, corpus: Iterable[tuple[str, str]]) -> Links:
    """The links of titles and texts."""
    folder.mkdir(parents=True, exist_ok=True)
    with Words.within(folder, corpus) as words:
        write_links(folder / "links", words)
    return Links(folder / "links")
