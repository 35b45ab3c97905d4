"""Citations in an answer, in the forms that models write."""

import pytest

from nodes.kit.citations import read_citations
from nodes.kit.state import PassageRef

DOCUMENTS = [PassageRef(id=key, title=key, preview="", score=0.0, found_by="dense") for key in "abcde"]


@pytest.mark.parametrize(
    ("text", "answer", "cited"),
    [
        ("Oslo [1-3]", "Oslo", "abc"),
        ("Oslo [1–3, 5].", "Oslo.", "abce"),
        ("Oslo [3-1]", "Oslo", "ca"),
        ("Oslo [Passage 2]", "Oslo", "b"),
        ("Oslo [passages 2 and 4]", "Oslo", "bd"),
        ("Oslo [Passage 1, Passage 2]", "Oslo", "ab"),
        ("Oslo [Document 1; Source 5]", "Oslo", "ae"),
        ("Oslo [#2]", "Oslo", "b"),
        ("Oslo 【2】", "Oslo", "b"),
        ("Oslo (2)", "Oslo", "b"),
        ("Oslo (1, 3) and Paris (Passage 4)", "Oslo and Paris", "acd"),
        ("Oslo (Passages 1-2)", "Oslo", "ab"),
        ("Oslo [4][4] (4)", "Oslo", "d"),
        ("Oslo [1] [9]", "Oslo", "a"),
        ("Oslo [1-9]", "Oslo", "abcde"),
    ],
)
def test_citations_are_read_and_taken_out(text, answer, cited):
    assert read_citations(text, DOCUMENTS) == (answer, list(cited))


@pytest.mark.parametrize(
    "text",
    ["He died at Oslo (7)", "Super Bowl (12)", "(2)", "In 1912 (1911-1913)", "born (2 May)", "Apollo 11 (crew 3)"],
)
def test_numbers_in_parentheses_that_name_no_passage_are_part_of_the_answer(text):
    assert read_citations(text, DOCUMENTS) == (text, [])
