"""Named suites: what they set, and that gold reaches the oracle conditions and nothing else."""

from __future__ import annotations

import json

import pytest

from hopgraph.evaluation import plan, runner
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.oracle import Oracle, route_of
from hopgraph.evaluation.suites import SUITES
from hopgraph.methods import METHODS
from hopgraph.run import make_context
from inference.errors import InputError
from stores.build import build_index
from stores.index import open_index
from stores.passages import Passage
from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, results, row
from tests.reading import corpus, reader
from tests.scripted import Completion

FACTS = {"supporting_facts": [["X", 0], ["Ann Lee", 0]]}
TRUE = '{"relevant": true}'


def play(request):
    if request.node == "relevance_discriminator":
        return Completion(TRUE, tokens=[('{"relevant":', -1.0), (" true", -0.1), ("}", -0.1)])
    own = {"router": {"route": "single_step"}, "aggregator": {"answer": "Paris"}}
    own |= {"synthesizer": {"thought": "t", "answer": "Paris"}}
    own |= {"refiner": {"question": "Who directed X?"}, "single_step_reader": {"answer": "Rome"}}
    own |= {"setwise": LINES["selector"], "decomposer": {"thought": "", "subquestions": ["Who?", "Where?"]}}
    return {**LINES, **own}[request.node]


@pytest.fixture
def evaluate(hopgraph, tmp_path):
    """Runs `hopgraph eval` into one folder; gives exit code, the summary, and stderr."""

    def run(*words, out="run"):
        code, text, err = hopgraph("eval", *words, "--out", tmp_path / out, "--json")
        return code, json.loads(text) if text else None, err

    return run


@pytest.fixture
def given(monkeypatch):
    """What each run is given beside question and settings."""
    seen = []
    real = runner.ask

    async def ask(question, context, saver, **more):
        seen.append((context, more.get("gold"), more.get("gold_route")))
        return await real(question, context, saver, **more)

    monkeypatch.setattr(runner, "ask", ask)
    return seen


@pytest.mark.parametrize("name", SUITES)
def test_every_row_of_a_suite_is_a_variant_of_its_own(name):
    variants = plan.suite(name, {"index": "mine"})
    assert len(variants) > 1
    assert len({variant.name for variant in variants}) == len(variants)
    assert len({variant.context.model_dump_json() + variant.method for variant in variants}) == len(variants)
    assert all(variant.method in METHODS for variant in variants)
    assert all((variant.context.oracle != "") == variant.name.endswith(" (oracle)") for variant in variants)
    assert plan.restore({"variants": [{"name": v.name, "method": v.method, "values": v.values} for v in variants]}) == (
        variants
    )


@pytest.mark.parametrize("name", [name for name in SUITES if name != "baselines"])
def test_a_suite_has_a_row_with_the_method_as_it_is(name):
    whole = make_context(SUITES[name].method, {"index": "mine"})
    assert whole in [variant.context for variant in plan.suite(name, {"index": "mine"})]


def test_settings_hold_for_all_rows_but_not_those_that_the_suite_sets():
    variants = plan.suite("parrag-gamma", {"top_k": 3, "preset": "paper"})
    assert {variant.context.top_k for variant in variants} == {3}
    assert [variant.values["gamma"] for variant in variants] == [0.1, 0.5, 1.0, 1.5, 2.0, 2.5]
    with pytest.raises(InputError, match="--suite: parrag-gamma sets `gamma` itself"):
        plan.suite("parrag-gamma", {"gamma": 2.0})


