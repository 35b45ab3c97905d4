"""PAR-RAG's plan and trajectory, the weight of accuracy, and an answer's evidence."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from nodes.parrag.actor import _attempt
from nodes.parrag.collector import collector
from nodes.parrag.context import ParContext
from nodes.parrag.hop_predictor import hop_predictor
from nodes.parrag.plan import chosen, current_step, is_last, review_id, step_id, trajectory, with_step


def ref(key):
    return {"id": key, "title": f"Title {key}", "score": 1.0}


def row(*attempts, asked="Who?", chosen=0):
    return {
        "thought": "Why.", "question": "q", "action": "Retrieve", "asked": asked, "attempts": list(attempts),
        "chosen": chosen,
    }  # fmt: skip


A, B, C = ref("a"), ref("b"), ref("c")
ANN = _attempt([A, B], "Ann", ["b"])
BOB = _attempt([B, C], "Bob", [])
NOTHING = _attempt([A], "I don't know", ["a"])


def test_an_answer_s_evidence_is_what_it_cites_or_else_all_that_was_retrieved():
    assert (ANN["cited"], ANN["uncited"]) == (["b"], False)
    assert (BOB["cited"], BOB["uncited"]) == (["b", "c"], True)
    assert (NOTHING["answer"], NOTHING["cited"], NOTHING["uncited"]) == ("", [], False)


def test_steps_count_from_1_and_a_second_review_is_the_revision_s():
    state = {"plan": [row(ANN), row(ANN, BOB), row()], "current": 0}
    assert (step_id(state), review_id(state), is_last(state)) == ("root/1", "root/1/review", False)
    state["current"] = 1
    assert (step_id(state), review_id(state), is_last(state)) == ("root/2", "root/2/revision/review", False)
    state["current"] = 2
    assert (current_step(state), is_last(state)) == (state["plan"][2], True)
    assert with_step(state, row(BOB))["plan"] == [row(ANN), row(ANN, BOB), row(BOB)]
    assert state["plan"][2] == row(), "the state itself stays as it is"


def test_the_chosen_answer_counts():
    assert chosen(row(ANN, BOB, chosen=1)) == BOB
    assert chosen(row(ANN, BOB)) == ANN
    assert chosen(row()) is None


def test_the_trajectory_has_the_answered_steps_before_the_current_one():
    state = {"plan": [row(ANN, asked="1?"), row(), row(NOTHING, asked="3?"), row(BOB, asked="4?")], "current": 3}
    first, third = trajectory(state, 3)
    assert first == '<step number="1">\nThought: Why.\nQuestion: 1?\nAnswer: Ann\nEvidence: Title b\n</step>'
    assert third == '<step number="3">\nThought: Why.\nQuestion: 3?\nAnswer: unknown\nEvidence: (none)\n</step>'
    assert len(trajectory(state)) == 3
    assert trajectory(state, 0) == []
    assert "Evidence: Title b; Title c" in trajectory(state)[2]


async def test_the_evidence_is_what_the_chosen_answers_cite_once_in_the_order_of_the_steps():
    found = await collector({"plan": [row(ANN), row(), row(ANN, BOB, chosen=1), row(NOTHING)]})
    assert found["evidence"] == [B, C]


@pytest.mark.parametrize(
    ("hops", "settings", "alpha"),
    [
        (1, {}, 0.977),  # 1 / (1 + e^(1.5 (1 - 3.5)))
        (4, {}, 0.3208),
        (2, {"gamma": 1.0, "h0": 1.0}, 0.2689),  # 1 / (1 + e)
        (2, {"h0": 2.0}, 0.5),
    ],
)
async def test_the_weight_of_accuracy_is_equation_9(monkeypatch, hops, settings, alpha):
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "hop_predictor")
    context = ParContext(hop_count=hops, **settings)
    found = await hop_predictor({"question": "Who?"}, SimpleNamespace(context=context))
    assert found["alpha"] == alpha == round(1 / (1 + math.exp(context.gamma * (hops - context.h0))), 4)
    [step] = found["trajectory"]
    assert (found["hops"], step["answer"], step["score"]) == (hops, f"{hops} hop{'s' * (hops > 1)} (given)", None)


async def test_a_predicted_hop_count_has_the_probability_of_its_class(monkeypatch):
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "hop_predictor")
    predicted = SimpleNamespace(hops=3, probabilities=(0.1, 0.2004, 0.69964, 0.0))
    monkeypatch.setattr("nodes.parrag.hop_predictor.predict_hops", lambda questions: [predicted] * len(questions))
    found = await hop_predictor({"question": "Who?"}, SimpleNamespace(context=ParContext()))
    [step] = found["trajectory"]
    assert (found["hops"], step["answer"], step["score"]) == (3, "3 hops (predicted)", 0.7)
