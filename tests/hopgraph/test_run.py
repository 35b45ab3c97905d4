"""Threads: run, cut off, resumed, shown again. The scripted model's own log shows which calls were made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from hopgraph.methods import load
from hopgraph.run import ask, make_context, read_thread, resume, thread_of
from inference.errors import InputError, StoreError
from inference.settings import get_settings
from stores.checkpoints import checkpoint_place, open_checkpoints
from tests.scripted import Completion, Raw, Request

QUESTION = "Where was the director of X born?"
CONTEXTS = [
    {"title": "X", "text": "X is a film by Ann Lee."},
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
    {"title": "Noise", "text": "Bananas are yellow."},
]
LINES = {
    "analyzer": {"subquestions": ["Who directed X?"]},
    "selector": {"evidence": ["1.0"]},
    "adder": {"evidence": ["2.0"]},
    "generator": {"answer": "Paris"},
}
# Analyzer, Selector, Adder, Selector (keeps 1.0 alone), Adder, generator: the second round changes nothing.
NODES = ["analyzer", "selector", "adder", "selector", "adder", "generator"]


def play(request: Request):
    return LINES[request.node]


async def start(thread: str, **options):
    async with open_checkpoints() as saver:
        context = make_context("prism", options.pop("settings", {}))
        return await ask(QUESTION, context, saver, thread=thread, contexts=CONTEXTS, **options)


async def go_on(thread: str):
    async with open_checkpoints() as saver:
        return await resume(thread, saver)


def without_times(result):
    """Nor the texts of the evidence, which only the command line adds."""
    kept = {name: value for name, value in result.items() if name != "passages"}
    return {**kept, "cost": {**result["cost"], "seconds": 0}}


async def test_a_result_has_the_contract_s_fields(model):
    model(play)
    result = await start("t")
    assert list(result) == [
        "id", "method", "question", "answer", "status", "evidence", "retrieved", "trajectory", "cost", "thread",
        "prompts",
    ]  # fmt: skip
    assert result["status"] == "answered"
    assert result["answer"] == "Paris"
    assert result["cost"]["calls"] == 6
    assert result["cost"]["prompt_tokens"] > 100
    assert result["thread"] == "t"
    assert json.loads(json.dumps(result)) is not None


async def test_steps_are_reported_while_they_happen(model):
    seen = []
    model(play)
    result = await start("t", on_step=lambda step: seen.append(step["id"]))
    assert seen == [step["id"] for step in result["trajectory"]]


async def test_a_finished_thread_is_shown_and_not_run_again(model):
    server = model(play)
    first = await start("t")
    assert await go_on("t") == first
    assert server.nodes() == NODES


async def test_an_endpoint_that_fails_leaves_a_resumable_run(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    down = True
    server = model(lambda r: Raw(503, "{}") if down and r.node == "adder" else play(r))
    failed = await start("t")
    assert failed["status"] == "failed"
    assert failed["answer"] == ""
    assert failed["error"]["kind"] == "endpoint"
    assert failed["error"]["node"] == "adder"
    assert "503" in failed["error"]["message"]
    assert failed["cost"]["calls"] == 2
    down = False
    result = await go_on("t")
    assert result["answer"] == "Paris"
    assert "error" not in result
    assert result["cost"]["calls"] == 6
    assert [r.node for r in server.requests if r.finished] == NODES


async def test_resuming_gives_the_same_result_as_an_uninterrupted_run(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(play)
    whole = await start("whole")
    failing = iter([True] * 1)
    model(lambda r: Raw(500, "{}") if r.node == "generator" and next(failing, False) else play(r))
    assert (await start("cut"))["status"] == "failed"
    resumed = await go_on("cut")
    assert without_times({**resumed, "thread": ""}) == without_times({**whole, "thread": ""})


async def test_a_thread_killed_between_a_task_and_its_step_is_not_taken_for_finished(model, monkeypatch):
    """Every task of the step is kept, and the step is not: LangGraph then names no next node."""
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    server = model(play)
    async with open_checkpoints() as saver:
        put, steps = saver.aput, []

        async def killed(*args):
            steps.append(args)
            if len(steps) == 5:
                raise OSError("killed")
            return await put(*args)

        with monkeypatch.context() as patch:
            patch.setattr(saver, "aput", killed)
            with pytest.raises(OSError, match="killed"):
                await ask(QUESTION, make_context("prism", {}), saver, thread="t", contexts=CONTEXTS)
        found = await read_thread("t", saver)
        assert not found.finished
        assert (await resume("t", saver))["answer"] == "Paris"
    assert server.nodes() == NODES


async def test_settings_and_question_come_back_from_the_thread(model):
    model(play)
    await start("t", settings={"max_iterations": 1, "temperature": 0.5}, question_id="q7")
    async with open_checkpoints() as saver:
        found = await read_thread("t", saver)
    assert (found.method, found.question, found.question_id, found.finished) == ("prism", QUESTION, "q7", True)
    assert found.context.model_dump()["max_iterations"] == 1
    assert found.context.temperature == 0.5


@pytest.mark.parametrize("thread", ["", "../x", "a/b", "a" * 101, "é", "-x", "a b", "x\0y"])
async def test_a_thread_id_that_is_none_is_refused(model, thread):
    model(play)
    with pytest.raises(InputError, match="thread: "):
        await start(thread)
    with pytest.raises(InputError, match="thread: "):
        await go_on(thread)


async def test_an_unknown_thread_is_named(model):
    model(play)
    with pytest.raises(StoreError, match="unknown thread nowhere"):
        await go_on("nowhere")


def test_the_thread_of_a_question_depends_on_run_method_question_and_settings():
    context = make_context("prism", {"index": "i"})
    same = thread_of("run", context, "q")
    assert same == thread_of("run", make_context("prism", {"index": "i"}), "q")
    others = [
        thread_of("other", context, "q"),
        thread_of("run", context, "other"),
        thread_of("run", make_context("standard_rag", {"index": "i"}), "q"),
        thread_of("run", make_context("prism", {"index": "i", "top_k": 6}), "q"),
        thread_of("run", make_context("prism", {"index": "i", "prompt_answer": "{{evidence}}{{question}}"}), "q"),
    ]
    assert len({same, *others}) == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"top_k": 0}, "top_k: .*greater than or equal to 1"),
        ({"top_k": "many"}, "top_k: .*integer"),
        ({"topk": 3}, "topk: unknown setting"),
        ({"ablate": ["everything"]}, "ablate.0: "),
        ({"condition": "x"}, "condition: "),
        ({"temperature": 3}, "temperature: "),
    ],
)
def test_a_wrong_setting_is_named(values, message):
    with pytest.raises(InputError, match=message):
        make_context("prism", values)


def test_an_unknown_method_is_named_with_those_there_are():
    with pytest.raises(InputError, match="prsm") as caught:
        make_context("prsm", {})
    assert "standard_rag" in caught.value.hint


async def test_no_key_reaches_checkpoints_or_results(model, monkeypatch, home):
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", "sk-verysecret")
    server = model(play)
    result = await start("t")
    assert server.requests[0].headers["authorization"] == "Bearer sk-verysecret"
    assert "verysecret" not in json.dumps(result)
    for path in home.rglob("*"):
        assert not path.is_file() or b"verysecret" not in path.read_bytes()


async def test_checkpoints_hold_ids_not_passages(model, home):
    model(play)
    text = "Ann Lee was born in Paris. " + "A long story. " * 2000
    async with open_checkpoints() as saver:
        await ask(QUESTION, make_context("prism", {}), saver, thread="t", contexts=[{"title": "A", "text": text}])
    size = sum(path.stat().st_size for path in home.glob("checkpoints.sqlite*"))
    assert size < 10 * len(text)


async def test_a_prompt_swapped_in_the_context_is_kept_for_the_resume(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    down = iter([True])
    server = model(lambda r: Raw(500, "{}") if r.node == "generator" and next(down, False) else play(r))
    own = "My own words. {{evidence}} {{question}}"
    assert (await start("t", settings={"prompt_answer": own}))["status"] == "failed"
    await go_on("t")
    assert "My own words." in server.requests[-1].prompt


def _command(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hopgraph", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def _kill_when(server, process, requests: int, after: float = 0.1) -> None:
    deadline = time.time() + 60
    while len(server.requests) < requests and time.time() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    time.sleep(after)  # into the call
    process.send_signal(signal.SIGKILL)
    process.wait()


def _repeated(server) -> dict[str, int]:
    return {key: count for key, count in Counter(r.id for r in server.requests).items() if count > 1}


@pytest.mark.parametrize(
    "requests", [3, pytest.param(1, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow)]
)
async def test_after_kill_9_only_the_call_in_flight_is_made_again(model, tmp_path, requests):
    server = model(lambda r: Completion(json.dumps(LINES[r.node]), delay=0.5))
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    process = _command("ask", QUESTION, "--method", "prism", "--contexts", str(contexts), "--thread", "t", "--json")
    _kill_when(server, process, requests)
    in_flight = server.requests[-1].id
    out, err = _command("resume", "t", "--json").communicate(timeout=60)
    result = json.loads(out)
    assert result["answer"] == "Paris", err
    assert _repeated(server) in ({in_flight: 2}, {})
    assert result["cost"]["calls"] == 6
    server.script = play
    whole = await start("whole")
    assert without_times({**result, "thread": ""}) == without_times({**whole, "id": "ask", "thread": ""})


HOPS = {
    "router": {"route": "complex"},
    "refiner": {"question": "Who directed X?"},
    "relevance_discriminator": {"relevant": True},
    "generator": {"answer": "Ann Lee"},
    "ending_discriminator": {"sufficient": False},
    "synthesizer": {"thought": "t", "answer": "Paris"},
}


# The judgements of the second hop are requests 9, 10 and 11.
@pytest.mark.parametrize("requests", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 6, 12))])
async def test_a_kill_inside_a_subgraph_repeats_no_call_that_was_finished(model, tmp_path, requests):
    """Three judgements side by side, of which the second hop's first is finished and the others are under way."""

    def delay(request: Request) -> float:
        judges = request.node == "relevance_discriminator"
        return 0.2 if judges and 'title="X"' in request.prompt else 1.5 if judges else 0.3

    server = model(lambda r: Completion(json.dumps(HOPS[r.node]), delay=delay(r)))
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    words = ("--method", "hanrag", "--contexts", str(contexts), "--thread", "t", "--json", "--set", "max_steps=2")
    process = _command("ask", QUESTION, *words)
    _kill_when(server, process, requests, after=0.7)
    finished = {r.id for r in server.requests if r.finished}
    out, err = _command("resume", "t", "--json").communicate(timeout=120)
    result = json.loads(out)
    assert result["answer"] == "Paris", err
    assert not set(_repeated(server)) & finished
    assert (result["cost"]["calls"], result["cost"]["steps"]) == (13, 2)
    server.script = lambda r: HOPS[r.node]
    async with open_checkpoints() as saver:
        context = make_context("hanrag", {"max_steps": 2})
        whole = await ask(QUESTION, context, saver, thread="whole", contexts=CONTEXTS)
    assert without_times({**result, "thread": ""}) == without_times({**whole, "thread": ""})


