"""The Ray Serve deployment of docs/cluster.md, on a real Ray with two replicas and one Postgres."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import AuthenticationError, OpenAI

from hopgraph.cluster import serving
from hopgraph.methods import METHODS
from hopgraph.server.options import Options
from inference.settings import get_settings
from tests.hopgraph.cluster.conftest import start_cluster, until, workers
from tests.installed.blocks import read_blocks
from tests.postgres import running_postgres
from tests.replicas import ask_and_kill
from tests.replies import proper_text
from tests.scripted import Completion, Request, ScriptedModel
from tests.small import INDEX, QUESTION, build_small

# Ray itself is there without it, and importing Ray Serve takes seconds.
pytestmark = [
    pytest.mark.skipif(find_spec("fastapi") is None, reason="needs Ray Serve (extra cluster-serve)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

KEY = "s3cret-key"
ROOT = Path(__file__).parents[3]


@dataclass
class Deployed:
    """A deployment that runs."""

    url: str
    folder: Path
    """It has the configuration."""
    address: str
    """Of Ray."""
    node: Any
    model: ScriptedModel
    postgres: str

    def replicas(self) -> list[int]:
        """Process ids of its replicas."""
        found = []
        for pid in workers(self.node):
            with suppress(OSError):  # it has ended since
                if Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::ServeReplica:hopgraph:Hopgraph"):
                    found.append(pid)
        return found

    @contextmanager
    def serve_run(self) -> Iterator[subprocess.Popen[bytes]]:
        """`serve run`, which is stopped in the end."""
        program = Path(sys.executable).with_name("serve")
        with (self.folder / "log").open("w") as log:
            command = [program, "run", "--address", self.address, self.folder / "serve.yaml"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(60)

    @contextmanager
    def updated(self, **arguments: Any) -> Iterator[None]:
        """`serve run` again, with other arguments."""
        path = self.folder / "serve.yaml"
        config = yaml.safe_load(path.read_text())
        config["applications"][0]["args"] |= arguments
        path.write_text(yaml.safe_dump(config))
        with self.serve_run():
            yield

    def client(self, key: str = KEY) -> OpenAI:
        """OpenAI's client, which repeats nothing."""
        return OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=120)


HELD = "held-"
GATE = threading.Event()
"""Until it is set, the calls of threads whose names begin with HELD are not answered."""


def slow(request: Request) -> Completion:
    """A reply that takes a while."""
    if request.id.startswith(HELD):
        GATE.wait(serving.GRACE)
    return Completion(proper_text(request), delay=0.1)


def open_files(pid: int) -> int:
    """Number of a process's open files; a connection for each call in flight is among them."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The configuration of docs/cluster.md with another index and port, started by `serve run`."""
    folder = tmp_path_factory.mktemp("serving")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (block,) = (row for row in read_blocks(ROOT / "docs" / "cluster.md") if row.notes.get("file") == "serve.yaml")
    config = yaml.safe_load(block.code)
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    config["applications"][0]["args"] |= {"index": INDEX}
    (folder / "serve.yaml").write_text(yaml.safe_dump(config))
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        model = stack.enter_context(ScriptedModel(slow).running())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {
            "HOPGRAPH_HOME": str(folder / "home"),
            "HOPGRAPH_CHECKPOINTS": postgres,
            "HOPGRAPH_LLM_URL": model.url,
            "HOPGRAPH_API_KEY": KEY,
            "HOPGRAPH_CACHE": "off",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        }.items():
            patch.setenv(name, value)
        get_settings.cache_clear()
        build_small()
        cluster = start_cluster(3)  # two replicas, and one that takes the place of another
        stack.callback(cluster.shutdown)
        found = Deployed(f"http://127.0.0.1:{port}/v1", folder, cluster.address, cluster.head_node, model, postgres)
        process = stack.enter_context(found.serve_run())

        def up() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            try:
                return httpx.get(f"http://127.0.0.1:{port}/health").json() == {"status": "ok"}
            except (httpx.HTTPError, ValueError):
                return False

        until(lambda: up() and len(found.replicas()) == 2)
        yield found


@pytest.mark.slow
def test_it_answers_only_with_the_key(deployed):
    with pytest.raises(AuthenticationError):
        deployed.client("wrong").chat.completions.create(
            model="prism", messages=[{"role": "user", "content": QUESTION}]
        )
    answer = deployed.client().chat.completions.create(model="prism", messages=[{"role": "user", "content": QUESTION}])
    assert answer.choices[0].message.content
    assert answer.model_extra["hopgraph"]["status"] in ("answered", "unanswerable")


@pytest.mark.slow
def test_pages_of_other_sites_are_refused_through_the_proxy(deployed):
    headers = {"authorization": f"Bearer {KEY}"}
    own = deployed.url.removesuffix("/v1")
    for origin, status in [(own, 200), ("http://elsewhere.example", 403)]:
        assert httpx.get(f"{deployed.url}/models", headers=headers | {"origin": origin}).status_code == status


@pytest.mark.slow
def test_steps_are_streamed_while_the_run_goes_on(deployed):
    stream = deployed.client().chat.completions.create(
        model="prism", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    seen = [(len(deployed.model.requests), chunk) for chunk in stream]
    steps = [count for count, chunk in seen if getattr(chunk.choices[0].delta, "reasoning_content", None)]
    assert steps[0] < steps[-1] <= len(deployed.model.requests)  # calls were made between them
    assert seen[-1][1].model_extra["hopgraph"]["status"] in ("answered", "unanswerable")


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_the_run_of_a_client_that_goes_away_is_cancelled(deployed, stream):
    thread = f"left-{stream}"
    body = {"model": "prism", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    headers = {"authorization": f"Bearer {KEY}", "x-hopgraph-thread": thread}

    def made() -> list[Request]:
        return [request for request in deployed.model.requests if request.id.startswith(f"{thread}.")]

    async def leave() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            asking = asyncio.create_task(client.post(f"{deployed.url}/chat/completions", json=body, headers=headers))
            while not made():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])

    asyncio.run(leave())
    time.sleep(3)
    left = len(made())
    answer = httpx.post(
        f"{deployed.url}/chat/completions", json=body | {"stream": False}, headers=headers, timeout=60
    ).json()["hopgraph"]
    assert left < answer["cost"]["calls"]
    assert len(made()) <= answer["cost"]["calls"] + 1  # the call in flight


