"""Indexes made and searched from Python."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document

import hopgraph
from hopgraph import HopgraphRetriever, InputError, Passage, build_index, open_index
from stores.readers.isolated import IsolatedParser

ROW = {"id": "lee", "title": "Ann Lee", "text": "Ann Lee was born in Paris."}


def test_passages_come_as_objects_documents_and_files(home, tmp_path):
    folder = tmp_path / "my papers"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "moon.md").write_text("# Moon\n\nThe Moon goes round the Earth.")
    (folder / ".hidden" / "not.md").write_text("# Hidden\n\nNobody reads this.")
    (folder / "rows.jsonl").write_text(json.dumps({"id": "ray", "title": "Bob Ray", "text": "Bob Ray composed."}))
    given = [
        ROW,
        Passage(id="tower", title="The Blue Tower", text="The Blue Tower is an opera."),
        Document(id="film", page_content="Zorba's Night is a film.", metadata={"title": "Zorba's Night", "year": 1971}),
        folder,
    ]
    stages = []
    built = build_index("mine", iter(given), progress=lambda stage, done, of: stages.append(stage))
    assert built.read == 5
    assert {"read", "encode", "store"} == set(stages)
    index = open_index("mine")
    assert [hit.title for hit in index.search("Where was Ann Lee born?", 1)] == ["Ann Lee"]
    assert index.search("round the Earth", 1)[0].title == "Moon"
    (found,) = HopgraphRetriever(index="mine", k=1).invoke("Which film?")
    assert (found.id, found.metadata["title"]) == ("film", "Zorba's Night")
    assert [hit.id for hit in index.search("Zorba", 5, where="year = 1971")] == ["film"]


def test_a_path_may_stand_for_the_list_and_passages_be_added(home, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(ROW))
    build_index("mine", str(tmp_path / "a.jsonl"))
    built = build_index("mine", [{"id": "ray", "text": "Bob Ray composed."}], add=True)
    assert built.encoded == 1
    assert {"lee", "ray"} == {key for key in ("lee", "ray", "moon") if key in open_index("mine")}


@pytest.mark.parametrize(
    ("passages", "said"),
    [
        ([ROW, {"title": "x"}], r"passages\[1\]: field 'text' is missing"),
        ([ROW, {"text": 3}], r"passages\[1\]: field 'text' must be a string"),
        ([3], r"passages\[0\]: is no passage but int"),
        (ROW, "passages: must be a list, not dict"),
        (3, "passages: must be a list, not int"),
        (["nowhere.md"], "nowhere.md: no such file"),
    ],
)
def test_what_is_no_passage_is_named(home, passages, said):
    with pytest.raises(InputError, match=said):
        build_index("mine", passages)


def test_a_folder_without_documents_is_named(home, tmp_path):
    with pytest.raises(InputError, match="no file in this folder can be read"):
        build_index("mine", tmp_path)


def test_a_folder_is_walked_as_the_command_does(home, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lee.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "in" / "empty.md").touch()
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    assert build_index("mine", tmp_path / "in").read == 1
    (passage,) = open_index("mine").get(["lee"])
    assert passage.file == str(tmp_path / "in" / "lee.jsonl")


def test_what_was_given_is_not_changed(home):
    rows = [{"id": 7, "text": "Seven."}]
    build_index("mine", rows)
    assert rows == [{"id": 7, "text": "Seven."}]
    assert "7" in open_index("mine")


@pytest.mark.parametrize("name", hopgraph.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hopgraph, name) is not None
    assert name in dir(hopgraph)


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="no attribute 'prism'"):
        _ = hopgraph.prism


def test_one_process_parses_all_files_of_a_list(home, tmp_path, monkeypatch):
    started = []
    start = IsolatedParser._start
    monkeypatch.setattr(IsolatedParser, "_start", lambda self: (started.append(self), start(self))[1])
    paths = [tmp_path / f"{name}.md" for name in "abc"]
    for path in paths:
        path.write_text(f"Text of {path.stem}.")
    assert build_index("mine", paths).read == 3
    assert len(started) == 1
