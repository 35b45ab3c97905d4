"""Graphs as people type them in Python: synchronous calls, settings, state, subgraphs."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import sysconfig
import threading
import venv
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from hopgraph import load
from inference.errors import EndpointError, InputError
from nodes.prism.context import PrismContext
from nodes.prunerag.context import PruneContext
from stores.checkpoints import open_checkpoints
from tests.scripted import Raw, plausible

ROOT = Path(__file__).parents[2]
GIVEN = {
    "question": "Where was Ann Lee born?",
    "contexts": [{"title": "Ann Lee", "text": "Ann Lee was born in Paris. She died in Oslo."}],
}
THREAD = {"configurable": {"thread_id": "t"}}


def test_invoke_works_in_a_plain_function_and_without_a_context(model):
    model(plausible)
    state = load("prism").invoke(GIVEN)
    assert (state["answer"], state["status"]) == ("Paris", "answered")


async def test_invoke_works_where_a_loop_runs_already(model):
    model(plausible)
    assert load("prism").invoke(GIVEN, context={})["answer"] == "Paris"
    assert [list(chunk) for chunk in load("standard_rag").stream(GIVEN, stream_mode="updates")][-1] == ["generator"]
    assert (await load("prism").ainvoke(GIVEN))["answer"] == "Paris"


def test_a_script_that_uses_the_graph_ends_without_a_word_on_stderr(model, home):
    server = model(plausible)
    script = f"from hopgraph import load; print(load('standard_rag').invoke({GIVEN!r})['answer'])"
    environment = {"HOPGRAPH_HOME": str(home), "HOPGRAPH_LLM_URL": server.url, "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Paris\n", "")


def test_batch_keeps_the_order_and_runs_side_by_side(model):
    together = threading.Barrier(3, timeout=30)

    def script(request):
        together.wait()  # no reply before all three have asked
        return {"answer": next(word for word in ("one", "two", "three") if word in request.prompt)}

    model(script)
    inputs = [{**GIVEN, "question": word} for word in ("one", "two", "three")]
    assert [state["answer"] for state in load("standard_rag").batch(inputs)] == ["one", "two", "three"]


def test_one_failure_of_a_batch_is_returned_where_that_is_asked_for(model):
    model(lambda request: Raw(401, "{}") if "two" in request.prompt else {"answer": "x"})
    inputs = [{**GIVEN, "question": word} for word in ("one", "two")]
    good, bad = load("standard_rag").batch(inputs, return_exceptions=True)
    assert good["answer"] == "x"
    assert isinstance(bad, EndpointError)


def test_stream_gives_each_step_when_it_is_done_and_closing_it_cancels_the_run(model):
    asked, answers = threading.Event(), threading.Event()

    def script(request):
        if request.node == "selector":
            asked.set()
            answers.wait(30)
        return plausible(request)

    server = model(script)
    steps = load("prism").stream(GIVEN, stream_mode="updates")
    seen = [next(steps) for _ in range(3)]  # before the selector has its reply
    assert ["intake"] in [list(step) for step in seen]
    assert not answers.is_set()
    while "retriever" not in next(steps):
        pass
    reader = threading.Thread(target=lambda: [None for _ in [next(steps, None)]])
    reader.start()
    assert asked.wait(30)
    answers.set()
    reader.join(30)
    steps.close()
    made = server.nodes()
    assert "generator" not in made
    assert load("standard_rag").invoke(GIVEN)["answer"] == "Paris"  # the loop is free for others
    assert server.nodes() == [*made, "generator"]


def test_ctrl_c_stops_the_run(model, home, tmp_path):
    started, leave = threading.Event(), threading.Event()

    def hold(request):
        started.set()
        leave.wait(60)
        return {"answer": "x"}

    server = model(hold)
    # Where the tests run in the background SIGINT is ignored.
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{handled}; from hopgraph import load; load('standard_rag').invoke({GIVEN!r})"
    environment = {"HOPGRAPH_HOME": str(home), "HOPGRAPH_LLM_URL": server.url, "PATH": ""}
    running = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    assert started.wait(60)
    running.send_signal(2)
    _, said = running.communicate(timeout=30)  # while the endpoint still has not answered
    leave.set()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert running.returncode != 0


def test_settings_may_be_given_once_and_a_calls_context_goes_on_top(model):
    server = model(plausible)
    graph = load("standard_rag", temperature=0.5, max_tokens=77)
    graph.invoke(GIVEN)
    graph.invoke(GIVEN, context={"max_tokens": 99})
    sent = [(request.body["temperature"], request.body["max_tokens"]) for request in server.requests]
    assert sent == [(0.5, 77), (0.5, 99)]


def test_a_copy_of_the_graph_keeps_its_settings(model):
    server = model(plausible)
    load("standard_rag", max_tokens=77).with_config(tags=["mine"]).copy({"name": "other"}).invoke(GIVEN)
    assert server.requests[0].body["max_tokens"] == 77


def test_a_context_object_is_taken_and_that_of_another_method_refused(model):
    server = model(plausible)
    load("prism", max_tokens=66).invoke(GIVEN, context=PrismContext(temperature=0.5))
    assert {(r.body["temperature"], r.body["max_tokens"]) for r in server.requests} == {(0.5, 66)}
    with pytest.raises(InputError, match="PruneContext is not for prism"):
        load("prism").invoke(GIVEN, context=PruneContext())


@pytest.mark.parametrize("call", ["invoke", "stream", "batch", "ainvoke", "astream", "load"])
def test_a_mistyped_setting_is_named_with_the_near_one(call):
    async def astream():
        return [chunk async for chunk in load("prism").astream(GIVEN, context={"topk": 3})]

    calls = {
        "invoke": lambda: load("prism").invoke(GIVEN, context={"topk": 3}),
        "stream": lambda: list(load("prism").stream(GIVEN, context={"topk": 3})),
        "batch": lambda: load("prism").batch([GIVEN], context={"topk": 3}),
        "ainvoke": lambda: asyncio.run(load("prism").ainvoke(GIVEN, context={"topk": 3})),
        "astream": lambda: asyncio.run(astream()),
        "load": lambda: load("prism", topk=3),
    }
    with pytest.raises(InputError) as refused:
        calls[call]()
    assert str(refused.value).startswith("topk: unknown setting\n  did you mean 'top_k'? settings of prism: index,")


def test_an_unknown_method_is_told_with_the_near_one_and_all_there_are():
    with pytest.raises(InputError) as refused:
        load("prsm")
    assert "did you mean 'prism'?" in str(refused.value)
    assert "prunerag" in str(refused.value)


def test_a_context_that_is_no_mapping_is_refused(home):
    with pytest.raises(InputError, match="must be settings by name, not str"):
        load("prism").invoke(GIVEN, context="mine")


@pytest.mark.parametrize("kind", ["checkpoints", "memory", "sync sqlite"])
def test_state_can_be_looked_at_changed_and_gone_on_from(model, tmp_path, kind):
    server = model(plausible)
    if kind == "checkpoints":
        graph = load("prism", checkpoints=tmp_path / "my runs" / "runs.sqlite")
    elif kind == "memory":
        graph = load("prism", InMemorySaver())
    else:
        graph = load("prism", SqliteSaver(sqlite3.connect(tmp_path / "runs.sqlite", check_same_thread=False)))
    graph.invoke(GIVEN, THREAD, context={"max_tokens": 66}, interrupt_before=["generator"])
    assert graph.get_state(THREAD).next == ("generator",)
    graph.update_state(THREAD, {"question": "Where was Bob Ray born?"})
    state = graph.invoke(None, THREAD)
    assert state["answer"] == "Paris"
    assert "Bob Ray" in server.requests[-1].prompt
    assert server.requests[-1].body["max_tokens"] == 66  # as the thread was started, without saying so again
    history = [snapshot.next for snapshot in graph.get_state_history(THREAD)]
    assert history[0] == ()
    assert history[-1] == ("__start__",)
    assert asyncio.run(graph.aget_state(THREAD)).values["answer"] == "Paris"


async def test_checkpoints_that_were_opened_for_asynchronous_calls_serve_synchronous_ones(model, tmp_path):
    model(plausible)
    async with open_checkpoints(str(tmp_path / "runs.sqlite")) as saver:
        graph = load("standard_rag", saver)
        await asyncio.to_thread(graph.invoke, GIVEN, THREAD)
        assert (await graph.aget_state(THREAD)).values["answer"] == "Paris"
        assert graph.get_state(THREAD).values["answer"] == "Paris"


def test_a_checkpointer_and_checkpoints_together_are_refused(tmp_path):
    with pytest.raises(InputError, match="only one of them"):
        load("prism", InMemorySaver(), checkpoints=tmp_path / "runs.sqlite")


class Outer(TypedDict, total=False):
    question: str
    contexts: list
    answer: str


def around(graph):
    """Somebody's own graph with ours as a node."""
    builder = StateGraph(Outer)
    builder.add_node("ask", graph)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder


