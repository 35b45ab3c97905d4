"""The local server's packages, in a folder of their own: they want another protobuf than Chroma's newest.

They are few. Everything else (LangGraph itself, and Hopgraph) is what the environment has, and so is never a second
version of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from inference.errors import EndpointError, InputError

__all__ = ["SERVER", "server_packages", "unmet"]

SERVER = ("langgraph-api", "langgraph-runtime-inmem")
"""The packages whose requirements have to be met."""


def server_packages(home: Path, say: Callable[[str], None]) -> Path | None:
    """The folder with the server's packages, made if it is missing; None where the environment has the server.

    Args:
        home: HOPGRAPH_HOME.
        say: Told what is fetched, before it is.

    Raises:
        InputError: There is no pip, or the folder can't be written.
        EndpointError: The packages can't be fetched.
    """
    if find_spec("langgraph_api") is not None:
        return None
    pinned = files("hopgraph.studio").joinpath("packages.txt").read_bytes()
    made_for = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}".encode()
    folder = home / "studio" / f"packages-{hashlib.sha256(pinned + made_for).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    if find_spec("pip") is None:
        raise InputError(
            f"the local server's packages are not there, and there is no pip in this environment ({sys.prefix})",
            hint="`python -m ensurepip` adds it; or install hopgraph[studio] into an environment of its own",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.parent / ".lock"):
            if not folder.is_dir():
                count = sum(line[:1].isalpha() for line in pinned.splitlines())
                say(f"fetching LangGraph's local server ({count} packages, 57 MB, only once) into {folder}")
                _install(pinned, folder)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}", hint="set HOPGRAPH_HOME to a folder that can be written"
        ) from None
    return folder


def _install(pinned: bytes, folder: Path) -> None:
    """Have pip put the packages into the folder, which appears when it is complete."""
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


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unmet() -> list[str]:
    """What the server's packages require and this process does not have, in words; [] when all is well."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    problems = []
    for package in SERVER:
        for text in requires(package) or []:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            try:
                found = version(wanted.name)
            except PackageNotFoundError:
                problems.append(f"{package} needs {wanted.name}{wanted.specifier}, which is missing")
                continue
            if not wanted.specifier.contains(found, prereleases=True):
                problems.append(f"{package} needs {wanted.name}{wanted.specifier}, this is {found}")
    return problems
