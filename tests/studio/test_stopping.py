"""How `hopgraph studio` ends: one line, the exit code of the signal, nothing that still runs, runs that go on."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import httpx
import pytest

from tests.scripted import ScriptedModel, plausible
from tests.studio import client
from tests.studio.conftest import QUESTION, start_studio

pytestmark = pytest.mark.slow

HERE = {"index": "small", "top_k": 2}


@pytest.fixture(autouse=True)
def _ctrl_c():
    """As at a terminal; what runs in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Paused:
    """A scripted model whose first selector's reply waits for `go_on`."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request):
        if request.node == "selector" and not self.go_on.is_set():
            self.reached.set()
            self.go_on.wait(90)
        return plausible(request)


def log(home_folder):
    return (home_folder / "studio.log").read_text()


def watching(url, thread, run):
    """A program that waits for the run's end, and one that follows its steps."""

    def read(how):
        with suppress(httpx.HTTPError), httpx.stream("GET", f"{url}/threads/{thread}/runs/{run}/{how}") as reply:
            reply.read()

    return [threading.Thread(target=read, args=(how,), daemon=True) for how in ("join", "stream")]


@pytest.mark.parametrize(("number", "code", "repeated"), [(signal.SIGTERM, 143, 0), (signal.SIGINT, 130, 1)])
def test_a_signal_ends_the_server_with_one_line_and_its_runs_go_on_with_the_next_one(
    home_folder, tmp_path, number, code, repeated
):
    script, place = Paused(), tmp_path / "checkpoints.sqlite"
    with ScriptedModel(script).running() as model:
        server = start_studio(home_folder, model, checkpoints=place)
        before = len(log(home_folder))
        thread = client.new_thread(server.url, "prism")
        run = client.start(server.url, "prism", thread, {"question": QUESTION}, context=HERE)
        assert script.reached.wait(60)
        readers = watching(server.url, thread, run)
        for reader in readers:
            reader.start()
        server.process.send_signal(number)
        if number == signal.SIGTERM:
            client.wait_until(lambda: "1 model call in flight" in log(home_folder), "it says what it waits for", 60)
            script.go_on.set()
        out, _ = server.process.communicate(timeout=30)  # to its end: no other process holds its stdout
        script.go_on.set()
        assert (server.process.returncode, out.strip()) == (code, "")
        *others, last = log(home_folder)[before:].splitlines()
        assert last == "hopgraph: stopped; unfinished runs resume with the next `hopgraph studio`"
        assert len(others) == 1 - repeated
        for reader in readers:
            reader.join(30)
        again = start_studio(home_folder, model, checkpoints=place)
        try:
            assert client.wait(again.url, thread, run) == "success"
            assert client.state(again.url, thread)["values"]["status"] == "answered"
            ids = [request.id for request in model.requests]
            assert len(ids) - len(set(ids)) == repeated
        finally:
            again.kill()


def test_an_idle_server_ends_at_once_and_does_not_speak_of_runs(home_folder, scripted, tmp_path):
    server = start_studio(home_folder, scripted, checkpoints=tmp_path / "checkpoints.sqlite")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 143
    assert log(home_folder).splitlines()[-1] == "hopgraph: stopped"


def test_a_second_signal_does_not_wait_for_the_call_in_flight(home_folder, tmp_path):
    script = Paused()
    with ScriptedModel(script).running() as model:
        server = start_studio(home_folder, model, checkpoints=tmp_path / "checkpoints.sqlite")
        thread = client.new_thread(server.url, "prism")
        client.start(server.url, "prism", thread, {"question": QUESTION}, context=HERE)
        assert script.reached.wait(60)
        before = len(log(home_folder))
        server.process.send_signal(signal.SIGTERM)
        client.wait_until(lambda: "in flight" in log(home_folder)[before:], "it says what it waits for", 60)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 143
        assert log(home_folder)[before:].splitlines()[-1] == "hopgraph: stopped"
        script.go_on.set()
