"""A small index with its knowledge base, which every method can answer from."""

from __future__ import annotations

from typing import Any

from hopgraph.methods import METHODS, READERS
from inference.encoders.configured import get_encoder
from stores.build import build_index
from stores.index import open_index
from stores.knowledge_base import writing
from stores.passages import Passage, content_id
from stores.readings import Pair, Reading, pair_text

__all__ = ["GRAPHS", "INDEX", "QUESTION", "VARIANTS", "build_small", "given"]

INDEX = "small"
QUESTION = "Where was the director of the film Zorba's Night born?"
TEXTS = {
    "film": ("Zorba's Night", "Zorba's Night is a 1971 film directed by Ann Lee. It was shot in Greece."),
    "lee": ("Ann Lee", "Ann Lee was a film director. She was born in Paris in 1920."),
    "opera": ("The Blue Tower", "The Blue Tower is an opera composed by Bob Ray."),
    "ray": ("Bob Ray", "Bob Ray was a composer. He was born in Oslo in 1911."),
    "moon": ("Moon", "The Moon goes round the Earth in a month."),
}
PAIRS = {
    "film": [("Who directed the film Zorba's Night?", "Ann Lee"), ("Where was Zorba's Night shot?", "Greece")],
    "lee": [("Where was Ann Lee born?", "Paris"), ("When was Ann Lee born?", "1920")],
    "opera": [("Who composed the opera The Blue Tower?", "Bob Ray")],
    "ray": [("Where was Bob Ray born?", "Oslo")],
}
GRAPHS = [*METHODS, *READERS]
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "prunerag": [{}, {}, {"backtrace": "single_call"}, {"ablate": ["confidence"]}, {"threshold": 0.0}],
    "prism": [{}, {"order": "adder_first"}, {"condition": "setwise"}, {"answer_from": "sentences"}],
    "parrag": [{}, {"attribution": "attrscore"}, {"revision": "replace", "threshold": 1.0}],
    "hanrag": [{}, {"route": "complex", "max_steps": 1}, {"ablate": ["relevance"]}],
    "adaptive_retrieval": [{}, {"popular_from": 1}],
    "compactrag_reader": [{"coverage_repair": True}, {"atomic_facts": False}],
}
"""Settings that between them have every node of a method run; methods that are not named need none."""


def given(graph: str) -> dict[str, Any]:
    """Input of a graph."""
    return {"passage": "film"} if graph in READERS else {"question": QUESTION}


def build_small(texts: dict[str, tuple[str, str]] = TEXTS, pairs: dict[str, list[tuple[str, str]]] = PAIRS) -> str:
    """Make the index and its knowledge base in HOPGRAPH_HOME; its name."""
    build_index(INDEX, [Passage(id=key, title=title, text=text) for key, (title, text) in texts.items()])
    index = open_index(INDEX)
    with writing(index) as base:
        base.rebase(index, get_encoder())
        for passage in index.get([key for key in texts if key in index]):  # long ones were cut and have other ids
            rows = [Pair(passage.id, n, q, a) for n, (q, a) in enumerate(pairs.get(passage.id, []), start=1)]
            vectors = get_encoder().encode_passages([pair_text(row) for row in rows])
            base.add(Reading(passage.id, content_id(passage.title, passage.text)), rows, vectors)
    return INDEX