@pytest.mark.slow
def test_threads_of_a_killed_replica_go_on_at_the_other_one_and_no_committed_call_is_made_again(deployed):
    def kill() -> None:
        # Serve may give all requests of one moment to one replica: to the only one whose queue it has measured lately.
        os.kill(max(deployed.replicas(), key=open_files), signal.SIGKILL)

    chats = 2 * len(METHODS)
    outcome = asyncio.run(ask_and_kill(kill, [deployed.url], deployed.postgres, deployed.model, chats, KEY))
    assert outcome.problems == []
    assert outcome.cut > 0
    assert outcome.repeated <= outcome.in_flight
    until(lambda: len(deployed.replicas()) == 2)  # Serve replaces it


@pytest.mark.slow
def test_an_update_lets_runs_end_and_no_log_has_the_key(deployed):
    """The update also bounds the replicas, which then refuse what is too much."""
    before = deployed.replicas()
    body = {"model": "prism", "messages": [{"role": "user", "content": QUESTION}]}

    def ask(number: int) -> Any:
        headers = {"authorization": f"Bearer {KEY}", "x-hopgraph-thread": f"{HELD}{number}"}
        return httpx.post(f"{deployed.url}/chat/completions", json=body, headers=headers, timeout=serving.GRACE)

    with ThreadPoolExecutor(6) as pool, deployed.updated(runs=1, queue=0):
        asking = [pool.submit(ask, number) for number in range(4)]
        try:
            until(lambda: set(deployed.replicas()) - set(before))  # an old one is being stopped
        finally:
            GATE.set()
        assert [row.result().status_code for row in asking] == [200] * 4
        until(lambda: len(deployed.replicas()) == 2 and not set(deployed.replicas()) & set(before))
        GATE.clear()
        asking = [pool.submit(ask, number) for number in range(10, 16)]
        try:
            until(lambda: any(row.done() for row in asking))  # refused, since no call is answered
        finally:
            GATE.set()
        answers = [row.result() for row in asking]
        assert {row.status_code for row in answers} == {200, 429}
        assert all("retry-after" in row.headers for row in answers if row.status_code == 429)
    logs = [path for path in Path(deployed.node.get_logs_dir_path()).rglob("*") if path.is_file()]
    assert any(b"/v1/chat/completions" in path.read_bytes() for path in logs)
    assert [path for path in logs if KEY.encode() in path.read_bytes()] == []


@pytest.fixture
def ready(home, monkeypatch) -> Path:
    """Settings that a deployment can be built with."""
    monkeypatch.setenv("HOPGRAPH_API_KEY", KEY)
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", "postgresql://a:b@postgres/c")
    get_settings.cache_clear()
    return home


def test_a_deployment_has_the_bounds_of_its_arguments_and_shows_no_secret(ready):
    build_small()
    built = serving.app({"index": INDEX, "replicas": "3", "runs": "8", "queue": 4})._bound_deployment
    assert built.num_replicas == 3
    assert built.max_ongoing_requests > 8 + 4  # so that a replica's own queue refuses
    assert built.init_args[0].options.runs == 8
    assert built.init_args[0].variables["HOPGRAPH_HOME"] == str(ready)
    assert KEY not in repr(built.init_args)


async def test_a_replica_is_healthy_as_long_as_its_health_page_says_so(home, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))  # a replica sets its process's variables
    replica = serving.Hopgraph(serving.Setup(Options(key=KEY), {"HOPGRAPH_HOME": str(home)}))
    app = replica.__serve_build_asgi_app__()
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        replica.check_health()
        assert (await client.get("/health")).status_code == 200
        await app.state.service.stop()
        with pytest.raises(RuntimeError, match="being stopped"):
            replica.check_health()
        assert (await client.get("/health")).status_code == 503


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ({}, {"API_KEY": None}, "HOPGRAPH_API_KEY is not set"),
        ({}, {"CHECKPOINTS": None}, "HOPGRAPH_CHECKPOINTS: replicas need"),
        ({"index": "nothing"}, {}, "no index named"),
        ({"allow_origin": ["*"]}, {}, "not an origin"),
        ({"replicas": "0"}, {}, "replicas: Input should be greater"),
        ({"workers": "2"}, {}, "workers: Extra inputs"),
    ],
)
def test_what_can_t_be_deployed_is_said_so(ready, monkeypatch, arguments, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(f"HOPGRAPH_{name}", value) if value else monkeypatch.delenv(f"HOPGRAPH_{name}")
    get_settings.cache_clear()
    with pytest.raises(serving.Refused, match=said) as refused:
        serving.app(arguments)
    assert refused.value.exit_code == 2


def test_a_missing_extra_is_named(ready, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(serving.Refused, match=r"pip install 'hopgraph\[cluster-serve\]'"):
        serving.app({})


def test_serve_run_prints_a_users_error_without_traceback(ready):
    program = Path(sys.executable).with_name("serve")
    done = subprocess.run(
        [program, "run", "hopgraph.cluster.serving:app", "index=nothing"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "no index named" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
