"""Files that are made from the code: those of this tree are up to date, and the command mends those that are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hopgraph import drawing
from hopgraph.generated import __main__ as command
from hopgraph.generated.files import COMMAND, ROOT, contents, stale, write
from hopgraph.mermaid import mermaid
from hopgraph.methods import METHODS, READERS, load
from inference.errors import InputError

PAGES = ("pyproject.toml", "README.md", "langgraph.json", "docs", "graphs")


@pytest.fixture
def tree(tmp_path):
    for name in PAGES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_generated_files_are_up_to_date():
    assert stale() == [], f"out of date; `{COMMAND}` writes them"


def test_nothing_is_written_where_all_is_as_it_should_be(tree):
    assert write(tree) == []


def test_each_file_that_was_changed_by_hand_is_mended(tree):
    before = contents(tree)
    for path in before:
        text = (tree / path).read_text()
        changed = text.replace("prism.py:builder", "x").replace("`prism`", "`x`").replace("intake", "x")
        (tree / path).write_text(changed.replace("question-answer", "x"))
    wrong = stale(tree)
    assert set(wrong) == {"langgraph.json", "README.md", "graphs/README.md", "docs/settings.md"} | {
        f"graphs/{method}.md" for method in (*METHODS, *READERS)
    }
    assert write(tree) == wrong
    assert stale(tree) == []
    assert json.loads((tree / "langgraph.json").read_text()) == json.loads((ROOT / "langgraph.json").read_text())


def test_a_method_without_a_card_gets_one_to_fill_in(tree):
    (tree / "graphs" / "prism.md").unlink()
    assert write(tree) == ["graphs/prism.md"]
    text = (tree / "graphs" / "prism.md").read_text()
    assert text.startswith("# PRISM (`prism.py`)\n\nNahid and Rafiei, PRISM: ")
    assert f"```mermaid\n{mermaid(load('prism').get_graph(xray=True))}\n```" in text
    assert text.endswith("| paper | node | prompt | deviation, and why |\n|---|---|---|---|\n")


def test_a_page_without_its_generated_part_is_refused(tree):
    (tree / "README.md").write_text("# Hopgraph\n")
    with pytest.raises(InputError, match=r"README.md: must have the generated parts methods, has none"):
        write(tree)


def test_a_card_without_a_graph_is_refused(tree):
    (tree / "graphs" / "prism.md").write_text("# PRISM\n")
    with pytest.raises(InputError, match=r"graphs/prism.md: has no mermaid block"):
        write(tree)


def test_a_graph_that_has_changed_is_drawn(tree, monkeypatch):
    drawn = []
    monkeypatch.setattr(drawing, "is_current", lambda method: method != "prism")
    monkeypatch.setattr(drawing, "draw", lambda method, png: [drawn.append((method, png)) or tree / "x.svg"])
    assert stale(tree) == ["hopgraph/drawings/prism.svg"]
    assert write(tree) == ["x.svg"]
    assert drawn == [("prism", tree / "docs" / "prism.png")]


def test_a_picture_is_drawn_as_it_is_kept(tmp_path, monkeypatch):
    pytest.importorskip("pygraphviz")
    monkeypatch.setattr(drawing, "_FOLDER", tmp_path / "drawings")
    assert not drawing.is_current("standard_rag")
    written = drawing.draw("standard_rag", tmp_path / "picture.png")
    assert [path.name for path in written] == ["standard_rag.svg", "picture.png"]
    assert drawing.is_current("standard_rag")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_outside_a_source_tree_there_are_no_pages(tmp_path):
    assert contents(tmp_path) == {}


def test_the_command_prints_what_it_wrote(monkeypatch, capsys):
    monkeypatch.setattr(command, "write", lambda: ["README.md"])
    assert command.main() == 0
    assert capsys.readouterr().out == "README.md\n"


def test_the_command_says_what_is_wrong(monkeypatch, capsys):
    def refuse():
        raise InputError("graphs/x.py, line 3: ABOUT: kind is missing")

    monkeypatch.setattr(command, "write", refuse)
    assert command.main() == 2
    assert "graphs/x.py, line 3: ABOUT: kind is missing" in capsys.readouterr().err


def test_every_place_that_langgraph_json_names_is_there():
    for graph in json.loads((ROOT / "langgraph.json").read_text())["graphs"].values():
        assert (ROOT / Path(graph["path"].partition(":")[0])).is_file()
        assert graph["description"]
