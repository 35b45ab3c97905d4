"""A real `hopgraph studio` in a folder of its own, with a scripted model behind real HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from langgraph_sdk import get_sync_client

from hopgraph.methods import READERS
from inference.settings import get_settings
from stores.build import build_index
from stores.passages import Passage
from tests.graphs.test_compactrag import TEXTS, read
from tests.scripted import Script, ScriptedModel, plausible

ROOT = Path(__file__).parents[2]
HOME = os.environ.get("HOPGRAPH_HOME")
"""Before the tests' own settings: packages and weights that are there are not fetched again."""
QUESTION = "Where was the director of the film Zorba's Night born?"


@dataclass
class Studio:
    """A server that runs. No other may serve the same checkpoints."""

    process: subprocess.Popen[str]
    said: str
    """What it printed when it was up."""
    url: str

    @property
    def client(self):
        return get_sync_client(url=self.url, api_key=None)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


def start_studio(
    home: Path, model: ScriptedModel | None, *words: str, checkpoints: Path | None = None, **more: str
) -> Studio:
    """Start it and wait until it says where it is. Without a model its runs ask the embedded one."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HOPGRAPH_")}
    variables |= {"HOPGRAPH_HOME": str(home)}
    if model is not None:
        variables |= {"HOPGRAPH_LLM_URL": model.url, "HOPGRAPH_LLM_RETRIES": "0"}
    variables |= more
    if checkpoints is not None:
        variables["HOPGRAPH_CHECKPOINTS"] = str(checkpoints)
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    log = (home / "studio.log").open("a")
    process = subprocess.Popen(
        [sys.executable, "-m", "hopgraph", "studio", "--port", "0", *words],
        env=variables | {"PYTHONPATH": os.pathsep.join(path)},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "ctrl-C stops it" in line:
            break
    said = "".join(lines)
    address = re.search(r"^API +(http://127\.0\.0\.1:\d+)", said, re.MULTILINE)
    assert address is not None, said + (home / "studio.log").read_text()
    return Studio(process, said, address[1])


@pytest.fixture(scope="module")
def home_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOPGRAPH_HOME with a small index and its knowledge base."""
    home = tmp_path_factory.mktemp("home")
    (home / "studio").mkdir()
    for packages in Path(HOME or "/nowhere").glob("studio/packages-*"):
        (home / "studio" / packages.name).symlink_to(packages)
    if (weights := Path(HOME or "/nowhere") / "weights").is_dir():
        (home / "weights").symlink_to(weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPGRAPH_HOME", str(home))
        get_settings.cache_clear()
        build_index("small", [Passage(id=key, title=title, text=text) for key, (title, text) in TEXTS.items()])
        read()
    get_settings.cache_clear()
    return home


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedModel]:
    """The model of the module's server; a test may give it another script."""
    with ScriptedModel(plausible).running() as model:
        yield model


@pytest.fixture
def script(scripted: ScriptedModel) -> Iterator[Callable[[Script], ScriptedModel]]:
    """Gives the model a script for one test."""

    def use(lines: Script) -> ScriptedModel:
        scripted.script = lines
        return scripted

    yield use
    scripted.script = plausible


@pytest.fixture(scope="module")
def studio(home_folder: Path, scripted: ScriptedModel) -> Iterator[Studio]:
    server = start_studio(home_folder, scripted)
    yield server
    server.kill()


def asked(graph: str) -> dict[str, object]:
    """An input of a graph."""
    return {"passage": "film"} if graph in READERS else {"question": QUESTION}