@pytest.mark.parametrize("saver", [None, "memory", "sqlite"])
def test_it_is_a_subgraph_of_a_graph_that_runs_synchronously(model, tmp_path, saver):
    server = model(plausible)
    savers = {
        None: lambda: None,
        "memory": InMemorySaver,
        "sqlite": lambda: SqliteSaver(sqlite3.connect(tmp_path / "outer.sqlite", check_same_thread=False)),
    }
    outer = around(load("standard_rag", max_tokens=66)).compile(checkpointer=savers[saver]())
    assert outer.invoke(GIVEN, THREAD)["answer"] == "Paris"
    assert server.requests[0].body["max_tokens"] == 66
    seen = [chunk for _, chunk in outer.stream(GIVEN, THREAD, stream_mode="updates", subgraphs=True)]
    assert ["generator"] in [list(chunk) for chunk in seen]


async def test_it_is_a_subgraph_of_a_graph_that_runs_asynchronously(model):
    model(plausible)
    outer = around(load("prism")).compile(checkpointer=InMemorySaver())
    assert (await outer.ainvoke(GIVEN, THREAD))["answer"] == "Paris"


async def test_a_synchronous_call_in_an_asynchronous_node_of_the_background_loop_is_refused_and_does_not_hang(model):
    model(plausible)

    async def inside():
        return load("standard_rag").invoke(GIVEN)

    from hopgraph.background import run

    with pytest.raises(RuntimeError, match="await `ainvoke`"):
        await asyncio.to_thread(run, inside())


