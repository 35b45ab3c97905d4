from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import validate

from hopgraph.methods import METHODS
from hopgraph.simulation.agents import roles
from inference.errors import InputError
from tests.training.agents.conftest import FILMS, bridge
from training.agents import build
from training.agents.build import chosen, is_held_out, main, rounds_of
from training.agents.leakage import main as check_leakage
from training.agents.questions import lessons
from training.agents.variants import DECOMPOSERS
from training.lora.chats import Chat, read_chats
from training.lora.prompts import check_prompts


@pytest.fixture(scope="module")
def built(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    methods = str(sum(bool(roles(name)) for name in METHODS) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "HELD_OUT", 10**9)
        assert main(["--data", str(data), "--to", str(folder), "--methods", methods, "--pairs", "3"]) == 0
    return folder / "train.jsonl"


def test_every_method_plays_and_its_prompts_and_replies_become_examples(built, data, capsys):
    chats = list(read_chats(built))
    assert {chat["skill"].partition("/")[0] for chat in chats} >= {name for name in METHODS if roles(name)} - {
        "no_retrieval"
    }
    assert len({chat["id"] for chat in chats}) == len(chats)
    for chat in chats:
        assert json.loads(chat["completion"][0]["content"])
        assert chat["prompt"][0]["role"] == "system"
        assert chat["schema"]["name"].startswith(chat["skill"].partition("/")[0])
        validate(json.loads(chat["completion"][0]["content"]), chat["schema"]["schema"])
    hops = [chat for chat in chats if chat["skill"] == "hanrag/generator"]
    assert {"answer": "Ann Lee"} in [json.loads(chat["completion"][0]["content"]) for chat in hops]
    check_prompts(built)
    capsys.readouterr()
    assert check_leakage(["--data", str(data), "--examples", str(built)]) == 0
    assert "none in common" in capsys.readouterr().out


def test_readers_are_asked_the_sub_questions_about_the_same_passages(built):
    read = [chat for chat in read_chats(built) if chat["skill"] == "standard_rag/generator"]
    by_passages: dict[str, set[str]] = {}
    for chat in read:
        passages, _, question = chat["prompt"][-1]["content"].partition("<question>")
        by_passages.setdefault(passages, set()).add(question.removesuffix("</question>").strip())
    assert any({"Who directed Alpha (film)?", "Where was Ann Lee born?"} & asked for asked in by_passages.values())
    assert max(map(len, by_passages.values())) > 2


def test_judges_see_right_and_wrong_answers(built):
    replies: dict[str, set[str]] = {}
    for row in read_chats(built):
        replies.setdefault(row["skill"], set()).add(row["completion"][0]["content"])
    assert replies["parrag/accuracy_judge"] == {'{"score": 1.0}', '{"score": 0.0}'}
    assert len(replies["parrag/attribution_judge"]) == 2


def test_the_selector_names_sentences_and_the_adder_those_that_are_missing(built):
    replies: dict[str, set[str]] = {}
    for row in read_chats(built):
        replies.setdefault(row["skill"], set()).add(row["completion"][0]["content"])
    nothing = {'{"evidence": []}'}
    assert replies["prism/selector"] - nothing
    assert replies["prism/adder"] - nothing


def test_asking_on_and_answering_are_labels(built):
    labels: dict[str, set[str]] = {}
    for row in read_chats(built):
        labels.setdefault(row["skill"], set()).add(row["label"])
    assert labels["self_ask/asker"] >= {"follow_up", "final"}
    assert labels["react/agent"] >= {"search", "finish"}
    assert labels["search_o1/reasoner"] >= {"search", "answer"}


def test_verdicts_are_chosen_by_what_they_say_and_by_the_number_of_facts(built):
    rows = [row for row in read_chats(built) if row["skill"] == "hanrag/relevance_discriminator"]
    replies = {(row["label"], row["completion"][0]["content"]) for row in rows}
    assert replies == {(f"{reply} of 2", reply) for reply in ('{"relevant": true}', '{"relevant": false}')}


def test_an_example_that_asks_a_dev_question_is_found(built, data, tmp_path, capsys):
    rows = [json.loads(line) for line in built.read_text().splitlines()]
    rows[0]["prompt"][-1]["content"] += "<query>When did the director of Delta  die?</query>"
    examples = tmp_path / "train.jsonl"
    examples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert check_leakage(["--data", str(data), "--examples", str(examples)]) == InputError.exit_code
    assert f"1 of {len(rows)} examples ask a dev question" in capsys.readouterr().err


def test_what_is_played_depends_on_the_seed_alone(data):
    taught = list(lessons(data))
    plan = [(one.method, one.lesson.case.question) for one in rounds_of(taught, 0, 3, 5, 5)]
    assert plan == [(one.method, one.lesson.case.question) for one in rounds_of(taught, 0, 3, 5, 5)]
    assert plan != [(one.method, one.lesson.case.question) for one in rounds_of(taught, 1, 3, 5, 5)]


def test_only_the_given_methods_play(data, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "HELD_OUT", 10**9)
    flags = ["--players", "hanrag", "--whole", "0", "--single", "0", "--pairs", "0"]
    assert main(["--data", str(data), "--to", str(tmp_path), *flags]) == 0
    assert {chat["skill"].partition("/")[0] for chat in read_chats(tmp_path / "train.jsonl")} == {"hanrag"}


def chat(number: int, label: str, question: str, skill: str = "a/b") -> Chat:
    return Chat(id=str(number), skill=skill, label=label, source="s", question=question, prompt=[], completion=[])


def test_whole_questions_are_read_over_their_own_passages_without_an_index(data, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "HELD_OUT", 10**9)
    assert main(["--data", str(data), "--to", str(tmp_path), "--kinds", "whole"]) == 0
    assert not (tmp_path / "home").exists()
    rows = list(read_chats(tmp_path / "train.jsonl"))
    assert {row["skill"] for row in rows} == {"standard_rag/generator"}
    for row in rows:
        assert row["completion"][0]["content"] == '{"answer": "Bob Ray"}'
        assert {'title="Beta (film)"', 'title="Bob Ray"'} <= set(
            re.findall(r'title="[^"]*"', row["prompt"][-1]["content"])
        )
        assert row["schema"]["name"] == "standard_rag__generator"


def test_questions_of_one_hop_are_few_where_questions_are_taken_apart():
    rows = [
        chat(n, label, f"{label}{n}", skill)
        for skill in ("parrag/planner", "a/b")
        for label in ("single", "decomposed")
        for n in range(60)
    ]
    rows = [{**row, "id": str(number)} for number, row in enumerate(rows)]
    kept = chosen(rows, {"parrag/planner": 50, "a/b": 50}, seed=0)
    counts = Counter((row["skill"], row["label"]) for row in kept)
    assert counts == {
        ("parrag/planner", "single"): 7,
        ("parrag/planner", "decomposed"): 39,
        ("a/b", "single"): 23,
        ("a/b", "decomposed"): 23,
    }


def test_what_takes_questions_apart_has_an_equal_share_of_each_data_set():
    rows = [
        {**chat(n, "decomposed", f"q{n}", skill), "source": source, "id": f"{skill}{n}"}
        for skill in ("hanrag/refiner", "a/b")
        for source, numbers in (("2wikimultihopqa-train", range(80)), ("musique-train", range(80, 90)))
        for n in numbers
    ]
    kept = chosen(rows, {"hanrag/refiner": 22, "a/b": 22}, seed=0)
    counts = Counter((row["skill"], row["source"]) for row in kept)
    assert counts["hanrag/refiner", "musique-train"] == counts["hanrag/refiner", "2wikimultihopqa-train"] == 10
    assert counts["a/b", "musique-train"] < 6


def test_the_refiner_is_asked_for_every_next_question_and_the_decomposers_about_every_question(built):
    asked: dict[str, dict[str, set[str]]] = {}
    for row in read_chats(built):
        reply, shown = row["completion"][0]["content"], row["prompt"][-1]["content"]
        asked.setdefault(row["skill"], {}).setdefault(row["question"], set()).add(reply)
        if row["skill"] == "hanrag/refiner":
            assert json.loads(reply)["question"] not in shown
    for name in ("Alpha", "Beta", "Gamma"):  # the fourth is a dev question
        director = FILMS[name]
        first, then = f"Who directed {name} (film)?", f"Where was {director} born?"
        question = bridge(name)
        assert {json.dumps({"question": text}) for text in (first, then)} <= asked["hanrag/refiner"][question]
        assert all(question in asked[skill] for skill in DECOMPOSERS)


def test_a_choice_is_balanced_and_keeps_what_is_asked_about_one_question_together():
    rows = [chat(n, "decomposed", f"q{n // 4}") for n in range(80)]
    rows += [chat(100 + n, "whole", f"w{n}") for n in range(10)] + [
        chat(200 + n, "abstains", f"n{n}") for n in range(50)
    ]
    kept = chosen(rows, {"a/b": 40}, seed=0)
    assert kept == chosen(rows[::-1], {"a/b": 40}, seed=0) != chosen(rows, {"a/b": 40}, seed=1)
    labels = [row["label"] for row in kept]
    assert (labels.count("abstains"), labels.count("whole"), labels.count("decomposed")) == (3, 10, 27)
    asked = [row["question"] for row in kept if row["label"] == "decomposed"]
    assert len(set(asked)) == 7


def test_comparisons_are_chosen_of_many_questions():
    rows = [chat(n, "compares", f"q{n // 10}") for n in range(200)]
    assert len({row["question"] for row in chosen(rows, {"a/b": 20}, seed=0)}) > 10


def test_a_comparison_is_held_out_together_with_the_one_turned_from_it():
    asked = [(f"Who was born earlier, {n} or Bo Day?", f"Who was born later, {n} or Bo Day?") for n in range(100)]
    held = [(is_held_out(one), is_held_out(other)) for one, other in asked]
    assert set(held) == {(True, True), (False, False)}
