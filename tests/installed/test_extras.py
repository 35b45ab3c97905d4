"""Each extra by itself does what it promises: the base install with its packages and no other extra's."""

from __future__ import annotations

import csv
import socket
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from tests.collector import Collector
from tests.documents import make_docx, make_epub, make_pptx, make_xlsx
from tests.installed.places import ROOT, Place, start_studio
from tests.postgres import running_postgres
from tests.stores.test_documents import make_pdf

pytestmark = pytest.mark.installed

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ASK = ("hopgraph", "ask", "Where was Ann Lee born?", "--method", "no_retrieval", "--set", "max_tokens=64")
HEAVY = {"train", "train-lora", "vllm"}
"""Gigabytes of torch: pip says whether they can be had. `make test-vllm` installs and runs vLLM."""


@pytest.fixture
def extra(base: Place, wheel_file: Path, tmp_path: Path) -> Callable[[str], Place]:
    """Installs an extra in an environment on top of the base install, which stays as it is."""

    def install(name: str) -> Place:
        place = Place(tmp_path / "extra", base.variables)
        place.folder.mkdir()
        place.run(sys.executable, "-m", "venv", "--without-pip", ".venv")
        (site,) = (place.folder / ".venv").glob("lib/python*/site-packages")
        (below,) = (base.folder / ".venv").glob("lib/python*/site-packages")
        (site / "base.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
        wanted = f"hopgraph[{name}] @ {wheel_file.as_uri()}"
        install = ("python", "-m", "pip", "install", "--quiet", "--no-warn-conflicts")
        place.run(*install, "--no-deps", "--force-reinstall", wheel_file)
        place.run(*install, wanted)
        return place

    return install


def test_every_extra_is_tried():
    tried = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert set(EXTRAS) - tried - HEAVY - {"dev"} == set()


def test_documents(extra, tmp_path):
    place = extra("documents")
    (place.folder / "a.txt").write_text("Ann Lee was born in Paris.")
    (place.folder / "b.md").write_text("# The Silent Harbour\n\nA film by Ann Lee.")
    (place.folder / "c.html").write_text("<title>Paris</title><p>Paris is a city in France.</p>")
    with (place.folder / "d.csv").open("w") as file:
        csv.writer(file).writerows([["id", "title", "text"], ["x", "Oslo", "Oslo is a city in Norway."]])
    make_pdf(place.folder / "e.pdf", [["Robins are birds of the north."]])
    make_docx(place.folder / "f.docx")
    make_pptx(place.folder / "g.pptx")
    make_xlsx(place.folder / "h.xlsx")
    make_epub(place.folder / "i.epub")
    (place.folder / "j.txt").write_bytes("Прага была основана давно. Город стоит на реке Влтава.".encode("cp1251"))
    place.run("hopgraph", "index", *sorted(path.name for path in place.folder.glob("?.*")), "--name", "files")
    for words, source, page in [
        ("Ann Lee born", "a.txt", ""),
        ("France", "c.html", ""),
        ("Norway", "x", "line 2"),
        ("Robins are birds of the north", "e.pdf", "page 1"),
        ("Carl Moe works in Oslo", "f.docx", "page 2"),
        ("the ship sank in 1911", "g.pptx", "slide 2"),
        ("price of the bridge", "h.xlsx", "sheet Costs, row 5"),
        ("wrens are small", "i.epub", "Afterword"),
        ("Влтава", "j.txt", ""),
    ]:
        found = place.run("hopgraph", "search", words, "--index", "files")
        assert source in found
        assert page in found


def test_postgres(extra):
    place = extra("postgres")
    with running_postgres() as url:
        said = place.run(*ASK, "--thread", "t", HOPGRAPH_CHECKPOINTS=url)
        assert "thread" in said
        assert "Ann Lee" in place.run("hopgraph", "trace", "t", "--out", "t.html", HOPGRAPH_CHECKPOINTS=url) + (
            place.folder / "t.html"
        ).read_text(encoding="utf-8")


def test_cluster(extra):
    place = extra("cluster")
    (place.folder / "q.csv").write_text("question,answers\nWhere was Ann Lee born?,Paris\n")
    words = ("--out", "run", "--ray", "local", "--workers", "1", "--set", "max_tokens=64")
    place.run("hopgraph", "eval", "--method", "no_retrieval", "--questions", "q.csv", *words)
    assert len((place.folder / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_cluster_serve(extra):
    place = extra("cluster-serve")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "import httpx, ray; from ray import serve; from hopgraph.cluster.serving import app\n"
        "ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
        f"serve.start(http_options={{'port': {port}}})\n"
        "serve.run(app({'replicas': 1}))\n"
        f"print(httpx.get('http://127.0.0.1:{port}/health').text)\n"
        "serve.shutdown()\n"
    )
    with running_postgres() as url:
        said = place.python(program, HOPGRAPH_CHECKPOINTS=url, HOPGRAPH_API_KEY="key", RAY_USAGE_STATS_ENABLED="0")
    assert '{"status":"ok"}' in said


def test_draw(extra):
    place = extra("draw")
    place.run("hopgraph", "graph", "prism", "--png", "prism.png")
    assert (place.folder / "prism.png").read_bytes().startswith(b"\x89PNG")


def test_report(extra):
    place = extra("report")
    questions = ROOT / "hopgraph" / "data" / "demo" / "questions.jsonl"
    what = ("--perfect", "--dataset", "2wikimultihopqa", "--questions", questions, "--index", "demo", "--limit", "3")
    place.run("hopgraph", "eval", "--method", "standard_rag,prism", *what, "--out", "run")
    place.run("hopgraph", "report", "run")
    assert "<svg" in (place.folder / "run" / "report.html").read_text(encoding="utf-8")


def test_notebooks(extra):
    place = extra("notebooks")
    cell = nbformat.v4.new_code_cell("from hopgraph import load\nload('prism').get_graph().draw_png()[:4]")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), place.folder / "one.ipynb")
    place.python(
        "import nbformat; from nbclient import NotebookClient\n"
        "notebook = nbformat.read('one.ipynb', as_version=4)\n"
        "NotebookClient(notebook, kernel_name='python3').execute()\n"
        "nbformat.write(notebook, 'done.ipynb')"
    )
    outputs = nbformat.read(place.folder / "done.ipynb", as_version=4).cells[0].outputs
    assert [row.data["text/plain"] for row in outputs if row.output_type == "execute_result"] == ["b'\\x89PNG'"]


def test_otel(extra):
    place = extra("otel")
    with Collector().running() as collector:
        place.run(*ASK, HOPGRAPH_OTEL="on", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert collector.named("invoke_workflow no_retrieval")


def test_studio(extra):
    process, said = start_studio(extra("studio"))
    process.kill()
    process.wait()
    assert "http://127.0.0.1:" in said
    assert "fetching" not in said


@pytest.mark.parametrize("name", sorted(HEAVY))
def test_it_can_be_had(base, wheel_file, name):
    wanted = f"hopgraph[{name}] @ {wheel_file.as_uri()}"
    base.run("python", "-m", "pip", "install", "--quiet", "--dry-run", wanted)
