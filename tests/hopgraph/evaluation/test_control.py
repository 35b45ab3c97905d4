"""Depth of trees, reviews beside gold answers, and hop counts, from the results of runs."""

from __future__ import annotations

import json

import pytest

from hopgraph.evaluation.control import hop_counts, review_agreement
from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.scoring import record_of, score
from hopgraph.evaluation.summary import summarise
from nodes.kit.steps import step
from tests.hopgraph.evaluation.test_metrics import line, result

PARTS = (SubQuestion("Alpha >> director", "Ann Lee"), SubQuestion("#1 >> place of birth", "Paris"))
QUESTION = Question("q", "Where was the director of Alpha born?", ("Paris",), hops=2, decomposition=PARTS)


def reviewed(*rows):
    """Steps of answers and their reviews, from (answer, verdict)."""
    steps = []
    for number, (answer, verdict) in enumerate(rows, start=1):
        steps.append(step(f"root/{number}", "answer", node="actor", answer=answer))
        at = f"root/{number}/review"
        steps.append(step(at, "verify", node="reviewer", parent=f"root/{number}", answer="accuracy", verdict=verdict))
    return steps


def counts(rows, question=QUESTION):
    found = score(result(trajectory=reviewed(*rows)), question, {})
    return found.get("reviews"), found.get("reviews_right")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("Ann Lee", "accepted"), ("Rome", "rejected")], (2, 2)),
        ([("It is Ann Lee.", "rejected"), ("Rome", "accepted")], (2, 0)),
        ([("Lee", "accepted"), ("In Paris", "accepted")], (2, 1)),
        ([("", "rejected"), ("Paris", "accepted")], (1, 1)),  # no answer: nothing was reviewed
        ([("Paris", "accepted by a person")], (None, None)),
        ([("Paris", "sufficient")], (None, None)),
    ],
)
def test_a_review_is_right_that_accepts_an_answer_of_the_decomposition_or_rejects_another(rows, expected):
    assert counts(rows) == expected


def test_reviews_need_every_gold_answer_of_the_steps_or_a_question_of_one_hop():
    rows = [("Paris", "accepted")]
    assert counts(rows, Question("q", "Where?", ("Paris",), hops=2)) == (None, None)
    assert counts(rows, Question("q", "Where?", ("Paris",), hops=1)) == (1, 1)
    half = (SubQuestion("Alpha >> director"), PARTS[1])
    assert counts(rows, Question("q", "Where?", ("Paris",), hops=2, decomposition=half)) == (None, None)


def test_the_agreement_is_of_all_reviews_not_a_mean_of_questions():
    scored = [
        score(result(trajectory=reviewed(*rows)), QUESTION, {})
        for rows in ([("Ann Lee", "accepted")] * 3, [("Rome", "accepted")])
    ]
    lines = [record_of(line(number, 1.0, 1.0, metrics=row)) for number, row in enumerate(scored)]
    questions = {str(number): QUESTION for number in range(2)}
    questions |= {row["id"]: QUESTION for row in lines}
    [variant] = summarise(lines, questions, [lines[0]["variant"]])["variants"]
    assert variant["review_agreement"] == 3 / 4


@pytest.mark.parametrize(("depths", "deepest"), [([1], 1), ([1, 2, 2, 3], 3)])
def test_the_depth_of_a_tree_is_its_deepest_level(depths, deepest):
    tree = [{"id": str(number), "depth": depth} for number, depth in enumerate(depths)]
    assert score(result(tree=tree), QUESTION, {})["tree_depth"] == deepest


def test_without_a_tree_or_depths_in_it_there_is_no_depth():
    assert "tree_depth" not in score(result(), QUESTION, {})
    assert "tree_depth" not in score(result(tree=[{"id": "root"}]), QUESTION, {})


