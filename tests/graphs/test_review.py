"""A person in the place of a verdict: the run stops, shows little, and goes on with what the person decides."""

from __future__ import annotations

import io
import json
import os
import signal

import pytest
from langgraph.types import Command

from hopgraph import load
from hopgraph.cli import run_app
from hopgraph.run import ask, make_context, read_thread, resume
from inference.errors import InputError
from stores.checkpoints import open_checkpoints
from tests.graphs import test_hanrag, test_parrag, test_prunerag

SURE, UNSURE = -0.01, -2.0
LEFT, RIGHT = test_prunerag.LEFT, test_prunerag.RIGHT


async def start(method, module, **context):
    async with open_checkpoints() as saver:
        made = make_context(method, {"review": "human", **context})
        return await ask(module.QUESTION, made, saver, thread="t", contexts=module.CONTEXTS)


async def decide(*words):
    """Decide what waits, in order."""
    async with open_checkpoints() as saver:
        waiting = (await read_thread("t", saver)).waiting
        return await resume("t", saver, decisions={row["id"]: word for row, word in zip(waiting, words, strict=False)})


def parrag(**lines):
    return test_parrag.play(**test_parrag.BASE | {"planner": test_parrag.plan(test_parrag.WHO)} | lines)


async def parrag_start():
    return await start("parrag", test_parrag, hop_count=2, exemplars="none")


async def test_the_reviewer_waits_shows_what_it_is_about_and_goes_on(model):
    server = model(parrag(actor={"answer": "Ann Lee [1]"}))
    result = await parrag_start()
    assert (result["status"], result["error"]["kind"], result["error"]["node"]) == ("failed", "review", "reviewer")
    (row,) = result["waiting"]
    assert row["about"]["question"] == test_parrag.WHO
    assert row["about"]["answer"] == "Ann Lee"
    assert row["about"]["verdict"].startswith("accepted: confidence 0.91, threshold 0.65 (accuracy 0.90, attributable)")
    assert row["about"]["evidence"] == ["Alpha: Alpha is a film by Ann Lee."]
    assert row["about"]["suggested"] == "accept"
    assert list(row["about"]["decisions"]) == ["accept", "reject"]
    assert len(json.dumps(row)) < 2000
    calls = len(server.requests)
    result = await decide("accept")
    assert (result["status"], result["answer"]) == ("answered", "Paris")
    assert "waiting" not in result
    assert server.nodes()[calls:] == ["generator"]  # nothing is asked again
    steps = {step["id"]: step for step in result["trajectory"]}
    assert steps["root/1/review"]["verdict"] == "accepted by a person"


async def test_a_person_overrules_the_reviewer(model):
    server = model(parrag(actor={"answer": "Ann Lee [1]"}, reviser={"answer": "Bob [3]"}))
    await parrag_start()
    result = await decide("reject")
    assert "reviser" in server.nodes()
    assert result["waiting"][0]["about"]["answer"] == "Bob"
    result = await decide("reject")  # of two that were rejected the scores choose, and there is no third
    assert result["status"] == "answered"
    assert server.nodes().count("reviser") == 1


async def test_a_person_answers_instead_of_the_model(model):
    server = model(parrag(actor={"answer": "Bob [3]"}, accuracy_judge={"score": 0.0}))
    result = await parrag_start()
    assert result["waiting"][0]["about"]["suggested"] == "reject"
    result = await decide({"decision": "accept", "answer": "Ann Lee"})
    assert result["status"] == "answered"
    assert "reviser" not in server.nodes()
    assert "Answer: Ann Lee" in server.requests[-1].prompt


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("maybe", "decision: must be one of accept, reject"),
        (None, "decision: must be one of"),
        (["accept"], "decision: must be one of"),
        ({"decision": "accept", "answr": "x"}, "answr: unknown field"),
        ({"decision": "accept", "answer": 7}, "answer: must be text, not int"),
        ({"decision": "accept", "answer": "x" * 2001}, "answer: has 2,001 characters"),
    ],
)
async def test_what_cannot_be_read_is_asked_again(model, wrong, problem):
    model(parrag(actor={"answer": "Ann Lee [1]"}))
    await parrag_start()
    result = await decide(wrong)
    assert problem in result["waiting"][0]["about"]["problem"]
    result = await decide(' "Accept" ')
    assert result["status"] == "answered"


