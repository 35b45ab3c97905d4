from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import hopgraph
from hopgraph.demo import QUESTION
from nodes.compactrag.verbatim_checker import verbatim
from stores.passages import Passage, content_id, read_passages

FOLDER = Path(hopgraph.__file__).parent / "data" / "demo"


@pytest.fixture(scope="module")
def passages() -> dict[str, Passage]:
    return {passage.id: passage for passage in read_passages(FOLDER / "passages.jsonl")}


@pytest.fixture(scope="module")
def questions() -> list[dict]:
    return [json.loads(line) for line in (FOLDER / "questions.jsonl").read_text("utf-8").splitlines()]


def test_the_corpus_is_small_and_every_passage_is_whole(passages: dict[str, Passage]) -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 300_000
    assert len(passages) == len(list(read_passages(FOLDER / "passages.jsonl"))) == 218
    for passage in passages.values():
        assert passage.title
        assert passage.sentences
        assert "".join("".join(passage.sentences).split()) == "".join(passage.text.split())


def test_every_question_has_its_gold_passages_and_its_supporting_sentences(
    passages: dict[str, Passage], questions: list[dict]
) -> None:
    assert len({question["id"] for question in questions}) == len(questions) == 21
    for question in questions:
        gold = {passages[gold_id].title: passages[gold_id] for gold_id in question["gold_ids"]}
        assert list(gold) == question["gold_titles"]
        assert len(gold) == question["hops"]
        assert question["answers"][0]
        for title, number in question["supporting_facts"]:
            assert gold[title].sentences[number]


def test_answers_of_chains_are_stated_in_the_last_supporting_sentence(
    passages: dict[str, Passage], questions: list[dict]
) -> None:
    chains = [question for question in questions if question["type"] in ("compositional", "inference")]
    assert len(chains) == 12
    for question in chains:
        title, number = question["supporting_facts"][-1]
        last = next(passages[gold_id] for gold_id in question["gold_ids"] if passages[gold_id].title == title)
        assert question["answers"][0] in last.sentences[number]


def test_types_and_notes_are_there(questions: list[dict]) -> None:
    types = Counter(question["type"] for question in questions)
    assert types == {"compositional": 8, "comparison": 5, "bridge_comparison": 4, "inference": 4}
    notes = (FOLDER / "README.md").read_text("utf-8")
    for name in ("2WikiMultiHopQA", "Apache-2.0", "Attribution-ShareAlike", "Wikipedia"):
        assert name in notes


def test_the_bundled_knowledge_base_was_read_from_these_passages_and_its_answers_stand_in_them(
    passages: dict[str, Passage], questions: list[dict]
) -> None:
    rows = [json.loads(line) for line in (FOLDER / "pairs.jsonl").read_text("utf-8").splitlines()]
    assert len({row["passage"] for row in rows}) == len(rows) <= 40
    gold = next(question["gold_ids"] for question in questions if question["id"] == QUESTION)
    assert set(gold) <= {row["passage"] for row in rows}
    for row in rows:
        passage = passages[row["passage"]]
        assert row["content"] == content_id(passage.title, passage.text)
        assert row["model"]
        assert row["cause"] or row["completion_tokens"] > 0
        for pair in row["pairs"]:
            assert verbatim(pair["answer"], [passage.text, passage.title]), pair
    assert sum(len(row["pairs"]) for row in rows) > len(rows)
