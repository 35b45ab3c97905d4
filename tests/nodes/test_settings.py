"""Numbers of the methods' settings: the defaults, which are the papers' where they give any, and what is refused."""

from __future__ import annotations

import pytest

from hopgraph.methods import METHODS, READERS, context_class
from hopgraph.run import make_context
from inference.errors import InputError
from inference.settings import overridden

COMMON = {
    "top_k": (5, 1, 100),
    "temperature": (0.0, 0.0, 2.0),
    "max_tokens": (512, 16, 32768),
    "seed": (0, 0, 2**31 - 1),
    "node_timeout": (None, 0.001, 604_800),
    "run_timeout": (None, 0.001, 604_800),
}
"""Default, lowest and highest value."""
OWN = {
    "react": {"max_steps": (7, 1, 30)},
    "self_ask": {"max_follow_ups": (5, 0, 20)},
    "adaptive_retrieval": {"popular_from": (10, 1, 1_000_000)},
    "ircot": {"max_steps": (8, 1, 20), "max_passages": (15, 1, 100)},
    "iter_retgen": {"iterations": (4, 1, 10)},
    "probtree": {"max_depth": (3, 1, 6), "max_nodes": (15, 1, 100)},
    "adaptive_rag": {"max_steps": (8, 1, 20), "max_passages": (15, 1, 100)},
    "search_o1": {"max_searches": (10, 0, 50), "max_turns": (15, 1, 100)},
    "parrag": {
        "top_k": (10, 1, 100),
        "threshold": (0.65, 0.0, 1.0),
        "gamma": (1.5, 0.001, 10.0),
        "h0": (3.5, 0.001, 10.0),
        "hop_count": (None, 1, 4),
        "exemplar_count": (1, 1, 5),
        "max_steps": (6, 1, 12),
    },
    "hanrag": {"relevance_threshold": (0.5, 0.0, 1.0), "ending_threshold": (0.5, 0.0, 1.0), "max_steps": (5, 1, 20)},
    "prism": {"max_iterations": (3, 1, 10), "pool_size": (20, 1, 100)},
    "prunerag": {
        "threshold": (0.95, 0.0, 1.0),
        "max_depth": (3, 1, 6),
        "branching": (2, 2, 4),
        "max_searches": (7, 1, 100),
    },
    "compactrag": {"max_subquestions": (8, 1, 16)},
    "compactrag_reader": {"max_tokens": (2048, 16, 32768), "max_pairs": (24, 1, 100)},
}
EVERY = [(method, name, *row) for method, rows in OWN.items() for name, row in rows.items()]
EVERY += [("standard_rag", name, *row) for name, row in COMMON.items()]


@pytest.fixture(autouse=True)
def _a_served_model():
    """The embedded model has some other defaults."""
    with overridden(llm_url="http://127.0.0.1:1/v1"):
        yield


@pytest.mark.parametrize(("method", "name", "default", "lowest", "highest"), EVERY)
def test_a_number_has_its_default_and_its_bounds(method, name, default, lowest, highest):
    assert getattr(make_context(method, {}), name) == default
    for value in (lowest, highest):
        assert getattr(make_context(method, {name: value}), name) == value
    step = 1 if isinstance(lowest, int) else 0.002
    for value in (lowest - step, highest + step):
        with pytest.raises(InputError, match=name):
            make_context(method, {name: value})


def test_no_number_is_left_out():
    for method in (*METHODS, *READERS):
        bounded = {
            name
            for name, field in context_class(method).model_fields.items()
            if any(hasattr(rule, bound) for rule in field.metadata for bound in ("ge", "gt", "le", "lt"))
        }
        assert bounded == {*COMMON, *OWN.get(method, {})}, method


@pytest.mark.parametrize(
    ("method", "setting", "value"),
    [
        ("prunerag", "max_tokens", 4096),
        ("parrag", "revision", "replace"),
        ("search_o1", "top_k", 10),
        ("adaptive_rag", "router", "encoder"),
    ],
)
def test_the_paper_s_preset_has_the_paper_s_value(method, setting, value):
    assert getattr(make_context(method, {"preset": "paper"}), setting) == value
    assert getattr(make_context(method, {}), setting) != value


def test_the_reader_writes_atomic_facts_and_does_not_ask_again_by_default():
    reader = make_context("compactrag_reader", {})
    assert (reader.atomic_facts, reader.coverage_repair) == (True, False)