@pytest.mark.slow
async def test_a_kill_during_a_repair_does_not_repeat_the_first_reply(model, tmp_path):
    def script(request: Request):
        bad = request.node == "adder" and not request.id.endswith("r")
        return Completion("garbage" if bad else json.dumps(LINES[request.node]), delay=0.5)

    server = model(script)
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    process = _command("ask", QUESTION, "--contexts", str(contexts), "--thread", "t")
    _kill_when(server, process, 4)
    repair = server.requests[-1].id
    assert repair.endswith("r")
    assert json.loads(_command("resume", "t", "--json").communicate(timeout=60)[0])["status"] == "answered"
    assert _repeated(server) == {repair: 2}


async def test_checkpoints_of_damaged_files_are_a_clear_error(home):
    home.mkdir()
    (home / "checkpoints.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
        async with open_checkpoints():
            pass


async def test_the_place_of_checkpoints_can_be_chosen(monkeypatch, tmp_path, model):
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", str(tmp_path / "mine.sqlite"))
    model(play)
    assert checkpoint_place() == str(tmp_path / "mine.sqlite")
    await start("t")
    assert (tmp_path / "mine.sqlite").exists()
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", "mysql://x/y")
    get_settings.cache_clear()
    with pytest.raises(InputError, match="mysql"):
        async with open_checkpoints():
            pass


SERVERS = {"graph_id": "prism", "assistant_id": "a", "run_id": "r", "top_k": 2}
"""What the local server puts into the metadata of a thread's checkpoints; it mixes settings in."""


async def served(saver, thread, stop_after):
    """A thread of the local server, stopped after a node."""
    graph = load("prism", saver)
    config = {"configurable": {"thread_id": thread}, "metadata": SERVERS}
    given = {"question": QUESTION, "contexts": CONTEXTS}
    await graph.ainvoke(given, config, context=make_context("prism", {"top_k": 2}), interrupt_after=stop_after)
    return graph, config


async def test_a_thread_of_the_server_that_was_resumed_here_still_says_whose_it_is(model):
    model(play)
    async with open_checkpoints() as saver:
        _, config = await served(saver, "t", ["analyzer"])
        assert (await resume("t", saver))["status"] == "answered"
        found = await read_thread("t", saver)
        assert (found.method, found.question, found.finished) == ("prism", QUESTION, True)
        assert found.context.top_k == 2
        kept = {name: SERVERS[name] for name in ("graph_id", "assistant_id", "run_id")}
        latest = await saver.aget_tuple(config)
        assert latest.metadata | kept == latest.metadata
        assert (await resume("t", saver))["status"] == "answered"


async def test_a_thread_whose_latest_checkpoint_says_nothing_is_found_by_an_earlier_one(model):
    model(play)
    async with open_checkpoints() as saver:
        graph, config = await served(saver, "t", ["analyzer"])
        await graph.aupdate_state({"configurable": config["configurable"]}, {"iteration": 0})
        latest = await saver.aget_tuple(config)
        assert "graph_id" not in latest.metadata
        assert (await read_thread("t", saver)).method == "prism"
        assert (await resume("t", saver))["status"] == "answered"


async def test_a_run_of_the_server_that_was_cut_off_before_its_first_node_keeps_question_and_settings(model):
    model(play)
    async with open_checkpoints() as saver:
        _, config = await served(saver, "t", ["analyzer"])
        first = [row async for row in saver.alist(config)][-1]
        await saver.adelete_thread("t")
        empty = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        await saver.aput(empty, first.checkpoint, first.metadata, first.checkpoint["channel_versions"])
        found = await read_thread("t", saver)
        assert (found.question, found.context.top_k, found.finished) == (QUESTION, 2, False)
        result = await resume("t", saver)
    assert (result["status"], result["answer"]) == ("answered", "Paris")
