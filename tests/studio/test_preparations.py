"""`hopgraph studio` before the server is up: packages, assistants, ports, threads."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import stores.checkpoints
from hopgraph.cli import run_app
from hopgraph.cli.doctor import _studio
from hopgraph.cli.studio import _absolute, _threads
from hopgraph.methods import METHODS, READERS
from hopgraph.run import ask, make_context
from hopgraph.studio import packages
from hopgraph.studio.assistants import assistants
from hopgraph.studio.server import environment, graphs
from inference.errors import EndpointError, InputError
from inference.settings import get_settings
from stores.checkpoints import KeptThread, checkpoint_place, kept_threads, open_checkpoints, open_served_checkpoints
from tests.studio.conftest import HOME

ROOT = Path(__file__).parents[2]
PASSAGES = [{"title": "Alpha", "text": "Alpha is a film by Ann Lee."}]


def test_the_server_has_the_graphs_of_langgraph_json():
    listed = json.loads((ROOT / "langgraph.json").read_text())
    assert set(graphs()) == set(listed["graphs"])
    path, _, function = listed["checkpointer"]["path"].partition(":")
    assert (ROOT / path).is_file()
    assert getattr(stores.checkpoints, function) is open_served_checkpoints


def test_nothing_of_the_person_s_langsmith_reaches_the_server():
    kept = environment({"LANGSMITH_API_KEY": "k", "LANGCHAIN_TRACING_V2": "true", "HOPGRAPH_LLM_URL": "u", "PATH": "p"})
    assert "LANGSMITH_API_KEY" not in kept
    assert "LANGCHAIN_TRACING_V2" not in kept
    assert kept["LANGSMITH_TRACING"] == "false"
    assert kept["LANGGRAPH_NO_VERSION_CHECK"] == "true"
    assert kept["HOPGRAPH_LLM_URL"] == "u"
    assert kept["CORS_ALLOW_ORIGINS"].split(",")[0] == "https://smith.langchain.com"


def test_assistants_are_the_paper_s_settings_and_one_for_each_ablation():
    made = {assistant.name: assistant for assistant in assistants("mine")}
    assert made["parrag: paper"].context == {"preset": "paper", "index": "mine"}
    assert made["prism: without analyzer"].context == {"ablate": ["analyzer"], "index": "mine"}
    assert made["hanrag on mine"].context == {"index": "mine"}
    assert {assistant.method for assistant in made.values()} == {*METHODS, *READERS}
    assert len({assistant.id for assistant in made.values()}) == len(made)
    for assistant in assistants():
        assert "index" not in assistant.context
        make_context(assistant.method, assistant.context)


def test_a_port_that_is_taken_is_said_so(home, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run_app(["studio", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"--port: {port} is not available" in said
    assert "--port 0" in said


def test_without_a_port_one_that_is_taken_is_passed_over(monkeypatch):
    studio = sys.modules[_absolute.__module__]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(studio, "PORT", taken.getsockname()[1])
        assert studio._free_port() not in (0, studio.PORT)
    assert studio._free_port() == studio.PORT


def test_wrong_names_are_said_before_anything_is_fetched(home, capsys, tmp_path):
    assert run_app(["studio", "--port", "0", "--run", str(tmp_path)]) == 2
    assert "checkpoints.sqlite" in capsys.readouterr().err
    assert run_app(["studio", "--port", "0", "--index", "nowhere"]) == 2
    assert "no index named 'nowhere'" in capsys.readouterr().err
    assert run_app(["studio", "--port", "0", "--thread", "0b1d2c7e-0000-5000-8000-000000000000"]) == 2
    assert "unknown thread 0b1d2c7e" in capsys.readouterr().err
    assert not (home / "studio").exists()


def test_packages_that_cannot_be_fetched_leave_nothing_half_done(home, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "langgraph_api" else object())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(home))
    said = []
    with pytest.raises(EndpointError, match=r"be fetched: .*No matching distribution") as raised:
        packages.server_packages(home, said.append)
    assert "package index" in raised.value.hint
    assert "only once" in said[0]
    assert [path.name for path in (home / "studio").iterdir()] == [".lock"]


def test_without_pip_it_says_what_to_do(home, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="no pip") as raised:
        packages.server_packages(home, print)
    assert "ensurepip" in raised.value.hint


def test_an_environment_with_the_server_is_left_as_it_is(home, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: object())
    assert packages.server_packages(home, print) is None
    assert not home.exists()


def install(folder, name, version="1", *requires):
    """What pip leaves of a package, as far as its requirements go."""
    made = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    made.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")


def server(folder):
    """The server with a requirement that has a requirement of its own."""
    install(folder, "langgraph-api", "1", "croniter>=7", "Never ; sys_platform == 'never'")
    install(folder, "langgraph-runtime-inmem", "1", "langgraph-api", "structlog[color]")
    install(folder, "croniter", "7.0", "python-dateutil>=4", "langgraph-api")
    install(folder, "structlog", "1", "colours>1 ; extra == 'color'", "tests ; extra == 'tests'")
    install(folder, "colours", "2")


def test_requirements_of_requirements_have_to_be_met(tmp_path):
    server(tmp_path)
    assert packages.unmet([str(tmp_path)]) == ["croniter needs python-dateutil>=4, which is missing"]
    install(tmp_path, "Python_Dateutil", "3.9")
    assert packages.unmet([str(tmp_path)]) == ["croniter needs python-dateutil>=4, this is 3.9"]
    install(tmp_path / "first", "python-dateutil", "4.0")
    assert packages.unmet([str(tmp_path / "first"), str(tmp_path)]) == []
    assert packages.unmet([]) == [f"hopgraph studio needs {name}, which is missing" for name in packages.SERVER]


def test_the_doctor_says_what_studio_lacks_and_fetches_nothing(home, monkeypatch, tmp_path):
    has = {"pip"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in has or None)
    (found,) = _studio()
    assert (found.state, found.advice) == ("note", "the first `hopgraph studio` downloads it")
    assert not home.exists()
    has.clear()
    (found,) = _studio()
    assert "no pip" in found.found
    assert "ensurepip" in found.advice
    folder = packages.packages_folder(home)
    server(folder)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (found,) = _studio()
    assert (found.state, found.found) == ("bad", "croniter needs python-dateutil>=4, which is missing")
    assert str(folder) in found.advice
    install(tmp_path, "python-dateutil", "4.0")
    (found,) = _studio()
    assert found.state == "ok"
    assert "langgraph-api 1 with all requirements" in found.found


@pytest.mark.slow
def test_the_base_install_and_the_fetched_packages_are_all_that_the_server_requires(tmp_path):
    """This environment has more: only what requirements.lock installs counts."""
    lock = (ROOT / "requirements.lock").read_text()
    named = re.findall(r"^([A-Za-z0-9_.-]+)==(?!.*sys_platform == 'never')", lock, re.MULTILINE)
    locked = {canonicalize_name(name) for name in named}
    for distribution in metadata.distributions():
        place = Path(str(distribution._path))
        if canonicalize_name(distribution.name) in locked and not (tmp_path / place.name).exists():
            (tmp_path / place.name).symlink_to(place)
    fetched = packages.server_packages(Path(HOME or tmp_path / "home"), print)
    assert fetched is not None
    assert packages.unmet([str(fetched), str(tmp_path)]) == []


def test_relative_folders_hold_for_a_process_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.gguf").touch()
    monkeypatch.setenv("HOPGRAPH_HOME", "here")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", "mine")
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_MODEL", "some.gguf")
    get_settings.cache_clear()
    found = _absolute(get_settings())
    assert found["HOPGRAPH_HOME"] == str(tmp_path / "here")
    assert found["HOPGRAPH_PROMPTS"] == str(tmp_path / "mine")
    assert found["HOPGRAPH_EMBEDDED_MODEL"] == str(tmp_path / "some.gguf")


async def test_the_newest_threads_are_listed_and_the_one_that_is_named(model):
    model(lambda request: {"answer": "Ann Lee"})
    ids = [f"0b1d2c7e-0000-5000-8000-00000000000{number}" for number in range(4)]
    async with open_checkpoints() as saver:
        for number, thread in enumerate([*ids, "by-hand"]):
            context = make_context("standard_rag", {"top_k": 2})
            await ask(f"Question {number}?", context, saver, thread=thread, contexts=PASSAGES)
        kept, total = await kept_threads(saver, 3)
    assert [row.id for row in kept] == ["by-hand", ids[3], ids[2]]
    assert total == 5
    assert timedelta() <= datetime.now(UTC) - kept[0].used < timedelta(hours=1)
    assert kept[0].used > kept[1].used
    assert KeptThread("x", {}, "no id of LangGraph's").used.year == 1970
    rows, more, opened = await _threads(checkpoint_place(), ids[0])
    every = reversed([*enumerate([*ids, "by-hand"])])
    assert rows == [(key, "standard_rag", f"Question {number}?") for number, key in every]
    assert more == 0
    assert opened == {"id": ids[0], "method": "standard_rag", "context": {"top_k": 2}}
    _, _, opened = await _threads(checkpoint_place(), "by-hand")
    assert opened == {"id": "by-hand", "method": "standard_rag", "context": {"top_k": 2}}


def test_the_command_works_outside_the_checkout(home, tmp_path):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "hopgraph", "studio", "--port", "0", "--index", "nowhere"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no index named 'nowhere'" in done.stderr
