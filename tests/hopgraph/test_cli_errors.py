"""What a person is told when something is wrong: as text and as JSON, before anything is kept, with what mends it."""

from __future__ import annotations

import json
import sqlite3

import pytest

from inference.settings import get_settings
from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, hopgraph, questions, row  # noqa: F401
from tests.reading import corpus
from tests.scripted import Completion, Raw

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def contexts(tmp_path):
    path = tmp_path / "contexts.jsonl"
    path.write_text("\n".join(map(json.dumps, CONTEXTS)))
    return str(path)


def kept_threads(home):
    path = home / "checkpoints.sqlite"
    if not path.exists():
        return []
    with sqlite3.connect(path) as file:
        return [thread for (thread,) in file.execute("SELECT DISTINCT thread_id FROM checkpoints")]


@pytest.mark.parametrize(
    ("words", "code", "kind", "message", "hint"),
    [
        (["ask", "Which?", "-m", "prsm"], 2, "input", "'prsm'", "did you mean 'prism'?"),
        (["resume", "nowhere"], 2, "store", "unknown thread nowhere", "hopgraph list threads"),
        (["search", "x", "-i", "nowhere"], 2, "store", "nowhere", "hopgraph index"),
        (["eval", "-m", "prism"], 2, "input", "--questions", "a file of questions"),
        (["read"], 2, "input", "--index", "hopgraph read"),
        (["index", "nowhere.jsonl", "--name", "x"], 2, "input", "nowhere.jsonl", "path"),
        (["ask", "Which?", "--nope"], 2, "usage", "No such option: --nope", "hopgraph ask --help"),
        (["eval", "--limit", "0"], 2, "usage", "'--limit'", "hopgraph eval --help"),
        (["eval", "--limit", "many"], 2, "usage", "valid integer", "hopgraph eval --help"),
        (["resume"], 2, "usage", "Missing argument", "hopgraph resume --help"),
        (["nope"], 2, "usage", "No such command 'nope'", "hopgraph --help"),
    ],
)
def test_an_error_is_one_json_object_and_plain_text_beside_it(hopgraph, words, code, kind, message, hint):  # noqa: F811
    found, out, err = hopgraph(*words, "--json")
    error = json.loads(out)["error"]
    assert (found, error["exit_code"], error["kind"]) == (code, code, kind)
    assert message in error["message"]
    assert hint in error["hint"]
    assert message in " ".join(err.split())
    assert hopgraph(*words) == (code, "", err)


def test_an_endpoint_that_is_not_there_is_an_error_in_json_too(hopgraph, contexts, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:1/v1")
    code, out, err = hopgraph("ask", "Which?", "--contexts", contexts, "--json")
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["kind"]) == (3, 3, "endpoint")
    assert error["message"] in err


