from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import inference.heads.extractor
import inference.heads.npz
from inference.errors import StoreError
from inference.heads.extractor import Extraction, extract_answers
from inference.heads.npz import save_weights
from inference.heads.pair_context import fresh_words, pair_halves
from inference.heads.trunk import get_trunk

PAIRS = (
    "Who wrote the novel Emma?\nThe novel Emma was written by Jane Austen.",
    "When was Emma published?\nEmma was published in December 1815 by John Murray.",
    "Where is Emma set?\nEmma is set in the fictional country village of Highbury.",
    "Who published Ulysses?\nSylvia Beach published Ulysses in Paris in 1922.",
)
CONTEXT = "\n\n".join(PAIRS)
ANSWERS = {
    "Who wrote the novel Emma?": "Jane Austen",
    "Where is Emma set?": "the fictional country village of Highbury",
    "Who published Ulysses?": "Sylvia Beach",
}


@pytest.mark.parametrize(("question", "answer"), ANSWERS.items())
def test_plain_questions_are_answered_whatever_the_order_of_the_pairs(question: str, answer: str):
    for order in itertools.permutations(PAIRS, 4):
        (found,) = extract_answers([(question, "\n\n".join(order))])
        assert found.answer, order
        assert found.answer in answer


def test_answers_that_are_phrases_are_found_too():
    context = (
        "Who wrote Emma?\nJane Austen\n\nWho wrote Ulysses?\nJames Joyce\n\nWho wrote Walden?\nHenry David Thoreau"
    )
    found = extract_answers([(f"Who wrote {name}?", context) for name in ("Walden", "Emma", "Ulysses")])
    assert [one.answer for one in found] == ["Henry David Thoreau", "Jane Austen", "James Joyce"]


def test_an_answer_is_a_stretch_of_one_half_of_a_pair():
    halves = [half for pair in PAIRS for half in pair.split("\n")]
    for found in extract_answers([(question, CONTEXT) for question in [*ANSWERS, "What?", "", "Emma"]]):
        assert CONTEXT[found.start : found.end] == found.answer
        assert any(found.answer in half for half in halves)
        assert bool(found.answer) == (found.probability > 0)


def test_an_answer_may_stand_in_a_pair_s_question_and_never_is_what_was_asked_about():
    (found,) = extract_answers([("Who wrote Dune Road?", "What book did Vera Kim write?\nDune Road")])
    assert found.answer in ("", "Vera Kim", "book did Vera Kim")
    assert "Dune Road" not in found.answer


def test_words_of_the_question_answer_either_or_questions_alone():
    context = "Who was older?\nAnn Lee was older than Bob Ray."
    asked = "Who was older, Ann Lee or Bob Ray?"
    assert fresh_words("Was Ann Lee older than Bob Ray?", context.partition("\n")[2]) == []
    assert [context[a:b] for a, b in fresh_words(asked, context)] == [
        "Who", "older", "Ann", "Lee", "older", "than", "Bob", "Ray"
    ]  # fmt: skip


@pytest.mark.parametrize("context", ["", " ", "\n\n", "\n \n\t\n"])
def test_nothing_to_answer_from_gives_an_empty_answer(context: str):
    assert extract_answers([("Who wrote Emma?", context)]) == [Extraction("", 0, 0, 0.0)]


def test_no_questions_no_answers():
    assert extract_answers([]) == []


def test_an_item_is_answered_alone_and_the_same_every_time():
    items = [(question, CONTEXT) for question in ANSWERS]
    together = extract_answers(items)
    assert extract_answers(items[::-1]) == together[::-1]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda item: extract_answers([item])[0], items * 3)) == together * 3


def test_a_context_longer_than_the_encoder_reads_is_read_to_its_end():
    filler = [
        f"Who is mayor of town {n}?\nThe mayor of town {n} is somebody called Smith number {n}." for n in range(80)
    ]
    for place in (0, 40, 80):
        pairs = [*filler[:place], PAIRS[0], *filler[place:]]
        (found,) = extract_answers([("Who wrote the novel Emma?", "\n\n".join(pairs))])
        assert found.answer == "Jane Austen", place
        assert "\n\n".join(pairs)[found.start : found.end] == "Jane Austen"


@pytest.mark.parametrize(
    "context",
    [
        "one line only",
        "a\nb",
        "x" * 60_000,
        "word " * 9_000,
        "Q?\n\ud83d half",
        "問い?\n東京",
        "\n\nQ?\nA b c\n\n \n\n",
        "Q?\n",
    ],
)
def test_odd_contexts_give_a_stretch_of_themselves(context: str):
    (found,) = extract_answers([("Who?", context)])
    assert context[found.start : found.end] == found.answer


def test_halves_of_pairs_are_numbered_questions_even_and_answers_odd():
    text = "Who?\nJane Austen\n\nsingle line\n \n\nWhen?\nin 1815"
    encoding = get_trunk().pieces("a question", text)
    halves = pair_halves(encoding.offsets, encoding.sequence_ids, text)
    shown = {n: [t for t, half in zip(encoding.tokens, halves, strict=True) if half == n] for n in range(6)}
    assert shown == {
        0: ["who", "?"],
        1: ["jane", "austen"],
        2: [],
        3: ["single", "line"],
        4: ["when", "?"],
        5: ["in", "1815"],
    }
    assert encoding.tokens[0] == "[CLS]"
    assert halves[0] == -1


def test_weights_of_something_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_weights(tmp_path / "extractor.npz", {"span": np.zeros((2, 2), np.float32)})
    get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.extractor._head.cache_clear()
    with pytest.raises(StoreError, match=r"extractor\.npz: the weights lack likeness, none, span_bias") as caught:
        extract_answers([("Who?", "Who?\nShe.")])
    assert caught.value.hint == "make train-extractor"
    inference.heads.extractor._head.cache_clear()
