"""The generated files and parts of files: their content, and which are out of date."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hopgraph import drawing
from hopgraph.evaluation.datasets import DATASETS
from hopgraph.evaluation.summary import ALL_METRICS
from hopgraph.generated import settings
from hopgraph.mermaid import mermaid
from hopgraph.methods import ABOUTS, load
from inference.errors import InputError

COMMAND = "python -m hopgraph.generated"
ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"(<!-- generated (?P<name>[a-z ]+) -->\n).*?(<!-- end generated -->)", re.DOTALL)
_MERMAID = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def write(root: Path = ROOT) -> list[str]:
    """Write the files that are out of date.

    Returns:
        The files written, as paths under `root`.

    Raises:
        InputError: A graph file or a page is malformed, or pygraphviz is missing where a graph has to be drawn.
    """
    written = []
    for path, text in contents(root).items():
        if _text(root / path) != text:
            (root / path).write_text(text, "utf-8")
            written.append(path)
    for method in _undrawn(root):
        written += [str(path.relative_to(root)) for path in drawing.draw(method, _picture(method, root))]
    return written


def stale(root: Path = ROOT) -> list[str]:
    """The files that are out of date, as paths under `root`."""
    texts = [path for path, text in contents(root).items() if _text(root / path) != text]
    return texts + [f"hopgraph/drawings/{method}.svg" for method in _undrawn(root)]


def contents(root: Path = ROOT) -> dict[str, str]:
    """Content of each generated file except the pictures; empty outside a source tree.

    Raises:
        InputError: A page lacks a generated part, or an `ABOUT` is malformed.
    """
    if not (root / "pyproject.toml").is_file():
        return {}
    cards = {f"graphs/{method}.md": _card(method, root) for method in ABOUTS}
    pages = {
        "README.md": {"methods": _short_table()},
        "graphs/README.md": {"methods": _table()},
        "docs/evaluation.md": {"datasets": _datasets(), "metrics": metrics()},
        "docs/settings.md": {
            "common settings": settings.common(),
            "settings of methods": settings.of_methods(),
            "variables": settings.variables(),
        },
    }
    filled = {page: _filled(page, _text(root / page), parts) for page, parts in pages.items()}
    return {"langgraph.json": _langgraph_json(root), **filled, **cards}


def _langgraph_json(root: Path) -> str:
    config = {"$schema": "https://langgra.ph/schema.json"} | json.loads(_text(root / "langgraph.json"))
    config["graphs"] = {
        method: {"path": f"./graphs/{method}.py:builder", "description": about.line} for method, about in ABOUTS.items()
    }
    config["http"] = {"disable_mcp": True, "disable_a2a": True}
    return json.dumps(config, indent=2) + "\n"


def _short_table() -> str:
    rows = [
        f"| [`{method}`](graphs/{method}.md) | {about.line} |"
        for method, about in ABOUTS.items()
        if about.kind == "method"
    ]
    baselines = [f"[`{m}`](graphs/{m}.md)" for m, about in ABOUTS.items() if about.kind == "baseline"]
    return "\n".join(["| method | |", "|---|---|", *rows, f"| baselines | {' '.join(baselines)} |"])


def _table() -> str:
    head = ["| id | method | what it does | paper |", "|---|---|---|---|"]
    rows = [
        f"| [`{method}`]({method}.md) | {about.name} | {about.summary} | {_paper(method)} |"
        for method, about in ABOUTS.items()
    ]
    return "\n".join(head + rows)


def _paper(method: str) -> str:
    about = ABOUTS[method]
    return f"{about.citation} ({about.published[:4]})" if about.citation else ""


def _datasets() -> str:
    head = ["| `--dataset` | | official files | licence |", "|---|---|---|---|"]
    rows = [
        f"| `{name}` | {found.title} | {found.form or 'JSON Lines, CSV, TSV'} | {found.licence} |"
        for name, found in DATASETS.items()
    ]
    return "\n".join(head + rows)


def metrics() -> str:
    """A row for each registered metric; those without a column in any table are in the JSON output."""
    rows = ["| column | meaning | in JSON | unit | source |", "|---|---|---|---|---|"]
    for name, metric in ALL_METRICS.items():
        column = f"`{metric.label}`" if metric.places else ""
        unit = f"{metric.unit}, {metric.better} is better"
        rows.append(f"| {column} | {metric.meaning} | `{name}` | {unit} | {metric.source} |")
    return "\n".join(rows)


def _card(method: str, root: Path) -> str:
    """A method's card with its current graph; a missing card is created with a table to fill in."""
    graph = f"```mermaid\n{mermaid(load(method).get_graph(xray=True))}\n```"
    path = root / "graphs" / f"{method}.md"
    if not path.is_file():
        head = [f"# {ABOUTS[method].name} (`{method}.py`)", _paper(method), graph]
        return "\n\n".join(filter(None, head)) + (
            "\n\n| paper | node | prompt | deviation, and why |\n|---|---|---|---|\n"
        )
    text = _text(path)
    if not _MERMAID.search(text):
        raise InputError(f"graphs/{method}.md: has no mermaid block", hint="the first one is replaced by the graph")
    return _MERMAID.sub(lambda _: graph, text, count=1)


def _filled(page: str, text: str, parts: dict[str, str]) -> str:
    """A page with up-to-date generated parts."""
    found = [part["name"] for part in _PART.finditer(text)]
    if found != [*parts]:
        raise InputError(
            f"{page}: must have the generated parts {', '.join(parts)}, has {', '.join(found) or 'none'}",
            hint="a part begins with a line `<!-- generated NAME -->` and ends with a line `<!-- end generated -->`",
        )
    return _PART.sub(lambda part: f"{part[1]}\n{parts[part['name']]}\n\n{part[3]}", text)


def _undrawn(root: Path) -> list[str]:
    """Methods without a current drawing, or without the picture in the documentation."""
    pictures = {method: _picture(method, root) for method in ABOUTS}
    return [m for m, png in pictures.items() if not drawing.is_current(m) or (png is not None and not png.is_file())]


def _picture(method: str, root: Path) -> Path | None:
    """The picture in the documentation; baselines have none."""
    shown = ABOUTS[method].kind == "method" and (root / "docs").is_dir()
    return root / "docs" / f"{method}.png" if shown else None


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""
