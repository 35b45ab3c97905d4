"""Gold passages are known by what names them: an id, a place among the question's own passages, or else a title."""

from __future__ import annotations

import json

import pytest

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import as_known, counts_as, gold_passages, known_by, not_in
from hopgraph.evaluation.oracle import Oracle
from hopgraph.evaluation.scoring import score
from hopgraph.run import make_context
from nodes.intake import store_given
from nodes.kit.steps import step
from stores.build import build_index
from stores.given import get_given
from stores.passages import Passage
from tests.hopgraph.evaluation.conftest import LINES, results
from tests.hopgraph.evaluation.test_metrics import result

IDOL = "American Idol"
PARAGRAPHS = [
    {"title": IDOL, "text": "The show began in 2002.", "sentences": ["The show began in 2002."]},
    {"title": IDOL, "text": "The finale was in Los Angeles.", "sentences": ["The finale was in Los Angeles."]},
    {"title": "Other", "text": "Los Angeles is in California.", "sentences": ["Los Angeles is in California."]},
    {"title": IDOL, "text": "The first winner sang.", "sentences": ["The first winner sang."]},
]


def question(*gold: int, **fields) -> Question:
    titles = tuple(PARAGRAPHS[at]["title"] for at in gold)
    contexts = {"contexts": tuple(PARAGRAPHS), "gold_contexts": gold}
    return Question("q", "Where was it?", ("California",), gold_titles=titles, **contexts, **fields)


def scores(asked: Question, *evidence: int):
    ids = store_given(PARAGRAPHS)
    passages = {passage.id: passage for passage in get_given(ids)}
    found = [ids[at] for at in evidence]
    settled = step("root/merger", "aggregate", node="merger", sentences=[(key, 0) for key in found])
    line = result(evidence=found, retrieved=found, trajectory=[settled])
    return score(line, as_known(asked, "contexts"), passages)


def test_another_passage_of_a_gold_one_s_title_is_not_gold(home):
    found = scores(question(1, 2), 0, 2)
    assert (found["passage_precision"], found["passage_recall"], found["all_gold_retrieved"]) == (0.5, 0.5, 0.0)
    assert scores(question(1, 2), 1, 2)["passage_f1"] == 1.0


def test_two_gold_passages_of_one_title_are_two(home):
    assert scores(question(0, 1, 2), 0, 2)["retrieved_recall"] == pytest.approx(2 / 3)
    assert scores(question(0, 1, 2), 0, 1, 2)["retrieved_recall"] == 1.0


def test_where_nothing_says_which_passages_are_gold_titles_do(home):
    asked = Question("q", "Where?", ("x",), gold_ids=("elsewhere",), gold_titles=("Other",), contexts=(*PARAGRAPHS,))
    assert known_by([asked], [], contexts=True) == "titles"
    assert as_known(asked, "titles").gold_ids == as_known(asked, "contexts").gold_ids == ()
    assert scores(asked, 2)["passage_f1"] == 1.0
    assert known_by([asked, question(1)], [], contexts=True) == "contexts"


def test_the_oracle_is_shown_the_gold_passage_and_no_other_of_its_title(home):
    context = make_context("prism", {"condition": "oracle_context"})
    asked = question(1, 2)
    shown = Oracle([context], [asked], index=None, gold="contexts").shown(context, asked)["gold"]
    assert [passage.text for passage in get_given(shown)] == [PARAGRAPHS[at]["text"] for at in (1, 2)]


def test_a_fact_is_a_sentence_of_the_gold_passage_and_not_of_another_of_its_title(home):
    asked = question(1, 2, gold_sentences=((IDOL, 0), ("Other", 0)))
    found = scores(asked, 0, 2)
    assert (found["fact_precision"], found["fact_recall"]) == (0.5, 0.5)
    assert scores(asked, 1, 2)["fact_f1"] == 1.0