async def test_the_answers_of_a_level_wait_side_by_side_and_are_decided_by_id(model):
    server = model(
        test_prunerag.play(
            decomposer={
                test_prunerag.QUESTION: test_prunerag.split(LEFT, RIGHT),
                LEFT: test_prunerag.answer("1950", SURE),
                RIGHT: test_prunerag.answer("1960", UNSURE),
                (RIGHT, "barred"): test_prunerag.abstract("Bob Ray"),
            },
            summarizer={"summary": "Bob Ray was born in 1960."},
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    result = await start("prunerag", test_prunerag, top_k=2)
    assert [row["about"]["question"] for row in result["waiting"]] == [LEFT, RIGHT]
    assert [row["about"]["suggested"] for row in result["waiting"]] == ["accept", "reject"]
    assert result["waiting"][1]["about"]["verdict"] == "rejected: confidence 0.135, threshold 0.95"
    left, right = (row["id"] for row in result["waiting"])
    async with open_checkpoints() as saver:
        result = await resume("t", saver, decisions={right: "accept"})
        assert [row["id"] for row in result["waiting"]] == [left]
        assert "aggregator" not in server.nodes()
        with pytest.raises(InputError, match=f"unknown id {right}"):
            await resume("t", saver, decisions={right: "accept"})
        result = await resume("t", saver, decisions={left: {"decision": "accept", "answer": "in 1950"}})
    assert result["status"] == "answered"
    tree = {node["id"]: node for node in result["tree"]}
    assert (tree["root/0"]["verdict"], tree["root/0"]["result"]) == ("accepted", "in 1950")
    assert (tree["root/1"]["verdict"], tree["root/1"]["result"]) == ("accepted", "1960")
    assert "1960" in server.requests[-1].prompt
    assert server.nodes().count("decomposer") == 3
    said = {step["id"]: step["verdict"] for step in result["trajectory"]}
    assert (said["root/0"], said["root/1"]) == ("accepted by a person", "accepted by a person")
    answers = {step["id"]: step["answer"] for step in result["trajectory"]}
    assert (answers["root/0"], answers["root/1"]) == ("in 1950", "1960")
    assert (said["root/0/person"], answers["root/0/person"]) == ("accepted by a person", "in 1950")


async def test_a_rejected_branch_has_to_split_or_is_evidence_on_the_last_level(model):
    model(
        test_prunerag.play(
            decomposer={
                test_prunerag.QUESTION: test_prunerag.answer("Bob", SURE),
                (test_prunerag.QUESTION, "barred"): test_prunerag.split(LEFT, RIGHT),
                LEFT: test_prunerag.answer("1950", SURE),
                RIGHT: test_prunerag.answer("1960", SURE),
            },
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    await start("prunerag", test_prunerag, top_k=2, max_depth=2)
    await decide("reject")
    result = await decide("accept", "reject")
    tree = {node["id"]: node for node in result["tree"]}
    assert tree["root"]["verdict"] == "split"
    assert (tree["root/1"]["verdict"], tree["root/1"]["result"]) == ("evidence", None)
    assert "a person rejected" in tree["root/1"]["pruned"]
    said = {step["id"]: step["verdict"] for step in result["trajectory"]}
    assert said["root"] == "rejected by a person"
    assert said["root/1"] == "pruned: a person rejected its answer on the last level"
    answers = {step["id"]: step["answer"] for step in result["trajectory"]}
    assert (said["root/person"], answers["root/person"]) == ("rejected by a person", "")
    assert (answers["root"], answers["root/1"]) == ("Bob", "1960"), "what was rejected can still be looked at"
    assert result["answer"] == "Ann Lee"


async def test_a_person_ends_the_chain_or_goes_on(model):
    server = model(test_hanrag.play(**test_hanrag.COMPLEX))
    result = await start("hanrag", test_hanrag)
    (row,) = result["waiting"]
    assert row["node"] == "ending_discriminator"
    assert row["about"]["chain"] == [f"{test_hanrag.WHO} Ann Lee"]
    assert row["about"]["verdict"].startswith("not sufficient: probability 0.20, threshold 0.5")
    judged = server.nodes().count("ending_discriminator")
    result = await decide("end")
    assert result["status"] == "answered"
    assert server.nodes().count("ending_discriminator") == judged  # the model is not asked a second time
    steps = {step["id"]: step for step in result["trajectory"]}
    assert steps["root/1/ending"]["verdict"] == "sufficient, as a person decided"


async def test_it_works_through_the_graph_alone(model):
    model(parrag(actor={"answer": "Ann Lee [1]"}))
    async with open_checkpoints() as saver:
        graph, thread = load("parrag", saver), {"configurable": {"thread_id": "mine"}}
        context = {"review": "human", "hop_count": 2, "exemplars": "none"}
        given = {"question": test_parrag.QUESTION, "contexts": test_parrag.CONTEXTS}
        state = await graph.ainvoke(given, thread, context=context)
        assert state["__interrupt__"][0].value["answer"] == "Ann Lee"
        state = await graph.ainvoke(Command(resume="accept"), thread, context=context)
    assert state["answer"] == "Paris"


def run_parrag(*more):
    settings = ["--set", "review=human", "--set", "hop_count=2", "--set", "exemplars=none"]
    return run_app(["ask", test_parrag.QUESTION, "--method", "parrag", "--thread", "t", *settings, *more])


@pytest.fixture
def contexts(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in test_parrag.CONTEXTS))
    return ["--contexts", str(path)]


def test_without_a_terminal_the_command_says_how_to_go_on(model, contexts, capsys):
    model(parrag(actor={"answer": "Ann Lee [1]"}))
    assert run_parrag(*contexts) == 4
    said = capsys.readouterr().err
    assert "hopgraph resume t --decision accept|reject" in said
    assert "Ann Lee" in said
    assert run_app(["resume", "t"]) == 4
    assert run_app(["resume", "t", "--decision", "perhaps"]) == 4
    assert "must be one of accept, reject" in capsys.readouterr().err
    assert run_app(["resume", "t", "--answer", "x"]) == 2
    assert run_app(["resume", "t", "--decision", "nowhere=accept"]) == 2
    capsys.readouterr()
    assert run_app(["resume", "t", "--decision", "accept", "--answer", "Ann B. Lee", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "answered"
    assert run_app(["resume", "t", "--decision", "accept"]) == 2
    assert "waits for no decision" in capsys.readouterr().err


def test_the_result_says_that_it_waits_and_how_to_go_on(model, contexts, capsys):
    model(parrag(actor={"answer": "Ann Lee [1]"}))
    assert run_parrag(*contexts) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "answer: waiting for a person's decision; resume with `hopgraph resume t --decision WORD`" in said
    assert "failed" not in said


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_at_a_terminal_the_command_asks(model, contexts, capsys, monkeypatch):
    server = model(parrag(actor={"answer": "Ann Lee [1]"}))
    monkeypatch.setattr("sys.stdin", Terminal("hm\n\n\n"))  # not understood, then what is suggested, then as it is
    assert run_parrag(*contexts) == 0
    said = capsys.readouterr()
    assert "accept/reject [accept]" in said.err
    assert "must be one of accept, reject" in said.err
    assert "Paris" in said.out
    assert server.nodes().count("accuracy_judge") == 1


def test_ctrl_c_where_the_command_asks_stops_it_at_once_and_the_run_can_be_resumed(
    model, contexts, capsys, monkeypatch
):
    class Pressed(Terminal):
        def readline(self):
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("it waits for the line to end")

    model(parrag(actor={"answer": "Ann Lee [1]"}))
    monkeypatch.setattr("sys.stdin", Pressed())
    assert run_parrag(*contexts) == 130
    assert "hopgraph: stopped; resume with `hopgraph resume t`" in capsys.readouterr().err


def test_an_evaluation_has_nobody_to_ask(home, tmp_path, capsys):
    questions = tmp_path / "q.csv"
    questions.write_text("question,answers\nWhere?,Paris\n")
    words = ["eval", "--method", "parrag", "--questions", str(questions), "--index", "i", "--out", str(tmp_path / "o")]
    assert run_app([*words, "--set", "review=human"]) == 2
    assert "review: not available in an evaluation" in capsys.readouterr().err
