"""PruneRAG as a whole, played by a scripted model behind real HTTP."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from hopgraph import load
from inference.errors import EndpointError
from inference.ledger import cost_of
from nodes.prunerag.extractor import Entities
from prompts.parsing import COMMON
from tests.scripted import Completion, Request

QUESTION = "Who is older, the director of Alpha or the director of Beta?"
CONTEXTS = [
    {"title": "Alpha", "text": "Alpha is a film by Ann Lee."},
    {"title": "Beta", "text": "Beta is a film by Bob Ray."},
    {"title": "Ann Lee", "text": "Ann Lee was born in 1950."},
    {"title": "Bob Ray", "text": "Bob Ray was born in 1960."},
]


def answer(text: str, *logprobs: float):
    """An answer branch whose answer is spelled by as many tokens as there are log-probabilities."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    size = max(1, math.ceil(len(escaped) / max(1, len(logprobs))))
    pieces = [escaped[start : start + size] for start in range(0, len(escaped), size)]
    head, tail = '{"type": "answer", "answer": "', '"}'
    tokens = [(head, -9.0), *zip(pieces, logprobs, strict=False), (tail, -9.0)]
    return Completion(head + escaped + tail, tokens=tokens)


def split(*queries: str):
    return {"type": "query", "queries": list(queries)}


def abstract(*entities: str):
    return {"type": "entity", "entities": list(entities)}


def play(*, decomposer, **others):
    """A script: the decomposer's reply by (query, barred), other nodes' by name."""

    def script(request: Request):
        if request.node != "decomposer":
            reply = others[request.node]
            return reply(request) if callable(reply) else reply
        query = request.prompt.rpartition("<query>")[2].partition("</query>")[0]
        barred = '"type": "answer"' not in request.prompt
        return decomposer[(query, "barred")] if barred and (query, "barred") in decomposer else decomposer[query]

    return script


async def run(**context):
    return await load("prunerag").ainvoke({"question": QUESTION, "contexts": CONTEXTS}, context={"top_k": 2, **context})


def tree(state):
    return {node["id"]: node for node in state["tree"]}


def steps(state):
    return {step["id"]: step for step in state["trajectory"]}


async def test_an_answer_accepted_at_the_root_costs_one_search_and_one_call(model):
    server = model(play(decomposer={QUESTION: answer("Ann Lee", -0.01, -0.03)}))
    state = await run()
    assert server.nodes() == ["decomposer"]
    assert state["answer"] == "Ann Lee"
    assert state["status"] == "answered"
    assert cost_of(state["ledger"])["searches"] == 1
    root = tree(state)["root"]
    assert root["verdict"] == "accepted"
    assert root["confidence"] == pytest.approx(math.exp(-0.02), abs=1e-6)
    assert steps(state)["root"]["score"] == pytest.approx(math.exp(-0.02), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "logprobs", "expected"),
    [
        ("Ann", (-0.05,), math.exp(-0.05)),
        ("Ann Lee Ray!", (-0.01, -0.02, -0.3), math.exp(-0.11)),
        ('a "quoted" {x}', (-0.02, -0.04), math.exp(-0.03)),
        ("naïve 東京", (-0.1, -0.2), math.exp(-0.15)),
        ("answer", (-0.0, -0.4), math.exp(-0.2)),  # also a word of the JSON before it
    ],
)
async def test_confidence_is_the_mean_over_the_answer_s_tokens_alone(model, text, logprobs, expected):
    model(play(decomposer={QUESTION: answer(text, *logprobs)}))
    state = await run(threshold=0.0)
    assert state["answer"] == text
    assert tree(state)["root"]["confidence"] == pytest.approx(expected, abs=1e-6)


LEFT, RIGHT = "When was the director of Alpha born?", "When was the director of Beta born?"


