"""Metrics against values worked out by hand, and EM and F1 against a second implementation on real pairs."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import numpy as np
import pytest

from hopgraph.evaluation import metrics
from hopgraph.evaluation.costs import COSTS, TOTALS, retrieval_efficiency
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.scoring import record_of, score
from hopgraph.evaluation.statistics import compare, estimate
from hopgraph.evaluation.summary import summarise
from inference.ledger import cost_of
from nodes.kit.steps import step
from stores.passages import Passage


@pytest.mark.parametrize(
    ("prediction", "answers", "em", "f1"),
    [
        ("Paris", ["Paris"], 1, 1),
        ("the Paris!", ["paris"], 1, 1),
        ("Ann Lee, director", ["Ann Lee"], 0, 4 / 5),  # 2 shared of 3 and 2
        ("in the year 1985", ["1985"], 0, 2 / 4),
        ("York", ["New York", "York, England"], 0, 2 / 3),  # the best of several
        ("yes", ["no"], 0, 0),
        ("a a b", ["a b b"], 0, 2 * 1 / 3),  # `a` is an article: b against b b
        ("x x y", ["x y y"], 0, 4 / 6),  # repeats are counted: one x, one y
        ("", ["Paris"], 0, 0),
        ("", ["The"], 0, 0),  # nothing is never right, though `The` is nothing when normalised
        ("The", ["A"], 1, 1),
        ("U.S.", ["us"], 1, 1),
        ("anything", [], 0, 0),
    ],
)
def test_em_and_f1(prediction, answers, em, f1):
    assert metrics.exact_match(prediction, answers) == em
    assert metrics.token_f1(prediction, answers) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("prediction", "answers", "contained", "partial"),
    [
        ("He was born in New York City.", ["new york"], 1, 1),
        ("New York", ["New York City"], 0, 1),
        ("Bartók", ["art"], 0, 0),
        ("partly", ["art"], 0, 0),
        ("", ["Paris"], 0, 0),
        ("Paris", ["the"], 0, 0),
        ("Rome", ["Paris", "Rome, Italy"], 0, 1),
    ],
)
def test_containment_and_partial_match(prediction, answers, contained, partial):
    assert metrics.containment(prediction, answers) == contained
    assert metrics.partial_match(prediction, answers) == partial


def test_entity_accuracy():
    entities = [["1985", "June 30, 1985"], ["Baltimore"], ["2016"]]
    assert metrics.entity_accuracy("He was born in Baltimore in 1985.", entities) == pytest.approx(2 / 3)
    assert metrics.entity_accuracy("", entities) == 0


def test_overlap_of_sets():
    found = metrics.overlap(["a", "b", "c", "c"], ["a", "d"])
    assert found == {"precision": pytest.approx(1 / 3), "recall": 0.5, "f1": pytest.approx(2 / 5)}
    assert metrics.overlap([], ["a"]) == {"precision": 0, "recall": 0, "f1": 0}
    assert metrics.all_retrieved({"a", "b"}, {"a"}) == 1
    assert metrics.all_retrieved({"a"}, {"a", "b"}) == 0


def test_retrieval_efficiency_is_that_of_prunerag_s_table_3():
    rows = [(60.7, 2.06), (47.4, 3.40), (23.2, 3.39)]
    mean = sum(retrieval_efficiency(recall, searches) for recall, searches in rows) / 3
    assert mean == pytest.approx(16.7, abs=0.06)
    assert retrieval_efficiency(0.5, 0) is None


def result(**fields):
    return {
        "id": "q", "method": "prism", "question": "Who?", "answer": "Paris", "status": "answered", "evidence": [],
        "retrieved": [], "trajectory": [], "cost": cost_of([]), "thread": "t", "prompts": {}, **fields,
    }  # fmt: skip


PASSAGES = {
    "lee#1": Passage("lee#1", "Ann Lee", "x", source="lee"),
    "lee#2": Passage("lee#2", "Ann Lee", "y", source="lee"),
    "film": Passage("film", "X", "z"),
    "noise": Passage("noise", "Noise", "n"),
}


def test_passages_are_compared_by_id_and_parts_count_as_their_article():
    question = Question("q", "Who?", ("Paris",), gold_ids=("lee", "film"), gold_titles=("Ann Lee", "X"))
    found = score(result(evidence=["lee#1", "lee#2", "noise"], retrieved=list(PASSAGES)), question, PASSAGES)
    assert found["passage_precision"] == 0.5  # two articles, one of them gold
    assert found["passage_recall"] == 0.5
    assert found["passage_f1"] == 0.5
    assert found["retrieved_recall"] == 1.0
    assert found["all_gold_retrieved"] == 1.0


def test_gold_may_be_titles_alone():
    question = Question("q", "Who?", ("Paris",), gold_titles=("ANN  LEE", "Missing"))
    found = score(result(evidence=["lee#1", "noise"], retrieved=["lee#1", "noise"]), question, PASSAGES)
    assert found["passage_recall"] == 0.5
    assert found["passage_precision"] == 0.5
    assert found["all_gold_retrieved"] == 0.0


def test_sentences_of_a_cut_article_are_counted_in_the_article():
    question = Question("q", "Who?", ("Paris",), gold_titles=("Ann Lee",), gold_sentences=(("Ann Lee", 3),))
    trajectory = [step("root/merger", "aggregate", node="merger", sentences=[("lee#2", 1), ("lee#1", 1)])]
    found = score(result(trajectory=trajectory), question, PASSAGES, starts={"lee#1": 0, "lee#2": 2})
    assert found["fact_recall"] == 1.0
    assert found["fact_precision"] == 0.5


def test_facts_are_sentences():
    question = Question("q", "Who?", ("Paris",), gold_titles=("X",), gold_sentences=(("X", 0), ("Ann Lee", 2)))
    trajectory = [step("root/merger", "aggregate", node="merger", sentences=[("film", 0), ("film", 1), ("lee#1", 0)])]
    found = score(result(trajectory=trajectory), question, PASSAGES)
    assert found["fact_precision"] == pytest.approx(1 / 3)
    assert found["fact_recall"] == 0.5
    assert found["fact_f1"] == pytest.approx(2 / 5)
    assert "fact_f1" not in score(result(), question, PASSAGES)


def test_sentences_that_were_thrown_away_are_no_evidence():
    question = Question("q", "Who?", ("Paris",), gold_titles=("X",), gold_sentences=(("X", 0),))
    added = step("root/adder/1", "judge", node="adder", sentences=[("film", 0)])
    settled = step("root/merger", "aggregate", node="merger")
    cut_short = score(result(status="failed", trajectory=[added]), question, PASSAGES)
    for found in (score(result(trajectory=[added, settled]), question, PASSAGES), cut_short):
        assert (found["fact_precision"], found["fact_recall"], found["fact_f1"]) == (0, 0, 0)


def test_a_question_without_an_answer_is_right_when_the_run_says_so():
    null = Question("q", "Who?", ("Insufficient information.",), answerable=False)
    assert score(result(answer="", status="unanswerable"), null, {})["em"] == 1
    assert score(result(answer="Paris"), null, {})["em"] == 0
    assert score(result(answer="insufficient information"), null, {})["em"] == 1
    assert score(result(answer="", status="failed"), null, {})["em"] == 0
    answerable = Question("q", "Who?", ("Paris",))
    assert score(result(answer="", status="unanswerable"), answerable, {})["em"] == 0


def test_a_failed_run_is_wrong_whatever_its_answer_and_no_gold_is_no_metric():
    assert score(result(status="failed"), Question("q", "Who?", ("Paris",)), {})["f1"] == 0
    assert score(result(), Question("q", "Who?"), {}) == {}


def line(number, em, complete, **fields):
    scores = {"em": em, "f1": em, "retrieved_recall": float(complete), "all_gold_retrieved": float(complete)}
    cost = {**cost_of([]), "prompt_tokens": 1000, "completion_tokens": 100, "searches": 2}
    base = {**result(id=f"q{number}", cost=cost), "variant": "prism", "answers": ["x"], "metrics": scores}
    return {**base, **fields}


def test_the_summary_of_a_run():
    rows = [line(0, 1, 1), line(1, 0, 1), line(2, 0, 1), line(3, 1, 0), line(4, 0, 0)]
    rows[4] |= {"status": "failed", "error": {"kind": "endpoint", "message": "m", "node": "n"}}
    questions = {f"q{n}": Question(f"q{n}", "?", ("x",), type="b" if n < 3 else "c", hops=2) for n in range(5)}
    summary = summarise([record_of(row) for row in rows], questions, ["prism"], {"prompt": 2.0, "completion": 10.0})
    (variant,) = summary["variants"]
    assert variant["efr"] == pytest.approx(2 / 3)  # of the three with all gold, two are wrong
    assert variant["efr_all"] == pytest.approx(2 / 5)  # Eq. 6: of all
    assert variant["metrics"]["em"]["mean"] == pytest.approx(2 / 5)
    assert variant["retrieval_efficiency"] == pytest.approx(0.6 / 2)
    assert variant["money"] == pytest.approx((1000 * 2 + 100 * 10) / 1e6)
    assert variant["failures"] == {"endpoint": 1}
    assert variant["costs"]["tokens"]["mean"] == 1100
    assert variant["types"]["b"] == {
        "n": 3, "failed": 0, "em": pytest.approx(1 / 3), "f1": pytest.approx(1 / 3), "recall": 1.0,
        "wrong_despite_full_recall": 2, "right_despite_missing_gold": 0,
        "share_of_incomplete": None, "share_of_wrong": pytest.approx(2 / 3), "right_at_wrong_hops": None,
    }  # fmt: skip
    assert variant["types"]["c"]["right_despite_missing_gold"] == 1
    assert summary["comparisons"] == []


def kept(number, em, recall, **fields):
    scores = {"em": em, "passage_recall": recall, "retrieved_recall": 1.0, "all_gold_retrieved": 1.0}
    return line(number, em, 1, metrics=scores, **fields)


def test_errors_are_told_apart_by_the_evidence_that_was_kept():
    """PRISM, Tables 8 and 12: where all gold was retrieved, the evidence may still lack it."""
    rows = [kept(0, 0, 1.0), kept(1, 0, 0.5), kept(2, 0, 0.5), kept(3, 1, 0.5), kept(4, 1, 1.0)]
    types = {"q0": "bridge", "q1": "bridge", "q2": "comparison", "q3": "bridge", "q4": "comparison"}
    questions = {key: Question(key, "?", ("x",), type=kind) for key, kind in types.items()}
    (variant,) = summarise([record_of(row) for row in rows], questions, ["prism"])["variants"]
    assert variant["mismatch_at_full_recall"] == pytest.approx(1 / 3)  # of three wrong ones
    assert variant["match_at_partial_recall"] == pytest.approx(1 / 3)  # of three that lack gold
    shares = {k: (v["share_of_incomplete"], v["share_of_wrong"]) for k, v in variant["types"].items()}
    assert shares == {
        "bridge": (pytest.approx(2 / 3), pytest.approx(2 / 3)),
        "comparison": (pytest.approx(1 / 3), pytest.approx(1 / 3)),
    }


def test_table_12_of_prism_is_of_wrong_answers():
    """MuSiQue: 181 wrong answers, 99 questions with incomplete evidence (33 + 41 + 25), 15 of them right."""
    rows = [kept(n, 0, 1.0) for n in range(97)] + [kept(97 + n, float(n < 15), 0.5) for n in range(99)]
    questions = {f"q{n}": Question(f"q{n}", "?", ("x",)) for n in range(len(rows))}
    (variant,) = summarise([record_of(row) for row in rows], questions, ["prism"])["variants"]
    assert 100 * variant["mismatch_at_full_recall"] == pytest.approx(53.59, abs=0.005)
    assert 100 * variant["match_at_partial_recall"] == pytest.approx(15.15, abs=0.005)


def test_without_errors_there_are_no_shares_of_them():
    questions = {"q0": Question("q0", "?", ("x",), type="bridge")}
    (variant,) = summarise([record_of(kept(0, 1, 1.0))], questions, ["prism"])["variants"]
    assert variant["mismatch_at_full_recall"] is None
    assert variant["match_at_partial_recall"] is None
    assert variant["types"]["bridge"]["share_of_wrong"] is None


def test_passages_kept_are_articles():
    question = Question("q", "Who?", ("Paris",), gold_ids=("lee", "film"))
    found = score(result(evidence=["lee#1", "lee#2", "noise"], retrieved=list(PASSAGES)), question, PASSAGES)
    assert found["passages_kept"] == 2.0
    assert "passages_kept" not in score(result(evidence=["noise"]), Question("q", "Who?", ("Paris",)), PASSAGES)


def test_variants_are_compared_over_the_questions_that_both_have():
    rows = [line(n, 0, 1) for n in range(6)] + [line(n, 1, 1, variant="other") for n in range(2, 9)]
    questions = {f"q{n}": Question(f"q{n}", "?", ("x",)) for n in range(9)}
    (pair,) = summarise([record_of(row) for row in rows], questions, ["prism", "other"])["comparisons"]
    assert (pair["first"], pair["second"]) == ("prism", "other")
    assert pair["metrics"]["em"]["n"] == 4
    assert pair["metrics"]["em"]["difference"] == 1.0


def test_a_bootstrap_interval_is_that_of_the_mean():
    found = estimate([1.0] * 60 + [0.0] * 40)
    assert found["mean"] == pytest.approx(0.6)
    assert found["low"] == pytest.approx(0.6 - 1.96 * (0.24 / 100) ** 0.5, abs=0.015)  # by the normal distribution
    assert found["high"] == pytest.approx(0.6 + 1.96 * (0.24 / 100) ** 0.5, abs=0.015)
    assert estimate([0.5]) == {"mean": 0.5, "low": 0.5, "high": 0.5, "n": 1}
    assert estimate([]) is None
    assert estimate([0.0, 1.0, 1.0]) == estimate([0.0, 1.0, 1.0])


def test_the_permutation_test_gives_the_exact_p():
    # Six questions, all better by one: of 64 sign patterns two are as extreme.
    assert compare([0.0] * 5, [0.0, 0.0, 1.0, 0.5, 0.25])["p"] == 2 / 2**3  # of all eight exchanges, both extremes
    assert compare([0.0] * 4, [0.3, -0.1, 0.2, 0.4])["p"] == 4 / 2**4
    found = compare([0.0] * 6, [1.0] * 6)
    assert found["p"] == 2 / 64
    assert compare([0.0, 1.0], [1.0, 0.0])["p"] == 1.0
    same = compare([0.0, 1.0, 0.5], [0.0, 1.0, 0.5])
    assert (same["p"], same["difference"]) == (1.0, 0.0)
    assert compare([], []) is None


def test_the_permutation_test_is_wrong_as_often_as_it_says():
    random = np.random.default_rng(1)
    draws = [compare(*random.integers(0, 2, (2, 40)).astype(float).tolist(), seed=n)["p"] for n in range(100)]
    assert sum(p < 0.05 for p in draws) <= 12


def official_scores(prediction: str, gold: str) -> tuple[float, float]:
    """SQuAD's definition a second time, by other means: characters one by one, sorted lists instead of counters."""

    def words(text: str) -> list[str]:
        kept = "".join(char for char in text.lower() if char not in set(string.punctuation))
        return [word for word in re.split(r"\s+", re.sub(r"(?<!\w)(a|an|the)(?!\w)", " ", kept)) if word]

    mine, theirs = sorted(words(prediction)), sorted(words(gold))
    em = float(words(prediction) == words(gold))
    if not mine or not theirs:
        return em, em
    rest, shared = list(theirs), 0
    for word in mine:
        if word in rest:
            rest.remove(word)
            shared += 1
    precision, recall = shared / len(mine), shared / len(theirs)
    return em, 2 * precision * recall / (precision + recall) if shared else 0.0


