"""Life and death of the shared server. The fast tests run all of it but llama.cpp; the slow ones run that too."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from inference import embedded as module
from inference.chat import Message, Reply, Schema
from inference.embedded import Server, ensure_server
from inference.embedded_model import AGENTS_ADAPTER, SYNTHESIZER_ADAPTER, adapter_of, is_separate
from inference.embedded_server import usable_cores
from inference.endpoint import Endpoint
from inference.errors import EndpointError, InputError
from inference.settings import Settings, get_settings
from inference.sse import on_text
from inference.weights import smollm2_path

ROOT = Path(__file__).resolve().parents[2]
IDLE = 1.0

LLAMA = """
import http.server, json, os, sys, threading, time, types

class CommonParams:
    def __init__(self):
        self.model = types.SimpleNamespace()
        self.cpuparams = types.SimpleNamespace()
        self.cpuparams_batch = types.SimpleNamespace()

class CommonAdapterLoraInfo:
    def __init__(self, path, scale):
        self.path, self.scale = path, scale

class Server:
    def __init__(self, params):
        text = open(params.model.path).read()
        time.sleep(0.3)
        if "broken" in text:
            sys.stderr.write("llama: tensor data is not within the file bounds\\n")
            raise RuntimeError("Failed to init server")
        slot = {"n_ctx": min(4096, params.n_ctx // params.n_parallel)}
        props = {
            "model_path": params.model.path, "model_alias": next(iter(params.model_alias)),
            "default_generation_settings": slot, "total_slots": params.n_parallel,
            "adapters": [[adapter.path, adapter.scale] for adapter in getattr(params, "lora_adapters", [])],
        }
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(props).encode()
                self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
                self.wfile.write(body)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
"""
"""Stands in for the module xllamacpp in the server's process."""

CLIENT = """
import sys
from inference.embedded import ensure_server
server = ensure_server(sys.argv[1])
print(server.pid, server.url, flush=True)
sys.stdin.read()
"""


class Client:
    """Another process that uses the server until its end."""

    def __init__(self, model: str | Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd="/",
            start_new_session=True,
        )

    def server(self) -> tuple[int, str]:
        """The server's pid and URL, once the client has it."""
        assert self.process.stdout
        pid, url = self.process.stdout.readline().decode().split()
        return int(pid), url

    def end(self) -> None:
        self.process.communicate(timeout=10)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)


def alive(pid: int) -> bool:
    try:  # gone at any moment, and a read under way then says ESRCH
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


def servers(home: Path) -> list[int]:
    """Processes of servers under this home that are alive."""
    pids = [int(text) for lock in home.glob("run/*/serving") if (text := lock.read_text())]
    return [pid for pid in pids if alive(pid)]


@pytest.fixture
def short_idle(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers end a second after their last user; those left by a failed test are ended."""
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_IDLE", str(IDLE))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    get_settings.cache_clear()
    yield
    for server in list(module._attached.values()):
        server.release()
    for pid in servers(home):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def model(short_idle: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model for the stand-in of llama.cpp."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "xllamacpp.py").write_text(LLAMA)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path / 'lib'}")
    path = tmp_path / "tiny.gguf"
    path.write_text("GGUF fine")
    return path


def test_processes_share_a_server_that_ends_after_the_last_was_killed(model: Path, home: Path) -> None:
    first, second = Client(model), Client(model)  # at the same time
    pid, url = first.server()
    assert second.server() == (pid, url)
    first.kill()
    time.sleep(IDLE + 1)
    assert alive(pid)
    third = Client(model)
    assert third.server() == (pid, url)
    second.kill()
    third.kill()
    wait_for(lambda: not alive(pid), IDLE + 3)
    assert not list(home.glob("run/*/server.json"))


def test_the_server_stays_a_while_for_the_next_command(model: Path) -> None:
    first = Client(model, HOPGRAPH_EMBEDDED_IDLE="5")
    pid, url = first.server()
    first.end()
    second = Client(model)
    assert second.server() == (pid, url)
    second.end()
    wait_for(lambda: not alive(pid), 5 + 3)


def test_a_server_whose_starter_was_killed_at_once_ends_too(model: Path, home: Path) -> None:
    client = Client(model)
    wait_for(lambda: servers(home))
    client.kill()
    assert servers(home)
    wait_for(lambda: not servers(home), IDLE + 5)


def test_the_next_caller_takes_over_a_server_whose_starter_was_killed(model: Path, home: Path) -> None:
    client = Client(model)
    wait_for(lambda: servers(home))
    client.kill()
    [pid] = servers(home)
    assert ensure_server(str(model)).pid == pid


def test_calling_again_gives_the_same_server_until_it_is_released(model: Path) -> None:
    server = ensure_server(str(model))
    assert ensure_server(str(model)) is server
    assert server.url.startswith("http://127.0.0.1:")
    assert server.url.endswith("/v1")
    assert (server.model, server.context, server.parallel) == ("tiny", 4096, 4)
    time.sleep(IDLE + 1)
    assert alive(server.pid)
    server.release()
    wait_for(lambda: not alive(server.pid), IDLE + 3)
    again = ensure_server(str(model))
    assert again.pid != server.pid


def test_a_crashed_server_is_replaced_on_its_old_port(model: Path) -> None:
    server = ensure_server(str(model))
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not alive(server.pid))
    again = ensure_server(str(model))
    assert again.pid != server.pid
    assert again.url == server.url
    assert again.log.with_name("server.log.1").exists()
    assert alive(again.pid)


def test_a_server_that_has_hung_is_ended_and_replaced(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(model)
    pid, _ = client.server()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(module, "_SILENCE", 0.5)
    monkeypatch.setattr(module, "_ANSWER_TIMEOUT", 0.3)
    server = ensure_server(str(model))
    assert server.pid != pid
    assert not alive(pid)
    client.kill()


def test_a_stale_state_file_that_points_to_another_program_is_not_believed(model: Path, home: Path) -> None:
    first = ensure_server(str(model))
    state_file = first.log.parent / "server.json"
    state = json.loads(state_file.read_text())
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: not alive(first.pid))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        state_file.write_text(json.dumps({**state, "pid": os.getpid(), "url": f"http://127.0.0.1:{port}/v1"}))
        server = ensure_server(str(model))
    assert server.pid not in (first.pid, os.getpid())
    assert f":{port}/" not in server.url
    assert httpx.get(server.url.removesuffix("/v1") + "/props").json()["model_path"] == str(model)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_an_illegible_state_file_is_not_believed(model: Path, text: str) -> None:
    server = ensure_server(str(model))
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not alive(server.pid))
    (server.log.parent / "server.json").write_text(text)
    assert ensure_server(str(model)).pid != server.pid


def test_a_server_whose_home_was_deleted_ends(model: Path, home: Path) -> None:
    server = ensure_server(str(model))
    shutil.rmtree(home)
    wait_for(lambda: not alive(server.pid), IDLE + 3)


def test_other_models_and_other_settings_have_servers_of_their_own(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_text("GGUF too")
    fewer = Client(model, HOPGRAPH_EMBEDDED_CONTEXT="1024")
    assert len({ensure_server(str(model)).pid, ensure_server(str(other)).pid, fewer.server()[0]}) == 3
    fewer.kill()


def test_an_adapter_has_a_server_of_its_own_that_is_named_for_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ensure_server(str(model))
    lora = tmp_path / "revelator.gguf"
    lora.write_text("GGUF adapter")
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_LORA", str(lora))
    get_settings.cache_clear()
    adapted = ensure_server(str(model))
    assert (plain.model, adapted.model) == ("tiny", "tiny+revelator")
    assert adapted.pid != plain.pid
    asked = [httpx.get(server.url.removesuffix("v1") + "props").json() for server in (plain, adapted)]
    assert [props["adapters"] for props in asked] == [[], [[str(lora), 1.0]]]
    adapted.release()
    lora.write_text("no adapter")
    with pytest.raises(InputError, match=r"HOPGRAPH_EMBEDDED_LORA: .*revelator\.gguf' is not a GGUF file"):
        ensure_server(str(model))


def test_an_adapter_for_what_concludes_has_a_server_of_its_own(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ensure_server(str(model), "synthesizer") is ensure_server(str(model))
    for name in ("agents", "synthesizer"):
        (tmp_path / f"{name}.gguf").write_text("GGUF adapter")
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_LORA", str(tmp_path / "agents.gguf"))
    get_settings.cache_clear()
    assert ensure_server(str(model), "synthesizer") is ensure_server(str(model)), "auto: the other's, if that is named"
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_SYNTHESIZER_LORA", str(tmp_path / "synthesizer.gguf"))
    get_settings.cache_clear()
    served = [ensure_server(str(model), role).model for role in ("llm", "generator", "synthesizer")]
    assert served == ["tiny+agents", "tiny+agents", "tiny+synthesizer"]
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_SYNTHESIZER_LORA", "none")
    get_settings.cache_clear()
    assert ensure_server(str(model), "synthesizer").model == "tiny"
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_SYNTHESIZER_LORA", str(tmp_path))
    get_settings.cache_clear()
    with pytest.raises(InputError, match=r"HOPGRAPH_EMBEDDED_SYNTHESIZER_LORA: .*Is a directory"):
        ensure_server(str(model), "synthesizer")


@pytest.mark.parametrize(
    ("lora", "synthesizer", "agents", "concludes"),
    [
        ("auto", "auto", AGENTS_ADAPTER, SYNTHESIZER_ADAPTER),
        ("none", "auto", None, None),
        ("auto", "none", AGENTS_ADAPTER, None),
        (str(SYNTHESIZER_ADAPTER), "auto", SYNTHESIZER_ADAPTER, SYNTHESIZER_ADAPTER),
        ("none", str(SYNTHESIZER_ADAPTER), None, SYNTHESIZER_ADAPTER),
    ],
)
def test_the_bundled_adapters_are_smollm2_s_alone(
    lora: str, synthesizer: str, agents: Path | None, concludes: Path | None
) -> None:
    settings = Settings(embedded_lora=lora, embedded_synthesizer_lora=synthesizer, llm_url=None)
    assert adapter_of("smollm2", settings) == agents
    assert adapter_of("smollm2", settings, "synthesizer") == concludes
    assert is_separate(settings, "synthesizer") == (agents != concludes)
    assert not is_separate(settings, "generator")
    assert not is_separate(settings.model_copy(update={"generator_url": "http://127.0.0.1:9/v1"}), "synthesizer")


def test_a_changed_model_file_is_loaded_anew(model: Path) -> None:
    client = Client(model)
    before, _ = client.server()
    model.write_text("GGUF fine, and better")
    assert ensure_server(str(model)).pid != before
    client.kill()


def test_a_relative_home_is_the_same_home(model: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(model)
    pid, _ = client.server()
    monkeypatch.chdir(home.parent)
    monkeypatch.setenv("HOPGRAPH_HOME", home.name)
    get_settings.cache_clear()
    assert ensure_server(str(model)).pid == pid
    client.kill()


def test_ctrl_c_in_a_users_terminal_leaves_the_server_to_the_others(model: Path) -> None:
    client = Client(model)
    pid, _ = client.server()
    os.killpg(client.process.pid, signal.SIGINT)
    client.process.communicate(timeout=10)
    assert alive(pid)
    assert ensure_server(str(model)).pid == pid


def test_what_keeps_the_server_from_starting_is_told(model: Path) -> None:
    model.write_text("GGUF broken")
    with pytest.raises(EndpointError, match="did not start") as caught:
        ensure_server(str(model))
    assert "tensor data is not within the file bounds" in caught.value.message
    assert "HOPGRAPH_LLM_URL" in caught.value.hint


def test_a_missing_system_library_is_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "lib" / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    with pytest.raises(EndpointError) as caught:
        ensure_server(str(model))
    assert "install libgomp" in caught.value.hint


def test_what_is_no_model_is_an_input_error(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"embedded model 'smollm3': No such file") as caught:
        ensure_server("smollm3")
    assert "give smollm2, or the path" in caught.value.hint
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.txt' is not a GGUF file"):
        ensure_server(str(tmp_path / "notes.txt"))
    with pytest.raises(InputError, match="Is a directory"):
        ensure_server(str(tmp_path))


def test_a_home_that_cant_be_written_is_an_input_error(model: Path, home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(InputError, match="the folder for the embedded server"):
        ensure_server(str(model))


def test_cores_are_those_this_process_may_use() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


# With llama.cpp and the real weights.


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real weights, fetched once."""
    return smollm2_path(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def smollm2(weights: Path, short_idle: None, home: Path) -> Server:
    (home / "weights").mkdir(parents=True)
    (home / "weights" / weights.name).hardlink_to(weights)
    return ensure_server()


def ask(server: Server, **fields: object) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, **fields}
    headers = {"X-Request-Id": "thread.prism.selector.0a1b"}
    return httpx.post(f"{server.url}/chat/completions", json=body, headers=headers, timeout=120)


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 40}, "certain": {"type": "boolean"}},
    "required": ["city", "certain"],
    "additionalProperties": False,
}


