"""Speed of indexing and searching, beside LangChain's EnsembleRetriever over rank_bm25 and Chroma, in the same run.

    pip install 'hopgraph[dev]'
    python benchmarks/search.py DATA/hotpotqa [--queries 300]

The folder has `corpus.jsonl.gz` and `questions.jsonl.gz`. Queries are encoded beforehand: what is timed is searching.
All times and the memory are this machine's; the ratio of the two searches depends on it far less.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from inference.embeddings import Vectors, get_encoder
from stores.build import build_index
from stores.index import Index, open_index
from stores.manifest import index_folder
from stores.passages import read_passages
from stores.records import Records, searchable
from stores.vectors import KeptVectors, vector_key

NAME = "benchmark"
K = 10


def main(
    data: Annotated[Path, typer.Argument(help="Folder of one data set.")],
    queries: Annotated[int, typer.Option(help="How many questions.")] = 300,
) -> None:
    """Print indexing speed, peak memory and search times."""
    corpus = data / "corpus.jsonl.gz"
    with gzip.open(data / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        questions = [json.loads(line)["question"] for line in lines][:queries]
    print(f"{os.cpu_count()} cores; corpus {corpus.parent.name}, {len(questions)} questions, top {K}")

    built = build_index(NAME, read_passages(corpus))
    passages = built.manifest.passages
    how = f"{built.encoded:,} encoded" + (
        ", the others' vectors were kept from before" if built.encoded < passages else ""
    )
    print(f"index      {passages:,} passages in {built.seconds:,.0f} s ({passages / built.seconds:,.0f}/s; {how})")
    again = build_index(NAME, read_passages(corpus))
    print(f"           {again.seconds:,.1f} s of it without encoding; {built.size / 1e6:,.0f} MB on disk")
    print(f"           peak memory {_peak():,.0f} MB")

    index = open_index(NAME)
    vectors = get_encoder().encode_queries(questions)
    _timed("hybrid", lambda i: index.search_encoded(questions[i], vectors[i], K, "hybrid"), len(questions))
    _timed("dense", lambda i: index.search_encoded(questions[i], vectors[i], K, "dense"), len(questions))
    _timed("sparse", lambda i: index.search_encoded(questions[i], None, K, "sparse"), len(questions))
    ours = _timed("hybrid", lambda i: index.search_encoded(questions[i], vectors[i], K, "hybrid"), len(questions))
    theirs = _langchain(index, questions, vectors)
    print(f"ratio      {theirs / ours:,.0f} times faster at the median")
    _timed("encoder", lambda i: get_encoder().encode_queries([questions[i]]), min(100, len(questions)))


def _timed(name: str, call: Callable[[int], Any], count: int) -> float:
    """Print p50 and p95 in milliseconds, and give p50."""
    for i in range(min(10, count)):
        call(i)
    times = []
    for i in range(count):
        start = time.perf_counter()
        call(i)
        times.append(1e3 * (time.perf_counter() - start))
    p50, p95 = np.percentile(times, [50, 95])
    print(f"{name:<10} p50 {p50:8.2f} ms   p95 {p95:8.2f} ms", flush=True)
    return float(p50)


def _langchain(index: Index, questions: list[str], vectors: Vectors) -> float:
    """The same passages and vectors in LangChain's own hybrid retriever."""
    import chromadb
    from langchain_classic.retrievers import EnsembleRetriever

    with warnings.catch_warnings(action="ignore"):  # of LangChain, about its own classes
        from langchain_community.retrievers import BM25Retriever
        from langchain_community.vectorstores import Chroma
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    known = dict(zip(questions, vectors.tolist(), strict=True))

    class Encoded(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            found: list[list[float]] = get_encoder().encode_passages(texts).tolist()
            return found

        def embed_query(self, text: str) -> list[float]:
            found: list[float] = known[text]
            return found

    folder = index_folder(NAME)
    records = Records(folder / "versions" / index.manifest.version / "passages.sqlite")
    documents = [Document(page_content=searchable(p), id=p.id) for chunk in records.chunks() for p in chunk]
    kept = KeptVectors(folder / "vectors.sqlite")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=scratch, settings=settings)
        with warnings.catch_warnings(action="ignore"):
            store = Chroma(client=client, collection_name="passages", embedding_function=Encoded())
        for start in range(0, len(documents), 5_000):
            part = documents[start : start + 5_000]
            store._collection.add(
                ids=[str(document.id) for document in part],
                embeddings=kept.get([vector_key(index.manifest.encoder, document.page_content) for document in part]),
                documents=[document.page_content for document in part],
            )
        sparse = BM25Retriever.from_documents(documents, k=K)
        both = EnsembleRetriever(retrievers=[sparse, store.as_retriever(search_kwargs={"k": K})], weights=[0.5, 0.5])
        return _timed("LangChain", lambda i: both.invoke(questions[i]), min(100, len(questions)))


def _peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


if __name__ == "__main__":
    typer.run(main)