def test_em_and_f1_are_those_of_a_second_implementation_on_1000_real_pairs():
    """Answers of 2WikiMultiHopQA and MuSiQue; predictions taken by rule from a passage: a name, a date, a sentence."""
    rows = [json.loads(row) for row in (Path(__file__).parent / "pairs.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 1000
    scores = []
    for row in rows:
        prediction, answers = row["prediction"], row["answers"]
        expected = [official_scores(prediction, answer) for answer in answers]
        assert metrics.exact_match(prediction, answers) == max(em for em, _ in expected), row
        scores.append(metrics.token_f1(prediction, answers))
        assert scores[-1] == pytest.approx(max(f1 for _, f1 in expected)), row
    assert sum(score == 1 for score in scores) == 90
    assert sum(0 < score < 1 for score in scores) == 245


@pytest.mark.parametrize(("answers", "em"), [(("Unknown",), 1.0), (("None", "unknown"), 1.0), (("Oslo",), 0.0)])
def test_an_abstention_that_is_the_gold_answer_word_for_word_is_right(answers, em):
    said = result(answer="", status="unanswerable", abstention="Unknown.")
    assert score(said, Question("q", "Which film?", answers), {})["em"] == em


def test_the_dataset_s_own_wording_of_no_answer_is_right_as_status_and_as_text():
    question = Question("q", "Which?", ("Nothing fits",), answerable=False)
    assert score(result(answer="", status="unanswerable"), question, {})["em"] == 1.0
    assert score(result(answer="Nothing fits."), question, {})["em"] == 1.0
    assert score(result(answer="Paris"), question, {})["em"] == 0.0


def test_the_columns_of_each_table_are_in_this_order():
    def columns(registry, table):
        return [metric.name for metric in registry.table(table)]

    assert columns(metrics.METRICS, "answers") == [
        "em", "f1", "accuracy", "partial_match", "entity_accuracy", "judged", "retrieved_recall", "fact_f1",
        "tree_depth", "hops_right",
    ]  # fmt: skip
    assert columns(metrics.METRICS, "comparison") == [
        "em", "f1", "accuracy", "entity_accuracy", "judged", "retrieved_recall",
    ]  # fmt: skip
    assert columns(metrics.METRICS, "passages") == [
        "retrieved_recall", "all_gold_retrieved", "passage_precision", "passage_recall", "passage_f1", "passages_kept",
    ]  # fmt: skip
    assert columns(COSTS, "cost") == ["calls", "repairs", "searches", "tokens", "steps", "seconds"]
    assert columns(COSTS, "comparison") == ["tokens", "calls", "searches", "seconds"]
    assert columns(TOTALS, "passages") == [
        "retrieval_efficiency", "efr", "efr_all", "mismatch_at_full_recall", "match_at_partial_recall",
    ]  # fmt: skip
    assert columns(TOTALS, "report") == [
        "efr", "efr_all", "retrieval_efficiency", "mismatch_at_full_recall", "match_at_partial_recall",
    ]  # fmt: skip


def test_columns_that_are_left_out_where_no_variant_has_a_value():
    optional = {name for name, metric in metrics.METRICS.items() if metric.optional}
    assert optional == {"entity_accuracy", "fact_f1", "judged", "tree_depth", "hops_right"}


def test_without_gold_or_without_anything_found_every_share_is_0():
    nothing = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert metrics.overlap(["a"], []) == metrics.overlap([], []) == nothing
    assert metrics.entity_accuracy("Paris", []) == 0.0


def test_all_gold_is_retrieved_also_where_nothing_else_is():
    assert metrics.all_retrieved({"a", "b"}, {"a", "b"}) == 1.0
