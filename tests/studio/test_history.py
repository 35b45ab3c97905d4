"""One history: what `ask` and evaluations wrote opens in the server, and the server's threads go on after a kill."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

from hopgraph.cli.studio import state_folder
from hopgraph.run import ask, make_context, read_thread, resume
from inference.errors import StoreError
from inference.settings import get_settings
from stores.checkpoints import only_here, open_checkpoints
from tests.collector import Collector
from tests.graphs import test_parrag
from tests.scripted import ScriptedModel, plausible
from tests.studio import client
from tests.studio.conftest import QUESTION, ROOT, start_studio

pytestmark = pytest.mark.slow

THREAD = "0b1d2c7e-0000-5000-8000-00000000000a"
HERE = {"index": "small", "top_k": 2}


@pytest.fixture
def here(home_folder, scripted, monkeypatch):
    """This process with the settings of the server's."""
    monkeypatch.setenv("HOPGRAPH_HOME", str(home_folder))
    monkeypatch.setenv("HOPGRAPH_LLM_URL", scripted.url)
    get_settings.cache_clear()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def write(place, thread, **context):
    """A thread as `ask` writes one, or an evaluation."""

    async def once():
        async with open_checkpoints(place) as saver:
            made = make_context("prism", {"index": "small", "top_k": 2, **context})
            return await ask(QUESTION, made, saver, thread=thread)

    return asyncio.run(once())


def test_a_thread_of_ask_opens_and_is_forked_with_its_settings(here, home_folder, scripted, tmp_path):
    place = tmp_path / "checkpoints.sqlite"
    result = write(str(place), THREAD, ablate=["loop"])
    server = start_studio(home_folder, scripted, "--thread", THREAD, checkpoints=place)
    try:
        assert f"/studio/thread/{THREAD}?baseUrl={server.url}" in server.said
        client = server.client
        assert client.threads.get(THREAD)["metadata"]["question"] == QUESTION
        values = client.threads.get_state(THREAD)["values"]
        assert values["answer"] == result["answer"]
        assert values["settings"] == {"index": "small", "top_k": 2, "ablate": ["loop"]}
        assistant = client.assistants.get(THREAD)
        assert (assistant["graph_id"], assistant["context"]) == ("prism", values["settings"])
        history = client.threads.get_history(THREAD, limit=50)
        early = next(row for row in history if row["next"] == ["retriever"])
        forked = {"checkpoint_id": early["checkpoint"]["checkpoint_id"], "input": None}
        run = client.runs.create(THREAD, assistant["assistant_id"], **forked)
        client.runs.join(THREAD, run["run_id"])
        assert client.threads.get_state(THREAD)["values"]["status"] == "answered"
    finally:
        server.kill()


def test_threads_of_an_evaluation_s_folder_open(here, home_folder, scripted, tmp_path):
    write(str(tmp_path / "checkpoints.sqlite"), THREAD)
    server = start_studio(home_folder, scripted, "--run", str(tmp_path))
    try:
        assert "threads     the newest 1" in server.said
        assert [row["thread_id"] for row in server.client.threads.search()] == [THREAD]
        assert server.client.threads.get_state(THREAD)["values"]["question"] == QUESTION
    finally:
        server.kill()


def test_a_thread_of_the_server_is_read_by_the_commands(studio, here):
    client = studio.client
    thread = client.threads.create(graph_id="prism")["thread_id"]
    run = client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE | {"ablate": ["loop"]})
    client.runs.join(thread, run["run_id"])

    async def look():
        async with open_checkpoints() as saver:
            return await read_thread(thread, saver), await resume(thread, saver)

    found, result = asyncio.run(look())
    assert (found.method, found.question, found.finished) == ("prism", QUESTION, True)
    assert found.context.ablate == ["loop"]
    assert result["status"] == "answered"


def test_a_run_is_cancelled_and_goes_on_later(studio, script):
    client = studio.client
    reached, go_on = threading.Event(), threading.Event()

    def slow(request):
        if request.node == "selector":
            reached.set()
            go_on.wait(60)
        return plausible(request)

    model = script(slow)
    before = len(model.requests)
    thread = client.threads.create(graph_id="prism")["thread_id"]
    run = client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE)
    assert reached.wait(60)
    client.runs.cancel(thread, run["run_id"], wait=True)
    go_on.set()
    assert client.runs.get(thread, run["run_id"])["status"] == "interrupted"
    assert client.threads.get_state(thread)["next"] == ["selector"]
    run = client.runs.create(thread, "prism", input=None, context=HERE)
    client.runs.join(thread, run["run_id"])
    assert client.threads.get_state(thread)["values"]["status"] == "answered"
    assert [request.node for request in model.requests[before:]].count("analyzer") == 1


