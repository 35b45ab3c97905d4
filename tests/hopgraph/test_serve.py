"""`hopgraph serve` as a person runs it: the methods, and the model alone with a stand-in for llama.cpp."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from hopgraph.cli import run_app
from tests.inference.test_embedded import LLAMA, ROOT
from tests.replies import proper_text
from tests.scripted import Completion, ScriptedModel
from tests.small import QUESTION, build_small


@pytest.fixture
def llama(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "xllamacpp.py").write_text(LLAMA)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path / 'lib'}")
    path = tmp_path / "tiny.gguf"
    path.write_text("GGUF fine")
    return path


@pytest.fixture
def words(capfd, home):
    """Runs a command line in this process; gives exit code and stderr."""

    def run(*arguments: str) -> tuple[int, str]:
        return run_app(["serve", *arguments]), capfd.readouterr().err

    return run


def serve(*arguments: object) -> subprocess.Popen[str]:
    code = "from hopgraph.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_how_to_use_it_and_a_signal_stops_it_with_0(llama: Path, how: signal.Signals) -> None:
    process = serve("--model-only", "--model", llama, "--port", 0, "--parallel", 2, "--context", 1024)
    assert process.stdout
    process.stdout.readline()
    export, url, name = process.stdout.readline().split()
    assert export == "export"
    assert name == "HOPGRAPH_LLM_MODEL=tiny"
    address = url.removeprefix("HOPGRAPH_LLM_URL=")
    props = httpx.get(address.removesuffix("/v1") + "/props").json()
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (2, 1024)
    process.send_signal(how)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "stopped" in err
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_a_server_that_cant_start_is_an_endpoint_error(llama: Path) -> None:
    llama.write_text("GGUF broken")
    process = serve("--model-only", "--model", llama, "--port", 0)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3
    assert "tensor data is not within the file bounds" in err
    assert "hopgraph: the server did not start" in err
    assert "Traceback" not in err


def test_a_file_that_is_no_model_is_an_input_error(llama: Path) -> None:
    llama.write_text("hello")
    process = serve("--model-only", "--model", llama)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "is not a GGUF file" in err


def chat(url: str, thread: str) -> httpx.Response:
    body = {"model": "prism", "messages": [{"role": "user", "content": QUESTION}]}
    return httpx.post(f"{url}/chat/completions", json=body, headers={"x-hopgraph-thread": thread}, timeout=180)


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line.startswith("serving"), (line, process.stderr and process.stderr.read())
    return line.split(" at ")[1].split()[0]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_is_stopped_or_killed_loses_no_reply_and_the_next_one_goes_on(home, monkeypatch, how):
    build_small()
    monkeypatch.setenv("HOPGRAPH_HOME", str(home))
    with ScriptedModel(lambda request: Completion(proper_text(request, 3), delay=0.4)).running() as scripted:
        monkeypatch.setenv("HOPGRAPH_LLM_URL", scripted.url)
        process = serve("--port", 0, "--index", "small")
        with ThreadPoolExecutor() as pool:
            asking = pool.submit(chat, address(process), "t-1")
            while len(scripted.requests) < 2:
                time.sleep(0.01)
            process.send_signal(how)
            _, err = process.communicate(timeout=20)
            if how == signal.SIGKILL:
                with pytest.raises(httpx.HTTPError):
                    asking.result()
            else:
                assert (process.returncode, "stopped" in err, "Traceback" in err) == (0, True, False), err
                assert (asking.result().status_code, asking.result().json()["error"]["code"]) == (503, "stopping")
        if how == signal.SIGTERM:
            assert all(request.finished for request in scripted.requests)
        lost = sum(not request.finished for request in scripted.requests)
        process = serve("--port", 0)
        try:
            answer = chat(address(process), "t-1").json()["hopgraph"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    assert answer["status"] in ("answered", "unanswerable")
    # A call whose reply had come but was not committed when it was killed is repeated, too.
    assert answer["cost"]["calls"] <= len(scripted.requests) <= answer["cost"]["calls"] + max(lost, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "HOPGRAPH_API_KEY"),
        (["--model", "smollm2"], "--model-only"),
        (["--parallel", "2"], "--model-only"),
        (["--model-only", "--host", "0.0.0.0"], "127.0.0.1 only"),
        (["--index", "nothing"], "no index named"),
        (["--index", "../x"], "index"),
        (["--history", "all"], "values: off, rewrite"),
        (["--allow-origin", "*"], "not an origin"),
    ],
)
def test_what_can_t_be_served_is_said_so(words, arguments, said):
    code, err = words(*arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