@pytest.mark.slow
def test_llama_answers_by_schema_with_log_probabilities_and_usage(smollm2: Server) -> None:
    assert (smollm2.model, smollm2.context, smollm2.parallel) == ("smollm2+agents", 8192, 4)
    form = {"type": "json_schema", "json_schema": {"name": "prism__selector", "schema": SCHEMA, "strict": True}}
    first = ask(smollm2, response_format=form, logprobs=True, max_tokens=100, seed=1).json()
    [choice] = first["choices"]
    assert set(json.loads(choice["message"]["content"])) == {"city", "certain"}
    tokens = choice["logprobs"]["content"]
    # The grammar lets a model put a Markdown fence around its JSON, which is in the tokens but not in the content.
    assert choice["message"]["content"] in "".join(token["token"] for token in tokens)
    assert all(token["logprob"] <= 0 for token in tokens)
    assert first["usage"]["prompt_tokens"] > 10
    again = ask(smollm2, response_format=form, logprobs=True, max_tokens=100, seed=1).json()
    assert again["choices"][0]["message"] == choice["message"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 10


@pytest.mark.slow
async def test_llama_streams_what_it_says_whole(smollm2: Server) -> None:
    endpoint = Endpoint(smollm2.url, smollm2.model, get_settings())
    heard: list[str] = []

    async def say(text: str) -> None:
        heard.append(text)

    async def complete() -> Reply:
        prompt = [Message("user", "Name the capital of France, as JSON.")]
        return await endpoint.complete(prompt, request_id="1", schema=Schema("city", SCHEMA), top_logprobs=0)

    whole = await complete()
    on_text.set(say)
    streamed = await complete()
    assert streamed.text == whole.text == heard[-1]
    assert len(heard) > 4
    assert streamed.text in b"".join(token.text for token in streamed.tokens).decode()  # less the end of the text
    assert [token.text for token in streamed.tokens] == [token.text for token in whole.tokens[: len(streamed.tokens)]]
    assert (streamed.prompt_tokens, streamed.finish_reason) == (whole.prompt_tokens, whole.finish_reason)


@pytest.mark.slow
def test_llama_refuses_a_prompt_longer_than_its_context(smollm2: Server) -> None:
    reply = ask(smollm2, messages=[{"role": "user", "content": "word " * 9000}], max_tokens=5)
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "exceed_context_size_error"
    assert reply.json()["error"]["n_ctx"] == smollm2.context


@pytest.mark.slow
def test_llama_stops_working_for_a_client_that_left(smollm2: Server) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{smollm2.url}/chat/completions",
            json={"messages": [{"role": "user", "content": "Count."}], "max_tokens": 7000, "ignore_eos": True},
            timeout=2.0,
        )

    def cpu_time() -> int:
        return sum(map(int, Path(f"/proc/{smollm2.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    def at_rest() -> bool:
        before = cpu_time()
        time.sleep(1)
        return cpu_time() - before < 5  # hundredths of a second

    wait_for(at_rest, 20)


@pytest.mark.slow
def test_llama_is_shared_and_ends_with_its_last_user(smollm2: Server, home: Path) -> None:
    other = Client("smollm2")
    assert other.server() == (smollm2.pid, smollm2.url)
    smollm2.release()
    time.sleep(IDLE + 1)
    assert httpx.get(f"{smollm2.url}/models").json()["data"][0]["id"] == "smollm2+agents"
    other.kill()
    wait_for(lambda: not alive(smollm2.pid), IDLE + 5)


@pytest.mark.slow
def test_llama_serves_what_concludes_with_its_own_adapter(smollm2: Server) -> None:
    synthesizer = ensure_server(role="synthesizer")
    assert (smollm2.model, synthesizer.model) == ("smollm2+agents", "smollm2+synthesizer")
    assert ask(synthesizer, max_tokens=3).status_code == 200


@pytest.mark.slow
def test_llama_is_started_again_after_a_crash(smollm2: Server) -> None:
    os.kill(smollm2.pid, signal.SIGKILL)
    again = ensure_server()  # the old one may not be quite dead: it has a gigabyte to give back
    assert again.pid != smollm2.pid
    assert ask(again, max_tokens=3).status_code == 200


@pytest.mark.slow
def test_llama_is_quick_beside_another_busy_process(smollm2: Server) -> None:
    """Spinning threads would make it a hundred times slower than waiting ones."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(usable_cores())]
    try:
        began = time.monotonic()
        assert ask(smollm2, max_tokens=40, ignore_eos=True).json()["usage"]["completion_tokens"] == 40
        assert time.monotonic() - began < 20
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_llama_says_what_is_wrong_with_a_cut_model(weights: Path, short_idle: None, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with weights.open("rb") as source:
        cut.write_bytes(source.read(5_000_000))
    with pytest.raises(EndpointError, match="model is corrupted or incomplete"):
        ensure_server(str(cut))