def test_a_thread_is_run_by_the_server_or_by_a_command_but_not_by_both(studio, here, script):
    client = studio.client
    reached, go_on = threading.Event(), threading.Event()

    def slow(request):
        if request.node == "selector":
            reached.set()
            go_on.wait(60)
        return plausible(request)

    model = script(slow)
    thread = client.threads.create(graph_id="prism")["thread_id"]
    run = client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE)
    assert reached.wait(60)
    before = len(model.requests)

    async def go_on_here():
        async with open_checkpoints() as saver:
            return await resume(thread, saver)

    with pytest.raises(StoreError, match=f"thread {thread} is being run by another process"):
        asyncio.run(go_on_here())
    assert len(model.requests) == before
    assert client.threads.get_state(thread)["next"] == ["selector"]  # looking is free
    go_on.set()
    client.runs.join(thread, run["run_id"])
    assert client.threads.get_state(thread)["values"]["status"] == "answered"

    async def hold():
        async with open_checkpoints() as saver, only_here(saver, thread):
            return await asyncio.to_thread(run_there)

    def run_there():
        again = client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE)
        client.runs.join(thread, again["run_id"])
        return client.runs.get(thread, again["run_id"])["status"], client.threads.get(thread)["error"]["message"]

    status, message = asyncio.run(hold())
    assert status == "error"
    assert "is being run by another process" in message
    again = client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE)
    client.runs.join(thread, again["run_id"])
    assert client.runs.get(thread, again["run_id"])["status"] == "success"


