"""The rewriter of CompactRAG's sub-questions, on the real small model or on a checkpoint; answers are given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from langgraph.graph import START, StateGraph

from inference.settings import get_settings
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import build_dag
from nodes.compactrag.rewriter import _rewrite, rewriter
from nodes.compactrag.state import CompactState
from tests.onnx_files import rewriter_checkpoint


async def rewrite(text, *answers, question="Where was the director of Alpha born?"):
    """A sub-question that needs all the answers, rewritten."""
    needed = range(1, len(answers) + 1)
    plan, _ = build_dag([*(("Who?", []) for _ in answers), (text, needed)], question, 8)
    plan = [{**item, "answer": answer} for item, answer in zip(plan, [*answers, ""], strict=True)]
    builder = StateGraph(CompactState, context_schema=CompactContext)
    builder.add_node("rewriter", rewriter)
    builder.add_edge(START, "rewriter")
    state = await builder.compile().ainvoke({"plan": plan, "wave": 2}, context=CompactContext())
    return state["plan"][-1]["rewritten"]


async def test_an_answer_inside_another_word_is_not_named_yet():
    assert await rewrite("Where was this American director born?", "Eric") == "Where was Eric born?"
    assert await rewrite("Where was eric, the American director, born?", "Eric") == (
        "Where was eric, the American director, born?"
    )


async def test_nor_is_it_for_a_checkpoint(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOPGRAPH_REWRITER", str(rewriter_checkpoint(tmp_path / "rewriter")))
    get_settings.cache_clear()
    assert await rewrite("Where was this American director born?", "Eric") == "where was ann lee born"
    assert await rewrite("Where was Eric born?", "Eric") == "Where was Eric born?"


async def test_a_number_sign_of_the_user_s_question_stays_and_the_answer_is_put_where_it_belongs():
    hit = "Where was the director of the #1 hit Zorba's Night born?"
    text = "Where was the director of the #1 hit born, this person?"
    assert await rewrite(text, "Ann Lee", question=hit) == "Where was the director of the #1 hit born, Ann Lee?"


async def test_a_number_sign_of_an_answer_stays_too():
    rewritten = await rewrite("Were this song and this person from the same country?", "#1 Crush", "Bob Ray")
    assert "#1 Crush" in rewritten
    assert "Bob Ray" in rewritten


@pytest.mark.parametrize(
    ("film", "both"),
    [("Tide", "Did this person make this film? Ann Tide"), ("", "Did this person make this film? Ann")],
)
def test_a_checkpoint_puts_each_answer_in_that_was_found_and_has_no_place_of_its_own(monkeypatch, film, both):
    words = SimpleNamespace(rewrite=lambda rows: [f"{text} {name}" for text, name in rows])
    monkeypatch.setattr("nodes.compactrag.rewriter.open_rewriter", lambda folder: words)
    monkeypatch.setattr("nodes.compactrag.rewriter.get_settings", lambda: SimpleNamespace(rewriter="folder"))
    rows = [("Who?", []), ("What?", []), ("Did this person make this film?", [1, 2]), ("Where was #1 born?", [1])]
    plan, _ = build_dag([*rows, ("Where was this person born?", [1])], "Q", 8)
    assert _rewrite(plan[2:], {1: "Ann", 2: film}) == [both, "Where was Ann born?", "Where was this person born? Ann"]