def test_a_notebook_draws_the_graph_without_asking_a_web_service():
    shown = load("prism")._repr_mimebundle_()
    assert "image/png" not in shown
    assert "selector" in shown["text/markdown"]


SCRIPT = """
from hopgraph import load
graph = load("prism", index="mine", top_k=10)
state = graph.invoke({"question": "?"}, context={"top_k": 3})
reveal_type(state["answer"])
reveal_type(state["evidence"][0]["title"])
reveal_type(graph.batch([{"question": "?"}])[0]["status"])
async def f() -> None:
    reveal_type((await graph.ainvoke({"question": "?"}))["trajectory"][0]["kind"])
state["anser"]
graph.invoke({"qestion": "?"})
"""


@pytest.mark.slow  # mypy reads LangGraph's types
def test_type_checkers_see_what_comes_back(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    # mypy does not follow the hooks of an editable install; folders named in a .pth file count as installed.
    venv.create(tmp_path / "env", with_pip=False)
    (installed,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (installed / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "script.py"]
    command += ["--python-executable", str(tmp_path / "env" / "bin" / "python")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    types = [line.partition('Revealed type is "')[2].rstrip('"') for line in lines if "Revealed" in line]
    assert types[:2] == ["str", "str"] or types[:2] == ["builtins.str", "builtins.str"]
    assert "Literal['answered']" in types[2]
    assert "Literal['route']" in types[3]
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 2
    assert '"anser"' in errors[0]
    assert "QuestionInput" in errors[1]


def test_importing_hopgraph_is_quick():
    heavy = ("langgraph", "langchain_core", "pydantic", "chromadb", "numpy")
    script = f"import hopgraph, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_packages_say_that_they_are_typed():
    assert all((ROOT / name / "py.typed").exists() for name in ("hopgraph", "nodes", "inference", "prompts", "stores"))
