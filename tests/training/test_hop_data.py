from __future__ import annotations

from pathlib import Path

import pytest

from inference.errors import InputError
from tests.training.conftest import write
from training.hop_data import evaluation_sets, held_out, training_rows
from training.words import normalised


def test_nothing_held_out_is_trained_on(data: Path):
    rows, left_out = training_rows(data)
    questions = [normalised(row.question) for row in rows]
    assert not set(questions) & held_out(data)
    assert len(set(questions)) == len(questions)
    assert left_out == {"hop_count.train": 0, "extractor.train": 3, "router.train": 1}


def test_the_files_are_labelled_as_they_say(data: Path):
    labels = {row.question: row.hops for row in training_rows(data)[0]}
    assert labels["Who published Emma?"] == 1
    assert labels["Where did the director of film Jaws study?"] == 2
    assert labels["Which film came out earlier, Jaws or Alien?"] == 2
    assert labels["Which film has the director born first, Jaws or Alien?"] == 4
    assert labels["Are the directors of both films Jaws and Alien from the same country?"] == 4
    assert "Two things at once?" not in labels


def test_one_hop_rows_within_musique_are_its_natural_sub_questions_each_once(data: Path):
    sets = evaluation_sets(data)
    assert list(sets) == ["validation", "musique", "2wikimultihopqa", "hotpotqa"]
    assert [(row.question, row.hops) for row in sets["musique"]] == [
        ("Where was the author of Middlemarch born?", 2),
        ("Where did the author of Middlemarch die?", 2),
        ("Who wrote Middlemarch?", 1),
    ]


def test_dev_sub_questions_of_any_form_are_held_out(data: Path):
    assert {"who wrote middlemarch", "is he", "is it", "who wrote kim", "a hotpotqa question"} <= held_out(data)


def test_case_and_punctuation_do_not_make_another_question():
    assert normalised(" Who wrote  “Emma”? ") == normalised("who wrote emma")
    assert normalised("Who wrote Emma?") != normalised("Who wrote Emma II?")


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"question": "Who?", "hops": 5}, "line 1: field 'hops' must be 1, 2, 3 or 4, not 5"),
        ({"hops": 2}, "line 1: field 'question' must be a text"),
        (["Who?"], "line 1: expected an object"),
    ],
)
def test_a_malformed_row_is_named(data: Path, row, complaint: str):
    write(data / "train/hop_count.train.jsonl.gz", [row])
    with pytest.raises(InputError, match=r"hop_count\.train\.jsonl\.gz") as caught:
        training_rows(data)
    assert complaint in caught.value.message


def test_missing_and_damaged_files_are_named(data: Path):
    path = data / "train/extractor.train.jsonl.gz"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"extractor\.train\.jsonl\.gz: damaged"):
        training_rows(data)
    path.unlink()
    with pytest.raises(InputError, match=r"extractor\.train\.jsonl\.gz: no such file"):
        training_rows(data)
