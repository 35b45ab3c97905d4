"""PAR-RAG's review by numbers: Eqs. 8, 10 and 11, which answer counts, and what the step says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphs.parrag import after_action, after_review
from inference.settings import get_settings
from inference.structured import BadOutput
from nodes.kit.person import Decision
from nodes.parrag import reviewer as module
from nodes.parrag.context import ParContext
from nodes.parrag.judges import CREDIBILITY, accuracy_judge, attribution_judge, read_label
from nodes.parrag.reviewer import is_accepted, reviewer


def attempt(answer="Ann", **fields):
    return {
        "documents": [], "answer": answer, "cited": ["a"], "uncited": False, "accuracy": None, "attribution": "",
        "credibility": None, "confidence": None, **fields,
    }  # fmt: skip


def judgement(value, label="", problem="", truncated=0):
    return {"value": value, "label": label, "problem": problem, "truncated": truncated}


def state(*attempts, accuracy=0.8, label="attributable", alpha=0.25, steps=1, current=0, **fields):
    made = {"thought": "", "question": "Who?", "action": "Retrieve", "asked": "Who?", "attempts": [], "chosen": 0}
    plan = [dict(made) for _ in range(steps)]
    plan[current] = {**made, "attempts": list(attempts), "chosen": len(attempts) - 1}
    return {
        "plan": plan, "current": current, "alpha": alpha, "accuracy": judgement(accuracy),
        "attribution": judgement(CREDIBILITY[label], label), "ledger": [], **fields,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _outside_of_a_graph(monkeypatch):
    monkeypatch.setattr(module, "tell_verdicts", lambda runtime, rows: None)
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "reviewer")


async def review(given, **settings):
    found = await reviewer(given, SimpleNamespace(context=ParContext(**settings)))
    [row] = found["trajectory"]
    return found["plan"][given["current"]], row


def test_credibility_by_label_is_equation_8():
    assert CREDIBILITY == {"contradictory": 0.0, "extrapolatory": 0.5, "attributable": 1.0}


@pytest.mark.parametrize(
    ("accuracy", "label", "alpha", "confidence"),
    [
        (0.8, "attributable", 0.25, 0.95),  # .8 * .25 + 1 * .75
        (0.8, "extrapolatory", 0.25, 0.575),
        (0.8, "contradictory", 0.25, 0.2),
        (0.0, "attributable", 1.0, 0.0),
        (0.1, "contradictory", 0.3333, 0.0333),  # to four places
    ],
)
async def test_confidence_weighs_accuracy_by_alpha_and_credibility_by_the_rest(accuracy, label, alpha, confidence):
    made, row = await review(state(attempt(), accuracy=accuracy, label=label, alpha=alpha))
    [answer] = made["attempts"]
    assert (answer["accuracy"], answer["attribution"], answer["credibility"]) == (accuracy, label, CREDIBILITY[label])
    assert answer["confidence"] == row["score"] == confidence
    assert row["answer"] == f"accuracy {accuracy:.2f}, {label}, weight of accuracy {alpha:.2f}"


@pytest.mark.parametrize(("confidence", "accepted"), [(0.65, True), (0.6499, False), (0.6501, True), (None, False)])
def test_an_answer_is_accepted_at_the_threshold(confidence, accepted):
    assert is_accepted(attempt(confidence=confidence), ParContext()) is accepted
    assert is_accepted(attempt(confidence=confidence), ParContext(threshold=0.0)) is True


def test_what_a_person_decided_counts_whatever_the_confidence():
    assert is_accepted(attempt(confidence=0.0, decided="accept"), ParContext()) is True
    assert is_accepted(attempt(confidence=1.0, decided="reject"), ParContext()) is False


@pytest.mark.parametrize(
    ("first", "second", "chosen"), [(0.2, 0.3, 1), (0.3, 0.2, 0), (0.3, 0.3, 0), (None, 0.0, 0), (None, 0.1, 1)]
)
async def test_of_two_answers_the_higher_confidence_counts_and_the_first_where_they_are_equal(first, second, chosen):
    """Accuracy alone weighs, so that the second's confidence is its accuracy."""
    given = state(attempt(confidence=first), attempt("Bob"), accuracy=second, label="contradictory", alpha=1.0)
    made, row = await review(given)
    assert made["chosen"] == chosen
    assert (row["id"], row["parent"]) == ("root/1/revision/review", "root/1/revision")