def test_the_other_reader_s_base_is_that_of_another_index():
    variants = plan.suite("compactrag-reader", {"index": "mine"})
    assert [variant.context.index for variant in variants] == ["mine", "mine-other-reader"]
    with pytest.raises(InputError, match="index: compactrag-reader needs one"):
        plan.suite("compactrag-reader", {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--suite", "nosuch"), "--suite: unknown suite 'nosuch'"),
        (("--suite", "prism-conditions", "-m", "prism"), "--suite: can't be combined with"),
        (("--suite", "prism-conditions", "--ablations", "prism"), "--suite: can't be combined with"),
        (("--suite", "prism-conditions", "--set", "condition=oner"), "prism-conditions sets `condition` itself"),
        (("--suite", "prism-conditions", "--set", "gamma=1"), "gamma: unknown setting"),
        (("--resume", "nowhere", "--suite", "baselines"), "--resume: can't be combined with --suite"),
    ],
)
def test_wrong_input_is_a_clear_error_before_anything_is_spent(hopgraph, model, questions, tmp_path, words, message):
    server = model(play)
    more = () if "--resume" in words else ("-q", questions([row(1)]), "--contexts", "--out", tmp_path / "run")
    code, out, err = hopgraph("eval", *words, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert "nosuch" not in words or all(name in err.replace("\n", " ") for name in SUITES)
    assert server.requests == []
    assert not (tmp_path / "run").exists()


def test_help_names_the_suites(hopgraph, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = hopgraph("eval", "--help")
    squeezed = "".join(out.replace("│", "").split())
    assert all(name in squeezed for name in SUITES)


def test_the_oracle_is_shown_gold_and_no_other_condition_is(evaluate, model, questions, tmp_path, given):
    server = model(play)
    asked = questions([row(1, **FACTS), row(2)])
    code, summary, _ = evaluate("--suite", "prism-conditions", "-q", asked, "--contexts")
    assert code == 0
    names = [variant["variant"] for variant in summary["variants"]]
    assert names == [
        "prism", "prism whole passages", "prism full context", "prism gold context (oracle)", "prism OneR",
        "prism set-wise",
    ]  # fmt: skip
    shown = [(context.condition, gold) for context, gold, _ in given if gold is not None]
    assert [condition for condition, _ in shown] == ["oracle_context"] * 2
    found = results(tmp_path / "run")
    line = found["prism gold context (oracle)", "q1"]
    assert line["metrics"]["fact_f1"] == line["metrics"]["passage_f1"] == 1.0
    assert line["cost"]["searches"] == 0
    prompt = next(request.prompt for request in server.requests if request.id.startswith(line["thread"]))
    assert "X is a film by Ann Lee." in prompt
    assert "Ann Lee was born in Paris." in prompt
    assert "Bananas" not in prompt
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["suite"] == "prism-conditions"
    assert {variant["name"]: variant.get("oracle") for variant in about["variants"]} == {
        name: "evidence" if "oracle" in name else None for name in names
    }


def test_a_run_with_an_oracle_goes_on_and_its_tables_say_what_it_is(evaluate, hopgraph, model, questions, tmp_path):
    model(play)
    assert evaluate("--suite", "prism-conditions", "-q", questions([row(1)]), "--contexts")[0] == 0
    path = tmp_path / "run" / "results.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "oracle" not in line) + "\n")
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run")
    assert code == 0
    assert "prism gold context (oracle): was given gold; it is an upper bound, not a method" in " ".join(out.split())
    assert len(results(tmp_path / "run")) == len(lines)
    page = tmp_path / "report.html"
    code, _, _ = hopgraph("report", tmp_path / "run", "--out", page)
    assert code == 0
    assert "was given gold evidence or routes" in page.read_text()


def test_the_same_condition_set_by_hand_is_shown_gold_and_named_an_oracle_too(evaluate, model, questions):
    model(play)
    code, summary, _ = evaluate(
        "-m", "prism", "--set", "condition=oracle_context", "-q", questions([row(1)]), "--contexts"
    )
    assert code == 0
    assert [variant["variant"] for variant in summary["variants"]] == ["prism (oracle)"]


def test_a_question_without_gold_is_refused_before_anything_is_spent(evaluate, model, questions):
    server = model(play)
    code, _, err = evaluate("--suite", "prism-conditions", "-q", questions([row(1, gold_titles=[])]), "--contexts")
    assert code == 2
    assert "question q1: the oracle condition has no gold evidence" in err
    code, _, err = evaluate("--suite", "hanrag-router", "-q", questions([row(1, hops=None)]), "--contexts")
    assert (code, "question q1: its gold route is unknown" in err) == (2, True)
    assert server.requests == []


def test_a_question_that_has_no_answer_has_no_gold_evidence_either(evaluate, model, questions, tmp_path):
    model(lambda request: {"answer": "Not Answerable"})
    rows = [row(1, gold_titles=[], answers=[], answerable=False)]
    words = ("-m", "prism", "--set", "condition=oracle_context", "-q", questions(rows), "--contexts")
    assert evaluate(*words)[0] == 0
    line = results(tmp_path / "run")["prism (oracle)", "q1"]
    assert (line["status"], line["evidence"], line["metrics"]["em"]) == ("unanswerable", [], 1.0)


def test_the_oracle_router_is_shown_the_route_and_nobody_else(evaluate, model, questions, tmp_path, given):
    model(play)
    rows = [row(1, hops=1), row(2, hops=3), row(3, entities=["Paris", "Rome"])]
    code, summary, _ = evaluate("--suite", "hanrag-router", "-q", questions(rows), "--contexts", "--set", "max_steps=1")
    assert code == 0
    assert [variant["variant"] for variant in summary["variants"]] == [
        "adaptive_rag", "hanrag", "hanrag encoder", "hanrag gold route (oracle)",
    ]  # fmt: skip
    shown = [(context.method, context.router, route) for context, _, route in given if route is not None]
    assert sorted(shown) == [
        ("hanrag", "oracle", "complex"), ("hanrag", "oracle", "compound"), ("hanrag", "oracle", "single_step"),
    ]  # fmt: skip
    found = results(tmp_path / "run")
    routes = [found["hanrag gold route (oracle)", f"q{n}"]["trajectory"][0]["answer"] for n in (1, 2, 3)]
    assert routes == ["single_step (given)", "complex (given)", "compound (given)"]


def test_the_oracle_classifier_is_shown_the_class(evaluate, model, questions, tmp_path):
    model(lambda request: {"sentence": "So the answer is: Paris."} if request.node == "reasoner" else
          {"thought": "", "answer": "Paris"})  # fmt: skip
    rows = [row(1, hops=1), row(2, hops=3), row(3, type="straightforward")]
    words = ("-m", "adaptive_rag", "--set", "router=oracle", "-q", questions(rows), "--contexts")
    assert evaluate(*words)[0] == 0
    found = results(tmp_path / "run")
    routes = [found["adaptive_rag (oracle)", f"q{n}"]["trajectory"][0]["answer"] for n in (1, 2, 3)]
    assert routes == ["single_step (given)", "multi_step (given)", "no_retrieval (given)"]


def question(**fields):
    return Question("q", "Where?", answers=("Paris",), **fields)


def test_gold_evidence_is_found_in_an_index_by_id_by_title_and_in_pieces(home):
    long = "Ann Lee was born in Paris. " + "She liked to walk along the river in the evening. " * 60
    long += "The last one is gold."
    build_index(
        "small",
        [
            Passage("film", "X", "X is a film. It is by Ann Lee."),
            Passage("lee", "Ann Lee", long),
            Passage("noise", "Noise", "Bananas are yellow."),
        ],
    )
    context = make_context("prism", {"condition": "oracle_context", "index": "small"})

    def shown(asked, gold):
        return Oracle([context], [asked], index="small", gold=gold).shown(context, asked)["gold"]

    facts = (("X", 1), ("Ann Lee", 61))
    by_id = shown(question(gold_ids=("film", "lee"), gold_titles=("X", "Ann Lee"), gold_sentences=facts), "ids")
    [film, (lee, at)] = by_id
    assert film == ("film", 1)
    assert open_index("small").get([lee])[0].sentences[at] == "The last one is gold."
    assert lee.startswith("lee#")
    assert shown(question(gold_titles=("x", "ANN LEE"), gold_sentences=facts), "titles") == by_id
    assert shown(question(gold_ids=("film",)), "ids") == ["film"]
    whole = shown(question(gold_ids=("lee",)), "ids")
    assert len(whole) > 1
    assert all(key.startswith("lee#") for key in whole)
    assert shown(question(gold_ids=("film",), gold_titles=("X",), gold_sentences=(("X", 7),)), "ids") == ["film"], (
        "sentences that are not as the benchmark has them"
    )
    other = make_context("prism", {"index": "small"})
    assert Oracle([other], [], index="small", gold="ids").shown(other, question(gold_ids=("film",))) == {}


def test_gold_evidence_is_found_among_the_passages_that_a_question_brings(home):
    context = make_context("prism", {"condition": "oracle_context"})
    asked = question(gold_titles=("Ann Lee",), contexts=tuple(CONTEXTS))
    [key] = Oracle([context], [asked], index=None, gold="titles").shown(context, asked)["gold"]
    assert key.startswith("given-")


@pytest.mark.parametrize(
    ("fields", "route"),
    [
        ({"hops": 1}, "single_step"),
        ({"hops": 4}, "complex"),
        ({"hops": 0, "answerable": False}, "complex"),
        ({"hops": 2, "entities": (("a",), ("b",))}, "compound"),
        ({"type": "straightforward"}, "straightforward"),
        ({"type": "compound", "hops": 2}, "compound"),
    ],
)
def test_a_question_s_route_follows_from_what_the_benchmark_says_of_it(fields, route):
    assert route_of(question(**fields)) == route


async def test_an_oracle_without_its_gold_says_so(model):
    from hopgraph import load

    model(play)
    for method in ("hanrag", "adaptive_rag"):
        with pytest.raises(InputError, match="gold_route: the oracle router needs it"):
            await load(method).ainvoke({"question": "Where?", "contexts": CONTEXTS}, context={"router": "oracle"})


def test_two_readers_are_compared(evaluate, hopgraph, model, questions, tmp_path):
    def script(request):
        if request.node == "pair_writer":
            return reader(request)
        if request.node == "decomposer":
            return {"subquestions": [{"question": "Where was Person 1 born?", "depends_on": []}]}
        return {"thought": "", "answer": "Rome"}

    model(script)
    for name in ("towns", "towns-other-reader"):
        corpus(4, name)
        assert hopgraph("read", "--index", name)[0] == 0
    asked = questions([{"id": "q1", "question": "Where was Person 1 born?", "answers": ["Rome"]}])
    code, summary, err = evaluate("--suite", "compactrag-reader", "-q", asked, "--index", "towns")
    assert code == 0, err
    assert [variant["variant"] for variant in summary["variants"]] == ["compactrag", "compactrag other reader"]
    about = json.loads((tmp_path / "run" / "run.json").read_text())["identity"]
    assert about["index"]["name"] == "towns"
    assert [index["name"] for index in about["other_indexes"]] == ["towns-other-reader"]
    assert about["knowledge_base"]["id"] != about["other_knowledge_bases"][0]["id"]
