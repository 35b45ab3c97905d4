"""`hopgraph studio` as installed: every method with the embedded model over HTTP; stopped, changed, killed, resumed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from langgraph_sdk import get_sync_client

from hopgraph.methods import METHODS
from tests.installed.places import Place, start_studio

pytestmark = pytest.mark.installed

SHORT = {"top_k": 3, "max_tokens": 160}
ASKED = {"question": "Where was the director of the film Days of Betrayal born?"}
EDITED = "Who directed it?"
LIMIT = 180
"""Seconds."""


@dataclass
class Studio:
    """A server, and a client of it."""

    process: subprocess.Popen[bytes]
    url: str

    def __post_init__(self) -> None:
        self.client = get_sync_client(url=self.url, api_key=None)

    def thread(self, method: str) -> str:
        return self.client.threads.create(graph_id=method)["thread_id"]

    def run(self, thread: str, method: str, **options) -> dict:
        """Run until it ends or stops; the state of the thread."""
        options.setdefault("input", ASKED)
        context = {"index": "demo", **SHORT} | options.pop("context", {})
        if method == "no_retrieval":
            context = {"max_tokens": 160}
        run = self.client.runs.create(thread, method, context=context, **options)
        return self.ended(thread, run["run_id"])

    def ended(self, thread: str, run: str) -> dict:
        self.client.runs.join(thread, run)
        status = self.client.runs.get(thread, run)["status"]
        assert status in ("success", "interrupted"), self.client.threads.get(thread).get("error")
        return self.client.threads.get_state(thread)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(place: Place) -> Studio:
    """Start a server on a free port."""
    process, said = start_studio(place, "--index", "demo")
    address = re.search(r"http://127\.0\.0\.1:\d+", said.partition("API")[2])
    assert address is not None, said
    return Studio(process, address[0])


@pytest.fixture(scope="module")
def studio(base: Place) -> Iterator[Studio]:
    server = start(base)
    yield server
    server.kill()


def answered(state: dict) -> bool:
    """Whether the run came to its end; what a small model says need not be an answer."""
    values = state["values"]
    kind = (values.get("error") or {}).get("kind")
    return not state["next"] and (values["status"] in ("answered", "unanswerable") or kind == "model_output")


def test_the_page_comes_with_the_package(studio):
    page = httpx.get(f"{studio.url}/studio/", trust_env=False)
    files = re.findall(r'(?:src|href)="(?:\./)?([^"]+)"', page.text)
    assert any(name.endswith(".js") for name in files), page.text
    for name in files:
        assert httpx.get(f"{studio.url}/studio/{name}", trust_env=False).status_code == 200, name
    indexes = httpx.get(f"{studio.url}/studio/api/indexes", trust_env=False).json()
    assert "demo" in str(indexes)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers(studio, method):
    state = studio.run(studio.thread(method), method)
    assert answered(state), state


def test_a_run_stops_at_a_breakpoint_goes_on_from_an_edited_state_and_is_forked(studio):
    thread = studio.thread("standard_rag")
    state = studio.run(thread, "standard_rag", interrupt_before=["generator"])
    assert state["next"] == ["generator"]
    studio.client.threads.update_state(thread, {"question": EDITED}, as_node="retriever")
    state = studio.run(thread, "standard_rag", input=None)
    assert answered(state)
    assert state["values"]["question"] == EDITED
    history = studio.client.threads.get_history(thread, limit=50)
    first = next(row for row in history if row["next"] == ["generator"] and row["values"]["question"] != EDITED)
    state = studio.run(thread, "standard_rag", input=None, checkpoint_id=first["checkpoint"]["checkpoint_id"])
    assert answered(state)
    assert state["values"]["question"] == ASKED["question"]


def test_a_person_decides_in_the_place_of_a_verdict(studio):
    thread = studio.thread("parrag")
    state = studio.run(thread, "parrag", context={"review": "human", "max_steps": 1})
    decisions = 0
    while state["next"]:
        assert [interrupt for task in state["tasks"] for interrupt in task["interrupts"]]
        decisions += 1
        state = studio.run(
            thread, "parrag", input=None, command={"resume": "accept"}, context={"review": "human", "max_steps": 1}
        )
    assert decisions
    assert answered(state)


def test_after_kill_9_in_the_middle_of_a_run_a_new_server_goes_on(studio, base):
    thread = studio.thread("ircot")
    context = {"index": "demo", **SHORT}
    studio.client.runs.create(thread, "ircot", input=ASKED, context=context)
    deadline = time.monotonic() + LIMIT
    while len(kept := studio.client.threads.get_history(thread, limit=100)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    studio.kill()
    other = start(base)
    studio.process, studio.url, studio.client = other.process, other.url, other.client
    for run in studio.client.runs.list(thread):  # a server goes on by itself with the runs it knows of
        studio.client.runs.join(thread, run["run_id"])
    state = studio.client.threads.get_state(thread)
    if state["next"]:
        state = studio.run(thread, "ircot", input=None)
    assert answered(state)
    ids = [row["checkpoint"]["checkpoint_id"] for row in studio.client.threads.get_history(thread, limit=200)]
    assert {row["checkpoint"]["checkpoint_id"] for row in kept} <= set(ids)