def test_musique_on_its_own_paragraphs_is_measured_by_paragraph(hopgraph, model, questions, tmp_path):
    model(lambda request: LINES[request.node])  # whose evidence are the first passage and the second
    paragraphs = [
        {"idx": 10 + at, "title": row["title"], "paragraph_text": row["text"], "is_supporting": at in (1, 2)}
        for at, row in enumerate(PARAGRAPHS)
    ]
    row = {"id": "2hop__1_2", "question": "Where was it?", "answer": "California", "paragraphs": paragraphs}
    asked = questions([{**row, "question_decomposition": []}])
    out = tmp_path / "run"
    code, _, err = hopgraph(
        "eval", "-m", "prism", "--dataset", "musique", "-q", asked, "--contexts", "--out", out, "--json"
    )
    assert code == 0, err
    found = results(out)["prism", "2hop__1_2"]
    assert (found["metrics"]["passage_precision"], found["metrics"]["passage_recall"]) == (0.5, 0.5)
    assert json.loads((out / "run.json").read_text())["identity"]["gold"] == "contexts"
    (kept,) = [json.loads(line) for line in (out / "questions.jsonl").read_text().splitlines()]
    assert kept["gold_contexts"] == [1, 2]


LONG = "Ann Lee was born in Paris. " + "She liked to walk along the river in the evening. " * 60


@pytest.fixture
def index(home):
    """Two articles, of which one is split, and another one of a title that the gold has."""
    articles = [("film", "X", "X is a film."), ("lee", "Ann Lee", LONG), ("x2", "x", "?")]
    build_index("small", [Passage(*article) for article in articles])
    return [{"name": "small", "hash": "any"}]


def asks(*ids, titles=()):
    return Question("q", "Who?", ("x",), gold_ids=ids, gold_titles=titles)


def test_gold_is_known_by_id_where_an_index_has_one_of_them(index):
    assert known_by([asks("film", "elsewhere")], index, contexts=False) == "ids"
    assert known_by([asks("lee")], index, contexts=False) == "ids", "an article by its own id"
    assert known_by([asks("elsewhere")], index, contexts=False) == "titles"
    assert known_by([asks()], index, contexts=False) == "titles"
    assert known_by([asks("film")], [], contexts=False) == "titles"


def test_the_first_500_ids_decide_how_gold_is_known(index):
    others = [f"other{number}" for number in range(600)]
    assert known_by([asks(*others[:499], "film")], index, contexts=False) == "ids"
    assert known_by([asks(*others[:500], "film")], index, contexts=False) == "titles"


def test_gold_that_an_index_lacks_is_named_by_id_or_else_by_title(index):
    questions = [asks("film", "gone", titles=("Unused",)), asks(titles=("ann  LEE", "Missing"))]
    assert not_in("small", questions, "ids") == ["gone", "Missing"]
    assert not_in("small", questions, "titles") == ["Unused", "Missing"]
    assert not_in("small", [asks("film", "lee")], "ids") == []


def test_a_passage_counts_as_itself_its_article_or_its_title():
    piece = Passage("lee#1", "Ann  LEE", "x", source="lee")
    passages = {"lee#1": piece, "film": Passage("film", "X", "y"), "gone": None}
    by_id, by_title = asks("lee", "lee#1", "film"), asks(titles=("Ann Lee",))
    assert [counts_as(key, by_id, passages) for key in ("lee#1", "film", "gone", "other")] == [
        "lee#1", "film", "gone", "other",
    ]  # fmt: skip
    assert counts_as("lee#1", asks("lee"), passages) == "lee"
    assert [counts_as(key, by_title, passages) for key in ("lee#1", "film", "gone")] == ["ann lee", "x", "gone"]


def test_gold_passages_are_found_in_an_index_by_article_and_by_title(index):
    found = gold_passages([asks("lee", "film"), asks(titles=("X",))], "small")
    assert set(found) == {"lee", "film", "x"}
    assert len(found["lee"]) > 1, "all pieces of a split article"
    assert {passage.source for passage in found["lee"]} == {"lee"}
    assert [passage.id for passage in found["film"]] == ["film"]
    assert sorted(passage.id for passage in found["x"]) == ["film", "x2"]


def test_gold_passages_of_the_questions_own_have_their_sentences():
    split = {"title": "A", "text": "One. Two.", "sentences": ["One.", "Two."]}
    contexts = (split, {"title": "B", "text": "It is here. So is this."})
    asked = Question("q", "Who?", ("x",), gold_titles=("A", "b"), contexts=contexts)
    found = gold_passages([asked, asked], None)
    assert {key: [passage.sentences for passage in rows] for key, rows in found.items()} == {
        "a": [("One.", "Two.")], "b": [("It is here.", "So is this.")],
    }  # fmt: skip