async def test_the_step_says_what_was_decided_and_what_went_wrong():
    _, row = await review(state(attempt()))
    assert (row["id"], row["parent"], row["verdict"], row["fallback"]) == ("root/1/review", "root/1", "accepted", "")
    assert (row["question"], row["evidence"], row["calls"], row["truncated"]) == ("Who?", ["a"], 0, 0)
    ledger = [{"step": at, "kind": kind} for at in ("root/1/review", "root/1") for kind in ("model", "model", "search")]
    broken = {"accuracy": judgement(0.0, problem="no score", truncated=2), "ledger": ledger}
    _, row = await review({**state(attempt(), label="extrapolatory"), **broken})
    assert (row["verdict"], row["fallback"]) == ("rejected", "no score; the cautious value was taken")
    assert (row["calls"], row["truncated"]) == (2, 2)
    both = {"attribution": judgement(0.5, "extrapolatory", "no label", 3)}
    _, row = await review({**state(attempt()), **broken, **both})
    assert row["fallback"] == "no score; no label; the cautious value was taken"
    assert row["truncated"] == 3


def test_an_answer_is_reviewed_unless_it_comes_from_no_passages_or_replaces_another():
    judges = ["accuracy", "attribution"]

    def after(given, **settings):
        return after_action.__wrapped__(given, ParContext(**settings))

    assert after(state(attempt())) == judges
    assert after(state(attempt(), attempt())) == judges
    assert after(state(attempt()), revision="replace") == judges
    assert after(state(attempt(), attempt()), revision="replace") == ["all steps done"]
    assert after(state(attempt(), steps=2), ablate=["review"]) == ["next step"]
    answered = state(attempt(), steps=2, current=1)
    answered["plan"][1]["action"] = "Answer"
    assert after(answered) == ["all steps done"]


@pytest.mark.parametrize(
    ("attempts", "steps", "current", "expected"),
    [
        ([attempt(confidence=0.64)], 2, 0, "rejected"),
        ([attempt(confidence=0.65)], 2, 0, "next step"),
        ([attempt(confidence=0.65)], 2, 1, "all steps done"),
        ([attempt(confidence=0.65)], 3, 1, "next step"),
        ([attempt(confidence=0.1), attempt(confidence=0.1)], 2, 0, "next step"),  # there is one retry
        ([attempt(confidence=0.1), attempt(confidence=0.1)], 1, 0, "all steps done"),
    ],
)
def test_a_rejected_answer_has_one_retry_and_the_last_step_ends_the_plan(attempts, steps, current, expected):
    given = state(*attempts, steps=steps, current=current)
    assert after_review.__wrapped__(given, ParContext()) == expected


async def test_a_person_decides_about_the_latest_answer_and_may_write_it(monkeypatch):
    monkeypatch.setattr(module, "_ask_person", lambda question, attempt, context: Decision("accept", "Cid"))
    given = state(attempt("Ann", confidence=0.3), attempt("Bob"), accuracy=0.0, label="contradictory")
    made, row = await review(given, review="human")
    first, second = made["attempts"]
    assert (first["answer"], second["answer"], second["decided"], made["chosen"]) == ("Ann", "Cid", "accept", 1)
    assert "decided" not in first
    assert row["verdict"] == "accepted by a person"
    monkeypatch.setattr(module, "_ask_person", lambda question, attempt, context: Decision("reject", ""))
    made, row = await review(given, review="human")
    assert (made["attempts"][1]["answer"], made["chosen"], row["verdict"]) == ("Bob", 0, "rejected by a person")


async def test_no_answer_scores_nothing_and_asks_nobody():
    """Without a runtime a call would fail. The latest answer is judged, whatever the first was."""
    given = state(attempt("Ann"), attempt(""))
    nothing = {"value": 0.0, "problem": "", "truncated": 0}
    assert await accuracy_judge(given, None) == {"accuracy": {**nothing, "label": ""}}
    assert await attribution_judge(given, None) == {"attribution": {**nothing, "label": "contradictory"}}


def test_a_reply_without_a_label_is_quoted_up_to_100_characters():
    with pytest.raises(BadOutput, match=rf"^there is no label in the reply '{'x' * 100}'$"):
        read_label("x" * 101)


def test_only_judges_that_are_named_are_models_of_their_own(monkeypatch):
    def roles(**settings):
        get_settings.cache_clear()
        return ParContext(**settings).roles

    assert roles() == ("synthesizer",), "the embedded model has an adapter for what concludes"
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:9/v1")
    assert roles() == ()
    assert roles(attribution="attrscore") == ("attribution",)
    monkeypatch.setenv("HOPGRAPH_ACCURACY_MODEL", "judge")
    assert roles() == ("accuracy",)
    monkeypatch.delenv("HOPGRAPH_ACCURACY_MODEL")
    monkeypatch.setenv("HOPGRAPH_ACCURACY_URL", "http://127.0.0.1:9/v1")
    assert roles(attribution="attrscore") == ("accuracy", "attribution")


def test_the_threshold_is_the_reviewers_alone():
    context = ParContext(threshold=0.7)
    assert context.threshold_of("reviewer") == 0.7
    assert context.threshold_of("hop_predictor") is None
