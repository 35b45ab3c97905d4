"""HANRAG's thresholds and routes: which passages stay, when a chain ends, and what ends a run."""

from __future__ import annotations

import pytest

from graphs.hanrag import after_anrag, after_ending, ask_all, ask_seed, judge, take
from inference.settings import overridden
from nodes.hanrag.chain import conclude
from nodes.hanrag.context import HanContext
from nodes.hanrag.relevance_discriminator import _judged, to_judge
from nodes.hanrag.verdict import Verdict, weigh


@pytest.fixture(autouse=True)
def _outside_of_a_graph(monkeypatch):
    monkeypatch.setattr("nodes.hanrag.verdict.node_name", lambda: "relevance_discriminator")


@pytest.fixture(autouse=True)
def _a_served_model():
    """Not the embedded one, whose verdicts are the encoder's."""
    with overridden(llm_url="http://127.0.0.1:1/v1"):
        yield


@pytest.mark.parametrize(
    ("probability", "threshold", "holds"),
    [
        (0.5, 0.5, True),
        (0.499999, 0.5, False),
        (0.4999996, 0.5, True),  # compared as it is shown, to six places
        (0.500001, 0.5, True),
        (0.0, 0.0, True),
        (0.999999, 1.0, False),
    ],
)
def test_a_judgement_holds_from_its_threshold_on(probability, threshold, holds):
    verdict = weigh("root/1/ending", probability, threshold)
    assert (verdict.holds, verdict.probability) == (holds, round(probability, 6))


def ref(key):
    return {"id": key, "title": f"Title {key}", "score": 1.0}


def state(count):
    refs = [ref(f"p{number}") for number in range(count)]
    return {"candidates": refs, "at": "root/1", "seed": "Who?", "given": [], "index": None}


def test_the_model_judges_each_passage_and_the_encoder_all_at_once():
    tasks = to_judge(state(3), HanContext())
    assert [(task["first"], [row["id"] for row in task["passages"]]) for task in tasks] == [
        (1, ["p0"]), (2, ["p1"]), (3, ["p2"]),
    ]  # fmt: skip
    [task] = to_judge(state(3), HanContext(revelator="encoder"))
    assert (task["first"], len(task["passages"])) == (1, 3)
    assert to_judge(state(0), HanContext(revelator="encoder")) == []


def test_without_the_discriminator_or_candidates_all_is_kept():
    assert judge.__wrapped__(state(2), HanContext(ablate=["relevance"])) == "keep all"
    assert judge.__wrapped__(state(0), HanContext()) == "keep all"
    sent = judge.__wrapped__(state(2), HanContext())
    assert [task.node for task in sent] == ["relevance_discriminator"] * 2


def verdict(holds, truncated=0, problem=""):
    probability = None if holds is None else 0.3
    return Verdict(at="x", node="n", holds=holds, probability=probability, truncated=truncated, problem=problem)


@pytest.mark.parametrize(
    ("given", "relevant", "probability", "problem"),
    [
        (verdict(True), True, 0.3, ""),
        (verdict(False), False, 0.3, ""),
        (verdict(False, problem="by its text"), False, 0.3, "by its text"),
        (verdict(None, problem="no verdict"), True, None, "no verdict; it is kept"),
        (verdict(False, truncated=1), True, None, "the passage does not fit the model's context; it is kept"),
    ],
)
def test_a_passage_that_could_not_be_judged_is_kept(given, relevant, probability, problem):
    row = _judged(ref("p"), given)
    assert (row["relevant"], row["probability"], row["problem"]) == (relevant, probability, problem)


@pytest.mark.parametrize(
    ("route", "hops", "most", "after"),
    [
        ("complex", 1, 5, "complex"),
        ("complex", 4, 5, "complex"),
        ("complex", 5, 5, "last step"),
        ("complex", 1, 1, "last step"),
        ("compound", 5, 5, "compound"),
        ("single_step", 1, 1, "single_step"),
    ],
)
def test_a_complex_question_has_as_many_hops_as_the_settings_allow(route, hops, most, after):
    given = {"route": route, "chain": [{}] * hops}
    assert after_anrag.__wrapped__(given, HanContext(max_steps=most)) == after


def test_a_chain_ends_by_its_last_hop():
    assert after_ending({"chain": [{"ended": False}, {"ended": True}]}) == "enough"
    assert after_ending({"chain": [{"ended": True}, {"ended": False}]}) == "not enough"


RUN = {"question": "Q", "given": [], "index": None, "chain": []}


def test_a_single_step_question_is_asked_as_it_is_and_its_answer_is_final():
    sent = take({**RUN, "route": "single_step"})
    assert (sent.node, sent.arg["seed"], sent.arg["final"], sent.arg["at"]) == ("anrag", "Q", True, "root/1")
    assert take({**RUN, "route": "complex"}) == "complex"


def test_sub_questions_are_asked_side_by_side_and_a_seed_question_after_the_chain():
    tasks = ask_all({**RUN, "subquestions": ["A?", "B?"]})
    assert [(task.arg["at"], task.arg["seed"], task.arg["final"]) for task in tasks] == [
        ("root/1", "A?", False), ("root/2", "B?", False),
    ]  # fmt: skip
    assert ask_seed({**RUN, "seed": "A?"}).arg["at"] == "root/1"
    assert ask_seed({**RUN, "seed": "C?", "chain": [{}, {}]}).arg["at"] == "root/3"


@pytest.mark.parametrize(
    ("answer", "problem", "status"), [("Ann", "", "answered"), ("", "", "unanswerable"), ("Ann", "broken", "failed")]
)
async def test_the_only_hop_ends_the_run(answer, problem, status):
    hop = {"answer": answer, "problem": problem, "retrieved": [ref("a")], "kept": ["a"]}
    found = await conclude({"chain": [hop]})
    assert (found["answer"], found["status"]) == (answer, status)
    assert (found["error"] or {}).get("message", "") == problem


@pytest.mark.parametrize(
    ("settings", "encoder"),
    [
        ({}, ()),
        ({"revelator": "encoder"}, ("router", "relevance", "ending")),
        ({"revelator": "encoder", "ending": "model"}, ("router", "relevance")),
        ({"relevance": "encoder"}, ("relevance",)),
        ({"router": "oracle", "revelator": "encoder"}, ("relevance", "ending")),
    ],
)
def test_the_encoder_has_the_skills_that_it_is_given(settings, encoder):
    context = HanContext(**settings)
    assert tuple(skill for skill in ("router", "relevance", "ending") if context.by_encoder(skill)) == encoder
    assert context.oracle == ("route" if settings.get("router") == "oracle" else "")


def test_relevance_and_ending_have_thresholds_of_their_own():
    context = HanContext(relevance_threshold=0.3, ending_threshold=0.7)
    assert context.threshold_of("relevance_discriminator") == 0.3
    assert context.threshold_of("ending_discriminator") == 0.7
    assert context.threshold_of("generator") is None


@pytest.mark.parametrize(
    ("settings", "looked_for"),
    [
        ({}, 0),
        ({"revelator": "encoder"}, 1),
        ({"router": "encoder"}, 1),
        ({"relevance": "encoder"}, 1),
        ({"ending": "encoder"}, 1),
        ({"router": "oracle"}, 0),
    ],
)
def test_the_encoder_is_looked_for_before_a_run_where_it_has_a_skill(monkeypatch, settings, looked_for):
    questions = []
    monkeypatch.setattr("inference.heads.revelator.route", questions.append)
    HanContext(**settings).check()
    assert len(questions) == looked_for
