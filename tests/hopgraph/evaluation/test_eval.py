"""`hopgraph eval`: what it measures, what it refuses, and that nothing of a run is ever lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopgraph.evaluation import runner
from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.plan import prompt_hashes
from hopgraph.run import make_context
from inference import embedded
from inference.endpoint import Endpoint
from inference.errors import InputError, StoreError
from inference.settings import get_settings
from nodes.kit.search import search_threads
from prompts.loader import FOLDER
from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, NODES, comparable, results, row
from tests.scripted import Completion, Raw
from tests.stores.conftest import encoder  # noqa: F401


def play(request):
    return LINES[request.node]


@pytest.fixture
def evaluate(hopgraph, tmp_path):
    """Runs `hopgraph eval` into one folder; gives exit code, the summary, and stderr."""

    def run(*words, out="run"):
        code, text, err = hopgraph("eval", *words, "--out", tmp_path / out, "--json")
        return code, json.loads(text) if text else None, err

    return run


def test_a_run_is_measured(evaluate, model, questions, tmp_path):
    model(play)
    code, summary, _ = evaluate("-m", "prism", "-q", questions([row(n) for n in range(1, 5)]), "--contexts")
    assert code == 0
    (variant,) = summary["variants"]
    assert (variant["n"], variant["failed"], variant["method"]) == (4, 0, "prism")
    assert variant["metrics"]["em"]["mean"] == 0.5
    assert variant["metrics"]["retrieved_recall"]["mean"] == 1.0
    assert variant["metrics"]["passage_precision"]["mean"] == 1.0
    assert variant["costs"]["calls"]["mean"] == len(NODES)
    assert variant["efr"] == variant["efr_all"] == 0.5
    assert variant["types"]["comparison"]["n"] == 1
    line = results(tmp_path / "run")["prism", "q1"]
    assert line["answers"] == ["Paris"]
    assert line["metrics"]["em"] == 1.0
    assert line["status"] == "answered"
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["identity"]["variants"]["prism"]["prompts"]["prism/selector"]
    assert about["versions"]["langgraph"]


def test_what_concludes_is_asked_of_the_embedded_server_that_has_its_adapter(
    evaluate, model, questions, monkeypatch, tmp_path
):
    says = {
        "router": {"route": "complex"},
        "refiner": {"question": "Where was Ann Lee born?"},
        "relevance_discriminator": {"relevant": True},
        "generator": {"answer": "Paris"},
        "ending_discriminator": {"sufficient": True},
        "synthesizer": {"thought": "Ann Lee was born in Paris.", "answer": "Paris"},
    }
    others, synthesizer = model(lambda request: says[request.node]), model(lambda request: says[request.node])
    monkeypatch.delenv("HOPGRAPH_LLM_URL")
    for name in ("lora", "synthesizer_lora"):
        (tmp_path / f"{name}.gguf").write_text("GGUF adapter")
        monkeypatch.setenv(f"HOPGRAPH_EMBEDDED_{name.upper()}", str(tmp_path / f"{name}.gguf"))
    get_settings.cache_clear()

    def ensure_server(model, role):
        return SimpleNamespace(url=(synthesizer if role == "synthesizer" else others).url)

    monkeypatch.setattr(embedded, "ensure_server", ensure_server)
    asked = ("-q", questions([row(1)]), "--contexts")
    assert evaluate("-m", "hanrag", *asked, "--set", "revelator=model")[0] == 0
    assert set(others.nodes()) == {*says} - {"synthesizer"}
    assert synthesizer.nodes() == ["synthesizer"]
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["identity"]["models"] == {"llm": "scripted", "synthesizer": "scripted"}
    others.script = lambda request: {"answer": "Paris"}
    assert evaluate("-m", "standard_rag", *asked, out="other")[0] == 0
    about = json.loads((tmp_path / "other" / "run.json").read_text())
    assert about["identity"]["models"] == {"llm": "scripted"}, "it concludes from no earlier answers"


def test_people_see_a_table(hopgraph, model, questions, tmp_path):
    model(play)
    code, out, err = hopgraph(
        "eval", "-m", "prism,no_retrieval", "-q", questions([row(1), row(2)]), "--contexts", "--out", tmp_path / "run",
        "--price", "1,2",
    )  # fmt: skip
    assert code == 0
    for shown in ("prism", "no_retrieval", "50.0", "EM", "F1", "recall", "no_retrieval against prism", "may be chance"):
        assert shown in out
    assert "4 to do, 0 done" in err


def test_the_calls_in_flight_are_said(evaluate, model, questions, monkeypatch):
    model(play)
    asked = questions([row(1), row(2)])
    for given, said in (
        ("auto", r"endpoint: [1-9]\d* calls in flight \(auto\)"),
        ("3", r"endpoint: 3 calls in flight \(HO"),
    ):
        monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", given)
        get_settings.cache_clear()
        _, _, err = evaluate("-m", "no_retrieval", "-q", asked, out=given)
        assert len(re.findall(said, err)) == 1


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_off_a_terminal_progress_is_plain_lines(hopgraph, model, questions, tmp_path, monkeypatch, as_json):
    monkeypatch.setattr("hopgraph.cli.progress.EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    model(play)
    words = ("-m", "prism", "-q", questions([row(1), row(2)]), "--contexts", "--out", tmp_path / "run", *as_json)
    code, _, err = hopgraph("eval", *words)
    assert code == 0
    first, last = [line for line in err.splitlines() if line.startswith("Evaluating: ")][-2:]
    assert re.fullmatch(r"Evaluating: 1 of 2, [\d.,]+/(s|min), \d+ s left, EM prism (100|0)\.0, [\d,]+ tokens", first)
    assert re.fullmatch(r"Evaluating: 2 of 2, [\d.,]+/(s|min), 0 s left, EM prism 50\.0, [\d,]+ tokens", last)


def test_at_a_terminal_progress_is_a_bar(hopgraph, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    model(play)
    words = ("-m", "prism", "-q", questions([row(1), row(2)]), "--contexts", "--out", tmp_path / "run")
    *_, err = hopgraph("eval", *words)
    last = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", err[err.rindex("Evaluating") :])
    assert "2/2" in last
    assert "EM prism 50.0, " in last
    assert "Evaluating:" not in err


def test_repairs_are_shown_apart_from_the_calls_that_include_them(hopgraph, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    replies = iter(["garbage"])
    model(lambda request: next(replies, {"answer": "Paris"}))
    for name, shown in (("repaired", True), ("clean", False)):
        out = tmp_path / name
        _, text, _ = hopgraph("eval", "-m", "no_retrieval", "-q", questions([row(1)]), "--out", out)
        head, costs = text[text.index("cost per question") :].splitlines()[1:3]
        assert ("of these repairs" in head) == shown
        assert costs.split()[1:4:2] == (["2.0", "1.0"] if shown else ["1.0", "0.0"])  # calls, then repairs or searches
        assert hopgraph("report", out)[0] == 0
        assert ("of these repairs</th>" in (out / "report.html").read_text()) == shown


def test_several_methods_are_compared_question_by_question(evaluate, model, questions):
    model(
        lambda r: {"answer": "Rome"} if r.body["response_format"]["json_schema"]["name"].startswith("no_") else play(r)
    )
    _, summary, _ = evaluate("-m", "prism,no_retrieval", "-q", questions([row(n) for n in (1, 3, 5)]), "--contexts")
    assert [variant["variant"] for variant in summary["variants"]] == ["prism", "no_retrieval"]
    (pair,) = summary["comparisons"]
    assert pair["metrics"]["em"]["difference"] == -1.0
    assert "retrieved_recall" not in summary["variants"][1]["metrics"]


def test_failures_stay_in_the_denominator_with_their_cause(evaluate, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    down = [True]

    def script(request):
        if "number 1?" in request.prompt and down[0]:
            return Raw(500, "{}")
        if "number 3?" in request.prompt and request.node == "generator":
            return "garbage"
        return play(request)

    server = model(script)
    words = ("-m", "prism", "-q", questions([row(n) for n in (1, 3, 5, 7)]), "--contexts")
    code, summary, err = evaluate(*words)
    (variant,) = summary["variants"]
    assert code == 3
    assert variant["failed"] == 2
    assert variant["failures"] == {"endpoint": 1, "model_output": 1}
    assert variant["metrics"]["em"] == {**variant["metrics"]["em"], "mean": 0.5, "n": 4}
    assert "--resume" in err
    line = results(tmp_path / "run")["prism", "q1"]
    assert line["error"]["kind"] == "endpoint"
    assert "500" in line["error"]["message"]
    down[0] = False
    before = len(server.requests)
    code, summary, _ = evaluate(*words)
    assert code == 0
    assert summary["variants"][0]["failures"] == {"model_output": 1}
    assert summary["variants"][0]["metrics"]["em"]["mean"] == 0.75
    assert {"number 1?" in r.prompt for r in server.requests[before:]} == {True}


def test_a_mistake_of_ours_costs_one_question_and_not_the_run(evaluate, model, questions, tmp_path, monkeypatch):
    from hopgraph.evaluation import runner

    real = runner.ask

    async def ask(question, *args, **more):
        if "number 2?" in question:
            raise KeyError("oops")
        return await real(question, *args, **more)

    monkeypatch.setattr(runner, "ask", ask)
    model(play)
    code, summary, _ = evaluate("-m", "prism", "-q", questions([row(n) for n in (1, 2, 3)]), "--contexts")
    assert code == 3
    assert summary["variants"][0]["failures"] == {"internal": 1}
    assert summary["variants"][0]["n"] == 3
    assert "KeyError" in results(tmp_path / "run")["prism", "q2"]["error"]["message"]


def test_an_endpoint_that_is_gone_stops_the_run_instead_of_failing_every_question(
    hopgraph, model, questions, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
    monkeypatch.setattr(runner, "PATIENCE", 4)
    server = model(lambda request: Raw(503, "{}"))
    asked = questions([row(n) for n in range(30)])
    code, _, err = hopgraph("eval", "-m", "no_retrieval", "-q", asked, "--out", tmp_path / "run")
    assert code == 3
    assert "4 questions in a row failed" in err
    assert len(server.requests) < 12
    server.script = lambda request: {"answer": "Paris"}
    code, out, err = hopgraph("eval", "--resume", tmp_path / "run", "--json")
    assert code == 0, err
    assert json.loads(out)["variants"][0]["n"] == 30


def test_a_question_whose_deadline_passed_goes_on_where_it_stopped(evaluate, hopgraph, model, questions, tmp_path):
    server = model(lambda request: Completion(json.dumps(play(request)), delay=9.0 * (request.node == "selector")))
    options = ("--contexts", "--set", "run_timeout=2")
    code, summary, err = evaluate("-m", "prism", "-q", questions([row(1)]), *options)
    assert (code, summary["variants"][0]["failures"]) == (3, {"deadline": 1})
    assert "--resume" in err
    server.script = play
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run", "--json")
    assert (code, json.loads(out)["variants"][0]["failed"]) == (0, 0)
    assert server.nodes().count("analyzer") == 1


def test_what_is_finished_is_not_asked_again(evaluate, hopgraph, model, questions, tmp_path):
    server = model(play)
    words = ("-m", "prism", "-q", questions([row(n) for n in range(3)]), "--contexts")
    first = evaluate(*words)
    count = len(server.requests)
    assert evaluate(*words)[:2] == first[:2]
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run", "--json")
    assert (code, json.loads(out)) == (0, first[1])
    assert len(server.requests) == count


def test_a_torn_last_line_is_made_whole_from_the_checkpoints(evaluate, model, questions, tmp_path):
    server = model(play)
    words = ("-m", "prism", "-q", questions([row(n) for n in range(3)]), "--contexts")
    evaluate(*words)
    path = tmp_path / "run" / "results.jsonl"
    whole = results(tmp_path / "run")
    path.write_bytes(path.read_bytes()[:-40])
    count = len(server.requests)
    evaluate(*words)
    assert results(tmp_path / "run") == whole
    assert len(server.requests) == count


def test_a_damaged_line_is_named(evaluate, hopgraph, model, questions, tmp_path):
    model(play)
    evaluate("-m", "prism", "-q", questions([row(1), row(2)]), "--contexts")
    path = tmp_path / "run" / "results.jsonl"
    path.write_text("garbage\n" + path.read_text())
    code, _, err = hopgraph("eval", "--resume", tmp_path / "run")
    assert code == 2
    assert "results.jsonl, line 1: malformed" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--set", "top_k=7"), "variants.prism.settings.top_k: 5, now 7"),
        (("--set", "prompt_answer=Short. {{evidence}} {{question}}"), "prompts.prism/answer"),
        (("--limit", "2"), "questions.count: 3, now 2"),
    ],
)
def test_another_setting_is_another_run(evaluate, model, questions, more, said):
    model(play)
    words = ("-m", "prism", "-q", questions([row(n) for n in range(3)]), "--contexts")
    evaluate(*words)
    code, _, err = evaluate(*words, *more)
    assert code == 2
    assert said in err


def test_a_malformed_prompt_of_a_setting_is_named_by_its_field():
    context = make_context("adaptive_rag", {"prompt_multi_step": "Answer {{nonsense}}"})
    with pytest.raises(InputError, match="prompt_multi_step:1: unknown variable"):
        prompt_hashes(context)


def test_an_edited_prompt_is_another_run_and_put_back_it_is_the_same(
    evaluate, hopgraph, model, questions, tmp_path, monkeypatch
):
    overlay = tmp_path / "overlay" / "no_retrieval"
    overlay.mkdir(parents=True)
    prompt = overlay / "answer.md"
    prompt.write_text("First. {{question}}")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path / "overlay"))
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    edited = []

    def script(request):
        if "number 1?" in request.prompt and not edited:
            edited.append(prompt.write_text("Second. {{question}}"))
        return {"answer": "Paris"}

    server = model(script)
    code, _, err = evaluate("-m", "no_retrieval", "-q", questions([row(n) for n in range(4)]))
    assert code == 2
    assert "prompt no_retrieval/answer has changed since the run started" in err
    code, _, err = hopgraph("eval", "--resume", tmp_path / "run")
    assert (code, "prompts.no_retrieval/answer" in err) == (2, True)
    prompt.write_text("First. {{question}}")
    assert hopgraph("eval", "--resume", tmp_path / "run")[0] == 0
    kept = results(tmp_path / "run")
    assert len(kept) == 4
    assert {line["prompts"]["no_retrieval/answer"] for line in kept.values()} == {kept["no_retrieval", "q0"]["prompts"]["no_retrieval/answer"]}  # fmt: skip  # noqa: E501
    assert any("Second." in request.prompt for request in server.requests)


def test_two_sets_of_prompts_are_compared(evaluate, model, questions, tmp_path):
    for name in ("terse", "wordy"):
        (tmp_path / name / "no_retrieval").mkdir(parents=True)
        (tmp_path / name / "no_retrieval" / "answer.md").write_text(f"Be {name}. {{{{question}}}}")
    model(lambda request: {"answer": "Paris" if "terse" in request.prompt else "the city of Paris"})
    code, summary, _ = evaluate(
        "-m", "no_retrieval", "-q", questions([row(n) for n in range(1, 12, 2)]),
        "--overlay", tmp_path / "wordy", "--overlay", tmp_path / "terse",
    )  # fmt: skip
    assert code == 0
    assert [variant["variant"] for variant in summary["variants"]] == ["no_retrieval wordy", "no_retrieval terse"]
    found = summary["comparisons"][0]["metrics"]["em"]
    assert found["difference"] == 1.0
    assert found["p"] < 0.05


def test_one_set_of_prompts_is_compared_with_the_built_in_one(evaluate, model, questions, tmp_path):
    server = model(lambda request: {"answer": "Paris" if "Be terse" in request.prompt else "the city of Paris"})
    words = ("-m", "no_retrieval", "-q", questions([row(1)]), "--overlay", tmp_path / "terse")
    path = tmp_path / "terse" / "no_retrieval" / "answer.md"
    path.parent.mkdir(parents=True)
    path.write_text((FOLDER / "no_retrieval" / "answer.md").read_text())
    code, _, err = evaluate(*words)
    assert (code, server.requests) == (2, [])
    assert "are the same as no_retrieval's without it" in err
    path.write_text("Be terse. {{question}}")
    code, summary, _ = evaluate(*words)
    assert code == 0
    assert [variant["variant"] for variant in summary["variants"]] == ["no_retrieval", "no_retrieval terse"]
    assert summary["comparisons"][0]["metrics"]["em"]["difference"] == 1.0


def test_ablations_are_run_beside_the_method(evaluate, model, questions, tmp_path):
    server = model(play)
    code, summary, _ = evaluate("--ablations", "prism", "-q", questions([row(1)]), "--contexts")
    assert code == 0
    assert [variant["variant"] for variant in summary["variants"]] == ["prism", "prism -analyzer", "prism -loop"]
    found = results(tmp_path / "run")
    assert found["prism -loop", "q1"]["cost"]["calls"] < found["prism", "q1"]["cost"]["calls"]
    assert len({line["thread"] for line in found.values()}) == 3
    assert len({request.id for request in server.requests}) == len(server.requests)


def test_the_baselines_are_measured_side_by_side(evaluate, model, questions, tmp_path):
    lines = {
        "generator": {"thought": "", "answer": "Paris"},
        "drafter": {"thought": "By Ann Lee.", "answer": "Paris"},
        "reasoner": {"sentence": "So the answer is: Paris."},
        "router": {"route": "multi_step"},
        "multi_step_reader": {"thought": "", "answer": "Paris"},
    }

    def script(request):
        if request.node == "asker":
            known = "Answer: Ann Lee" in request.prompt
            return {"type": "final", "answer": "Paris"} if known else {"type": "follow_up", "question": "Who made X?"}
        if request.node == "agent":
            found = "Observation 1" in request.prompt
            return {"thought": "", "action": "finish" if found else "search", "argument": "Paris" if found else "X"}
        return {"answer": "Ann Lee"} if "Who made X?" in request.prompt else lines[request.node]

    model(script)
    methods = "self_ask,ircot,iter_retgen,react,adaptive_rag,standard_rag,no_retrieval"
    code, summary, _ = evaluate("-m", methods, "-q", questions([row(1), row(3)]), "--contexts")
    assert code == 0
    rows = {variant["variant"]: variant for variant in summary["variants"]}
    assert list(rows) == methods.split(",")
    assert {variant["metrics"]["em"]["mean"] for variant in rows.values()} == {1.0}
    steps = {name: variant["costs"]["steps"]["mean"] for name, variant in rows.items()}
    assert steps == {
        "self_ask": 1, "ircot": 1, "iter_retgen": 4, "react": 1, "adaptive_rag": 1, "standard_rag": 0,
        "no_retrieval": 0,
    }  # fmt: skip
    searching = list(rows)[:5]
    assert all(rows[name]["metrics"]["retrieved_recall"]["mean"] == 1.0 for name in searching)
    assert set(results(tmp_path / "run")["self_ask", "q1"]["prompts"]) == {"self_ask/asker", "self_ask/intermediate"}


def test_a_sample_is_reproducible_and_in_the_order_of_the_file(evaluate, model, questions, tmp_path):
    model(lambda request: {"answer": "Paris"})
    asked = questions([row(n) for n in range(50)])
    for out in ("one", "two"):
        evaluate("-m", "no_retrieval", "-q", asked, "--limit", "5", "--seed", "7", out=out)
    evaluate("-m", "no_retrieval", "-q", asked, "--limit", "5", "--seed", "8", out="three")
    one, two, three = ((tmp_path / out / "questions.jsonl").read_text() for out in ("one", "two", "three"))
    assert one == two != three
    ids = [int(json.loads(line)["id"][1:]) for line in one.splitlines()]
    assert len(ids) == 5
    assert ids == sorted(ids) != list(range(5))


def test_gold_passages_are_known_by_id_and_a_cut_article_by_its_own(evaluate, model, questions, home, tmp_path):
    from stores.build import build_index
    from stores.passages import Passage

    long = "Ann Lee was born in Paris. " + "She liked to walk along the river in the evening. " * 60
    build_index("small", [Passage("film", "X", "X is a film by Ann Lee."), Passage("lee", "Ann Lee", long)])
    model(lambda request: {"answer": "Paris"})
    asked = questions([row(1, gold_ids=["film", "lee"], gold_titles=["Other", "Titles"])])
    _, summary, _ = evaluate("-m", "standard_rag", "-q", asked, "--index", "small")
    line = results(tmp_path / "run")["standard_rag", "q1"]
    assert any(key.startswith("lee#") for key in line["retrieved"])
    assert line["metrics"]["retrieved_recall"] == 1.0
    assert line["metrics"]["passage_precision"] == 1.0
    asked = questions([row(1, gold_ids=["elsewhere"])], "titles.jsonl")
    _, summary, err = evaluate("-m", "standard_rag", "-q", asked, "--index", "small", out="titles")
    assert "matched by title" in err
    assert "not in index small" not in err
    assert summary["variants"][0]["metrics"]["retrieved_recall"]["mean"] == 1.0


def test_gold_that_no_search_can_find_is_said(evaluate, model, questions, home):
    from stores.build import build_index
    from stores.passages import Passage

    build_index("small", [Passage("film", "X", "X is a film."), Passage("lee", "Film: Ann Lee", "Ann Lee was born.")])
    model(lambda request: {"answer": "Paris"})
    *_, err = evaluate("-m", "standard_rag", "-q", questions([row(1), row(2)]), "--index", "small")
    assert "gold passages missing from index small: 1, such as 'Ann Lee'" in err
    asked = questions([row(1, gold_ids=["film", "elsewhere"])], "ids.jsonl")
    *_, err = evaluate("-m", "standard_rag", "-q", asked, "--index", "small", out="ids")
    assert ": 1, such as 'elsewhere'; they count as not found" in err
    both = questions([row(1, gold_ids=["film"]), row(2, gold_titles=["Nowhere"])], "both.jsonl")
    *_, err = evaluate("-m", "standard_rag", "-q", both, "--index", "small", out="both")
    assert ": 1, such as 'Nowhere'; they count as not found" in err


def test_the_first_question_does_not_pay_for_opening_the_index(evaluate, model, questions, home, tmp_path, monkeypatch):
    from stores.build import build_index
    from stores.index import Index
    from stores.passages import Passage

    build_index("small", [Passage("film", "X", "X is a film by Ann Lee.")])
    server = model(lambda request: {"answer": "Paris"})
    searched, search = [], Index.search_many

    def noting(self, queries, *rest):
        searched.append((len(server.requests), *queries, *rest))
        return search(self, queries, *rest)

    monkeypatch.setattr(Index, "search_many", noting)
    words = ("-m", "no_retrieval,standard_rag", "-q", questions([row(1)]), "--index", "small")
    evaluate(*words, "--set", "retriever=sparse")
    assert searched[0] == (0, "anything", 1, "sparse", None)
    assert len(searched) == 2
    assert results(tmp_path / "run")["standard_rag", "q1"]["cost"]["searches"] == 1


def test_no_key_reaches_the_run_s_folder(evaluate, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", "sk-verysecret")
    monkeypatch.setenv("HOPGRAPH_LLM_EXTRA", '{"metadata": "alsosecret"}')
    model(play)
    assert evaluate("-m", "prism", "-q", questions([row(1)]), "--contexts")[0] == 0
    for path in (tmp_path / "run").iterdir():
        assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--method: is missing"),
        (("-m", "prism"), "--questions: is missing"),
        (("-m", "prsm", "-q", "{q}"), "unknown method 'prsm'"),
        (("-m", "prism,prism", "-q", "{q}"), "the same method twice"),
        (("-m", "prism", "-q", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("-m", "prism", "-q", "{q}", "--dataset", "squat"), "--dataset: unknown dataset 'squat'"),
        (("-m", "prism", "-q", "{q}"), "index is missing"),
        (("-m", "prism", "-q", "{q}", "-i", "nowhere"), "nowhere"),
        (("-m", "no_retrieval", "-q", "{bare}", "--contexts"), "question q1 has no passages of its own"),
        (("-m", "prism", "-q", "{q}", "--set", "topk=3"), "topk: unknown setting"),
        (("-m", "prism", "-q", "{q}", "--overlay", "nowhere"), "--overlay: no such folder: nowhere"),
        (("-m", "prism,parrag", "-q", "{q}", "--overlay", "."), "--overlay: compares prompts of one method"),
        (("-m", "prism", "-q", "{q}", "--overlay", "notebooks"), "has no prompt of prism"),
        (("-m", "prism", "-q", "{q}", "--overlay", "docs"), "no prompt named"),
        (("--ablations", "prism", "-m", "prism", "-q", "{q}"), "--ablations: can't be combined with"),
        (("--ablations", "no_retrieval", "-q", "{q}"), "--ablations: no_retrieval has none"),
        (("--ablations", "prism", "-q", "{q}", "--set", 'ablate=["loop"]'), "--ablations: sets `ablate` itself"),
        (("-m", "prism", "-q", "{q}", "--price", "cheap"), "--price 'cheap'"),
        (("--resume", "nowhere"), "nowhere: no evaluation run found"),
        (("--resume", "nowhere", "-m", "prism"), "--resume: can't be combined with --method"),
    ],
)
def test_wrong_input_is_a_clear_error_before_anything_is_spent(hopgraph, model, questions, tmp_path, words, message):
    server = model(play)
    files = {"q": questions([row(1)]), "bare": questions([row(1, contexts=None)], "bare.jsonl")}
    out = () if "--resume" in words else ("--out", tmp_path / "run")
    code, text, err = hopgraph("eval", *(word.format(**files) for word in words), *out)
    assert (code, text) == (2, "")
    assert message in err
    assert server.requests == []
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_things_in_it_is_left_alone(evaluate, model, questions, tmp_path):
    model(play)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("precious")
    code, _, err = evaluate("-m", "prism", "-q", questions([row(1)]), "--contexts")
    assert code == 2
    assert "is not a run's folder and contains thesis.tex" in err


def command(*words) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hopgraph", "eval", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        # A shell starts what is in the background with ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def kill_and_resume(model, questions, hopgraph, tmp_path, monkeypatch, moments, how=signal.SIGKILL):
    """Kill an evaluation at each of the moments (requests seen since it was started), go on, and compare."""
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    enough, stopped = 0, threading.Event()

    def script(request):
        if len(server.requests) >= enough:
            stopped.wait(60)  # nothing goes on until the process is stopped, however late that is
        return LINES[request.node]

    server = model(script)
    words = ("-m", "prism", "-q", questions([row(n) for n in range(8)]), "--contexts", "--out", tmp_path / "cut")
    in_flight: list[set[str]] = []
    for at, moment in enumerate(moments):
        enough, stopped = len(server.requests) + moment, threading.Event()
        process = command(*words) if at == 0 else command("--resume", tmp_path / "cut")
        while len(server.requests) < enough:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        process.send_signal(how)
        process.communicate(timeout=60)
        stopped.set()
        time.sleep(0.3)  # for the server to notice what was sent last
        # PRISM makes one call after the other, so no other call of a thread than its latest can be in flight.
        in_flight.append(set({request.id.partition(".")[0]: request.id for request in server.requests}.values()))
        if how is signal.SIGINT:
            assert process.returncode == 130
    enough = 10**6
    out, err = command("--resume", tmp_path / "cut", "--json").communicate(timeout=120)
    assert json.loads(out)["variants"][0]["n"] == 8, err
    for key, count in Counter(request.id for request in server.requests).items():
        assert count <= 1 + sum(key in latest for latest in in_flight), f"{key} was answered and made again"
    whole = tmp_path / "whole"
    server.script = play
    assert hopgraph("eval", *words[:-1], whole)[0] == 0
    found, expected = results(tmp_path / "cut"), results(whole)
    assert {key: comparable(line) for key, line in found.items()} == {
        key: comparable(line) for key, line in expected.items()
    }


def test_after_kill_9_only_calls_in_flight_are_repeated_and_the_results_are_the_same(
    model, questions, hopgraph, tmp_path, monkeypatch
):
    kill_and_resume(model, questions, hopgraph, tmp_path, monkeypatch, [4, 13])


@pytest.mark.slow
def test_kill_9_at_ten_random_moments_changes_nothing(model, questions, hopgraph, tmp_path, monkeypatch):
    moments = [random.Random(5).randint(1, 6) for _ in range(10)]
    kill_and_resume(model, questions, hopgraph, tmp_path, monkeypatch, moments)


def test_ctrl_c_loses_nothing(model, questions, hopgraph, tmp_path, monkeypatch):
    kill_and_resume(model, questions, hopgraph, tmp_path, monkeypatch, [9], signal.SIGINT)


@pytest.mark.usefixtures("encoder")
def test_a_run_goes_on_after_an_unchanged_file_was_added_to_its_index_again(
    model, questions, hopgraph, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    long = " ".join(f"Sentence {n} of the life of Ann Lee, who was born in Paris." for n in range(60))
    for name, rows in (("films", [CONTEXTS[0], CONTEXTS[2]]), ("people", [{"title": "Ann Lee", "text": long}])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    films, people = tmp_path / "films.jsonl", tmp_path / "people.jsonl"
    assert hopgraph("index", films, people, "--name", "small")[0] == 0
    asked = questions([{**row(n), "contexts": []} for n in range(4)])
    words = ("eval", "-m", "prism", "-q", asked, "--index", "small", "--set", "top_k=2", "--out")
    server = model(play)
    assert hopgraph(*words, tmp_path / "whole")[0] == 0
    calls = len(server.requests)

    def stopping(request):
        if len(server.requests) == calls + 14:
            os.kill(os.getpid(), signal.SIGINT)
            return Completion(json.dumps(play(request)), delay=1.0)
        return play(request)

    server.script = stopping
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert hopgraph(*words, tmp_path / "cut")[0] == 130
    signal.signal(signal.SIGINT, before)
    assert 0 < len(results(tmp_path / "cut")) < 4
    for again in (films, people):
        assert hopgraph("index", again, "--name", "small", "--add")[0] == 0
    assert hopgraph("eval", "--resume", tmp_path / "cut")[0] == 0
    assert len(server.requests) <= 2 * calls + 2  # those in flight alone were repeated
    found, expected = results(tmp_path / "cut"), results(tmp_path / "whole")
    assert len(found) == 4
    assert {key: comparable(line) for key, line in found.items()} == {
        key: comparable(line) for key, line in expected.items()
    }


def test_two_processes_do_not_write_to_one_run(model, questions, hopgraph, tmp_path):
    server = model(lambda request: Completion(json.dumps(LINES[request.node]), delay=0.5))
    words = ("-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", tmp_path / "run")
    process = command(*words)
    try:
        while not server.requests:
            time.sleep(0.01)
        code, _, err = hopgraph("eval", "--resume", Path(tmp_path / "run"))
        assert code == 2
        assert "in use by another `hopgraph eval`" in err
    finally:
        process.communicate(timeout=60)


def test_going_on_holds_the_run_while_the_endpoint_is_checked(model, questions, hopgraph, tmp_path, monkeypatch):
    model(play)
    words = ("-m", "prism", "-q", questions([row(1), row(2)]), "--contexts", "--out", tmp_path / "run")
    assert hopgraph("eval", *words)[0] == 0
    lines = (tmp_path / "run" / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "results.jsonl").write_text(lines[0])
    real, held = Endpoint.check, []

    async def checking(self):
        try:
            with RunFolder(tmp_path / "run").locked():
                held.append(False)
        except StoreError:
            held.append(True)
        return await real(self)

    monkeypatch.setattr(Endpoint, "check", checking)
    assert hopgraph("eval", "--resume", tmp_path / "run")[0] == 0
    assert held == [True]
    assert len(results(tmp_path / "run")) == 2


def test_what_was_begun_is_ended_before_more_is_begun(evaluate, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    server = model(lambda request: LINES[request.node])
    assert evaluate("-m", "prism", "-q", questions([row(n) for n in range(6)]), "--contexts")[0] == 0
    order = [request.id.partition(".")[0] for request in server.requests]
    spans = [(order.index(thread), len(order) - order[::-1].index(thread)) for thread in dict.fromkeys(order)]
    assert len(spans) == 6
    # Twice as many questions as calls: while one is answered, another may search.
    assert max(sum(first <= at < last for first, last in spans) for at in range(len(order))) <= 2
    assert server.most_in_flight == 1


def test_the_endpoint_does_not_wait_until_all_questions_have_begun(evaluate, model, questions, monkeypatch):
    begun, calling, together = set(), set(), []
    ask, complete = runner.ask, Endpoint.complete

    async def asking(*args, thread, **options):
        begun.add(thread)
        together.append(len(begun - calling))
        return await ask(*args, thread=thread, **options)

    async def completing(self, messages, *, request_id, **options):
        calling.add(request_id.partition(".")[0])
        return await complete(self, messages, request_id=request_id, **options)

    monkeypatch.setattr(runner, "ask", asking)
    monkeypatch.setattr(Endpoint, "complete", completing)
    model(play)
    code, *_ = evaluate("-m", "prism", "-q", questions([row(n) for n in range(1, 31)]), "--contexts")
    assert code == 0
    assert begun == calling
    assert len(begun) == 30
    assert max(together) <= search_threads() + 1


def test_a_judge_says_which_answers_are_right(evaluate, hopgraph, model, questions, tmp_path, monkeypatch):
    judged = []

    def script(request):
        if request.node != "correctness_judge":
            return {"answer": "Not Answerable" if "number 4?" in request.prompt else "the French capital"}
        judged.append(request.prompt)
        if "number 3?" in request.prompt:
            return "hm"
        return {"correct": "yes" if "Right answer: Paris / Paname" in request.prompt else "no"}

    server = model(script)
    rows = [row(n, answers=["Paris", "Paname"] if n != 2 else ["Rome"]) for n in range(5)]
    code, summary, _ = evaluate("-m", "no_retrieval", "-q", questions(rows), "--judge")
    assert code == 0
    found = summary["variants"][0]["metrics"]
    assert found["judged"]["mean"] == 2 / 5  # q0 and q1; q2 is wrong, q3 has no verdict, q4 no answer
    assert found["em"]["mean"] == 0
    assert "Answer given: the French capital" in judged[0]
    assert summary["variants"][0]["costs"]["calls"]["mean"] == 1.0  # the judge's calls are not the method's
    count = len(server.requests)
    path = tmp_path / "run" / "judgements.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    _, text, _ = hopgraph("eval", "--resume", tmp_path / "run", "--judge", "--json")
    assert json.loads(text)["variants"] == summary["variants"]
    assert len(server.requests) <= count + 2  # the torn one again, with its repair if it needs one
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path / "overlay"))
    (tmp_path / "overlay" / "judge").mkdir(parents=True)
    (tmp_path / "overlay" / "judge" / "correctness.md").write_text("{{question}} {{prediction}} {{answer}}")
    get_settings.cache_clear()
    code, _, err = hopgraph("eval", "--resume", tmp_path / "run", "--judge")
    assert (code, "by another judge" in err) == (2, True)


def test_an_answer_to_a_question_that_has_none_is_wrong_without_a_judge(evaluate, model, questions):
    answers = {"number 1?": "Paris", "number 2?": "Atlantis", "number 3?": "Not Answerable"}

    def script(request):
        if request.node == "correctness_judge":
            assert "Atlantis" not in request.prompt
            return {"correct": "yes"}
        return {"answer": next(said for number, said in answers.items() if number in request.prompt)}

    model(script)
    rows = [row(1), *(row(n, answers=[], answerable=False) for n in (2, 3))]
    _, summary, _ = evaluate("-m", "no_retrieval", "-q", questions(rows), "--judge")
    found = summary["variants"][0]["metrics"]
    assert found["em"]["mean"] == pytest.approx(2 / 3)
    assert (found["judged"]["mean"], found["judged"]["n"]) == (pytest.approx(2 / 3), 3)


def test_a_judge_who_is_not_through_has_no_mean_yet(hopgraph, model, questions, tmp_path):
    def script(request):
        if request.node == "correctness_judge":
            return {"correct": "yes"}
        return {"answer": "Not Answerable" if "number 4?" in request.prompt else "the French capital"}

    model(script)
    folder = tmp_path / "run"
    words = ("-m", "no_retrieval", "-q", questions([row(n) for n in (1, 2, 3, 4)]))
    code, out, err = hopgraph("eval", *words, "--out", folder, "--judge")
    assert (code, "judged" in out, "not judged yet" in out) == (0, True, False), err
    path = folder / "judgements.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    _, text, _ = hopgraph("eval", "--resume", folder, "--json")
    (variant,) = json.loads(text)["variants"]
    assert (variant["unjudged"], "judged" in variant["metrics"]) == (2, False)
    _, out, _ = hopgraph("eval", "--resume", folder)
    assert "no_retrieval: 2 answers not judged yet" in " ".join(out.split())
    assert hopgraph("report", folder)[0] == 0
    assert "2 not judged yet" in (folder / "report.html").read_text()
    _, text, _ = hopgraph("eval", "--resume", folder, "--judge", "--json")
    (variant,) = json.loads(text)["variants"]
    assert (variant["unjudged"], variant["metrics"]["judged"]["mean"]) == (0, 0.75)