async def test_a_rejected_answer_is_asked_again_with_answering_barred_and_then_splits(model):
    server = model(
        play(
            decomposer={
                QUESTION: answer("Bob", -2.0),
                (QUESTION, "barred"): split(LEFT, RIGHT),
                LEFT: answer("1950", -0.001),
                RIGHT: answer("1960", -0.001),
            },
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run()
    assert server.nodes() == ["decomposer", "decomposer", "decomposer", "decomposer", "aggregator"]
    again = server.requests[1]
    assert '"type": "answer"' not in again.prompt
    assert "answer" not in json.dumps(again.body["response_format"])
    assert state["answer"] == "Ann Lee"
    nodes = tree(state)
    assert nodes["root"]["verdict"] == "split"
    assert nodes["root"]["answer"] == "Bob"  # kept to be looked at, not used
    assert [nodes[f"root/{n}"]["result"] for n in (0, 1)] == ["1950", "1960"]
    assert steps(state)["root"]["verdict"].startswith("rejected: confidence 0.135 is below 0.95")
    assert steps(state)["root/again"]["answer"] == f"{LEFT}\n{RIGHT}"  # not the rejected answer once more
    last = server.requests[-1].prompt
    assert f"- {LEFT} 1950" in last
    assert "Bob\n" not in last
    cost = cost_of(state["ledger"])
    assert (cost["calls"], cost["searches"], cost["chain"]) == (5, 3, 4)  # the siblings ran side by side


async def test_a_node_that_is_asked_again_knows_what_was_rejected_and_nothing_of_answering(model):
    script = {QUESTION: answer("Bob", -2.0), (QUESTION, "barred"): split(LEFT, RIGHT)}
    script |= {LEFT: answer("1950", -0.001), RIGHT: answer("1960", -0.001)}
    server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "Ann Lee"}))
    await run()
    first, again = (request.prompt for request in server.requests[:2])
    assert "rejected" not in first
    assert "An answer is short" in first
    assert 'The answer "Bob" was rejected' in again
    assert "An answer is short" not in again
    assert "Who is the mother of John Hanson?" in again, "an example of a split by what the passages say"


async def test_a_node_sees_its_parent_s_query_and_the_root_that_it_is_the_question(model):
    script = {QUESTION: split(LEFT, RIGHT), LEFT: answer("1950", -0.001), RIGHT: answer("1960", -0.001)}
    server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "Ann Lee"}))
    await run()
    root, *below = [request.prompt for request in server.requests if request.node == "decomposer"]
    assert "(none: this is the question itself)" in root
    for prompt in below:
        assert "(none: this is the question itself)" not in prompt
        assert prompt.count(QUESTION) == root.count(QUESTION), "as the question, and as the parent"


async def test_only_an_answer_is_said_to_have_been_rejected(model):
    script = {QUESTION: answer("", -0.1), (QUESTION, "barred"): abstract("Ann Lee")}
    server = model(play(decomposer=script, summarizer={"summary": "s"}, aggregator={"thought": "t", "answer": "x"}))
    state = await run()
    assert "was rejected" not in server.requests[1].prompt
    again = steps(state)["root/again"]
    assert (again["searches"], again["score"], again["parent"]) == (0, None, "root")
    assert (again["kind"], again["verdict"], again["fallback"]) == ("decompose", "", "")
    assert [steps(state)["root"][key] for key in ("searches", "score", "parent")] == [1, 0.0, ""]


async def test_the_step_of_an_answer_is_told_from_that_of_a_split(model):
    script = {QUESTION: split(LEFT, RIGHT), LEFT: answer("1950", -0.001), RIGHT: answer("1960", -0.001)}
    model(play(decomposer=script, aggregator={"thought": "t", "answer": "Ann Lee"}))
    made = steps(await run())
    about = {
        key: (row["kind"], row["verdict"], row["fallback"]) for key, row in made.items() if row["node"] == "decomposer"
    }
    assert about == {
        "root": ("decompose", "", ""), "root/0": ("answer", "accepted", ""), "root/1": ("answer", "accepted", ""),
    }  # fmt: skip


