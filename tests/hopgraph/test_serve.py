"""`hopgraph serve` as a person runs it, with a stand-in for llama.cpp."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.inference.test_embedded import LLAMA, ROOT


@pytest.fixture
def model(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "xllamacpp.py").write_text(LLAMA)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path / 'lib'}")
    path = tmp_path / "tiny.gguf"
    path.write_text("GGUF fine")
    return path


def serve(*arguments: object) -> subprocess.Popen[str]:
    code = "from hopgraph.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_how_to_use_it_and_a_signal_stops_it_with_0(model: Path, how: signal.Signals) -> None:
    process = serve("--model", model, "--port", 0, "--parallel", 2, "--context", 1024)
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


def test_a_server_that_cant_start_is_an_endpoint_error(model: Path) -> None:
    model.write_text("GGUF broken")
    process = serve("--model", model, "--port", 0)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3
    assert "tensor data is not within the file bounds" in err
    assert "hopgraph: the server did not start" in err
    assert "Traceback" not in err


def test_a_file_that_is_no_model_is_an_input_error(model: Path) -> None:
    model.write_text("hello")
    process = serve("--model", model)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "is not a GGUF file" in err