@pytest.mark.parametrize(
    ("said", "hops", "right"),
    [
        ("2 hops (predicted)", 2, 1.0),
        ("1 hop (given)", 2, 0.0),
        ("4 hops (predicted)", 5, 1.0),
        ("complex", 2, None),
        ("2 hops (predicted)", None, None),
    ],
)
def test_the_hop_count_is_compared_with_the_question_s(said, hops, right):
    route = step("root/hop_predictor", "route", node="hop_predictor", answer=said)
    question = Question("q", "Where?", ("Paris",), hops=hops)
    assert score(result(trajectory=[route]), question, {}).get("hops_right") == right


def test_answers_at_a_wrong_hop_count_are_counted_by_hops_and_by_the_judge_where_there_is_one():
    rows = [
        {"hops_right": 0.0, "em": 1.0},
        {"hops_right": 0.0, "em": 0.0},
        {"hops_right": 0.0, "em": 0.0},
        {"hops_right": 1.0, "em": 1.0},
    ]
    lines = [record_of(line(number, 1.0, 1.0, metrics=row)) for number, row in enumerate(rows)]
    hops = dict(zip((row["id"] for row in lines), (2, 2, 3, 3), strict=True))
    questions = {key: Question(key, "Where?", ("Paris",), hops=number) for key, number in hops.items()}
    [variant] = summarise(lines, questions, [lines[0]["variant"]])["variants"]
    assert variant["right_at_wrong_hops"] == pytest.approx(1 / 3)
    assert {key: group["right_at_wrong_hops"] for key, group in variant["hops"].items()} == {"2": 0.5, "3": 0.0}
    judged = [{**row, "metrics": {**row["metrics"], "judged": 1.0}} for row in lines]
    [variant] = summarise(judged, questions, [lines[0]["variant"]])["variants"]
    assert variant["right_at_wrong_hops"] == 1.0


def film(number, name, person, place):
    """A question with its passages and its gold decomposition."""
    texts = {name: f"{name} is a film by {person}.", person: f"{person} was born in {place}."}
    return {
        "id": f"q{number}",
        "question": f"Where was the director of {name} born?",
        "answers": [place],
        "hops": 2,
        "gold_titles": [name, person],
        "contexts": [{"title": title, "text": text} for title, text in texts.items()],
        "decomposition": [
            {"question": f"{name} >> director", "answer": person},
            {"question": f"{person} >> place of birth", "answer": place},
        ],
    }


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (("-m", "parrag", "--set", "hop_count=3"), {"reviews right", "hops", "right, hops wrong"}),
        (("-m", "prunerag"), {"depth"}),
    ],
)
def test_an_evaluation_has_the_columns_of_its_method(hopgraph, questions, tmp_path, words, labels):
    rows = [film(1, "Alpha", "Ann Lee", "Paris"), film(2, "Beta", "Bob Ray", "Rome")]
    words = ("eval", *words, "-q", questions(rows), "--contexts", "--perfect", "--out", tmp_path / "run")
    code, text, err = hopgraph(*words, "--json")
    assert code == 0, err
    [variant] = json.loads(text)["variants"]
    shown = {"review_agreement": 1.0, "right_at_wrong_hops": 1.0} if "hops" in labels else {}
    assert {key: variant[key] for key in shown} == shown
    assert ("tree_depth" in variant["metrics"]) == ("depth" in labels)
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run")
    head = next(row for row in out.splitlines() if row.startswith("method") and "EM" in row)
    every = {"depth", "reviews right", "hops", "right, hops wrong"}
    assert {label for label in every if label in [part.strip() for part in head.split("  ")]} == labels


def test_questions_without_reviews_are_no_part_of_the_agreement():
    assert review_agreement([{"reviews": 2.0, "reviews_right": 1.0}, {"em": 1.0}]) == 0.5
    assert review_agreement([{"em": 1.0}]) is None


def test_the_first_routing_step_has_the_hop_count():
    routes = [step(f"root/{n}", "route", node="x", answer=f"{n} hops (predicted)") for n in (2, 3)]
    assert hop_counts(result(trajectory=routes), QUESTION) == (2, 2)