async def test_a_repeated_query_without_an_entity_is_evidence_and_says_why(model):
    script = {QUESTION: split(QUESTION, LEFT), LEFT: answer("1950", -0.001)}
    model(play(decomposer=script, extractor={"entities": []}, aggregator={"thought": "t", "answer": "x"}))
    state = await run()
    assert tree(state)["root/0"]["pruned"] == "asks the same as root; no entity was found"
    assert steps(state)["root/0/entities"]["fallback"] == "no entity was found"
    model(
        play(
            decomposer=script,
            extractor={"entities": ["A"]},
            summarizer={"summary": "s"},
            aggregator={"thought": "t", "answer": "x"},
        )
    )
    assert steps(await run())["root/0/entities"]["fallback"] == ""


@pytest.mark.parametrize("count", [0, 4, 5])
def test_the_extractor_names_four_entities_at_most(count):
    refused = pytest.raises(ValidationError) if count > 4 else nullcontext()
    with refused:
        assert len(Entities(entities=["e"] * count).entities) == count


async def test_the_root_guesses_where_abstaining_is_off_and_an_inner_node_does_not(model):
    script = {QUESTION: split("left", "right"), "left": split("a", "b"), "right": answer("R", -0.001)}
    script |= {"a": answer("A", -0.001), "b": answer("B", -0.001)}
    server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "None"}))
    state = await run(abstain="off")
    assert (tree(state)["root/0"]["result"], tree(state)["root"]["result"]) == ("", "None")
    assert (state["answer"], state["status"]) == ("None", "answered")
    inner, root = [request.prompt for request in server.requests if request.node == "aggregator"]
    assert (COMMON["no_answer"] in inner, COMMON["no_answer"] in root) == (True, False)


async def test_an_answer_whose_tokens_can_not_be_found_has_confidence_0_and_passes_a_threshold_of_0(model):
    reply = Completion('{"type": "answer", "answer": "Ann Lee"}', tokens=[("something else", -0.1)])
    model(play(decomposer={QUESTION: reply}, aggregator={"thought": "t", "answer": "x"}))
    rejected = await run(max_depth=1)
    assert tree(rejected)["root"]["verdict"] == "evidence"
    assert "confidence 0.000 is below 0.95" in steps(rejected)["root"]["verdict"]
    assert (await run(max_depth=1, threshold=0.0))["answer"] == "Ann Lee"


async def test_an_answer_exactly_at_the_threshold_is_accepted(model):
    exactly = round(math.exp(-0.05), 6)
    model(play(decomposer={QUESTION: answer("Bob", -0.05)}))
    assert tree(await run(threshold=exactly))["root"]["verdict"] == "accepted"
    script = {QUESTION: answer("Bob", -0.05), (QUESTION, "barred"): abstract("Bob Ray")}
    model(play(decomposer=script, summarizer={"summary": "s"}, aggregator={"thought": "t", "answer": "x"}))
    assert tree(await run(threshold=exactly + 1e-6))["root"]["verdict"] != "accepted"


@pytest.mark.parametrize(("probability", "verdict"), [(0.95, "accepted"), (0.949998, "abstracted")])
async def test_a_confidence_of_exactly_095_is_accepted_by_default(model, probability, verdict):
    script = {QUESTION: answer("Bob", math.log(probability)), (QUESTION, "barred"): abstract("Bob Ray")}
    model(play(decomposer=script, summarizer={"summary": "s"}, aggregator={"thought": "t", "answer": "x"}))
    root = tree(await run())["root"]
    assert (root["confidence"], root["verdict"]) == (probability, verdict)


