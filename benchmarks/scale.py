"""Scaling of the store: building and searching at 10 thousand, 100 thousand and a million passages.

    hopgraph index DATA/hotpotqa/corpus.jsonl.gz --name hotpotqa
    python benchmarks/scale.py hotpotqa DATA/hotpotqa/questions.jsonl.gz [--sizes 10000,100000,1000000]

The passages are the index's own as far as they go. Beyond, they are made up of two passages: half of each one's title,
sentences of both, which name the titles that they did, and a number; the vector is the mean of theirs with some noise.
Vectors are at hand and nothing is encoded. Each size is a process of its own, for its memory. `bm25s` and `Chroma` are
those libraries alone on the same files, asked for as many candidates as the fusion is given. In a development
environment (`make dev`) LangChain's EnsembleRetriever over rank_bm25 and Chroma is measured, too, up to 100,000.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Vectors, unit
from inference.errors import InputError
from inference.settings import get_settings
from stores.build import build_index
from stores.collect import Built
from stores.cutting import LONG_PASSAGE, word_count
from stores.index import DEPTH, Index, open_index
from stores.manifest import index_folder
from stores.passages import Passage
from stores.records import searchable
from stores.vectors import KeptVectors, vector_key

K = 10
NAME = "scale"
SLOWEST, BRIDGE_SLOWEST, ENSEMBLE_LIMIT = 3.0, 2.0, 100_000
"""Goals: hybrid search / sum of both libraries alone, from 100,000 passages on; bridge / hybrid search."""


def main(
    index: Annotated[str, typer.Argument(help="An index whose passages and vectors are taken.")],
    questions: Annotated[Path, typer.Argument(help="Questions to search for.")],
    sizes: Annotated[str, typer.Option(help="Numbers of passages, with commas between them.")] = "10000,100000,1000000",
    queries: Annotated[int, typer.Option(help="How many questions.")] = 200,
    one: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Print a line for each size; exit code 1 if a goal is missed."""
    if one:
        measure(int(sizes), index, questions, queries)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; passages of {index}, {queries} questions, top {K}\n")
    above = f"{'':>10}{'build':>8}{'a':>9}{'peak':>9}{'disk':>8}{'p50 ms':>9}{'':>16}"
    print(f"{above}{'hybrid /':>10}{'LangChain':>11}")
    head = f"{'passages':>10}{'s':>8}{'second':>9}{'MB':>9}{'MB':>8}{'hybrid':>9}{'Chroma':>8}{'bm25s':>8}"
    print(f"{head}{'their sum':>10}{'/ hybrid':>11}{'bridge':>9}{'/ hybrid':>10}")
    missed = False
    for size in sizes.split(","):
        command = [sys.executable, __file__, index, str(questions), "--sizes", size, "--queries", str(queries), "--one"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        ratio = row["hybrid"] / (row["chroma"] + row["bm25s"])
        bridging = row["bridge"] / row["hybrid"]
        wrong = (ratio > SLOWEST and row["passages"] >= 100_000) or bridging > BRIDGE_SLOWEST
        missed |= wrong
        theirs = f"{row['ensemble'] / row['hybrid']:>11.0f}" if row["ensemble"] else f"{'-':>11}"
        print(
            f"{row['passages']:>10,}{row['seconds']:>8.0f}{row['passages'] / row['seconds']:>9,.0f}{row['peak']:>9,.0f}"
            f"{row['disk']:>8,.0f}{row['hybrid']:>9.2f}{row['chroma']:>8.2f}{row['bm25s']:>8.2f}{ratio:>10.2f}{theirs}"
            f"{row['bridge']:>9.2f}{bridging:>10.2f}"
            f"{'   too slow' if wrong else ''}",
            flush=True,
        )
    raise SystemExit(int(missed))


def measure(size: int, source: str, questions: Path, queries: int) -> None:
    """Print the figures of one size as JSON."""
    made = MadeUp(open_index(source), size)
    with gzip.open(questions, "rt", encoding="utf-8") as lines:
        asked = [json.loads(line)["question"] for line in lines][:queries]
    vectors = get_encoder().encode_queries(asked)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ["HOPGRAPH_HOME"] = home
        get_settings.cache_clear()
        started = time.perf_counter()
        built, index = built_of(made)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
        index.search_encoded(asked[0], vectors[0], K, "bridge")
        row = {
            "passages": len(index),
            "seconds": seconds,
            "peak": peak,
            "disk": built.size / 1e6,
            "hybrid": median(lambda i: index.search_encoded(asked[i], vectors[i], K, "hybrid"), len(asked)),
            "bridge": median(lambda i: index.search_encoded(asked[i], vectors[i], K, "bridge"), len(asked)),
            "chroma": median(chroma_alone(index, vectors), len(asked)),
            "bm25s": median(bm25s_alone(index, asked), len(asked)),
            "ensemble": ensemble(made.passages(), made.encode_passages, asked, vectors)
            if size <= ENSEMBLE_LIMIT
            else None,
        }
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(row))


def built_of(made: MadeUp) -> tuple[Built, Index]:
    """An index of the passages, built and opened."""
    built = build_index(NAME, made.passages(), encoder=made)
    folder = index_folder(NAME) / "versions" / built.manifest.version
    return built, Index(folder, (folder / "in_use").open(encoding="utf-8"), made)


