"""Ctrl-C: every command that takes long says what goes on from where it was stopped."""

from __future__ import annotations

import json
import os
import signal

import pytest

from hopgraph.cli import run_app
from tests.hopgraph.evaluation.conftest import LINES, questions, row  # noqa: F401
from tests.reading import corpus, reader
from tests.scripted import Completion
from tests.stores.conftest import encoder  # noqa: F401


@pytest.fixture
def hopgraph(capfd, home):
    """Runs a command line; gives exit code, stdout and stderr. Ctrl-C is as at a terminal."""

    def run(*words: object):
        code = run_app(list(map(str, words)))
        return code, *capfd.readouterr()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield run
    signal.signal(signal.SIGINT, before)


def stopping_at(node, script, how=signal.SIGINT, delay=1.0):
    """A script that presses ctrl-C when a node asks for the first time, and answers late."""
    pressed = []

    def play(request):
        if request.node != node or pressed:
            return script(request)
        pressed.append(node)
        os.kill(os.getpid(), how)
        return Completion(json.dumps(script(request)), delay=delay)

    return play


@pytest.fixture
def contexts(tmp_path):
    path = tmp_path / "contexts.jsonl"
    path.write_text('{"title": "X", "text": "X is a film by Ann Lee."}')
    return path


def test_ask_and_resume_name_the_command_that_resumes(hopgraph, model, contexts):
    server = model(stopping_at("selector", lambda request: LINES[request.node]))
    code, out, err = hopgraph("ask", "Where?", "-m", "prism", "--contexts", contexts, "--thread", "t")
    assert (code, out) == (130, "")
    assert "hopgraph: stopped; resume with `hopgraph resume t`" in err
    server.script = stopping_at("generator", lambda request: LINES[request.node])
    code, _, err = hopgraph("resume", "t")
    assert (code, "hopgraph: stopped; resume with `hopgraph resume t`" in err) == (130, True)
    assert hopgraph("resume", "t")[0] == 0
    assert server.nodes().count("analyzer") == 1


def test_a_question_of_which_nothing_is_kept_cannot_be_resumed_and_is_not_said_to(
    hopgraph, model, contexts, monkeypatch
):
    async def stopped(*args, **options):
        raise KeyboardInterrupt

    model(lambda request: LINES[request.node])
    monkeypatch.setattr("hopgraph.run.Run.start", stopped)
    code, _, err = hopgraph("ask", "Where?", "-m", "prism", "--contexts", contexts)
    assert (code, "resume" in err) == (130, False)


def test_sigterm_waits_for_calls_in_flight_only_so_long(hopgraph, model, contexts, monkeypatch):
    monkeypatch.setattr("hopgraph.cli.stopping.DRAIN", 0.1)
    lines = lambda request: LINES[request.node]  # noqa: E731
    server = model(stopping_at("selector", lines, signal.SIGTERM, delay=30.0))
    code, _, err = hopgraph("ask", "Where?", "-m", "prism", "--contexts", contexts, "--thread", "t")
    assert (code, server.requests[-1].finished) == (143, False)
    assert "hopgraph: stopped; resume with `hopgraph resume t`" in err
    assert hopgraph("resume", "t")[0] == 0
    assert [server.nodes().count(node) for node in ("analyzer", "selector")] == [1, 3]


def test_eval_names_the_command_that_resumes(hopgraph, model, questions, tmp_path):  # noqa: F811
    model(stopping_at("selector", lambda request: LINES[request.node]))
    path = questions([row(1), row(2)])
    code, _, err = hopgraph("eval", "-m", "prism", "-q", path, "--contexts", "--out", tmp_path / "run", "--json")
    assert code == 130
    assert err.endswith(f"hopgraph: stopped; resume with `hopgraph eval --resume {tmp_path / 'run'}`\n")


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(("words", "how_to_resume"), [((), " again"), (("--anew",), " without --anew")])
def test_a_reading_is_resumed_by_the_same_command_without_anew(hopgraph, model, words, how_to_resume):
    corpus(3)
    model(stopping_at("pair_writer", reader))
    code, _, err = hopgraph("read", "-i", "towns", *words)
    assert code == 130
    assert err.endswith(f"hopgraph: stopped; run the same command{how_to_resume} to resume\n")


def test_indexing_is_resumed_by_the_same_command(hopgraph, encoder, contexts, monkeypatch):  # noqa: F811
    def stopped(texts):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "encode_passages", stopped)
        code, _, err = hopgraph("index", contexts, "--name", "x")
    assert code == 130
    assert err.endswith("hopgraph: stopped; run the same command again to resume\n")
    assert hopgraph("index", contexts, "--name", "x")[0] == 0
