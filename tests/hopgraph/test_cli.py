"""The command line: what it prints, where, and with which exit code. No traceback reaches a user."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hopgraph import METHODS
from hopgraph.cli import app, run_app
from hopgraph.methods import context_class
from inference.settings import get_settings
from tests import reranking
from tests.documents import make_docx
from tests.reading import corpus, reader
from tests.scripted import Completion, Raw, completion, plausible


@pytest.fixture
def hopgraph(capfd, home):
    """Runs a command line; gives exit code, stdout and stderr."""

    def run(*words: str):
        code = run_app(list(words))
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def contexts(tmp_path):
    path = tmp_path / "contexts.jsonl"
    rows = [{"title": "X", "text": "X is a film by Ann Lee."}, {"title": "Ann Lee", "text": "She was born in Paris."}]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def answer(request):
    return {
        "analyzer": {"subquestions": ["Who directed X?", "Where was she born?"]},
        "selector": {"evidence": ["1.0"]},
        "adder": {"evidence": ["2.0"]},
        "generator": {"thought": "", "answer": "Paris"},
        "relevance_discriminator": {"relevant": True},
    }[request.node]


def test_help_lists_the_commands():
    text = CliRunner().invoke(app, ["--help"]).output
    for command in ("index", "read", "search", "ask", "resume", "serve", "doctor", "graph", "prompts"):
        assert f" {command} " in text


@pytest.mark.parametrize("method", [m for m in METHODS if not context_class(m).knowledge_base])
def test_json_is_one_object_on_stdout_and_nothing_else_there(hopgraph, model, contexts, method):
    model(plausible)
    code, out, err = hopgraph(
        "ask", "Where was the director of X born?", "-m", method, "--contexts", contexts, "--json"
    )
    result = json.loads(out)
    assert code == 0
    assert result["answer"] == "Paris"
    assert result["method"] == method
    assert f"thread {result['thread']}" in err


def test_people_see_subquestions_evidence_answer_and_cost(hopgraph, model, contexts):
    model(answer)
    code, out, _ = hopgraph("ask", "Where was the director of X born?", "-m", "prism", "--contexts", contexts)
    assert code == 0
    for shown in ("Who directed X?", "Ann Lee", "She was born in Paris.", "answer: Paris", "6 model calls"):
        assert shown in out


def test_pages_and_headings_are_in_citations_evidence_json_and_traces(hopgraph, model, tmp_path):
    make_docx(tmp_path / "report.docx")
    assert hopgraph("index", str(tmp_path / "report.docx"), "--name", "x")[0] == 0
    model(plausible)
    words = ("ask", "Where does Carl Moe work?", "-m", "standard_rag", "-i", "x", "--thread", "t")
    code, out, _ = hopgraph(*words, "--cite")
    assert code == 0
    answered, sources = out.strip().split("\n\n")
    assert answered == "Paris [1][2][3]"
    assert f"Annual report: Oslo, page 2 ({tmp_path / 'report.docx'})" in sources
    assert [line[:3] for line in sources.splitlines()] == ["[1]", "[2]", "[3]"]
    shown = hopgraph(*words)[1]
    assert "Annual report: Oslo (page 2)" in shown
    assert "page 2, Staff > Oslo" in shown
    passages = json.loads(hopgraph(*words, "--json")[1])["passages"]
    assert ("page 2", ["Staff", "Oslo"]) in [(passage["page"], passage["headings"]) for passage in passages]
    assert hopgraph("trace", "t", "--out", str(tmp_path / "t.html"))[0] == 0
    page = (tmp_path / "t.html").read_text()
    assert "Annual report: Oslo (page 2)" in page
    assert "Staff › Oslo" in page


def test_one_call_is_one_model_call(hopgraph, model, contexts):
    model(answer)
    _, out, _ = hopgraph("ask", "Where was the director of X born?", "-m", "standard_rag", "--contexts", contexts)
    assert "cost: 1 model call, " in out


def test_markup_and_control_characters_in_answers_and_passages_are_shown_as_text(hopgraph, model, tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"title": "[bold]T[/bold]\x1b[2J", "text": "see [link=x]this[/link]"}))
    model(lambda request: {"answer": "[red]x[/red]\x1b]0;title\x07"})
    code, out, _ = hopgraph("ask", "Which?", "-m", "standard_rag", "--contexts", str(path))
    assert code == 0
    assert "[bold]T[/bold]" in out
    assert "[red]x[/red]" in out
    assert "\x1b[2J" not in out
    assert "\x07" not in out


def test_an_unanswerable_question_is_an_answer(hopgraph, model, contexts):
    model(lambda request: {"answer": "Not Answerable"})
    code, out, _ = hopgraph("ask", "Which?", "-m", "standard_rag", "--contexts", contexts)
    assert code == 0
    assert "does not answer the question" in out


def test_a_thread_given_twice_is_shown_and_not_run_again(hopgraph, model, contexts):
    server = model(answer)
    words = (
        "ask",
        "Where was the director of X born?",
        "-m",
        "prism",
        "--contexts",
        contexts,
        "--thread",
        "t",
        "--json",
    )
    first = hopgraph(*words)
    assert hopgraph(*words)[1] == first[1]
    assert hopgraph("resume", "t", "--json")[1] == first[1]
    assert hopgraph("ask", "--thread", "t", "--json")[1] == first[1]
    assert len(server.requests) == 6
    code, out, err = hopgraph("ask", "Another question?", "--thread", "t")
    assert (code, out) == (2, "")
    assert "belongs to another question" in err


def test_the_cache_is_used_when_asked_for_and_only_then(hopgraph, model, contexts, monkeypatch):
    monkeypatch.delenv("HOPGRAPH_CACHE", raising=False)
    server = model(lambda request: {"answer": "Paris"})
    words = ("ask", "Which?", "-m", "standard_rag", "--contexts", contexts, "--json")
    for extra in ((), (), ("--cache",), ("--cache",)):
        code, out, _ = hopgraph(*words, *extra)
        assert code == 0
    assert len(server.requests) == 3
    assert json.loads(out)["cost"] | {"seconds": 0} == {
        "calls": 0, "repairs": 0, "cached_calls": 1, "prompt_tokens": 0, "completion_tokens": 0,
        "searches": 0, "steps": 0, "chain": 0, "seconds": 0,
    }  # fmt: skip
    assert hopgraph(*words)[0] == 0
    assert len(server.requests) == 4  # the option counts for its command, not for the process


def test_a_run_that_fails_for_the_endpoint_says_how_to_go_on(hopgraph, model, contexts, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda request: Raw(503, '{"error": {"message": "overloaded"}}'))
    code, out, err = hopgraph("ask", "Which?", "-m", "standard_rag", "--contexts", contexts, "--json", "--thread", "t")
    assert code == 3
    assert json.loads(out)["error"]["kind"] == "endpoint"
    assert "overloaded" in err
    assert "hopgraph resume t" in err


def test_a_run_that_fails_for_the_model_has_its_own_exit_code(hopgraph, model, contexts):
    model(lambda request: "nothing of use")
    code, out, err = hopgraph("ask", "Which?", "-m", "standard_rag", "--contexts", contexts, "--json")
    assert code == 1
    assert json.loads(out)["status"] == "failed"
    assert "generator" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ask", "", "-i", "x"], "question: is empty"),
        (["ask", "-i", "x"], "question is missing"),
        (["ask", "x" * 100_000, "-m", "no_retrieval"], "question: has 100,000 characters"),
        (["ask", "Which?", "-m", "prsm"], "unknown method 'prsm'"),
        (["ask", "Which?", "-m", "PRISM"], "did you mean 'prism'? methods: no_retrieval"),
        (["ask", "Which?", "-m", "xyz"], "'xyz'\n  methods: no_retrieval"),
        (["eval", "-m", "iter-retgen", "-i", "x"], "did you mean 'iter_retgen'?"),
        (["ask", "Which?", "--set", "Topk=3"], "did you mean 'top_k'? settings of prism: "),
        (["ask", "Which?"], "index is missing"),
        (["ask", "Which?", "-i", "nowhere"], "nowhere"),
        (["ask", "Which?", "-i", "../../etc"], "../../etc"),
        (["ask", "Which?", "-m", "prism", "--set", "top_k=0"], "top_k: "),
        (["ask", "Which?", "-m", "prism", "--set", "topk=3"], "topk: unknown setting"),
        (["ask", "Which?", "-m", "prism", "--set", "top_k"], "--set 'top_k': must be KEY=VALUE"),
        (["ask", "Which?", "-i", "mine", "--set", "index=foo"], "index: given by --index and by --set"),
        (["eval", "-m", "prism", "-i", "mine", "--set", "index=foo"], "index: given by --index and by --set"),
        (["read", "-i", "mine", "--set", "index=foo"], "index: given by --index and by --set"),
        (["read", "-i", "mine", "--model", "m", "--set", "model=n"], "model: given by --model and by --set"),
        (
            ["read", "-i", "mine", "--coverage-repair", "--set", "coverage_repair=false"],
            "coverage_repair: given by --coverage-repair and by --set",
        ),
        (["ask", "Which?", "--thread", "../t"], "thread: "),
        (["ask", "Which?", "--contexts", "nowhere.jsonl"], "nowhere.jsonl"),
        (["resume", "nowhere"], "unknown thread nowhere"),
        (["graph", "prsm"], "unknown method 'prsm'"),
        (["prompts", "show", "prism/nothing"], "no prompt named 'prism/nothing'"),
        (["prompts", "show", "../../etc/passwd"], "no prompt named"),
        (["prompts", "check", "nowhere"], "no such folder: nowhere"),
        (["prompts", "check"], "no folder to check"),
        (["search", "x", "--index", "nowhere"], "nowhere"),
        (["index", "nowhere.jsonl", "--name", "x"], "nowhere.jsonl"),
    ],
)
def test_wrong_input_is_a_clear_error_with_exit_code_2(hopgraph, model, words, message):
    model(answer)
    code, out, err = hopgraph(*words)
    assert code == 2
    assert out == ""
    assert message in err


def test_a_prompt_text_with_an_unknown_variable_is_refused_before_anything_is_spent(hopgraph, model, contexts):
    server = model(answer)
    code, _, err = hopgraph("ask", "Which?", "--contexts", contexts, "--set", "prompt_answer={{evidence}} {{nothing}}")
    assert code == 2
    assert "prompt_answer:1: unknown variable {{nothing}}" in err
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1/v1", "can't reach the model's server at http://127.0.0.1:1/v1"),
        ("ftp://x", "HOPGRAPH_LLM_URL: not an http(s) URL"),
        ("nonsense", "HOPGRAPH_LLM_URL: not an http(s) URL"),
    ],
)
def test_an_endpoint_that_is_not_there_is_said_at_once(hopgraph, monkeypatch, contexts, url, message):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", url)
    code, _, err = hopgraph("ask", "Which?", "--contexts", contexts)
    assert code in (2, 3)
    assert message in err


def test_a_setting_of_the_wrong_type_is_named(hopgraph, monkeypatch, contexts):
    monkeypatch.setenv("HOPGRAPH_LLM_TIMEOUT", "soon")
    code, _, err = hopgraph("ask", "Which?", "--contexts", contexts)
    assert code == 2
    assert "HOPGRAPH_LLM_TIMEOUT" in err


def test_a_prompt_is_swapped_in_each_of_the_three_ways(hopgraph, model, contexts, tmp_path, monkeypatch):
    """Edit the file, an overlay folder, a text in the call: each changes the request that the endpoint receives."""
    from prompts import loader

    server = model(lambda request: {"answer": "x"})
    words = ("ask", "Which?", "-m", "standard_rag", "--contexts", contexts, "--json")
    hashes = [json.loads(hopgraph(*words)[1])["prompts"]["standard_rag/answer"]]
    assert hopgraph(*words, "--set", "prompt_answer=In a call. {{evidence}} {{question}}")[0] == 0
    assert server.requests[-1].prompt.startswith("In a call.")

    shipped = tmp_path / "shipped" / "standard_rag"
    shipped.mkdir(parents=True)
    original = (loader.FOLDER / "standard_rag" / "answer.md").read_text()
    (shipped / "answer.md").write_text(original.replace("You answer questions", "In the file, you answer questions"))
    (tmp_path / "shipped" / "shared").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(loader, "FOLDER", tmp_path / "shipped")
        hashes.append(json.loads(hopgraph(*words)[1])["prompts"]["standard_rag/answer"])
    assert "In the file, you answer" in server.requests[-1].prompt

    overlay = tmp_path / "overlay" / "standard_rag"
    overlay.mkdir(parents=True)
    (overlay / "answer.md").write_text("In the overlay. {{evidence}} {{question}}")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path / "overlay"))
    from inference.settings import get_settings

    get_settings.cache_clear()
    hashes.append(json.loads(hopgraph(*words)[1])["prompts"]["standard_rag/answer"])
    assert server.requests[-1].prompt.startswith("In the overlay.")
    assert len(set(hashes)) == 3


def test_prompts_are_listed_shown_and_checked(hopgraph, tmp_path):
    code, out, _ = hopgraph("prompts")
    assert code == 0
    assert "prism/selector" in out
    code, out, err = hopgraph("prompts", "show", "prism/selector")
    assert "  candidates: " in out
    assert "# user" in out
    assert "hash: " in err
    (tmp_path / "prism").mkdir()
    (tmp_path / "prism" / "analyzer.md").write_text("Split it.\n\n{{questoin}}\n")
    (tmp_path / "prism" / "answer.md").write_text("{{evidence}} {{question}}")
    code, out, _ = hopgraph("prompts", "check", str(tmp_path))
    assert code == 2
    assert f"{tmp_path / 'prism' / 'analyzer.md'}:3: unknown variable {{{{questoin}}}}" in out
    assert f"{tmp_path / 'prism' / 'answer.md'}: ok" in out
    assert "2 prompts, 1 with errors" in out
    (tmp_path / "prism" / "analyzer.md").unlink()
    assert "1 prompt, 0 with errors" in hopgraph("prompts", "check", str(tmp_path))[1]


@pytest.mark.parametrize("columns", ["80", "40"])
def test_names_of_prompts_are_never_cut(hopgraph, monkeypatch, columns):
    from prompts.loader import prompt_names

    monkeypatch.setenv("COLUMNS", columns)
    words = hopgraph("prompts")[1].split()
    assert not set(prompt_names()) - set(words)
    assert columns == "40" or "multi-hop" in words  # nor is what stands beside them


def test_a_prompt_that_is_shown_can_be_kept_as_a_file_of_one_s_own(hopgraph, tmp_path, monkeypatch):
    from prompts.loader import FOLDER, prompt_names

    for name in prompt_names():
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(hopgraph("prompts", "show", name)[1])
        assert path.read_text() == (FOLDER / f"{name}.md").read_text()
    assert hopgraph("prompts", "check", str(tmp_path))[0] == 0
    mine = "My own, without a header. {{question}} {{evidence}}"
    (tmp_path / "prism" / "answer.md").write_text(mine)
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path))
    get_settings.cache_clear()
    assert hopgraph("prompts", "show", "prism/answer")[1] == mine


@pytest.mark.parametrize("method", METHODS)
def test_graphs_are_drawn_offline(hopgraph, tmp_path, method):
    code, out, _ = hopgraph("graph", method)
    assert code == 0
    assert ".-> __end__" in out or "--> __end__" in out
    code, _, _ = hopgraph("graph", method, "--png", str(tmp_path / "f.png"))
    assert code == 0
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_the_doctor_says_what_works(hopgraph, model):
    model(lambda request: {"colour": "red"} if "response_format" in request.body else "ok")
    code, out, _ = hopgraph("doctor", "--json")
    findings = {row["what"]: row for row in json.loads(out)["findings"]}
    assert code == 0, findings
    assert findings["structured output"]["state"] == "ok"
    assert findings["log-probabilities"]["state"] == "ok"
    assert "vLLM" in findings["endpoint"]["found"]
    assert findings["indexes"]["advice"]


def test_the_doctor_tries_the_reranker(hopgraph, model, monkeypatch):
    model(lambda request: {"ok": True})
    with reranking.RerankServer().running() as server:
        monkeypatch.setenv("HOPGRAPH_RERANK_URL", server.url)
        get_settings.cache_clear()
        for answer, state in [(None, "bad"), (lambda request: reranking.vllm({**request, "query": "paris"}), "ok")]:
            server.answer = answer or reranking.vllm
            findings = json.loads(hopgraph("doctor", "--json")[1])["findings"]
            assert [row["state"] for row in findings if row["what"] == "reranker"] == [state]


def test_the_doctor_makes_no_home(hopgraph, model, home, tmp_path, monkeypatch):
    model(lambda request: {"colour": "red"} if "response_format" in request.body else "ok")
    code, out, _ = hopgraph("doctor", "--json")
    findings = {row["what"]: row for row in json.loads(out)["findings"]}
    assert (code, home.exists()) == (0, False)
    assert (findings["home"]["state"], "does not exist yet" in findings["home"]["found"]) == ("ok", True)
    assert findings["checkpoints"]["found"].endswith("checkpoints.sqlite, 0 threads")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOPGRAPH_HOME", str(tmp_path / "file" / "home"))
    get_settings.cache_clear()
    code, out, _ = hopgraph("doctor", "--json")
    (home_there,) = [row for row in json.loads(out)["findings"] if row["what"] == "home"]
    assert (code, home_there["state"]) == (1, "bad")


def vllm(request, cached=0, top=10, ranks=True):
    """Replies of a vLLM that was started with certain flags."""
    if len(request.prompt) > 1000 and "priority" in request.body and not ranks:
        return Raw(400, '{"error": {"message": "Got priority 1 but Priority scheduling is not enabled."}}')
    if request.body.get("top_logprobs", 0) > top:
        return Raw(
            400, '{"error": {"message": "Requested sample logprobs of 10, which is greater than max allowed: 5"}}'
        )
    if "response_format" in request.body:
        return {"colour": "red"}
    body = completion(request, Completion("ok", tokens=[("ok", -0.1, {"ok": -0.1})]))
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
    return Raw(body=json.dumps(body))


def test_the_doctor_knows_vllm_and_what_it_was_started_with(hopgraph, model):
    version = {"/version": Raw(body='{"version": "0.32.0"}')}
    for script, options, states, found in (
        (
            lambda request: vllm(request, cached=384),
            {"pages": version},
            ("ok", "ok", "ok", "ok"),
            ("vLLM 0.32.0 at", "384 of", "oldest", "with alternatives"),
        ),
        (
            lambda request: vllm(request, top=5, ranks=False),
            {"context": 2048},
            ("note", "note", "note", "note"),
            ("vLLM at", "no cached tokens", "first come", "max allowed: 5"),
        ),
    ):
        model(script, **options)
        code, out, _ = hopgraph("doctor", "--json")
        findings = {row["what"]: row for row in json.loads(out)["findings"]}
        assert code == 0, findings
        rows = [findings[what] for what in ("endpoint", "prefix cache", "scheduling", "log-probabilities")]
        assert tuple(row["state"] for row in rows) == states
        assert all(word in row["found"] for word, row in zip(found, rows, strict=True))
        assert all(row["advice"] for row in rows if row["state"] == "note")


def test_the_doctor_looks_at_the_generator_s_own_server_too(hopgraph, model, monkeypatch):
    script = lambda request: {"colour": "red"} if "response_format" in request.body else "ok"  # noqa: E731
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", model(script).url)
    other = model(script)
    _, out, _ = hopgraph("doctor", "--json")
    findings = {row["what"]: row for row in json.loads(out)["findings"]}
    assert findings["generator's endpoint"]["state"] == "ok"
    assert findings["generator's structured output"]["state"] == "ok"
    assert other.url not in findings["generator's endpoint"]["found"]
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", "http://127.0.0.1:1/v1")
    get_settings.cache_clear()
    code, out, _ = hopgraph("doctor", "--json")
    assert code == 1
    bad = [row for row in json.loads(out)["findings"] if row["state"] == "bad"]
    assert [row["what"] for row in bad] == ["own endpoints"]
    assert "HOPGRAPH_GENERATOR_URL" in bad[0]["advice"]


def test_a_generator_s_server_that_is_not_there_is_said_before_anything_is_spent(
    hopgraph, model, contexts, monkeypatch
):
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", "http://127.0.0.1:1/v1")
    server = model(answer)
    code, _, err = hopgraph("ask", "Where?", "-m", "hanrag", "--contexts", contexts)
    assert code == 3
    assert "127.0.0.1:1" in err
    assert server.requests == []


def test_people_see_what_anrag_kept_and_why(hopgraph, model, contexts):
    script = {"refiner": {"question": "Who directed X?"}, "synthesizer": {"thought": "t", "answer": "Paris"}}
    script |= {"ending_discriminator": {"sufficient": True}, "router": {"route": "complex"}}
    model(lambda request: script.get(request.node) or answer(request))
    code, out, _ = hopgraph(
        "ask", "Where was the director of X born?", "-m", "hanrag", "--contexts", contexts, "--set", "top_k=1"
    )
    assert code == 0
    rows = [" ".join(row.strip("│├└─ ").split()) for row in out.splitlines()]
    assert rows[2:9] == [
        "router complex",
        "refiner Who directed X?",
        "retriever Who directed X?",
        "1 passage",
        "X",
        "relevance_discriminator 0.819 relevant X",
        "generator Paris",
    ]
    assert rows[9:11] == ["ending_discriminator 0.819 sufficient", "synthesizer Paris"]


def test_the_doctor_names_what_does_not_work(hopgraph, monkeypatch, tmp_path):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path / "none"))
    code, out, _ = hopgraph("doctor", "--json")
    bad = {row["what"] for row in json.loads(out)["findings"] if row["state"] == "bad"}
    assert code == 1
    assert {"endpoint", "prompts"} <= bad


def test_the_doctor_notices_a_server_that_ignores_schemas(hopgraph, model):
    model(lambda request: "Sure! The colour is red.")
    code, out, _ = hopgraph("doctor", "--json")
    findings = {row["what"]: row for row in json.loads(out)["findings"]}
    assert code == 1
    assert findings["structured output"]["state"] == "bad"


def test_compactrag_says_that_it_needs_a_knowledge_base_before_a_model_is_asked(hopgraph, model):
    corpus(2)
    server = model(reader)
    code, out, err = hopgraph("ask", "Where was Person 1 born?", "-m", "compactrag", "-i", "towns")
    assert (code, out) == (2, "")
    assert "no knowledge base" in err
    assert "hopgraph read --index towns" in err
    assert (server.requests, server.visits) == ([], [])


def test_compactrag_answers_from_what_was_read_and_says_how_far_it_is(hopgraph, model):
    corpus(3)
    server = model(reader)
    hopgraph("read", "-i", "towns", "--limit", "2")
    lines = {
        "decomposer": {"subquestions": [{"question": "Where was Person 1 born?", "depends_on": []}]},
        "generator": {"thought": "It is said.", "answer": "Rome"},
    }
    server.script = lambda request: lines[request.node]
    code, out, err = hopgraph("ask", "Where was Person 1 born?", "-m", "compactrag", "-i", "towns", "--json")
    result = json.loads(out)
    assert code == 0
    assert (result["answer"], result["cost"]["calls"], result["evidence"][0]) == ("Rome", 2, "p01")
    assert "has 2 of 3 passages" in err
    code, out, _ = hopgraph("ask", "Where was Person 1 born?", "-m", "compactrag", "-i", "towns")
    assert "Where was Person 1 born? Rome" in out


def test_a_reader_answers_no_question(hopgraph, model):
    model(reader)
    code, _, err = hopgraph("ask", "Where?", "-m", "compactrag_reader")
    assert code == 2
    assert "unknown method 'compactrag_reader'" in err