class MadeUp:
    """Synthetic passages with their vectors, and an encoder that finds these by the number at the text's end."""

    id = "made-up"

    def __init__(self, source: Index, size: int) -> None:
        self._size = size
        self._own = [passage for chunk in source.passages() for passage in chunk]
        self._numbers = {searchable(passage): number for number, passage in enumerate(self._own)}
        keys = [vector_key(source.manifest.encoder, searchable(passage)) for passage in self._own]
        kept = KeptVectors(index_folder(source.name) / "vectors.sqlite")
        if kept.missing(keys):
            raise InputError(f"index {source.name} has no vectors kept", hint="build it again with `hopgraph index`")
        self._vectors = kept.get(keys)
        kept.close()

    def passages(self) -> Iterator[Passage]:
        """All passages, the index's own first."""
        yield from self._own[: self._size]
        for number in range(len(self._own), self._size):
            one, other = self._pair(number)
            first, second = self._own[one], self._own[other]
            taken = (*first.sentences[: len(first.sentences) // 2 + 1], *second.sentences[-2:])
            lengths = accumulate(map(word_count, taken))
            # Short enough for one passage: the number has to be in it.
            kept = (sentence for sentence, words in zip(taken, lengths, strict=True) if words < LONG_PASSAGE)
            sentences = (*kept, f"#{number}")
            title = _crossed(first.title, second.title)
            yield Passage(f"made-up {number}", title, " ".join(sentences), sentences)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Their vectors, shape (texts, dimension)."""
        return np.stack([self._vector(self._number(text)) for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, by the settings' encoder."""
        return get_encoder().encode_queries(texts)

    def _number(self, text: str) -> int:
        own = self._numbers.get(text)
        return int(text.rpartition("#")[2]) if own is None else own

    def _vector(self, number: int) -> Vectors:
        one, other = self._pair(number)
        if number < len(self._own):
            own: Vectors = self._vectors[number]
            return own
        noise = np.random.default_rng(number).normal(0, 0.02, self._vectors.shape[1])
        mixed = (self._vectors[one] + self._vectors[other]) / 2 + noise
        vector: Vectors = unit(mixed[None].astype(np.float32))[0]
        return vector

    def _pair(self, number: int) -> tuple[int, int]:
        count = len(self._own)
        return number % count, (number * 2_654_435_761) % count


def _crossed(title: str, other: str) -> str:
    """The first half of one title's words and the second half of the other's."""
    one, two = title.split(), other.split()
    return " ".join(one[: (len(one) + 1) // 2] + two[(len(two) + 1) // 2 :])


def chroma_alone(index: Index, vectors: Vectors) -> Callable[[int], Any]:
    """Chroma's own search."""
    collection = index._dense._collection
    return lambda i: collection.query(query_embeddings=vectors[i][None], n_results=DEPTH, include=["distances"])


def bm25s_alone(index: Index, asked: Sequence[str]) -> Callable[[int], Any]:
    """bm25s' own search."""
    from stores.sparse import tokenize

    scorer = index._sparse._scorer
    assert scorer is not None
    known = [[[word for word in tokenize(question) if word in scorer.vocab_dict]] for question in asked]
    return lambda i: scorer.retrieve(known[i], k=DEPTH, show_progress=False)


def ensemble(
    passages: Iterable[Passage], encode: Callable[[Sequence[str]], Vectors], asked: Sequence[str], vectors: Vectors
) -> float | None:
    """Milliseconds of LangChain's own hybrid search over the same passages and vectors; None if it is not installed."""
    try:
        import chromadb
        import rank_bm25  # noqa: F401  (BM25Retriever wants it)
        from langchain_classic.retrievers import EnsembleRetriever

        with warnings.catch_warnings(action="ignore"):  # of LangChain, about its own classes
            from langchain_community.retrievers import BM25Retriever
            from langchain_community.vectorstores import Chroma
        from langchain_core.documents import Document
        from langchain_core.embeddings import Embeddings
    except ImportError:
        return None
    known = dict(zip(asked, vectors.tolist(), strict=True))

    class Encoded(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            found: list[list[float]] = encode(texts).tolist()
            return found

        def embed_query(self, text: str) -> list[float]:
            found: list[float] = known[text]
            return found

    documents = [Document(page_content=searchable(p), id=p.id) for p in passages]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=scratch, settings=settings)
        with warnings.catch_warnings(action="ignore"):
            store = Chroma(client=client, collection_name="passages", embedding_function=Encoded())
        for start in range(0, len(documents), 5_000):
            store.add_documents(documents[start : start + 5_000])
        sparse = BM25Retriever.from_documents(documents, k=K)
        both = EnsembleRetriever(retrievers=[sparse, store.as_retriever(search_kwargs={"k": K})], weights=[0.5, 0.5])
        return median(lambda i: both.invoke(asked[i]), min(30, len(asked)))


def median(call: Callable[[int], Any], count: int) -> float:
    """p50 in milliseconds."""
    for i in range(min(10, count)):
        call(i)
    times = []
    for i in range(count):
        started = time.perf_counter()
        call(i)
        times.append(1e3 * (time.perf_counter() - started))
    return float(np.median(times))


if __name__ == "__main__":
    typer.run(main)
