"""Places where Hopgraph is installed as a newcomer does: a private folder, an environment that holds nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PIP = (".config/pip/pip.conf", ".pip/pip.conf")
"""pip's settings in a home folder."""
LIMIT = 600.0
"""Seconds that a command may take."""


@dataclass
class Place:
    """A folder, the environment `.venv` in it, and the variables of a person who has set nothing.

    Attributes:
        folder: The clone, or the folder that the wheel was installed in.
        variables: What commands see. HOME is a folder of its own; HOPGRAPH_* is not there.
        options: Further arguments of `subprocess`, such as the user.
    """

    folder: Path
    variables: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return Path(self.variables["HOME"])

    @property
    def bin(self) -> Path:
        return self.folder / ".venv" / "bin"

    @property
    def activated(self) -> dict[str, str]:
        """The variables after `. .venv/bin/activate`."""
        path = os.pathsep.join([str(self.bin), self.variables["PATH"]])
        return self.variables | {"PATH": path, "VIRTUAL_ENV": str(self.bin.parent)}

    def run(
        self, *command: str | Path, code: int = 0, folder: Path | None = None, limit: float = LIMIT, **variables: str
    ) -> str:
        """Run a command with `.venv` activated; its output, both streams.

        Raises:
            AssertionError: Its exit code is not `code`, or it shows a traceback.
        """
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder or self.folder,
            env=self.activated | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
            **self.options,
        )
        words = " ".join(map(str, command))
        assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout[-6000:]}"
        assert "Traceback (most recent call last)" not in done.stdout, f"{words}\n{done.stdout[-6000:]}"
        return done.stdout

    def python(self, source: str, **options: Any) -> str:
        """Run a program; its output."""
        return self.run("python", "-c", source, **options)


def start_studio(place: Place, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start `hopgraph studio` on a free port; its process, which leads a group, and all it says until it is up.

    Raises:
        AssertionError: It ended, or was not up in time.
    """
    log = place.home / "studio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(place.bin / "python"), "-m", "hopgraph", "studio", "--port", "0", *words],
            cwd=place.folder,
            env=place.activated,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **place.options,
        )
    deadline = time.monotonic() + LIMIT
    while "ctrl-C" not in (said := log.read_text(encoding="utf-8")):
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return process, said


def private_folder(user: str | None = None) -> Path:
    """A new folder whose path has a space and that only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="hopgraph as installed ", dir=None if user is None else "/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def make_place(folder: Path, user: str | None = None) -> Place:
    """The folder `hopgraph` in a private folder, still empty, and the variables of its owner."""
    (folder / "hopgraph").mkdir()
    (folder / "home").mkdir()
    given = os.environ
    variables = {name: value for name, value in given.items() if name in _KEPT or name.startswith("PIP_")}
    variables |= {name: value for name, value in given.items() if name.lower().endswith("_proxy")}
    variables["HOME"] = str(folder / "home")
    variables["PATH"] = _path()
    for name in _PIP:
        if (Path.home() / name).is_file():
            (folder / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path.home() / name, folder / "home" / name)
    if user is None:
        variables["PIP_CACHE_DIR"] = _pip_cache()
        return Place(folder / "hopgraph", variables)
    for path in [folder, *folder.rglob("*")]:
        shutil.chown(path, user)
    return Place(folder / "hopgraph", variables, {"user": user, "group": _group_of(user), "extra_groups": []})


def copy_tree(folder: Path) -> None:
    """Put what a clone would hold into the folder."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", *ignored), dirs_exist_ok=True)


def give(place: Place) -> None:
    """Make the files of a place its user's."""
    for path in place.folder.rglob("*"):
        shutil.chown(path, place.options["user"], place.options["group"])


def python_for(place: Place) -> str | None:
    """A Python of at least 3.11 that the place's owner can run; None if there is none."""
    program = "import sys, venv, ensurepip, ssl, sqlite3; sys.exit(sys.version_info < (3, 11))"
    for name in (os.path.realpath(sys.executable), "/usr/local/bin/python3", "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [name, "-c", program], cwd="/", env=place.variables, capture_output=True, **place.options
            )
        except OSError:
            continue
        if done.returncode == 0:
            return name
    return None


def _path() -> str:
    """PATH without an environment of Python's that happens to be active."""
    active = str(Path(sys.prefix, "bin"))
    return os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != active)


def _pip_cache() -> str:
    done = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid
