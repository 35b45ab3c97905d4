"""Perfect agents: they answer what they are shown and nothing else, err as often as asked, and say what they are."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import get_args

import pytest

from hopgraph.cli import run_app
from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.gold import gold_passages
from hopgraph.evaluation.simulated import Simulation
from hopgraph.methods import METHODS
from hopgraph.simulation.agents import PerfectAgents, roles
from hopgraph.simulation.endpoint import Request
from hopgraph.simulation.gold import cases_of
from hopgraph.simulation.playing import playing
from inference.settings import Role, get_settings
from tests.hopgraph.evaluation.conftest import comparable, results

FILMS = [
    {"title": "Northern Lights", "text": "Northern Lights is a film. It was directed by John Hanson."},
    {"title": "John Hanson", "text": "John Hanson, born on 3 May 1942 in Fargo, makes films."},
    {"title": "Red Harbour", "text": "Red Harbour is a film by Vera Kim."},
    {"title": "Vera Kim", "text": "Vera Kim is a director. She was born on 7 June 1950 in Omsk."},
    {"title": "Bananas", "text": "Bananas are yellow. They grow in Omsk, too."},
]
BRIDGE = {
    "id": "bridge",
    "question": "Where was the director of Northern Lights born?",
    "answers": ["Fargo"],
    "type": "compositional",
    "gold_titles": ["Northern Lights", "John Hanson"],
    "decomposition": [
        {"question": "Northern Lights >> director", "answer": "John Hanson"},
        {"question": "John Hanson >> place of birth", "answer": "Fargo"},
    ],
}
COMPARISON = {
    "id": "comparison",
    "question": "Which film has the younger director, Northern Lights or Red Harbour?",
    "answers": ["Red Harbour"],
    "type": "bridge_comparison",
    "gold_titles": ["Northern Lights", "Red Harbour", "John Hanson", "Vera Kim"],
    "decomposition": [
        {"question": "Northern Lights >> director", "answer": "John Hanson"},
        {"question": "Red Harbour >> director", "answer": "Vera Kim"},
        {"question": "John Hanson >> date of birth", "answer": "3 May 1942"},
        {"question": "Vera Kim >> date of birth", "answer": "7 June 1950"},
    ],
}
WORDS = {
    "id": "words",
    "question": "Who made the film that John Hanson did not make?",
    "answers": ["Vera Kim"],
    "type": "2hop",
    "gold_titles": ["Northern Lights", "Red Harbour"],
    "decomposition": [
        {"question": "Which film is not by John Hanson?", "answer": "Red Harbour"},
        {"question": "Who made #1 ?", "answer": "Vera Kim"},
    ],
}
ALL = [{**row, "contexts": FILMS} for row in (BRIDGE, COMPARISON, WORDS)]
ANSWERING = [method for method in METHODS if method not in ("no_retrieval", "compactrag")]


@pytest.fixture
def simulate(home, tmp_path, capfd):
    """Runs a simulation into a folder; gives exit code, summary and results."""

    def run(rows, *words, out="run"):
        path = tmp_path / f"{out}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code = run_app(["eval", "--perfect", "-q", str(path), "--out", str(tmp_path / out), "--json", *words])
        text, err = capfd.readouterr()
        assert code == 0, err
        return json.loads(text), results(tmp_path / out), err

    return run


def gold(row):
    steps = tuple(SubQuestion(step["question"], step["answer"]) for step in row["decomposition"])
    question = Question(
        row["id"], row["question"], tuple(row["answers"]), gold_titles=tuple(row["gold_titles"]), decomposition=steps,
        contexts=tuple(FILMS),
    )  # fmt: skip
    return cases_of([question], gold_passages([question], None))[0]


def test_sub_questions_tell_nothing_that_is_not_known():
    case = gold(BRIDGE)
    director, birth = case.facts
    assert birth.needs == (1,)
    assert case.ask(birth, {}) == "What is the place of birth of the director of Northern Lights?"
    assert case.ask(birth, {1: "John Hanson"}) == "What is the place of birth of John Hanson?"
    assert case.form_of("what is the place of birth of John Hanson").known == {1}
    assert case.form_of("What is the place of birth of Somebody Else?").fact == birth
    assert case.form_of("What is the colour of bananas?") is None
    assert case.ask(director, {}) == "What is the director of Northern Lights?"


def test_an_unknown_answer_is_named_by_what_it_is():
    director, birth = gold(BRIDGE).facts
    case = gold(BRIDGE)
    assert case.pronoun(director) == "this director"
    assert case.pronoun(birth) == "this place"
    assert case.description(birth, {}) == "the place of birth of this director"
    assert case.description(birth, {1: "John Hanson"}) == "the place of birth of John Hanson"
    film, maker = gold(WORDS).facts
    assert [gold(WORDS).pronoun(fact) for fact in (film, maker)] == ["this film", "this person"]
    assert gold(WORDS).description(film, {}) == "the film"


@pytest.mark.parametrize(
    ("words", "pronoun"),
    [
        ("At which university was Ann Lee?", "this university"),
        ("What was the name of the newspaper?", "this newspaper"),
        ("What did Ann Lee die of?", "this answer"),
        ("Where is Oslo?", "this place"),
        ("when did #1 open", "this date"),
        ("Name a river.", "this answer"),
    ],
)
def test_a_sub_question_in_words_says_what_it_asks_for(words, pronoun):
    case = gold(WORDS)
    assert case.pronoun(replace(case.facts[0], words=words)) == pronoun


def planned(row):
    body = {"messages": [{"role": "user", "content": f"<question>{row['question']}</question>"}]}
    return json.loads(PerfectAgents([gold(row)])(Request("thread.parrag.planner.0", body)).text)["steps"]


def test_a_plan_does_not_repeat_the_question():
    assert planned(BRIDGE) == [
        {
            "thought": "The director of Northern Lights is needed.",
            "question": "What is the director of Northern Lights?",
            "action": "Retrieve",
        },
        {
            "thought": "The place of birth of this director is the answer.",
            "question": "What is the place of birth of this director?",
            "action": "Retrieve",
        },
    ]
    # Two directors have to be told apart.
    assert [step["question"] for step in planned(COMPARISON)][2:] == [
        "What is the date of birth of the director of Northern Lights?",
        "What is the date of birth of the director of Red Harbour?",
        COMPARISON["question"],
    ]


@pytest.mark.parametrize(
    ("answer", "refined"),
    [
        ("John Hanson", "What is the place of birth of John Hanson?"),
        ("unknown", "What is the place of birth of the director of Northern Lights?"),
    ],
)
def test_the_refiner_puts_in_what_is_known_and_describes_the_rest(answer, refined):
    one, other = planned(BRIDGE)
    text = (
        f'<step number="1">\nThought: {one["thought"]}\nQuestion: {one["question"]}\nAnswer: {answer}\n'
        f"Evidence: none\n</step>\n\nThe user's question: {BRIDGE['question']}\n"
        f"<question>{other['question']}</question>"
    )
    body = {"messages": [{"role": "user", "content": text}]}
    reply = PerfectAgents([gold(COMPARISON), gold(BRIDGE)])(Request("thread.parrag.refiner.0", body))
    assert json.loads(reply.text) == {"question": refined}


def test_a_fact_counts_only_where_it_is_known_whom_it_is_about():
    case = gold(BRIDGE)
    assert case.values({2}) == {}
    assert case.values({2}, {1: "John Hanson"}) == {1: "John Hanson", 2: "Fargo"}
    assert case.values({2}, {1: "Vera Kim"}) == {1: "Vera Kim"}
    assert case.conclude(case.values({1, 2})) == "Fargo"
    assert case.conclude(case.values({1})) is None
    comparison = gold(COMPARISON)
    assert [fact.needs for fact in comparison.facts] == [(), (), (1,), (2,)]
    assert comparison.conclude(comparison.values({1, 2, 3})) is None
    assert comparison.conclude(comparison.values({1, 2, 3, 4})) == "Red Harbour"
    assert comparison.conclude(comparison.values({1, 2, 3}, {4: "1900"})) == "Northern Lights"


def test_with_all_passages_every_method_is_right(simulate):
    _, found, _ = simulate(ALL, "-m", ",".join(ANSWERING), "--contexts")
    right = {row["id"]: row["answers"][0] for row in ALL}
    assert {key: line["answer"] for key, line in found.items()} == {
        (method, key): answer for method in ANSWERING for key, answer in right.items()
    }
    assert all(not step["fallback"] for line in found.values() for step in line["trajectory"])
    assert all(line["cost"]["repairs"] == 0 for line in found.values())


def test_what_is_not_shown_is_not_answered(simulate):
    without = [row for row in FILMS if row["title"] != "John Hanson"]
    rows = [{**row, "contexts": without} for row in (BRIDGE, COMPARISON)]
    _, found, _ = simulate(rows, "-m", ",".join(ANSWERING), "--contexts")
    assert {key: line["status"] for key, line in found.items()} == dict.fromkeys(found, "unanswerable")


def test_numbers_of_passages_are_no_information(simulate):
    rows = [{**BRIDGE, "contexts": [row for row in FILMS if row["title"] != "John Hanson"]}]
    _, found, _ = simulate(rows, "-m", "search_o1", "--contexts", "--set", 'ablate=["reason_in_documents"]')
    [line] = found.values()
    assert (line["status"], line["cost"]["searches"]) == ("unanswerable", 4), "one fact is known, one asked for thrice"


@pytest.mark.parametrize(("reasoning", "information"), [(["John Hanson"], "Fargo"), ([], "Not Answerable")])
def test_reason_in_documents_knows_what_the_reasoning_says(reasoning, information):
    found = "".join(f"1. Hm.\nSearch: Northern Lights director\nInformation: {name}\n" for name in reasoning)
    shown = f'<passage number="1" title="John Hanson">\n{FILMS[1]["text"]}\n</passage>'
    text = f"{shown}\n\nReasoning so far:\n{found}2. Hm.\n\n<query>{BRIDGE['question']}</query>"
    body = {"messages": [{"role": "user", "content": text}]}
    reply = PerfectAgents([gold(BRIDGE)])(Request("thread.search_o1.reason_in_documents.0", body))
    assert json.loads(reply.text)["information"] == information


def test_the_model_alone_knows_nothing(simulate):
    _, found, _ = simulate(ALL, "-m", "no_retrieval")
    assert {line["status"] for line in found.values()} == {"unanswerable"}


def test_searching_and_reading_are_real(simulate, home, tmp_path, capfd, model):
    from stores.build import build_index
    from stores.passages import Passage

    build_index("films", [Passage(f"p{n}", row["title"], row["text"]) for n, row in enumerate(FILMS)])
    rows = [{**BRIDGE, "gold_ids": ["p0", "p1"]}, {**COMPARISON, "gold_ids": ["p0", "p2", "p1", "p3"]}]
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_app(["read", "--index", "films", "--perfect", str(asked)]) == 0
    out, err = capfd.readouterr()
    assert "simulated, without a model" in out
    assert "simulation" in err
    summary, found, _ = simulate(rows, "-m", "all", "--index", "films", "--set", "top_k=2")
    assert [variant["variant"] for variant in summary["variants"]] == list(METHODS)
    assert found["compactrag", "bridge"]["answer"] == "Fargo"
    assert found["compactrag", "comparison"]["answer"] == "Red Harbour"
    # Each searches with what is known.
    following = {"compactrag", "hanrag", "parrag", "self_ask", "ircot", "react", "search_o1", "prunerag"}
    assert {
        key: line["metrics"]["em"] for key, line in found.items() if key[0] in following and not line["metrics"]["em"]
    } == {}
    assert all(line["cost"]["searches"] > 0 for key, line in found.items() if key[0] != "no_retrieval")
    # A model that answers from what agents have read does not get away as a model.
    model(lambda request: {"subquestions": []} if request.node == "decomposer" else {"thought": "", "answer": "Fargo"})
    words = ["-m", "compactrag", "-q", str(asked), "--index", "films", "--out", str(tmp_path / "real"), "--json"]
    assert run_app(["eval", *words]) == 0
    assert "a perfect reader, no model" in json.loads(capfd.readouterr().out)["run"]["simulation"]
    assert run_app(["report", str(tmp_path / "real")]) == 0
    assert "Simulation in part" in (tmp_path / "real" / "report.html").read_text("utf-8")


def test_a_perfect_reranker_puts_what_states_a_fact_first(simulate):
    from stores.build import build_index
    from stores.passages import Passage

    about = [Passage(f"d{n}", "Northern Lights", f"Northern Lights, director, born, {n}") for n in range(6)]
    build_index("films", about + [Passage(f"p{n}", row["title"], row["text"]) for n, row in enumerate(FILMS)])
    rows = [{**BRIDGE, "gold_ids": ["p0", "p1"]}]
    words = ("-m", "standard_rag,parrag", "--index", "films", "--set", "top_k=2")
    _, plain, _ = simulate(rows, *words, out="plain")
    _, ranked, _ = simulate(rows, *words, "--set", "rerank=listwise", out="ranked")
    assert plain["standard_rag", "bridge"]["answer"] == ""
    assert {line["answer"] for line in ranked.values()} == {"Fargo"}
    assert all(not step["fallback"] for line in ranked.values() for step in line["trajectory"])
    _, wrong, _ = simulate(rows, *words, "--set", "rerank=listwise", "--wrong", "1", out="wrong")
    assert not set(wrong["standard_rag", "bridge"]["retrieved"]) & {"p0", "p1"}


def test_agents_err_as_often_as_asked_and_the_same_way_each_time(simulate):
    words = ("-m", "hanrag,parrag,prism,prunerag,standard_rag", "--contexts", "--wrong")
    _, right, _ = simulate(ALL, *words, "0", out="right")
    _, half, _ = simulate(ALL, *words, "0.5", out="half")
    _, again, _ = simulate(ALL, *words, "0.5", out="again")
    _, other, _ = simulate(ALL, *words, "0.5", "--seed", "3", out="other")
    _, never, _ = simulate(ALL, *words, "1", out="never")
    assert {key: comparable(line) for key, line in half.items()} == {
        key: comparable(line) for key, line in again.items()
    }
    assert {key: comparable(line) for key, line in half.items()} != {
        key: comparable(line) for key, line in other.items()
    }
    assert len(right) == sum(line["metrics"]["em"] for line in right.values())
    assert len(right) > sum(line["metrics"]["em"] for line in half.values())
    # Elsewhere two errors may cancel out, such as those of an actor and of its judges.
    assert [line["metrics"]["em"] for key, line in never.items() if key[0] == "standard_rag"] == [0, 0, 0]


def test_a_simulation_says_so_wherever_it_appears(simulate, tmp_path, capfd):
    summary, _, err = simulate(ALL[:2], "-m", "prism,no_retrieval", "--contexts")
    said = "simulation: perfect agents"
    assert said in err
    assert said in summary["run"]["simulation"]
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said in about["simulation"]["said"]
    assert about["identity"]["models"] == {"llm": "simulated-perfect"}
    assert run_app(["eval", "--resume", str(tmp_path / "run")]) == 0
    out, _ = capfd.readouterr()
    assert out.count(said) >= 3  # over each table
    assert run_app(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Simulation: perfect agents" in page
    assert "(simulation)" in re.search(r"<title>(.*?)</title>", page)[1]
    assert page.count(said) >= page.count("<figure")


def test_simulated_and_other_runs_have_different_names_in_a_report(simulate, model, tmp_path, capfd):
    simulate(ALL[:1], "-m", "prism", "--contexts", out="perfect")
    simulate(ALL[:1], "-m", "prism", "--contexts", "--wrong", "0.5", out="half")
    path = tmp_path / "perfect.jsonl"
    model(lambda request: {"answer": "Paris"})
    words = ["-m", "no_retrieval", "-q", str(path), "--out", str(tmp_path / "real")]
    assert run_app(["eval", *words]) == 0
    assert run_app(["report", *(str(tmp_path / name) for name in ("perfect", "half", "real"))]) == 0
    page = (tmp_path / "perfect" / "report.html").read_text("utf-8")
    names = json.loads(re.search(r'<script id="names" type="application/json">(.*?)</script>', page)[1])
    assert names == ["prism (simulated)", "prism (simulated, 0.5 wrong)", "no_retrieval"]


def test_a_simulation_that_was_cut_off_goes_on_without_a_model(simulate, tmp_path, capfd):
    _, whole, _ = simulate(ALL, "-m", "hanrag,prism", "--contexts", "--wrong", "0.3")
    path = tmp_path / "run" / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    before = dict(os.environ)
    assert run_app(["eval", "--resume", str(tmp_path / "run"), "--json"]) == 0
    assert dict(os.environ) == before
    assert results(tmp_path / "run") == whole


def test_another_error_rate_is_another_run(simulate, tmp_path, capfd):
    simulate(ALL, "-m", "prism", "--contexts")
    path = tmp_path / "run.jsonl"
    words = ["eval", "--perfect", "-m", "prism", "--contexts", "-q", str(path), "--out", str(tmp_path / "run")]
    assert run_app([*words, "--wrong", "0.2"]) == 2
    assert "models.llm" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        ([{**BRIDGE, "decomposition": []}], ("--perfect",), "question bridge has no gold decomposition"),
        (ALL, ("--wrong", "0.1"), "--wrong: requires --perfect"),
    ],
)
def test_what_can_t_be_simulated_is_said(home, tmp_path, capfd, rows, words, message):
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_app(["eval", "-m", "no_retrieval", "-q", str(path), "--out", str(tmp_path / "run"), *words]) == 2
    assert message in capfd.readouterr().err


def test_a_new_method_s_agents_are_found_in_a_file_of_its_name(tmp_path, monkeypatch):
    import hopgraph.simulation

    (tmp_path / "new_method.py").write_text('ROLES = {"node": None}')
    monkeypatch.setattr(hopgraph.simulation, "__path__", [*hopgraph.simulation.__path__, str(tmp_path)])
    assert roles("new_method") == {"node": None}
    # No method: a file that methods share, and what is not in this package.
    assert roles("kit") == roles("no_such_method") == roles("..cli.eval") == {}


def test_playing_leaves_the_environment_alone(home, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", "http://127.0.0.1:9/v1")
    get_settings.cache_clear()
    before = dict(os.environ)
    question = Question("q", BRIDGE["question"], ("Fargo",), decomposition=(SubQuestion("Who?", "Fargo"),))
    with playing(Simulation(), [question], None) as endpoint:
        assert dict(os.environ) == before
        assert get_settings().server("generator").url == endpoint.url
    assert get_settings().server("generator").url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("role", get_args(Role))
def test_playing_asks_no_server_of_the_environment(home, monkeypatch, role):
    for name in ("URL", "MODEL"):
        monkeypatch.setenv(f"HOPGRAPH_{role.upper()}_{name}", "http://127.0.0.1:9/v1")
    get_settings.cache_clear()
    question = Question("q", BRIDGE["question"], ("Fargo",), decomposition=(SubQuestion("Who?", "Fargo"),))
    with playing(Simulation(), [question], None) as endpoint:
        server = get_settings().server(role)
        assert (server.url, server.model) == (endpoint.url, None)


def test_every_node_that_asks_a_model_has_a_perfect_agent():
    from hopgraph.methods import READERS, context_class

    asking = {
        f"{method}/{node}"
        for method in {**METHODS, **READERS}
        for extra in (field.json_schema_extra for field in context_class(method).model_fields.values())
        if isinstance(extra, dict) and "prompt" in extra
        for node in extra["langgraph_nodes"]
    }
    # Nodes that ask under the name of another: `decomposer_again` is the decomposer, `setwise` the selector.
    unknown = {name for name in asking if name.partition("/")[2] not in roles(name.partition("/")[0])}
    assert unknown <= {"prunerag/decomposer_again", "prism/setwise"}


SAME = {
    "id": "same",
    "question": "Do Northern Lights and Red Harbour have the same director?",
    "answers": ["no"],
    "type": "comparison",
    "gold_titles": ["Northern Lights", "Red Harbour"],
    "decomposition": [
        {"question": "Northern Lights >> director", "answer": "John Hanson"},
        {"question": "Red Harbour >> director", "answer": "Vera Kim"},
    ],
}
BOTH = SAME | {
    "id": "both",
    "question": "Who directed Northern Lights, and who directed Red Harbour?",
    "answers": ["John Hanson; Vera Kim"],
    "type": "compound",
}


def test_hanrag_takes_comparisons_for_complex_and_several_answers_for_compound(simulate):
    rows = [{**row, "contexts": FILMS} for row in (SAME, BOTH)]
    _, found, _ = simulate(rows, "-m", "hanrag", "--contexts")
    routes = {key: line["trajectory"][0]["answer"] for (_, key), line in found.items()}
    assert routes == {"same": "complex", "both": "compound"}
    assert {key: line["answer"] for (_, key), line in found.items()} == {"same": "no", "both": "John Hanson; Vera Kim"}