def test_runs_of_the_server_go_out_as_spans(home_folder, scripted, tmp_path):
    with Collector().running() as collector:
        wanted = {"HOPGRAPH_OTEL": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        server = start_studio(home_folder, scripted, checkpoints=tmp_path / "checkpoints.sqlite", **wanted)
        try:
            client = server.client
            thread = client.threads.create(graph_id="hanrag")["thread_id"]
            run = client.runs.create(thread, "hanrag", input={"question": QUESTION}, context=HERE)
            client.runs.join(thread, run["run_id"])
            wait_for(lambda: collector.named("invoke_workflow hanrag"))
            root = collector.only("invoke_workflow hanrag")
            assert root.attributes["hopgraph.question"] == QUESTION
            assert root.attributes["hopgraph.thread"] == thread
            assert root.attributes["hopgraph.status"] == "answered"
            assert collector.path(collector.named("chat scripted")[0]).startswith("invoke_workflow hanrag > ")
            assert {span.trace for span in collector.spans} == {root.trace}
        finally:
            server.kill()


def test_after_kill_9_a_new_server_takes_the_run_up_and_repeats_the_call_in_flight_alone(home_folder, tmp_path):
    place = tmp_path / "checkpoints.sqlite"
    reached, go_on = threading.Event(), threading.Event()

    def slow(request):
        if request.node == "selector" and not go_on.is_set():
            reached.set()
            go_on.wait(90)
        return plausible(request)

    with ScriptedModel(slow).running() as model:
        first = start_studio(home_folder, model, checkpoints=place)
        thread = first.client.threads.create(graph_id="prism")["thread_id"]
        run = first.client.runs.create(thread, "prism", input={"question": QUESTION}, context=HERE)
        assert reached.wait(60)
        first.kill()
        go_on.set()
        second = start_studio(home_folder, model, checkpoints=place)
        try:
            client = second.client
            wait_for(lambda: client.runs.get(thread, run["run_id"])["status"] == "success")
            assert client.threads.get_state(thread)["values"]["status"] == "answered"
            asked = [request.id for request in model.requests]
            assert [request.node for request in model.requests].count("analyzer") == 1
            repeated = {key for key in asked if asked.count(key) > 1}
            assert len(repeated) == 1
            assert ".selector." in repeated.pop()
        finally:
            second.kill()


def test_a_thread_goes_from_a_killed_server_to_a_command_and_back(here, home_folder, tmp_path, monkeypatch):
    place = str(tmp_path / "checkpoints.sqlite")
    reached, go_on = threading.Event(), threading.Event()

    def slow(request):
        if request.node == "selector" and not go_on.is_set():
            reached.set()
            go_on.wait(90)
        return plausible(request)

    async def resumed():
        async with open_checkpoints(place) as saver:
            return await resume(thread, saver)

    async def shown():
        async with open_checkpoints(place) as saver:
            return await read_thread(thread, saver)

    with ScriptedModel(slow).running() as model:
        first = start_studio(home_folder, model, checkpoints=place)
        thread = client.new_thread(first.url, "prism")
        client.start(first.url, "prism", thread, {"question": QUESTION}, context=HERE)
        assert reached.wait(60)
        first.kill()
        go_on.set()
        monkeypatch.setenv("HOPGRAPH_LLM_URL", model.url)
        get_settings.cache_clear()
        assert asyncio.run(resumed())["status"] == "answered"
        calls = len(model.requests)
        assert (asyncio.run(shown()).method, asyncio.run(resumed())["status"]) == ("prism", "answered")
        (state_folder(home_folder.resolve(), place) / ".langgraph_api" / ".langgraph_ops.pckl").unlink()
        second = start_studio(home_folder, model, checkpoints=place)  # knows the thread by its checkpoints alone
        try:
            assert [row["thread_id"] for row in second.client.threads.search()] == [thread]
            assert client.state(second.url, thread)["values"]["status"] == "answered"
            assert client.fork(second.url, "prism", thread, context=HERE)["status"] == "answered"
            client.edit(second.url, thread, {"question": "Who directed it?"})
        finally:
            second.kill()
        found = asyncio.run(shown())
        assert (found.method, found.question, found.context.top_k) == ("prism", "Who directed it?", 2)
        assert asyncio.run(resumed())["status"] == "answered"
        assert [request.node for request in model.requests[:calls]].count("analyzer") == 1


def test_a_run_that_a_command_ended_is_not_run_again_by_the_next_server(here, home_folder, tmp_path, monkeypatch):
    place = str(tmp_path / "checkpoints.sqlite")
    reached, go_on = threading.Event(), threading.Event()

    def slow(request):
        if not go_on.is_set():
            reached.set()
            go_on.wait(90)
        return plausible(request)

    async def resumed():
        async with open_checkpoints(place) as saver:
            return await resume(thread, saver)

    with ScriptedModel(slow).running() as model:
        first = start_studio(home_folder, model, checkpoints=place)
        thread = client.new_thread(first.url, "prism")
        run = client.start(first.url, "prism", thread, {"question": QUESTION}, context=HERE)
        assert reached.wait(60)
        first.kill()
        go_on.set()
        monkeypatch.setenv("HOPGRAPH_LLM_URL", model.url)
        get_settings.cache_clear()
        assert asyncio.run(resumed())["status"] == "answered"
        calls = len(model.requests)
        second = start_studio(home_folder, model, checkpoints=place)
        try:
            assert client.wait(second.url, thread, run) == "success"
            assert client.state(second.url, thread)["values"]["status"] == "answered"
        finally:
            second.kill()
        assert len(model.requests) == calls


def test_a_second_server_on_the_same_threads_is_refused(studio, home_folder):
    variables = os.environ | {"HOPGRAPH_HOME": str(home_folder)}
    variables.pop("HOPGRAPH_CHECKPOINTS", None)
    command = [sys.executable, "-m", "hopgraph", "studio", "--port", "0"]
    second = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    assert (
        f"another `hopgraph studio` serves the threads of {home_folder}/checkpoints.sqlite at {studio.url}"
        in second.stderr
    )
    assert studio.client.assistants.search(limit=1)


def test_a_person_decides_through_the_server(studio, script):
    client = studio.client
    lines = test_parrag.BASE | {"planner": test_parrag.plan(test_parrag.WHO), "actor": {"answer": "Ann Lee [1]"}}
    script(test_parrag.play(**lines))
    thread = client.threads.create(graph_id="parrag")["thread_id"]
    settings = {"review": "human", "hop_count": 2, "exemplars": "none", "index": "small"}
    run = client.runs.create(thread, "parrag", input={"question": test_parrag.QUESTION}, context=settings)
    client.runs.join(thread, run["run_id"])
    ((waiting,),) = client.threads.get(thread)["interrupts"].values()
    assert waiting["value"]["answer"] == "Ann Lee"
    run = client.runs.create(thread, "parrag", command={"resume": {waiting["id"]: "maybe"}}, context=settings)
    client.runs.join(thread, run["run_id"])
    ((waiting,),) = client.threads.get(thread)["interrupts"].values()
    assert "must be one of accept, reject" in waiting["value"]["problem"]
    run = client.runs.create(thread, "parrag", command={"resume": "accept"}, context=settings)
    client.runs.join(thread, run["run_id"])
    assert client.threads.get_state(thread)["values"]["answer"] == "Paris"