def test_a_mistake_of_ours_is_json_too_and_still_shown(hopgraph, monkeypatch, capfd):  # noqa: F811
    def broken(main):
        main.close()
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("hopgraph.loop.run", broken)
    with pytest.raises(ZeroDivisionError):
        hopgraph("resume", "t", "--json")
    error = json.loads(capfd.readouterr().out)["error"]
    assert (error["kind"], error["message"]) == ("internal", "ZeroDivisionError: oops")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "prompt_answer={{evidence}} {{nothing}}"], "prompt_answer:1: unknown variable {{nothing}}"),
        (["--set", "top_k=3", "--set", "top_k=4"], "--set top_k: given twice"),
        (["--index", "towns"], "index: towns would not be searched"),
        (["--set", "index=towns"], "index: towns would not be searched"),
        (["-m", "compactrag", "--index", "towns"], "no knowledge base of question-answer pairs"),
        (["--set", "condition=oracle_context"], "the gold evidence"),
        (["--set", "model=scriptd"], "has no model 'scriptd'"),
    ],
)
def test_what_is_refused_prints_no_thread_and_keeps_none(hopgraph, model, home, contexts, options, message):  # noqa: F811
    corpus(2)
    server = model(lambda request: LINES[request.node])
    code, out, err = hopgraph("ask", "Where?", "--contexts", contexts, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert "thread " not in err
    assert kept_threads(home) == []
    assert server.requests == []


async def test_a_run_that_its_first_step_refuses_keeps_no_thread(model, home):
    from hopgraph.run import ask, make_context
    from inference.errors import InputError
    from stores.checkpoints import open_checkpoints

    model(lambda request: LINES[request.node])
    context = make_context("prism", {"prompt_answer": "{{evidence}} {{nothing}}"})
    async with open_checkpoints() as saver:
        with pytest.raises(InputError, match="unknown variable"):
            await ask("Where?", context, saver, thread="t", contexts=CONTEXTS)
    assert kept_threads(home) == []


def test_an_evaluation_of_given_passages_searches_no_index(hopgraph, model, questions, tmp_path):  # noqa: F811
    corpus(2)
    server = model(lambda request: LINES[request.node])
    words = ("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "-i", "towns", "--out", tmp_path / "run")
    code, _, err = hopgraph(*words)
    assert code == 2
    assert "index: towns would not be searched" in err
    assert server.requests == []
    assert not (tmp_path / "run").exists()


def test_without_an_index_the_hint_names_those_there_are(hopgraph, model):  # noqa: F811
    model(lambda request: LINES[request.node])
    _, _, err = hopgraph("ask", "Where?")
    assert "no index exists yet; make one, such as `hopgraph index " in err
    corpus(2)
    _, _, err = hopgraph("ask", "Where?")
    assert "indexes: towns" in err


@pytest.mark.parametrize("given", ["", "/", "/v1/chat/completions", "/v1/models", "/chat"])
@pytest.mark.parametrize("named", [{}, {"HOPGRAPH_LLM_MODEL": "scripted"}])
def test_a_url_that_is_not_the_base_is_answered_with_the_one_that_is(
    hopgraph,  # noqa: F811
    model,
    contexts,
    monkeypatch,
    given,
    named,
):
    server = model(lambda request: LINES[request.node], pages={"/models": Raw(body="<html>", content_type="text/html")})
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    root = server.url.removesuffix("/v1")
    monkeypatch.setenv("HOPGRAPH_LLM_URL", root.replace("http://", "http://me:secret@") + given)
    code, _, err = hopgraph("ask", "Where?", "--contexts", contexts)
    assert code == 3
    assert f"did you mean http://***@{root.removeprefix('http://')}/v1?" in err
    assert "secret" not in err
    assert "thread " not in err
    assert server.requests == []
    monkeypatch.setenv("HOPGRAPH_LLM_URL", f"{server.url}/")
    get_settings.cache_clear()
    assert hopgraph("ask", "Where?", "--contexts", contexts)[0] == 0


def test_an_unknown_variable_is_said_once_and_is_a_finding_of_the_doctor(hopgraph, model, monkeypatch):  # noqa: F811
    model(lambda request: {"colour": "red"} if "response_format" in request.body else "ok")
    assert "environment variable" not in hopgraph("graph")[2]
    monkeypatch.setenv("HOPGRAPH_LLMURL", "http://x/v1")
    said = "environment variable HOPGRAPH_LLMURL: unknown and ignored; did you mean HOPGRAPH_LLM_URL?"
    code, _, err = hopgraph("graph")
    assert (code, err) == (0, f"hopgraph: {said}\n")
    code, out, _ = hopgraph("doctor", "--json")
    (found,) = [row for row in json.loads(out)["findings"] if row["what"] == "variables"]
    assert (code, found["state"], found["found"]) == (1, "bad", said)


def test_every_variable_of_the_settings_is_known(hopgraph, monkeypatch, tmp_path):  # noqa: F811
    from inference.settings import Settings

    for name in Settings.model_fields:
        monkeypatch.setenv(f"HOPGRAPH_{name.upper()}", "")
    assert hopgraph("graph") == (0, hopgraph("graph")[1], "")


@pytest.mark.parametrize(
    ("reply", "message", "hint"),
    [
        (Raw(401, '{"error": {"message": "no key"}}'), "status 401", "set HOPGRAPH_LLM_API_KEY"),
        (Raw(422, '{"error": {"message": "seed must be positive"}}'), "status 422", "see the server's log"),
        (Raw(501, '{"error": {"message": "not implemented"}}'), "status 501", "see the server's log"),
    ],
)
def test_what_cannot_pass_is_asked_once_and_says_what_to_mend_first(
    hopgraph,  # noqa: F811
    model,
    contexts,
    reply,
    message,
    hint,
):
    server = model(lambda request: reply)
    words = ("ask", "Which?", "-m", "standard_rag", "--contexts", contexts, "--json", "--thread", "t")
    code, out, err = hopgraph(*words)
    error = json.loads(out)["error"]
    assert (code, error["kind"], error["permanent"]) == (3, "endpoint", True)
    assert message in error["message"]
    assert hint in error["hint"]
    assert f"first: {error['hint']}; then resume with `hopgraph resume t`" in err
    assert "nothing is lost" not in err
    assert len(server.requests) == 1
    server.script = lambda request: {"answer": "Paris"}
    assert hopgraph("resume", "t")[0] == 0


def test_without_log_probabilities_the_method_says_what_does_without(hopgraph, model, contexts):  # noqa: F811
    model(lambda request: Completion('{"type": "answer", "answer": "Paris"}', tokens=[]))
    code, _, err = hopgraph("ask", "Which?", "-m", "prunerag", "--contexts", contexts, "--thread", "t")
    assert code == 3
    assert "gives no log-probabilities" in err
    assert "first: use a server that gives them" in err
    assert "then resume with `hopgraph resume t`" in err


def test_an_evaluation_stopped_by_what_cannot_pass_says_what_to_mend_first(hopgraph, model, questions, tmp_path):  # noqa: F811
    model(lambda request: Raw(403, '{"error": {"message": "no"}}'))
    path = questions([row(number) for number in range(1, 30)])
    code, out, err = hopgraph("eval", "-m", "prism", "-q", path, "--contexts", "--out", tmp_path / "run", "--json")
    assert code == 3
    assert json.loads(out)["error"]["hint"].startswith("first: set HOPGRAPH_LLM_API_KEY; then")
    assert "nothing is lost" not in err


def test_a_plain_server_is_not_called_vllm(hopgraph, model, contexts):  # noqa: F811
    script = lambda request: {"colour": "red"} if "response_format" in request.body else "ok"  # noqa: E731
    for options, name in (
        ({"owned_by": None}, "an OpenAI-compatible server at"),
        ({"owned_by": "acme"}, "an OpenAI-compatible server at"),
        ({"owned_by": None, "pages": {"/version": Raw(body='{"version": "0.11.0"}')}}, "vLLM 0.11.0 at"),
        ({"owned_by": "vllm"}, "vLLM at"),
    ):
        server = model(script, **options)
        _, out, _ = hopgraph("doctor", "--json")
        (found,) = [row["found"] for row in json.loads(out)["findings"] if row["what"] == "endpoint"]
        assert found.startswith(name)
        asked = {"priority" in request.body for request in server.requests}
        assert (True in asked, "scheduling" in out) == (("vLLM" in name,) * 2)


async def test_a_plain_server_is_not_asked_for_vllm_s_tokenizer(model):
    from inference.chat import Message
    from inference.endpoints import get_endpoint

    for owner in ("vllm", None):
        server = model(lambda request: "ok", owned_by=owner, context=4096)
        await get_endpoint().fits([Message("user", "word " * 2000)], 100)
        assert ("/tokenize" in [place for place, _ in server.visits]) == (owner == "vllm")


def test_a_model_that_vllm_does_not_have_is_said_with_those_it_has(hopgraph, model, contexts, monkeypatch):  # noqa: F811
    model(lambda request: LINES[request.node])
    monkeypatch.setenv("HOPGRAPH_LLM_MODEL", "scriptd")
    code, _, err = hopgraph("ask", "Where?", "--contexts", contexts)
    assert code == 2
    assert "has no model 'scriptd'" in err
    assert "did you mean 'scripted'? it has scripted" in err


def test_texts_of_the_evidence_are_in_json_and_not_in_a_run_s_results(hopgraph, model, contexts, questions, tmp_path):  # noqa: F811
    model(lambda request: LINES[request.node])
    _, out, _ = hopgraph("ask", "Where?", "--contexts", contexts, "--thread", "t", "--json")
    result = json.loads(out)
    assert [passage["id"] for passage in result["passages"]] == result["evidence"]
    assert {passage["text"] for passage in result["passages"]} == {row["text"] for row in CONTEXTS[:2]}
    assert set(result["passages"][0]) == {"id", "title", "text", "page", "headings", "score", "found_by"}
    assert json.loads(hopgraph("resume", "t", "--json")[1])["passages"] == result["passages"]
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", run)[0] == 0
    assert "passages" not in json.loads((run / "results.jsonl").read_text())


def test_notes_of_a_result_are_printed(capsys):
    from rich.console import Console

    from hopgraph.views.terminal import render_result
    from inference.ledger import cost_of

    result = {"id": "q", "method": "prism", "question": "Where?", "answer": "Paris", "status": "answered"}
    result |= {"evidence": [], "retrieved": [], "trajectory": [], "cost": cost_of([]), "thread": "t", "prompts": {}}
    Console().print(render_result({**result, "notes": ["no evidence\x1b[2J bears it out"]}, {}))
    assert "note: no evidence bears it out" in " ".join(capsys.readouterr().out.replace("[2J", "").split())


def test_the_version_is_printed(hopgraph):  # noqa: F811
    from hopgraph import __version__

    assert hopgraph("--version") == (0, f"hopgraph {__version__}\n", "")
