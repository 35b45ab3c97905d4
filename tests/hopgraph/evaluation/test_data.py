"""Readers of questions, on small files in the shape of the official releases."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from hopgraph.evaluation.data import SubQuestion, as_row, sample
from hopgraph.evaluation.datasets import DATASETS, read_questions
from inference.errors import InputError

HOTPOT = {
    "_id": "5a8b57f25542995d1e6f1371",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0], ["Ed Wood", 1]],
    "context": [
        ["Scott Derrickson", ["Scott Derrickson is an American director.", " He lives in Los Angeles."]],
        ["Ed Wood", ["Edward Davis Wood Jr. was an American filmmaker.", "", " He died."]],
    ],
}
TWO_WIKI = {
    "_id": "13f5ad2c",
    "type": "bridge_comparison",
    "question": "Which film has the director born first, A or B?",
    "context": [["A", ["A is a film."]]],
    "supporting_facts": [["A", 0]],
    "evidences": [["A", "director", "Ann"], ["Ann", "date of birth", "1900"]],
    "answer": "A",
}
MUSIQUE = {
    "id": "3hop1__9285_5188_23307",
    "paragraphs": [
        {"idx": 0, "title": "Noise", "paragraph_text": "Nothing.", "is_supporting": False},
        {"idx": 1, "title": "Pakistan", "paragraph_text": "It was an army.", "is_supporting": True},
    ],
    "question": "When did it happen?",
    "question_decomposition": [
        {"id": 9285, "question": "Where?", "answer": "there", "paragraph_support_idx": 1},
        {"id": 5188, "question": "When was #1?", "answer": "1947", "paragraph_support_idx": None},
    ],
    "answer": "1947",
    "answer_aliases": ["in 1947", "1947"],
    "answerable": True,
}
MULTIHOP = {
    "query": "Which company did both articles name?",
    "answer": "Google",
    "question_type": "comparison_query",
    "evidence_list": [
        {"title": "One", "author": "a", "url": "u", "source": "s", "fact": "f1"},
        {"title": "Two", "author": "a", "url": "u", "source": "s", "fact": "f2"},
        {"title": "One", "author": "a", "url": "u", "source": "s", "fact": "f3"},
    ],
}
TRIVIA = {
    "Data": [
        {
            "Answer": {"Aliases": ["Cotswold Hills", "Cotswolds"], "Value": "Cotswolds", "Type": "WikipediaEntity"},
            "EntityPages": [{"Title": "Cleeve Hill", "DocSource": "Search"}],
            "Question": "Cleeve Hill is in which hills?",
            "QuestionId": "tc_33",
            "SearchResults": [],
        }
    ],
    "Domain": "Web",
    "Version": 1.0,
}
STRATEGY = {
    "qid": "e0044a7b4d146d611e73",
    "term": "Albany",
    "question": "Will it?",
    "answer": False,
    "facts": ["A fact."],
    "decomposition": ["What is the population?", "Is #1 large?"],
    "evidence": [[[["x"]]]],
}
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Normans",
            "paragraphs": [
                {
                    "context": "The Normans were in Normandy.",
                    "qas": [
                        {
                            "id": "56ddde6b",
                            "question": "Where?",
                            "answers": [{"text": "Normandy", "answer_start": 20}, {"text": "Normandy"}],
                            "is_impossible": False,
                        },
                        {"id": "5ad39d53", "question": "Who?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture
def file(tmp_path):
    """Writes a file: a JSON value, or the text itself."""

    def write(content, name="file.json"):
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_hotpotqa(file):
    (question,) = read_questions(file([HOTPOT]), "hotpotqa")
    assert (question.id, question.answers, question.type, question.hops) == (HOTPOT["_id"], ("yes",), "comparison", 2)
    assert question.gold_titles == ("Scott Derrickson", "Ed Wood")
    assert question.gold_sentences == (("Scott Derrickson", 0), ("Ed Wood", 0), ("Ed Wood", 1))
    assert [context["title"] for context in question.contexts] == ["Scott Derrickson", "Ed Wood"]
    assert question.contexts[0]["sentences"] == [
        "Scott Derrickson is an American director.",
        "He lives in Los Angeles.",
    ]
    assert question.contexts[1]["sentences"][2] == "He died."  # a blank sentence keeps its number


def test_2wikimultihopqa(file):
    (question,) = read_questions(file([TWO_WIKI]), "2wikimultihopqa")
    assert question.hops == 4
    assert question.decomposition == (SubQuestion("A >> director", "Ann"), SubQuestion("Ann >> date of birth", "1900"))


def test_musique(file):
    unanswerable = {**MUSIQUE, "id": "2hop__1_2", "answerable": False}
    one, two = read_questions(file(lines(MUSIQUE, unanswerable), "m.jsonl"), "musique")
    assert one.answers == ("1947", "in 1947")
    assert (one.type, one.hops, one.gold_titles) == ("3hop1", 3, ("Pakistan",))
    assert one.decomposition[1] == SubQuestion("When was #1?", "1947")
    assert [context["text"] for context in one.contexts] == ["Nothing.", "It was an army."]
    assert one.gold_contexts == (1,)
    assert (two.hops, two.answerable, two.answers) == (2, False, ())


def test_multihoprag(file):
    null = {**MULTIHOP, "question_type": "null_query", "answer": "Insufficient information.", "evidence_list": []}
    one, two = read_questions(file([MULTIHOP, null]), "multihoprag")
    assert (one.gold_titles, one.hops, one.answerable) == (("One", "Two"), 3, True)
    assert (two.answerable, two.hops, two.id) == (False, 0, "multihoprag-0002")


def test_bamboogle_as_table_and_as_json(file):
    table = read_questions(file("Question,Answer\nWho was it?,James Madison\n", "b.csv"), "bamboogle")
    rows = read_questions(file([{"Question": "Who was it?", "Answer": "James Madison"}]), "bamboogle")
    assert table == rows
    assert (table[0].answers, table[0].hops) == (("James Madison",), 2)


def test_nq_open_and_dpr(file):
    (one,) = read_questions(file(lines({"question": "who", "answer": ["A", "B"]}), "nq.jsonl"), "nq")
    assert (one.answers, one.id, one.hops) == (("A", "B"), "nq-0001", 1)
    dpr = {"question": "who", "answers": ["A"], "positive_ctxs": [{"title": "T", "text": "x"}, {"title": "U"}]}
    (two,) = read_questions(file([dpr]), "nq")
    assert two.gold_titles == ("T",)


def test_popqa(file):
    head = "id\tsubj\tprop\ts_wiki_title\to_wiki_title\tquestion\tpossible_answers\n"
    answers = '"[""politician"", ""political leader""]"'
    body = f"4222362\tGeorge\toccupation\tGeorge Rankin\tPolitician\tWhat is it?\t{answers}\n"
    (question,) = read_questions(file(head + body, "popqa.tsv"), "popqa")
    assert question.answers == ("politician", "political leader")
    assert (question.id, question.type, question.gold_titles) == (
        "4222362",
        "occupation",
        ("George Rankin", "Politician"),
    )


def test_triviaqa(file):
    (question,) = read_questions(file(TRIVIA), "triviaqa")
    assert (question.id, question.answers) == ("tc_33", ("Cotswolds", "Cotswold Hills"))
    assert question.gold_titles == ("Cleeve Hill",)


def test_strategyqa(file):
    (question,) = read_questions(file([STRATEGY]), "strategyqa")
    assert (question.answers, question.type, question.hops) == (("no",), "boolean", None)
    assert question.decomposition[1].question == "Is #1 large?"


@pytest.mark.parametrize("indent", [None, 2])
def test_squad(file, indent):
    one, two = read_questions(file(json.dumps(SQUAD, indent=indent)), "squad")
    assert (one.answers, one.gold_titles, one.answerable) == (("Normandy",), ("Normans",), True)
    assert one.contexts == ({"title": "Normans", "text": "The Normans were in Normandy."},)
    assert (two.answers, two.answerable) == ((), False)
    assert (one.gold_contexts, two.gold_contexts) == ((0,), ())


def test_compound(file):
    row = {"id": "c1", "question": "When was he born and where?", "entities": [["1985", "in 1985"], "Baltimore"]}
    (question,) = read_questions(file(lines(row), "c.jsonl"), "compound")
    assert question.entities == (("1985", "in 1985"), ("Baltimore",))
    assert question.answers == ()


def test_our_own_lines_for_every_dataset(file):
    row = {
        "id": "q1",
        "question": "Who?",
        "answers": ["A", "B"],
        "type": "2hop",
        "hops": 2,
        "gold_ids": ["p1"],
        "gold_titles": ["T"],
        "decomposition": [{"question": "#1 >> x", "answer": None, "support_id": "p1"}],
        "origin": "elsewhere",
    }
    for dataset in DATASETS:
        (question,) = read_questions(file(lines(row), "q.jsonl.gz"), dataset)
        assert (question.id, question.answers, question.gold_ids) == ("q1", ("A", "B"), ("p1",))
        assert question.decomposition == (SubQuestion("#1 >> x", "", "p1"),)


def test_a_person_s_own_table(file):
    text = "Question,Answers,type\nWhere was Ann born?,Paris|the city of Paris,bridge\n,,\nWho?,,\n"
    one, two = read_questions(file(text, "mine.csv"))
    assert (one.id, one.answers, one.type) == ("own-0001", ("Paris", "the city of Paris"), "bridge")
    assert (two.id, two.answers) == ("own-0002", ())


@pytest.mark.parametrize(
    ("dataset", "row"),
    [("hotpotqa", HOTPOT), ("2wikimultihopqa", TWO_WIKI), ("musique", MUSIQUE), ("multihoprag", MULTIHOP),
     ("triviaqa", TRIVIA), ("strategyqa", STRATEGY), ("squad", SQUAD)],
)  # fmt: skip
def test_a_question_comes_back_from_our_own_lines_as_it_was(file, dataset, row):
    questions = read_questions(file([row]), dataset)
    again = read_questions(file(lines(*map(as_row, questions)), "again.jsonl"))
    assert again == questions


@pytest.mark.parametrize(
    ("content", "name", "dataset", "message"),
    [
        (lines({"question": "Who?"}, {"answers": ["A"]}), "f.jsonl", "own", "line 2: field 'question' is missing"),
        (lines({"question": " "}), "f.jsonl", "own", "f.jsonl, line 1: field 'question' is empty"),
        (lines({"id": "a", "question": "Who?"}, {"id": "a", "question": "What?"}), "f.jsonl", "own",
         "line 2: duplicate id 'a', also of"),
        (lines({"question": "Who?"}) + "{broken\n", "f.jsonl", "own", "f.jsonl, line 2: not JSON"),
        (lines({"question": "Who?", "answers": [1, {}]}), "f.jsonl", "own", "field 'answers' must be a list of texts"),
        (lines({"question": "Who?", "hops": "many"}), "f.jsonl", "own", "field 'hops' must be a whole number"),
        (lines({"question": "Who?", "contexts": [{"text": "x"}], "gold_contexts": [1]}), "f.jsonl", "own",
         "field 'gold_contexts' must be a list of indices from 0, below 1"),
        (lines({"question": "Who?", "entities": []}), "f.jsonl", "own", "field 'entities' must be"),
        (lines({"question": "x" * 30_000}), "f.jsonl", "own", "question: has 30,000 characters"),
        ([HOTPOT, {**HOTPOT, "_id": None, "question": "x"}], "f.json", "hotpotqa", "item 2: field '_id' is missing"),
        ([{**HOTPOT, "supporting_facts": [["A"]]}], "f.json", "hotpotqa", "field 'supporting_facts' must be a list of"),
        ([{**HOTPOT, "supporting_facts": [["A", -1]]}], "f.json", "hotpotqa", "field 'supporting_facts' must be"),
        ([{**TWO_WIKI, "evidences": [["a", "b"]]}], "f.json", "2wikimultihopqa", "field 'evidences' must be a list of"),
        (lines({**MUSIQUE, "paragraphs": "x"}), "f.jsonl", "musique", "field 'paragraphs' must be a list of objects"),
        ({"Data": [{"Question": "q", "QuestionId": "1"}]}, "f.json", "triviaqa", "Data[0]: field 'Answer' must be"),
        ("[1, 2]", "f.json", "hotpotqa", "f.json, item 1: expected an object, got a number"),
        ("[{\n\"a\": }]", "f.json", "hotpotqa", "f.json, line 2: not JSON"),
        ("", "f.jsonl", "own", "f.jsonl: has no questions"),
        ("[]", "f.json", "own", "f.json: has no questions"),
        ("question,answers\n", "f.csv", "own", "f.csv: has no questions"),
        ("question,answers\nWho?,A,B\n", "f.csv", "own", "f.csv, line 2: must have 2 columns"),
        ('question\n"Who?\n', "f.csv", "own", "f.csv, after line 1: "),
        ("frage\nWer?\n", "f.csv", "own", "f.csv, line 2: field 'question' is missing"),
        ("q\tpossible_answers\nx\tnot json\n", "f.tsv", "popqa", "field 'possible_answers' must be a JSON list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(file, content, name, dataset, message):
    with pytest.raises(InputError) as caught:
        read_questions(file(content, name), dataset)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("content", "name", "message", "hint"),
    [
        ("frage,antwort\nWer?,Er\n", "f.csv", "line 2: field 'question' is missing", "the columns are frage, antwort"),
        ("question,answers\n,Er\n", "f.csv", "line 2: field 'question' is empty", "docs/evaluation.md lists"),
        ("question;answers\nWho, and when?;Er\n", "f.csv", "line 1: a single column 'question;answers'", "with commas"),
        ("question\tanswers\nWho?\tEr\n", "f.csv", "line 1: a single column", "with commas"),
        ("question,answers\nWho?,Er\n", "f.tsv", "line 1: a single column 'question,answers'", "with tabs"),
    ],
)
def test_a_table_with_other_columns_than_it_needs_says_which_it_has(file, content, name, message, hint):
    with pytest.raises(InputError) as caught:
        read_questions(file(content, name))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_files_that_can_t_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_questions(tmp_path / "nowhere.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"question": "Café?"}'.encode("latin-1"))
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read_questions(tmp_path / "latin.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"question": "Who?"}' * 50)[:-9])
    with pytest.raises(InputError, match="damaged gzip"):
        read_questions(tmp_path / "cut.jsonl.gz")


def test_sampling(file):
    questions = read_questions(file(lines(*({"question": f"q{n}"} for n in range(20))), "q.jsonl"))
    assert sample(questions, 3, None) == questions[:3]
    assert sample(questions, None, 1) == sample(questions, 99, 1) == questions
    assert sample(questions, 5, 1) == sample(questions, 5, 1) != sample(questions, 5, 2)


def test_a_stratified_sample_keeps_the_shares_of_types_and_hops(file):
    kinds = [("bridge", 2)] * 70 + [("comparison", 2)] * 20 + [("bridge", 4)] * 10
    rows = lines(*({"question": f"q{n}", "type": kind, "hops": hops} for n, (kind, hops) in enumerate(kinds)))
    questions = read_questions(file(rows, "q.jsonl"))
    for seed in range(20):
        chosen = sample(questions, 20, seed, stratified=True)
        assert Counter((one.type, one.hops) for one in chosen) == {
            ("bridge", 2): 14,
            ("comparison", 2): 4,
            ("bridge", 4): 2,
        }
        assert chosen == sorted(chosen, key=questions.index)
    assert len(sample(questions, 7, 0, stratified=True)) == 7
    assert sample(questions, 20, 1, stratified=True) != sample(questions, 20, 2, stratified=True)
    assert sample(questions, None, 1, stratified=True) == questions
