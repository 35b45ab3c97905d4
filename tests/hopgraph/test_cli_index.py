"""`hopgraph index` and `hopgraph search`."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from hopgraph.cli import main
from hopgraph.reading import read_sources
from hopgraph.sources import find_sources
from inference.settings import get_settings
from stores import build, manifest
from stores.index import open_index
from stores.retriever import HopgraphRetriever
from tests.documents import make_docx
from tests.reranking import RerankServer
from tests.stores.conftest import encoder  # noqa: F401

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("encoder")


@pytest.fixture
def hopgraph(monkeypatch, capsys):
    """Run the command; gives exit code, stdout, stderr."""

    def run(*arguments: object):
        monkeypatch.setattr(sys, "argv", ["hopgraph", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def corpus(tmp_path):
    rows = [
        {"id": "a", "title": "Nevermind", "text": "Nevermind is an album by Nirvana."},
        {
            "id": "b",
            "title": "[bold]Markup[/bold] \u001b[31mred",
            "text": "A trap \u001b]0;pwned\u0007 for [red]terminals[/red]\u202e.",
        },
        {"id": "a", "title": "Again", "text": "The same id."},
        {"id": "c", "title": "Empty", "text": ""},
        {"title": "No id", "text": "A passage without an id."},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_indexing_reports_what_it_left_out(hopgraph, corpus):
    code, out, err = hopgraph("index", corpus, "--name", "x")
    assert code == 0
    assert "Index x: 3 passages" in out
    assert "1 duplicate id, only the first" in err
    assert "corpus.jsonl, line 3: id a" in err
    assert "1 empty text:" in err
    assert "corpus.jsonl, line 4" in err


def test_json_is_one_object_on_stdout(hopgraph, corpus):
    code, out, err = hopgraph("index", corpus, "--name", "x", "--json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert (summary["passages"], summary["read"], len(summary["duplicates"]), len(summary["empties"])) == (3, 5, 1, 1)
    code, out, err = hopgraph("search", "album by Nirvana", "--index", "x", "-k", 2, "--json")
    hits = json.loads(out)["hits"]
    assert (code, err, len(hits)) == (0, "", 2)
    assert hits[0]["id"] == "a"
    assert hits[0]["found_by"] == "both"
    assert hits[0]["dense_rank"] == hits[0]["sparse_rank"] == 1


def test_a_reranked_search_shows_relevance_and_says_when_the_reranker_is_away(hopgraph, corpus, monkeypatch):
    hopgraph("index", corpus, "--name", "x")
    code, out, err = hopgraph("search", "nirvana", "--index", "x", "--rerank")
    assert (code, out) == (2, "")
    assert "no reranking model is configured" in err
    with RerankServer().running() as server:
        monkeypatch.setenv("HOPGRAPH_RERANK_URL", server.url)
        monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
        get_settings.cache_clear()
        code, out, err = hopgraph("search", "nirvana", "--index", "x", "-k", 1, "--rerank", "--json")
        found = json.loads(out)
        assert (code, err, [hit["id"] for hit in found["hits"]]) == (0, "", ["a"])
        assert found["hits"][0]["relevance"] == 1.0
        assert found["reranked"] | {"seconds": 0} == {
            "model": "served", "tokens": 23, "truncated": 0, "seconds": 0, "problem": "",
        }  # fmt: skip
        assert len(server.requests[0]["documents"]) == 3
        assert "relevance 1.0000" in hopgraph("search", "nirvana", "--index", "x", "--rerank")[1]
        (document,) = HopgraphRetriever(index="x", k=1, rerank=True).invoke("nirvana")
        assert (document.id, document.metadata["relevance"]) == ("a", 1.0)
        server.answer = lambda request: (500, "{}")
        code, out, err = hopgraph("search", "nirvana", "--index", "x", "--rerank")
        assert code == 0
        assert "Nevermind" in out
        assert "is away: it answered with status 500: {}; the search's order was kept" in err


def test_a_filtered_search_shows_metadata(hopgraph, tmp_path):
    path = tmp_path / "years.jsonl"
    rows = [{"id": f"p{n}", "text": f"Passage {n}.", "year": 2000 + n, "who": "\x1b[31mLee"} for n in range(9)]
    path.write_text("\n".join(map(json.dumps, rows)))
    hopgraph("index", path, "--name", "x")
    code, out, err = hopgraph("search", "passage", "--index", "x", "--where", "year in (2003, 2004)", "--json")
    found = json.loads(out)
    assert (code, err, found["where"]) == (0, "", "year in (2003, 2004)")
    assert {hit["id"]: hit["metadata"] for hit in found["hits"]} == {
        f"p{n}": {"year": 2000 + n, "who": "\x1b[31mLee"} for n in (3, 4)
    }
    _, out, _ = hopgraph("search", "passage", "--index", "x", "--where", "year = 2005")
    assert "year: 2005, who: [31mLee" in out
    assert "2006" not in out
    code, out, err = hopgraph("search", "passage", "--index", "x", "--where", "year = lee")
    assert (code, out) == (2, "")
    assert "where, column 8: expected a value" in err
    code, out, err = hopgraph("ask", "Who?", "--index", "x", "--where", "yeer = 1", "--method", "standard_rag")
    assert code == 2
    assert "no passage of index 'x' has a field 'yeer'" in err
    assert "did you mean 'year'" in err


def test_the_language_is_an_option_and_texts_of_another_are_noticed(hopgraph, tmp_path):
    path = tmp_path / "haus.txt"
    path.write_text("Das ist das Haus, und es steht am Rand der Stadt, in der wir als Kinder gespielt haben. " * 3)
    code, _, err = hopgraph("index", path, "--name", "x")
    assert code == 0
    assert "its texts look German" in err
    assert "`--language de`" in err
    code, out, err = hopgraph("index", path, "--name", "x", "--language", "de", "--replace", "--json")
    assert (code, err, json.loads(out)["language"]) == (0, "", "de")
    assert "hint" not in json.loads(out)  # the encoder of these tests is not English
    assert "haus.txt" in hopgraph("search", "Häuser", "--index", "x", "--mode", "sparse")[1]
    code, _, err = hopgraph("index", path, "--name", "x", "--language", "klingon")
    assert code == 2
    assert "unknown language 'klingon'" in err
    assert "de (german)" in err


def test_search_shows_ranks_and_lets_no_passage_speak_to_the_terminal(hopgraph, corpus):
    hopgraph("index", corpus, "--name", "x")
    code, out, _ = hopgraph("search", "trap for terminals", "--index", "x")
    assert code == 0
    assert "words #1" in out
    assert "meaning #" in out
    assert "[bold]Markup[/bold]" in out
    assert "[red]terminals[/red]" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_a_search_that_finds_nothing_says_so(hopgraph, corpus):
    hopgraph("index", corpus, "--name", "x")
    assert hopgraph("search", "xylophone", "--index", "x", "--mode", "sparse")[:2] == (0, "Nothing found.\n")


def test_adding_removing_and_rebuilding(hopgraph, corpus, tmp_path):
    hopgraph("index", corpus, "--name", "x")
    more = tmp_path / "more.jsonl"
    more.write_text('{"id":"a","text":"Rewritten about zebras."}\n{"id":"d","text":"New."}')
    assert "4 passages" in (result := hopgraph("index", more, "--name", "x", "--add"))[1]
    assert "replaced 1" in result[1]
    assert "2 passages" in hopgraph("index", "--name", "x", "--remove", "a", "--remove", "d")[1]
    assert "2 passages" in hopgraph("index", "--name", "x", "--rebuild")[1]


def test_an_index_that_is_made_anew_says_what_of_the_one_before_is_gone(hopgraph, corpus, tmp_path):
    assert "replaces" not in hopgraph("index", corpus, "--name", "x")[1]
    assert "replaces the index of 3 passages\n" in hopgraph("index", corpus, "--name", "x")[1]
    less = tmp_path / "less.jsonl"
    less.write_text('{"id":"a","text":"Rewritten about zebras."}')
    code, out, _ = hopgraph("index", less, "--name", "x", "--replace")
    assert code == 0
    assert "replaces the index of 3 passages: 2 removed (`--add` keeps them)" in out
    summary = json.loads(hopgraph("index", corpus, "--name", "x", "--json", "--replace")[1])
    assert (summary["replaces"], summary["removed"]) == (1, 0)
    _, text, _ = hopgraph("index", "--help")
    assert "Build an index of files, or add to one with --add" in " ".join(text.split())


def test_an_index_of_other_content_is_replaced_only_when_that_is_asked_for(hopgraph, corpus, tmp_path):
    hopgraph("index", corpus, "--name", "x")
    before = open_index("x").hash
    less = tmp_path / "less.jsonl"
    less.write_text('{"id":"a","text":"Rewritten about zebras."}')
    code, out, err = hopgraph("index", less, "--name", "x")
    assert (code, out) == (2, "")
    assert "index 'x' has 3 passages, 2 of them not in these files; it was not changed" in err
    assert "`--replace`" in err
    assert "`--add`" in err
    assert open_index("x").hash == before
    assert hopgraph("index", corpus, "--name", "x")[0] == 0  # the same content
    assert hopgraph("index", less, "--name", "x", "--replace")[0] == 0
    assert len(open_index("x")) == 1


@pytest.mark.parametrize(("answer", "left"), [(True, 1), (False, 3)])
def test_at_a_terminal_a_person_is_asked_before_an_index_is_replaced(
    hopgraph, corpus, tmp_path, monkeypatch, answer, left
):
    hopgraph("index", corpus, "--name", "x")
    less = tmp_path / "less.jsonl"
    less.write_text('{"id":"a","text":"Rewritten about zebras."}')
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda question, err: (asked.append(question), answer)[1])
    assert hopgraph("index", less, "--name", "x")[0] == (0 if answer else 2)
    assert asked == ["index 'x' has 3 passages, 2 of them not in these files. Replace it?"]
    assert len(open_index("x")) == left


def test_a_folder_is_indexed_with_all_below_it_that_can_be_read(hopgraph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (
        "docs/b.txt",
        "docs/deep/er/a.md",
        "docs/.git/notes.md",
        "docs/.hidden.md",
        "docs/p.png",
        "docs/q.png",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"What {path} says about zebras.")
    (tmp_path / "docs" / "none.txt").write_text("")
    (tmp_path / "docs" / "deep" / "loop").symlink_to(tmp_path / "docs")
    code, out, _ = hopgraph("index", "docs", "--name", "x")
    assert code == 0
    assert "read 2 files, skipped 6 (2 .png, 2 hidden, 1 empty, 1 link to a folder)" in out
    ids = [hit["id"] for hit in json.loads(hopgraph("search", "zebras", "--index", "x", "--json")[1])["hits"]]
    assert sorted(found.partition("#")[0] for found in ids) == ["docs/b.txt", "docs/deep/er/a.md"]
    summary = json.loads(hopgraph("index", "docs", "docs/b.txt", "--name", "x", "--json")[1])
    assert (summary["files"], summary["skipped"][".png"]) == (2, 2)


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_indexed(hopgraph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl").write_text('{"text":"About zebras."}')
    (tmp_path / "docs" / "b.pdf").write_text("no PDF")
    (tmp_path / "docs" / "c.txt").touch()
    code, out, err = hopgraph("index", "docs", "--name", "x")
    assert code == 5
    assert "Index x: 1 passage" in out
    assert "read 1 file, could not read 1, skipped 1 (1 empty)" in out
    assert "1 file could not be read:\n    docs/b.pdf: damaged, or not a PDF" in err
    assert "1 skipped file:\n    docs/c.txt: empty" in err
    code, out, err = hopgraph("index", "docs", "--name", "x", "--json")
    summary = json.loads(out)
    assert (code, summary["passages"], summary["skipped_files"]) == (5, 1, ["docs/c.txt: empty"])
    assert [(row["file"], bool(row["hint"])) for row in summary["failed"]] == [("docs/b.pdf", True)]
    assert hopgraph("index", "docs", "--name", "x", "--exclude", "*.pdf")[0] == 0


@pytest.mark.parametrize("options", [[], ["--sync"], ["--add"]])
def test_with_strict_a_file_that_cannot_be_read_changes_nothing(hopgraph, corpus, tmp_path, options):
    hopgraph("index", corpus, "--name", "x")
    before = open_index("x").hash
    (tmp_path / "b.pdf").write_text("no PDF")
    code, out, err = hopgraph("index", corpus, tmp_path / "b.pdf", "--name", "x", "--strict", *options)
    assert (code, out) == (2, "")
    assert "b.pdf: damaged, or not a PDF" in err
    assert open_index("x").hash == before


def test_a_folder_is_synced(hopgraph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopgraph.syncing.get_encoder", lambda: build.get_encoder())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl").write_text('{"text":"About zebras."}')
    (tmp_path / "docs" / "b.jsonl").write_text('{"text":"About lions."}')
    assert "files: 2 new" in hopgraph("index", "docs", "--sync", "--name", "x")[1]
    (tmp_path / "docs" / "a.jsonl").unlink()
    (tmp_path / "docs" / "c.jsonl").write_text('{"text":"About owls."}')
    code, out, _ = hopgraph("index", "docs", "--sync", "--name", "x", "--json")
    found = {"new": ["docs/c.jsonl"], "replaced": [], "vanished": ["docs/a.jsonl"], "unchanged": 1}
    assert (code, json.loads(out)["sync"]) == (0, found)
    assert "files: 2 unchanged" in hopgraph("index", "docs", "--sync", "--name", "x")[1]


def test_search_shows_page_and_headings(hopgraph, tmp_path):
    make_docx(tmp_path / "a.docx")
    assert hopgraph("index", tmp_path / "a.docx", "--name", "x")[0] == 0
    assert "page 2, Staff > Oslo" in hopgraph("search", "Carl Moe", "--index", "x", "-k", 1)[1]
    (hit,) = json.loads(hopgraph("search", "Carl Moe", "--index", "x", "-k", 1, "--json")[1])["hits"]
    assert (hit["page"], hit["headings"]) == ("page 2", ["Staff", "Oslo"])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_all_rows_of_a_file_are_removed_by_its_name(hopgraph, corpus, tmp_path, kind):
    rows = tmp_path / f"rows.{kind}"
    csv = "id,title,text\nr1,T,First row.\nr2,T,Second row.\n"
    jsonl = '{"id":"r1","text":"First row."}\n{"id":"r2","text":"Second row."}\n'
    rows.write_text(csv if kind == "csv" else jsonl)
    hopgraph("index", corpus, rows, "--name", "x")
    assert len(open_index("x")) == 5
    hopgraph("index", "--name", "x", "--rebuild")  # which file a row came from is kept
    code, _, _ = hopgraph("index", "--name", "x", "--remove", rows)
    assert code == 0
    assert {"r1", "r2"} & {p.id for chunk in open_index("x").passages() for p in chunk} == set()
    assert len(open_index("x")) == 3


def test_documents_of_several_kinds_are_indexed_together(hopgraph, corpus, tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("The zebra lives in Africa. It has stripes.")
    assert hopgraph("index", corpus, note, "--name", "x")[0] == 0
    hits = json.loads(hopgraph("search", "zebra stripes", "--index", "x", "--json")[1])["hits"]
    assert hits[0]["id"].startswith(str(note))


@pytest.mark.parametrize("name", ["bad.jsonl", "none.jsonl", "notes.xyz"])
def test_wrong_input_leaves_nothing_of_a_new_index(hopgraph, tmp_path, home, name):
    (tmp_path / "bad.jsonl").write_text('{"text":"fine"}\n{oops')
    (tmp_path / "notes.xyz").write_text("fine")
    assert hopgraph("index", tmp_path / name, "--name", "x")[0] == 2
    assert list((home / "indexes").glob("*")) == []
    assert "no index named 'x'" in hopgraph("search", "q", "--index", "x")[2]


@pytest.mark.parametrize(
    "words", [["doctor"], ["search", "q", "--index", "mine"], ["index", "--name", "mine"], ["ask", "Where?"]]
)
@pytest.mark.parametrize("examples", [True, False])
def test_where_there_is_no_index_the_command_that_makes_one_works_as_it_is_shown(
    hopgraph, tmp_path, monkeypatch, words, examples
):
    if not examples:  # as in an installed package
        (tmp_path / "my packages" / "stores").mkdir(parents=True)
        (tmp_path / "my packages" / "hopgraph").symlink_to(ROOT / "hopgraph")
        monkeypatch.setattr(manifest, "__file__", str(tmp_path / "my packages" / "stores" / "manifest.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:9")
    get_settings.cache_clear()
    _, out, err = hopgraph(*words)
    (command,) = re.findall(r"hopgraph (index .* --name mine)", out + err)
    assert "FILE" not in out + err
    assert ("examples" in command) == examples
    for source in shlex.split(command)[1:-2]:
        assert next(iter(read_sources(find_sources([Path(source)]).files))).passage.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["index", "FOLDER/none.jsonl", "--name", "x"], "none.jsonl: no such file"),
        (
            ["index", "FOLDER/nothing", "--name", "x"],
            "nothing: no file in this folder can be read; read 0 files, skipped",
        ),
        (["index", "FOLDER/bad.jsonl", "--name", "x", "--add", "--replace"], "--replace requires files"),
        (["index", "FOLDER/bad.jsonl", "--name", "x", "--add", "--sync"], "give one of"),
        (["index", "--name", "x", "--sync"], "give one of"),
        (["index", "FOLDER/bad.jsonl", "--name", "x", "--watch"], "--watch requires --sync"),
        (["index", "FOLDER/nothing", "--name", "x", "--exclude", "!"], "--exclude: not a pattern"),
        (["index", "FOLDER/bad.jsonl"], "index FOLDER/bad.jsonl --name mine"),
        (["index", "FOLDER/bad.jsonl", "--name", "x"], "bad.jsonl, line 2: not JSON"),
        (["index", "FOLDER/empty.jsonl", "--name", "x"], "no passages"),
        (["index", "FOLDER/bad.jsonl"], "--name is missing"),
        (["index", "FOLDER/bad.jsonl", "--name", "../x"], "not a name for an index"),
        (["index", "--name", "x"], "give one of"),
        (["index", "FOLDER/bad.jsonl", "--name", "x", "--rebuild"], "give one of"),
        (["index", "FOLDER/empty.jsonl", "--name", "x", "--add"], "no index named 'x'"),
        (["index", "--name", "x", "--rebuild"], "no index named 'x'"),
        (["search", "q", "--index", "x"], "no index named 'x'; known: none"),
        (["search", "", "--index", "x"], "the query is empty"),
        (["search", "q", "--index", "x", "--mode", "fuzzy"], "unknown mode 'fuzzy'"),
    ],
)
def test_wrong_input_is_a_message_and_no_traceback(hopgraph, tmp_path, arguments, says):
    (tmp_path / "bad.jsonl").write_text('{"text":"fine"}\n{oops')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "picture.png").write_text("fine")
    code, out, err = hopgraph(*[argument.replace("FOLDER", str(tmp_path)) for argument in arguments])
    assert (code, out) == (2, "")
    assert says.replace("FOLDER", str(tmp_path)) in err
    assert "Traceback" not in err


def test_an_index_is_built_in_shards_and_sharded_anew(hopgraph, corpus):
    code, out, _ = hopgraph("index", corpus, "--name", "x", "--shards", 2)
    assert code == 0
    assert "Index x: 3 passages in 2 shards" in out
    code, out, _ = hopgraph("index", "--name", "x", "--reshard", 3, "--json")
    assert (code, json.loads(out)["shards"], json.loads(out)["encoded"]) == (0, 3, 0)
    code, out, _ = hopgraph("search", "Nirvana", "--index", "x", "--json")
    assert json.loads(out)["hits"][0]["id"] == "a"
    for words, said in (
        ((corpus, "--add", "--shards", 2), "--shards requires files, without --add"),
        (("--rebuild", "--shards", 2), "--shards requires files, without --add"),
        ((corpus, "--reshard", 2), "give one of: files"),
    ):
        code, _, err = hopgraph("index", "--name", "x", *words)
        assert code == 2
        assert said in err