async def test_a_subquery_that_a_cousin_has_answered_takes_the_answer_over(model):
    script = {QUESTION: split("left", "right"), "left": answer("L", -0.01), "right": split("LEFT?", "other")}
    script |= {"other": answer("O", -0.001)}
    server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "x"}))
    state = await run()
    found = tree(state)["root/1/0"]
    assert (found["answer"], found["result"], found["searches"]) == ("L", "L", 0)
    assert steps(state)["root/1/0"]["verdict"] == "answered at root/0"
    assert steps(state)["root/1/0"]["score"] == pytest.approx(math.exp(-0.01), abs=1e-6)
    asked = [r.prompt.rpartition("<query>")[2].partition("</query>")[0] for r in server.requests[:-2]]
    assert sorted(asked) == sorted([QUESTION, "left", "right", "other"])
    assert cost_of(state["ledger"])["searches"] == 4
    assert "- LEFT? L" in server.requests[-2].prompt


async def test_siblings_run_side_by_side(model):
    slow = {"delay": 0.4}
    server = model(
        play(
            decomposer={
                QUESTION: split(LEFT, RIGHT),
                LEFT: Completion(answer("1950", -0.001).text, tokens=answer("1950", -0.001).tokens, **slow),
                RIGHT: Completion(answer("1960", -0.001).text, tokens=answer("1960", -0.001).tokens, **slow),
            },
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    await run()
    assert server.most_in_flight == 2


async def test_a_query_that_can_neither_be_answered_nor_split_is_searched_by_its_entities(model):
    server = model(
        play(
            decomposer={QUESTION: abstract("Ann Lee", "Bob Ray")},
            summarizer={"summary": "Ann Lee was born in 1950, Bob Ray in 1960."},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run()
    assert server.nodes() == ["decomposer", "summarizer", "aggregator"]
    nodes = tree(state)
    assert nodes["root"]["verdict"] == "abstracted"
    assert nodes["root/0"]["kind"] == "entity"
    assert nodes["root/0"]["entities"] == ["Ann Lee", "Bob Ray"]
    assert {ref["title"] for ref in nodes["root/0"]["documents"]} == {"Ann Lee", "Bob Ray"}
    assert cost_of(state["ledger"])["searches"] == 3
    assert "About Ann Lee; Bob Ray: Ann Lee was born in 1950" in server.requests[-1].prompt
    assert "1950" in server.requests[1].prompt


async def test_a_node_on_the_last_level_gives_its_documents_but_not_its_answer(model):
    server = model(
        play(
            decomposer={QUESTION: split(LEFT, RIGHT), LEFT: answer("wrong", -3.0), RIGHT: answer("1960", -0.001)},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run(max_depth=2)
    assert server.nodes() == ["decomposer"] * 3 + ["aggregator"]  # it is not asked again
    nodes = tree(state)
    assert nodes["root/0"]["verdict"] == "evidence"
    assert "last level" in nodes["root/0"]["pruned"]
    assert steps(state)["root/0"]["verdict"] == f"pruned: {nodes['root/0']['pruned']}"
    last = server.requests[-1].prompt
    assert "wrong" not in last
    assert "Alpha is a film by Ann Lee." in last
    assert {n["depth"] for n in state["tree"]} == {1, 2}


async def test_the_search_budget_is_reserved_left_to_right_and_holds(model):
    server = model(
        play(
            decomposer={QUESTION: split(LEFT, RIGHT), LEFT: answer("1950", -0.001)},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run(max_searches=2)
    assert cost_of(state["ledger"])["searches"] == 2
    assert tree(state)["root/1"]["pruned"] == "the search budget is spent"
    assert steps(state)["root/1"]["verdict"] == "pruned: the search budget is spent"
    assert steps(state)["root/1"]["question"] == RIGHT
    assert server.nodes() == ["decomposer", "decomposer", "aggregator"]


async def test_a_whole_tree_stays_within_seven_searches(model):
    names = iter(range(1000))

    def script(request: Request):
        if request.node == "decomposer":
            return (
                split(f"q{next(names)}?", f"q{next(names)}?") if '"type": "query"' in request.prompt else answer("", -1)
            )
        return {"thought": "t", "answer": "x"} if request.node == "aggregator" else {"summary": "x"}

    model(script)
    state = await run(max_depth=6)
    assert cost_of(state["ledger"])["searches"] == 7
    assert state["status"] == "answered"


async def test_a_subquery_that_repeats_its_parent_or_sibling_becomes_an_entity_node(model):
    server = model(
        play(
            decomposer={QUESTION: split(QUESTION.upper().replace("?", " ?"), LEFT), LEFT: answer("1950", -0.001)},
            extractor={"entities": ["Ann Lee"]},
            summarizer={"summary": "Ann Lee was born in 1950."},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run()
    assert sorted(server.nodes()) == ["aggregator", "decomposer", "decomposer", "extractor", "summarizer"]
    repeated = tree(state)["root/0"]
    assert repeated["kind"] == "entity"
    assert repeated["pruned"] == "asks the same as root"
    assert repeated["entities"] == ["Ann Lee"]
    made = steps(state)
    assert made["root/0"]["verdict"] == "pruned: asks the same as root"
    assert (made["root/0/entities"]["node"], made["root/0/entities"]["calls"]) == ("extractor", 1)
    assert sum(step["calls"] for step in state["trajectory"]) == cost_of(state["ledger"])["calls"]
    assert {call["step"] for call in state["ledger"]} <= made.keys()


async def test_an_entity_that_is_named_twice_is_searched_once(model):
    lines = {"summarizer": {"summary": "Born in 1950."}, "aggregator": {"thought": "t", "answer": "Ann Lee"}}
    model(play(decomposer={QUESTION: abstract("Ann Lee", "ann lee")}, **lines))
    state = await run()
    assert tree(state)["root/0"]["entities"] == ["Ann Lee"]
    assert cost_of(state["ledger"])["searches"] == 2
    model(play(decomposer={QUESTION: split(QUESTION, LEFT), LEFT: answer("1950", -0.001)},
               extractor={"entities": ["Bob Ray", "Bob ray.", ""]}, **lines))  # fmt: skip
    assert tree(await run())["root/0"]["entities"] == ["Bob Ray"]


async def test_without_entity_nodes_a_repeated_subquery_is_cut_and_its_step_says_so(model):
    model(
        play(
            decomposer={QUESTION: split(QUESTION, LEFT), LEFT: answer("1950", -0.001)},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    state = await run(ablate=["entity"])
    assert steps(state)["root/0"]["verdict"] == "pruned: asks the same as root"
    assert tree(state)["root/0"]["documents"] == []


async def test_an_empty_answer_has_confidence_zero_and_is_rejected(model):
    model(play(decomposer={QUESTION: answer("", -0.0), (QUESTION, "barred"): abstract("Ann Lee")},
               summarizer={"summary": ""}, aggregator={"thought": "t", "answer": "Not Answerable"}))  # fmt: skip
    state = await run(threshold=0.0)
    assert tree(state)["root"]["confidence"] == 0.0
    assert steps(state)["root"]["verdict"] == "rejected: empty"
    assert state["status"] == "unanswerable"


@pytest.mark.parametrize("said", ["Not Answerable", "unknown", " N/A."])
async def test_an_abstention_is_no_answer_however_sure_the_model_is(model, said):
    decomposer = {
        QUESTION: answer(said, -0.001),
        (QUESTION, "barred"): split(LEFT, RIGHT),
        LEFT: answer(said, -0.001),
        RIGHT: answer("1960", -0.001),
    }
    server = model(play(decomposer=decomposer, aggregator={"thought": "t", "answer": "Bob Ray"}))
    state = await run(max_depth=2)
    nodes = tree(state)
    assert (nodes["root"]["verdict"], nodes["root"]["answer"]) == ("split", "")
    assert (nodes["root/0"]["verdict"], nodes["root/0"]["confidence"]) == ("evidence", 0.0)
    assert f"- {LEFT} (no answer, see the passages)" in server.requests[-1].prompt
    model(play(decomposer=decomposer, aggregator={"thought": "t", "answer": "Bob Ray"}))
    state = await run(max_depth=2, ablate=["adaptive"])
    assert tree(state)["root/0"]["verdict"] == "evidence"


async def test_on_the_last_level_the_model_is_told_how_to_abstain(model):
    server = model(play(decomposer={QUESTION: answer("Ann Lee", -0.001)}))
    await run(max_depth=2)
    await run(max_depth=1)
    assert ["an empty answer" in request.prompt for request in server.requests] == [False, True]


async def test_tokens_that_do_not_spell_the_answer_are_said(model):
    reply = '{"type": "answer", "answer": "Ann Lee"}'
    decomposer = {QUESTION: Completion(reply, tokens=[("something else", -0.1)])}
    model(play(decomposer=decomposer, aggregator={"thought": "t", "answer": "x"}))
    state = await run(max_depth=1)
    assert tree(state)["root"]["confidence"] == 0.0
    assert "do not spell the answer" in steps(state)["root"]["fallback"]


async def test_a_branch_whose_output_stays_useless_is_evidence(model):
    model(
        play(
            decomposer={QUESTION: split(LEFT, RIGHT), LEFT: {"type": "nothing"}, RIGHT: answer("1960", -0.001)},
            aggregator={"thought": "t", "answer": "Bob Ray"},
        )
    )
    state = await run()
    assert tree(state)["root/0"]["pruned"] == "the model's output could not be used"
    assert steps(state)["root/0"]["fallback"]
    assert state["answer"] == "Bob Ray"


async def test_a_root_whose_output_stays_useless_still_answers_from_its_documents(model):
    model(play(decomposer={QUESTION: "nonsense"}, aggregator={"thought": "t", "answer": "Ann Lee"}))
    state = await run()
    assert state["answer"] == "Ann Lee"
    model(play(decomposer={QUESTION: "nonsense"}, aggregator="nonsense"))
    state = await run()
    assert state["status"] == "failed"
    assert state["error"]["kind"] == "model_output"


async def test_backtracing_goes_bottom_up_one_aggregation_an_inner_node(model):
    asked = []

    def aggregate(request: Request):
        query = request.prompt.rpartition("<query>")[2].partition("</query>")[0]
        asked.append(query)
        return {"thought": "t", "answer": f"answer to {query}"}

    model(
        play(
            decomposer={
                QUESTION: split("left", "right"),
                "left": split("left 1", "left 2"),
                "right": answer("R", -0.001),
                "left 1": answer("L1", -0.001),
                "left 2": answer("L2", -0.001),
            },
            aggregator=aggregate,
        )
    )
    state = await run()
    assert asked == ["left", QUESTION]
    assert tree(state)["root/0"]["result"] == "answer to left"
    assert state["answer"] == f"answer to {QUESTION}"


async def aggregated(model, *, left, abstract_right=False):
    """The last prompt of a run over a tree of three levels, whose left half ends with this answer."""
    contexts = [{"title": word.title(), "text": f"The {word} stands here."} for word in ("oak", "elm", "ash", "fir")]
    right = abstract("fir") if abstract_right else answer("R", -0.001)
    server = model(
        play(
            decomposer={
                "oak?": split("elm?", "fir?"),
                "elm?": split("ash?", "elm again?"),
                "fir?": right,
                "ash?": answer("guess", -5.0),
                "elm again?": answer("second", -0.001),
            },
            summarizer={"summary": "Firs are green."},
            aggregator=lambda request: {"thought": "t", "answer": left if "<query>elm?" in request.prompt else "x"},
        )
    )
    given = {"question": "oak?", "contexts": contexts}
    state = await load("prunerag").ainvoke(given, context={"top_k": 1, "max_searches": 9})
    assert state["answer"] == "x"
    return server.requests[-1].prompt


async def test_what_was_found_below_a_node_without_an_answer_reaches_the_root(model):
    prompt = await aggregated(model, left="Not Answerable")
    assert "- elm? (no answer, see the passages)" in prompt
    assert "- ash? (no answer, see the passages)" in prompt
    assert "- elm again? second" in prompt
    assert {"The oak", "The elm", "The ash"} <= {text[:7] for text in prompt.split("\n")}
    assert "The fir" not in prompt  # an accepted answer goes up as it is
    assert "guess" not in prompt


async def test_what_has_a_result_sends_no_documents_up(model):
    prompt = await aggregated(model, left="Left", abstract_right=True)
    assert "- elm? Left" in prompt
    assert "- fir? x" in prompt
    assert "The oak" in prompt
    for word in ("The elm", "The ash", "The fir", "Firs are green.", "second"):
        assert word not in prompt


async def test_single_call_backtracing_answers_once_from_the_whole_tree(model):
    server = model(
        play(
            decomposer={
                QUESTION: split("left", "right"),
                "left": split("left 1", "left 2"),
                "right": abstract("Bob Ray"),
                "left 1": answer("L1", -0.001),
                "left 2": answer("L2", -0.001),
            },
            aggregator={"thought": "t", "answer": "x"},
        )
    )
    state = await run(backtrace="single_call", top_k=1)
    assert server.nodes().count("aggregator") == 1
    assert "summarizer" not in server.nodes()
    prompt = server.requests[-1].prompt
    nested = f"- {QUESTION}\n  - left\n    - left 1 L1\n    - left 2 L2\n  - right\n    - Bob Ray\n"
    assert nested in prompt
    shown = {node["id"]: [ref["title"] in prompt for ref in node["documents"]] for node in state["tree"]}
    assert all(all(shown[key]) for key in ("root/0/0", "root/0/1", "root/1/0")), "answered, entity and deepest nodes"


async def test_single_call_leaves_the_documents_of_inner_nodes_out(model):
    script = {QUESTION: split("Bananas", "Moon"), "Bananas": split("Paris", "Rome"), "Moon": answer("M", -0.001)}
    script |= {"Paris": answer("x", -9.0), ("Paris", "barred"): split("a", "b"), "Rome": answer("R", -0.001)}
    server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "x"}))
    contexts = [{"title": name, "text": f"{name} is a word."} for name in ("Bananas", "Moon", "Paris", "Rome", "Who")]
    context = {"top_k": 1, "backtrace": "single_call"}
    await load("prunerag").ainvoke({"question": QUESTION, "contexts": contexts}, context=context)
    prompt = server.requests[-1].prompt
    assert [f"{name} is a word." in prompt for name in ("Bananas", "Moon", "Paris", "Rome")] == [
        False,
        True,
        True,
        True,
    ]
    assert "- Paris\n" in prompt, "its answer was not accepted"


class TestAblations:
    async def test_two_together_do_what_each_says(self, model):
        server = model(play(decomposer={QUESTION: split(LEFT, RIGHT)}, aggregator={"thought": "t", "answer": "x"}))
        await run(ablate=["adaptive", "answer"], max_depth=2)
        assert server.nodes() == ["decomposer", "aggregator"]

    async def test_without_the_gate_every_answer_is_accepted_and_no_log_probabilities_are_asked_for(self, model):
        server = model(play(decomposer={QUESTION: answer("Bob", -5.0)}))
        state = await run(ablate=["confidence"])
        assert state["answer"] == "Bob"
        assert "logprobs" not in server.requests[0].body

    async def test_without_answers_the_tree_is_only_evidence(self, model):
        server = model(
            play(
                decomposer={QUESTION: split(LEFT, RIGHT)},
                aggregator={"thought": "t", "answer": "x"},
                summarizer={"summary": "s"},
            )
        )
        state = await run(ablate=["answer"], max_depth=2)
        assert server.nodes() == ["decomposer", "aggregator"]
        assert all(not node["answer"] for node in state["tree"])
        assert cost_of(state["ledger"])["searches"] == 3

    async def test_without_entities_nothing_is_abstracted(self, model):
        server = model(
            play(
                decomposer={QUESTION: split(QUESTION, LEFT), LEFT: answer("1950", -0.001)},
                aggregator={"thought": "t", "answer": "x"},
            )
        )
        state = await run(ablate=["entity"])
        assert "entity" not in json.dumps(server.requests[0].body["response_format"])
        assert "extractor" not in server.nodes()
        assert all(node["kind"] == "query" for node in state["tree"])

    async def test_without_entities_a_node_that_can_not_be_split_ends_as_evidence(self, model):
        script = {QUESTION: split(LEFT, RIGHT), LEFT: answer("1950", -9.0), (LEFT, "barred"): {"type": "none"}}
        script |= {RIGHT: {"type": "none"}}
        server = model(play(decomposer=script, aggregator={"thought": "t", "answer": "x"}))
        state = await run(ablate=["entity"], top_k=4)
        nodes = tree(state)
        assert [nodes[f"root/{n}"]["verdict"] for n in (0, 1)] == ["evidence", "evidence"]
        assert nodes["root/1"]["pruned"] == "it can neither be answered nor split"
        assert cost_of(state["ledger"])["searches"] == 3, "it is not forced to split (Sec. 4.4)"
        assert "Bob Ray was born in 1960." in server.requests[-1].prompt

    async def test_without_adaptivity_every_node_splits_until_the_last_level(self, model):
        names = iter(range(100))

        def script(request: Request):
            if request.node == "aggregator":
                return {"answer": "x"}
            kinds = [kind for kind in ("answer", "query", "entity") if f'"type": "{kind}"' in request.prompt]
            assert len(kinds) == 1
            return split(f"a{next(names)}", f"b{next(names)}") if kinds == ["query"] else answer("leaf", -9.0)

        model(script)
        state = await run(ablate=["adaptive"])
        assert [node["depth"] for node in state["tree"]].count(3) == 4
        assert all(node["verdict"] == "accepted" for node in state["tree"] if node["depth"] == 3)
        assert cost_of(state["ledger"])["searches"] == 7


async def test_a_server_without_log_probabilities_is_an_error_at_the_start(model):
    server = model(play(decomposer={QUESTION: Completion(answer("x", -0.1).text, tokens=[])}))
    with pytest.raises(EndpointError, match="log-probabilities"):
        await run()
    assert len(server.requests) == 1


async def test_the_paper_s_preset_searches_densely():
    from hopgraph.run import make_context

    assert make_context("prunerag", {"preset": "paper"}).mode == "dense"
    assert make_context("prunerag", {"preset": "paper", "retriever": "sparse"}).mode == "sparse"
    assert make_context("prunerag", {}).mode == "bridge"


async def test_a_second_question_on_the_same_thread_starts_with_an_empty_tree(model, home):
    from stores.checkpoints import open_checkpoints

    model(play(decomposer={QUESTION: split(LEFT, RIGHT), LEFT: answer("1950", -0.01), RIGHT: answer("1960", -0.01),
                           "Who?": answer("me", -0.01)}, aggregator={"thought": "t", "answer": "Ann"}))  # fmt: skip
    async with open_checkpoints() as saver:
        graph, config = load("prunerag", saver), {"configurable": {"thread_id": "t"}}
        await graph.ainvoke({"question": QUESTION, "contexts": CONTEXTS}, config, context={})
        state = await graph.ainvoke({"question": "Who?", "contexts": CONTEXTS[:1]}, config, context={})
    assert [node["id"] for node in state["tree"]] == ["root"]
    assert len(state["given"]) == 1
    assert len(state["trajectory"]) == 1
