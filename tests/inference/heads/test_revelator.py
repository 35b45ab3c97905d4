from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import inference.heads.npz
import inference.heads.revelator
from inference.errors import StoreError
from inference.heads.npz import save_weights
from inference.heads.revelator import ROUTES, as_text, ending, relevance, route
from inference.heads.trunk import get_trunk

QUESTIONS = {
    "Where would you put a dirty plate?": "straightforward",
    "who wrote the novel pride and prejudice": "single_step",
    "Which film was released first, Jaws or Alien?": "complex",
    "Who directed the film Jaws and when was it released?": "compound",
    "Where was the director of the film Jaws born?": "complex",
}
ODD = ["", " ", "???", "東京はどこ", "a" * 30_000, "word " * 2_000, "\ud83d half an emoji"]

EMMA = "Emma (novel)\nEmma is a novel written by the English author Jane Austen. It was first published in 1815."
AUSTEN = "Jane Austen\nJane Austen was an English novelist. She was born in Steventon, Hampshire."
WHALES = "Blue whale\nThe blue whale is a marine mammal and the largest animal known ever to have existed."
BRIDGE = "Where was the author of the novel Emma born?"


def test_plain_questions_get_their_route():
    assert {q: p.route for q, p in zip(QUESTIONS, route(list(QUESTIONS)), strict=True)} == QUESTIONS


def test_probabilities_are_of_the_four_routes_and_add_up():
    for prediction in route([*QUESTIONS, *ODD]):
        assert len(prediction.probabilities) == len(ROUTES) == 4
        assert math.isclose(sum(prediction.probabilities), 1)
        assert prediction.probabilities[ROUTES.index(prediction.route)] == max(prediction.probabilities)


def test_passages_that_help_are_told_from_one_that_does_not():
    emma, austen, whales = relevance("Who wrote Emma?", [EMMA, AUSTEN, WHALES])
    assert emma > 0.5 > austen > whales
    emma, austen, whales = relevance("Where was Jane Austen born?", [EMMA, AUSTEN, WHALES])
    assert austen > 0.5
    assert whales < 0.1
    # Of a whole question what the first hop needs can be known, what the second needs hardly.
    emma, austen, whales = relevance(BRIDGE, [EMMA, AUSTEN, WHALES])
    assert emma > austen > whales
    assert emma > 0.2


def test_a_chain_suffices_once_the_last_hop_is_answered():
    first, second = ("Who wrote the novel Emma?", "Jane Austen"), ("Where was Jane Austen born?", "Steventon")
    assert ending(BRIDGE, [first]) < 0.5 < ending(BRIDGE, [first, second])
    assert ending(BRIDGE, []) == 0.0
    assert ending(BRIDGE, [first, (second[0], "unknown")]) < 0.5


def test_probabilities_of_odd_texts_are_probabilities():
    for odd in ODD:
        assert 0 <= relevance(odd, [odd])[0] <= 1
        assert 0 <= ending(odd, [(odd, odd)] * 9) <= 1
    assert relevance("Who wrote Emma?", []) == []
    assert route([]) == []


def test_each_text_is_judged_alone_and_the_same_every_time():
    questions, texts = list(QUESTIONS), [EMMA, AUSTEN, WHALES]
    assert route(questions[::-1]) == route(questions)[::-1]
    assert relevance(BRIDGE, texts[::-1]) == relevance(BRIDGE, texts)[::-1]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda q: route([q])[0], questions * 3)) == route(questions) * 3


def test_of_a_long_chain_the_end_is_read():
    chain = [(f"question {n}", f"answer {n}") for n in range(20)]
    assert as_text(chain).splitlines()[-1] == "question 19 answer 19"
    assert len(as_text(chain).splitlines()) == 8


def test_weights_of_something_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_weights(tmp_path / "revelator.npz", {"router.hidden": np.zeros((2, 2), np.float32)})
    get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.revelator._head.cache_clear()
    with pytest.raises(StoreError, match=r"revelator\.npz: the weights lack .*ending\.scores") as caught:
        route(["Who?"])
    assert caught.value.hint == "make train-revelator-encoder"
    inference.heads.revelator._head.cache_clear()
