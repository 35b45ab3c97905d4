from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from stores import sentences as sentences_module
from stores.sentences import split_sentences


def squeeze(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Gen. Lee in Washington, D.C. last May.", "He was late."],
        ["The St. Louis Cardinals won.", "J. R. R. Tolkien wrote it."],
        ["It cost 3.5 million.", "The U.S. Army paid at 5 p.m. for No. 5 of them."],
        ['"Is it far?" she asked.', "Nobody knew."],
        ["Mr. and Mrs. Jones own Apple Inc. in California.", "They are rich."],
        ["Jülich- Berg passed to Anhalt- Dessau.", "The first all- African- American cast played there."],
        ["Kraków lies in Poland.", "Its mayor is [as of 2019] well known."],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences: list[str]) -> None:
    assert split_sentences([" ".join(sentences)]) == [sentences]


def test_result_is_aligned_and_blank_texts_have_no_sentences() -> None:
    assert split_sentences(["One. Two.", "", " \n\t ", "Three"]) == [["One.", "Two."], [], [], ["Three"]]
    assert split_sentences([]) == []


def test_blank_lines_and_lines_without_full_stop_end_a_sentence_but_a_wrapped_line_does_not() -> None:
    text = "A heading\n\nThe first sentence goes\non here. The second."
    assert split_sentences([text]) == [["A heading", "The first sentence goes on here.", "The second."]]


def test_full_stops_of_other_scripts_end_a_sentence() -> None:
    assert split_sentences(["他是老师。「他住在北京。」她不住。"]) == [["他是老师。", "「他住在北京。」", "她不住。"]]


@pytest.mark.parametrize(
    "text",
    [
        "\x00\x07 control\x1fcharacters \u2028 and \u202eright-to-left\u202c. שלום עולם. مرحبا!",
        "🙂🙂. 👩‍👩‍👧‍👦! ... ??? \u200b",
        "no end " * 9000,
        "x" * 50_000 + ". Next one.",
        'Lost "quote. And (bracket. [End',
        ".\n.\n\n.",
    ],
)
def test_nothing_but_white_space_is_lost_and_no_sentence_is_empty(text: str) -> None:
    [sentences] = split_sentences([text])
    assert squeeze("".join(sentences)) == squeeze(text)
    assert all(sentence.strip() == sentence and sentence for sentence in sentences)


def test_a_text_longer_than_a_piece_is_cut_at_a_sentence() -> None:
    sentence = "The Kansas City metropolitan area straddles the border between two states."
    [sentences] = split_sentences([" ".join([sentence] * 1000)])
    assert sentences == [sentence] * 1000


def test_threads_and_batches_do_not_change_the_result() -> None:
    texts = [f"Person {n} was born in St. Louis in {n}. He died in the U.S. in {n + 60}." for n in range(600)]
    alone = split_sentences(texts)
    found: dict[int, list[list[str]]] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: split_sentences(texts)})) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(3)] == [alone] * 3
    assert [split_sentences([text])[0] for text in texts[:50]] == alone[:50]


def test_importing_the_module_does_not_import_spacy() -> None:
    code = "import sys, json, stores.sentences; print(json.dumps('spacy' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False


@pytest.mark.parametrize("sign", ["<", "(", "a", "."])
def test_a_long_run_without_white_space_is_cut_before_it_reaches_the_tokenizer(monkeypatch, sign: str) -> None:
    texts: list[str] = []
    split_batch = sentences_module._split_batch
    monkeypatch.setattr(sentences_module, "_split_batch", lambda batch: texts.extend(batch) or split_batch(batch))
    (found,) = split_sentences([f"It begins. {sign * 10_000} It ends."])
    assert max(len(run) for text in texts for run in text.split()) <= 500
    assert squeeze("".join(found)) == f"Itbegins.{sign * 10_000}Itends."
