"""What may change when a run goes on, and what may not."""

from __future__ import annotations

import json

import pytest

from hopgraph import loop
from hopgraph.methods import make_context
from hopgraph.threads import read_thread
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, NODES, hopgraph, questions, row  # noqa: F401
from tests.scripted import Raw


@pytest.fixture
def broken_off(hopgraph, model, monkeypatch, tmp_path):  # noqa: F811
    """A run `t` whose model fails at the adder, and its server, which answers from now on."""
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    path = tmp_path / "contexts.jsonl"
    path.write_text("\n".join(map(json.dumps, CONTEXTS)))
    server = model(lambda r: Raw(503, "{}") if r.node == "adder" else LINES[r.node], owned_by=None)
    assert hopgraph("ask", "Where?", "--contexts", path, "--thread", "t", "--set", "max_tokens=300")[0] == 3
    server.script = lambda request: LINES[request.node]
    return server


def test_how_the_model_is_asked_may_change_and_the_result_says_so(hopgraph, broken_off):  # noqa: F811
    first = len(broken_off.requests)
    code, out, _ = hopgraph("resume", "t", "--set", "model=other", "--set", "max_tokens=400", "--json")
    result = json.loads(out)
    assert (code, result["status"]) == (0, "answered")
    assert result["changes"][0]["settings"] == {"model": "other", "max_tokens": 400}
    asked = [(request.body["model"], request.body["max_tokens"]) for request in broken_off.requests]
    assert set(asked[:first]) == {("scripted", 300)}
    assert set(asked[first:]) == {("other", 400)}
    assert broken_off.nodes()[:first] + broken_off.nodes()[first:] == [*NODES[:3], *NODES[2:]]
    shown = json.loads(hopgraph("resume", "t", "--json")[1])
    assert shown["changes"] == result["changes"]


def test_a_change_is_kept_when_the_run_breaks_off_again(hopgraph, broken_off):  # noqa: F811
    broken_off.script = lambda r: Raw(503, "{}") if r.node == "generator" else LINES[r.node]
    assert hopgraph("resume", "t", "--set", "max_tokens=400")[0] == 3
    broken_off.script = lambda request: LINES[request.node]
    code, out, _ = hopgraph("resume", "t", "--json")
    assert code == 0
    assert broken_off.requests[-1].body["max_tokens"] == 400
    assert [change["settings"] for change in json.loads(out)["changes"]] == [{"max_tokens": 400}]


@pytest.mark.parametrize("pair", ["index=other", "top_k=3", "retriever=dense", "max_iterations=5", 'ablate=["loop"]'])
def test_what_the_run_rests_on_may_not_change(hopgraph, broken_off, pair):  # noqa: F811
    name = pair.partition("=")[0]
    before = len(broken_off.requests)
    code, out, err = hopgraph("resume", "t", "--set", pair)
    assert (code, out) == (2, "")
    assert f"{name}: can't change during a run" in err
    assert "settings that can: generator_model, max_tokens, model" in err
    assert len(broken_off.requests) == before


def test_a_setting_that_is_as_it_was_is_no_change(hopgraph, broken_off):  # noqa: F811
    code, out, _ = hopgraph("resume", "t", "--set", "top_k=5", "--set", "max_tokens=300", "--json")
    assert code == 0
    assert "changes" not in json.loads(out)


def test_a_run_keeps_the_defaults_it_was_begun_with_when_another_model_answers(
    hopgraph,  # noqa: F811
    model,
    monkeypatch,
    tmp_path,
):
    def settings():
        async def read():
            async with open_checkpoints() as saver:
                return (await read_thread("h", saver)).context

        made = loop.run(read())
        return made.top_k, made.revelator

    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda _: Raw(503, "{}"), owned_by=None)
    path = tmp_path / "contexts.jsonl"
    path.write_text("\n".join(map(json.dumps, CONTEXTS)))
    assert hopgraph("ask", "Where?", "--method", "hanrag", "--contexts", path, "--thread", "h")[0] == 3
    assert settings() == (5, "model")
    monkeypatch.delenv("HOPGRAPH_LLM_URL")
    get_settings.cache_clear()
    assert make_context("hanrag", {}).top_k == 3
    assert settings() == (5, "model")


def test_unknown_and_wrong_settings_and_ended_threads_are_refused(hopgraph, broken_off):  # noqa: F811
    assert "did you mean 'max_tokens'?" in hopgraph("resume", "t", "--set", "maxtokens=9")[2]
    assert "max_tokens: " in hopgraph("resume", "t", "--set", "max_tokens=9")[2]
    assert hopgraph("resume", "t")[0] == 0
    code, _, err = hopgraph("resume", "t", "--set", "max_tokens=400")
    assert code == 2
    assert "max_tokens: thread t has ended" in err


def test_a_thread_that_is_asked_again_does_not_ignore_its_settings(hopgraph, broken_off):  # noqa: F811
    code, _, err = hopgraph("ask", "--thread", "t", "--set", "top_k=9")
    assert code == 2
    assert "top_k: can't change during a run" in err


def test_an_evaluation_says_what_differs_when_it_goes_on(hopgraph, model, questions, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    first = model(lambda r: Raw(503, "{}") if r.node == "adder" else LINES[r.node])
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", run)[0] == 3
    second = model(lambda request: LINES[request.node])
    monkeypatch.setenv("HOPGRAPH_LLM_TIMEOUT", "60")
    code, _, err = hopgraph("eval", "--resume", run, "--price", "1,2")
    assert code == 0
    assert "settings changed since the run started (allowed): " in err
    assert f'HOPGRAPH_LLM_URL: "{first.url}", now "{second.url}"' in err
    assert "HOPGRAPH_LLM_TIMEOUT: 300.0, now 60.0" in err


def test_an_evaluation_goes_on_with_its_own_settings_only(hopgraph, model, questions, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda r: Raw(503, "{}") if r.node == "adder" else LINES[r.node])
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", run)[0] == 3
    model(lambda request: LINES[request.node])
    code, _, err = hopgraph("eval", "--resume", run, "--set", "max_tokens=400")
    assert code == 2
    assert "--resume: can't be combined with --set" in err
    assert "What may differ: the endpoint's URL and key" in err
    monkeypatch.setenv("HOPGRAPH_LLM_CONTEXT", "4000")
    code, _, err = hopgraph("eval", "--resume", run)
    assert code == 2
    assert "HOPGRAPH_LLM_CONTEXT: none, now 4000" in err
    assert "What may differ: the endpoint's URL and key" in err


def test_no_key_or_password_is_kept_with_a_run(hopgraph, model, questions, tmp_path, monkeypatch):  # noqa: F811
    server = model(lambda request: LINES[request.node])
    monkeypatch.setenv("HOPGRAPH_LLM_URL", server.url.replace("http://", "http://me:secret@"))
    monkeypatch.setenv("HOPGRAPH_GENERATOR_API_KEY", "sk-secret")
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", run)[0] == 0
    assert "secret" not in (run / "run.json").read_text()
    assert json.loads((run / "run.json").read_text())["surroundings"]["HOPGRAPH_LLM_URL"] == server.url
