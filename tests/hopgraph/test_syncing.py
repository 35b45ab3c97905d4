"""`hopgraph index --sync` and `--watch`: the files are the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopgraph.cli.syncing import run_sync
from hopgraph.reading import Reading, read_sources
from hopgraph.sources import find_sources
from hopgraph.syncing import Digests, Synced, _Before, sync_index
from inference.errors import EndpointError, InputError, StoreError
from stores.build import add_to_index, build_index, rebuild_index, remove_from_index
from stores.index import list_indexes, open_index
from stores.manifest import current_version, index_folder
from tests.stores.conftest import encoder  # noqa: F401
from tests.stores.hashing_encoder import HashingEncoder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(encoder: HashingEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    monkeypatch.setattr("hopgraph.syncing.get_encoder", lambda: encoder)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return Path("docs")


def sync(folder: Path, **options: bool) -> Synced:
    return sync_index("x", [folder], find_sources([folder]), **options)


def texts() -> set[str]:
    return {p.text for chunk in open_index("x").passages() for p in chunk}


def test_new_changed_and_vanished_files_are_added_replaced_and_removed(
    folder: Path,
    encoder: HashingEncoder,  # noqa: F811
) -> None:
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"Text of {name}.")
    first = sync(folder)
    assert (first.new, first.replaced, first.unchanged) == ([f"docs/{name}.txt" for name in "abc"], [], 0)
    (folder / "a.txt").unlink()
    (folder / "b.txt").write_text("Other text of b.")
    (folder / "d.txt").write_text("Text of d.")
    encoder.passages = 0
    second = sync(folder)
    assert (second.new, second.replaced, second.vanished) == (["docs/d.txt"], ["docs/b.txt"], ["docs/a.txt"])
    assert (second.unchanged, second.built.encoded, encoder.passages) == (1, 2, 2)
    assert texts() == {"Other text of b.", "Text of c.", "Text of d."}


def test_nothing_is_built_or_read_where_nothing_has_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("Text of a.")
    sync(folder)
    version = current_version(index_folder("x"))
    os.utime(folder / "a.txt", (0, 0))
    monkeypatch.setattr("hopgraph.reading.read_document", None)
    again = sync(folder)
    assert (again.changed, again.unchanged, again.built.manifest.passages) == (False, 1, 1)
    assert current_version(index_folder("x")) == version


def test_unchanged_files_are_taken_from_the_index_with_pages_and_headings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("# One\n\n## Two\n\nText of a.")
    (folder / "b.csv").write_text("text\nText of b.\n")
    sync(folder)
    before = {p.id: (p, p.page, p.headings, p.file) for chunk in open_index("x").passages() for p in chunk}
    (folder / "c.txt").write_text("Text of c.")
    read: list[Path] = []
    keep = Reading.read_file
    monkeypatch.setattr(
        "hopgraph.reading.Reading.read_file", lambda self, path, parse: (read.append(path), keep(self, path, parse))[1]
    )
    sync(folder)
    assert read == [folder / "c.txt"]
    after = {p.id: (p, p.page, p.headings, p.file) for chunk in open_index("x").passages() for p in chunk}
    assert after.items() >= before.items()
    assert {page for _, page, _, _ in before.values()} == {"", "line 2"}


def test_a_file_that_breaks_keeps_its_last_text_until_it_is_whole_again(folder: Path) -> None:
    (folder / "a.txt").write_text("Text of a.")
    (folder / "b.jsonl").write_text('{"id": "b", "text": "Text of b."}')
    sync(folder)
    (folder / "b.jsonl").write_text("{oops")
    broken = sync(folder)
    assert [unread.file for unread in broken.failed] == ["docs/b.jsonl"]
    assert texts() == {"Text of a.", "Text of b."}
    version = current_version(index_folder("x"))
    again = sync(folder)
    assert ([unread.file for unread in again.failed], again.changed) == (["docs/b.jsonl"], False)
    assert current_version(index_folder("x")) == version
    with pytest.raises(InputError, match="not JSON"):
        sync(folder, strict=True)
    (folder / "b.jsonl").write_text('{"id": "b", "text": "New text of b."}')
    assert sync(folder).replaced == ["docs/b.jsonl"]
    assert texts() == {"Text of a.", "New text of b."}


def test_an_id_of_two_files_goes_to_the_second_when_the_first_is_gone(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"id": "x", "text": "From a."}\n{"id": "a", "text": "Only a."}')
    (folder / "b.jsonl").write_text('{"id": "x", "text": "From b."}')
    sync(folder)
    assert texts() == {"From a.", "Only a."}
    (folder / "a.jsonl").write_text('{"id": "a", "text": "Only a."}')
    sync(folder)
    assert texts() == {"Only a.", "From b."}


def test_passages_of_other_files_stop_a_sync_unless_they_may_go(folder: Path) -> None:
    (folder / "a.txt").write_text("Text of a.")
    Path("other.txt").write_text("Other text.")
    build_index("x", read_sources([folder / "a.txt", Path("other.txt")]))
    with pytest.raises(StoreError, match=r"not of these files: other\.txt"):
        sync(folder)
    assert len(texts()) == 2
    sync(folder, replace=True)
    assert texts() == {"Text of a."}


def test_passages_that_another_process_adds_meanwhile_stop_a_sync(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("Text of a.")
    Path("other.txt").write_text("Other text.")
    build_index("x", read_sources([folder / "a.txt", Path("other.txt")]))
    monkeypatch.setattr("hopgraph.syncing._Before.read", lambda name: _Before())
    with pytest.raises(StoreError, match=r"not of these files: other\.txt"):
        sync(folder)
    assert texts() == {"Text of a.", "Other text."}


def test_a_sync_that_would_leave_nothing_changes_nothing(folder: Path) -> None:
    (folder / "a.txt").write_text("Text of a.")
    sync(folder)
    (folder / "a.txt").write_text("")
    with pytest.raises(InputError, match="no file in this folder can be read"):
        sync(folder)
    assert texts() == {"Text of a."}


def test_an_index_in_another_language_is_left_alone_where_nothing_has_changed(folder: Path) -> None:
    (folder / "a.txt").write_text("Die Boote wurden am Hafen gebaut.")
    build_index("x", read_sources([folder / "a.txt"]), language="de")
    sync(folder)
    version = current_version(index_folder("x"))
    assert not sync(folder).changed
    assert current_version(index_folder("x")) == version


def test_files_are_read_again_after_a_rebuild_in_another_language(folder: Path) -> None:
    (folder / "a.txt").write_text("Das kostet ca. 5 Euro. Es gibt z.B. Brot und Nr. 7 auch.")
    sync(folder)
    rebuild_index("x", language="de")
    assert sync(folder).replaced == ["docs/a.txt"]
    synced = [p.sentences for chunk in open_index("x").passages() for p in chunk]
    build_index("whole", read_sources([folder / "a.txt"]), language="de")
    assert synced == [p.sentences for chunk in open_index("whole").passages() for p in chunk]


def test_files_with_long_rows_or_ids_of_other_files_are_unchanged_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.jsonl").write_text(json.dumps({"id": "a", "text": "One sentence is here. " * 200}))
    (folder / "b.jsonl").write_text('{"id": "a", "text": "The id of the row above."}')
    sync(folder)
    version = current_version(index_folder("x"))
    with monkeypatch.context() as patch:
        patch.setattr("hopgraph.reading.read_numbered", None)
        again = sync(folder)
    assert (again.changed, again.unchanged, again.new, again.replaced) == (False, 2, [], [])
    assert current_version(index_folder("x")) == version
    (folder / "a.jsonl").unlink()
    sync(folder)
    assert texts() == {"The id of the row above."}


def test_files_of_a_folder_that_can_t_be_read_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("Text of a.")
    (folder / "sub" / "b.txt").write_text("Text of b.")
    (folder / "sub" / "c.jsonl").write_text(json.dumps({"id": "c", "text": "One sentence is here. " * 200}))
    sync(folder)
    before = texts()
    scan = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", refusing)
        away = sync(folder)
        assert (away.changed, away.vanished, texts()) == (False, [], before)
        (folder / "d.txt").write_text("Text of d.")
        assert (sync(folder).vanished, texts()) == ([], before | {"Text of d."})
    back = sync(folder)
    assert (back.changed, back.unchanged, texts()) == (False, 4, before | {"Text of d."})


def test_a_copy_that_keeps_size_and_time_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Text of a.")
    digests, times = Digests(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    first = digests.of(path)
    time.sleep(0.02)
    path.write_text("Text of b.")
    os.utime(path, ns=times)
    assert digests.of(path) not in ("", first)


def test_files_beside_the_folder_given_as_a_dot_are_not_below_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("Text of a.")
    Path("other").mkdir()
    Path("other/b.txt").write_text("Text of b.")
    monkeypatch.chdir(folder)
    paths = [Path(), Path("../other")]
    sync_index("x", paths, find_sources(paths))
    with pytest.raises(StoreError, match=r"not of these files: \.\./other/b\.txt"):
        sync(Path())
    assert texts() == {"Text of a.", "Text of b."}


NAMES = ["a.txt", "b.txt", "c.jsonl", "d.jsonl", "e.csv"]
WORDS = st.lists(st.sampled_from(["Ada", "Byron", "met", "in", "London"]), min_size=1, max_size=4).map(" ".join)
FILES = st.dictionaries(st.sampled_from(NAMES), st.lists(WORDS, min_size=1, max_size=3), max_size=4)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "add", "remove", "sync", "rebuild"]), FILES), min_size=1, max_size=6
)


def write(path: Path, lines: list[str]) -> None:
    """Rows of JSON Lines have ids that other files have, too."""
    if path.suffix == ".jsonl":
        rows = [json.dumps({"id": f"r{n}", "title": "London", "text": text}) for n, text in enumerate(lines)]
    else:
        rows = ["text", *lines] if path.suffix == ".csv" else [" ".join(f"{line}." for line in lines)]
    path.write_text("\n".join(rows))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=FILES, steps=STEPS)
def test_any_sequence_of_changes_and_a_sync_give_the_index_of_one_build(
    folder: Path, first: dict[str, list[str]], steps: list[tuple[str, dict[str, list[str]]]]
) -> None:
    for path in folder.iterdir():
        path.unlink()
    write(folder / "z.txt", ["Always here"])
    for step, files in [("write", first), ("sync", {}), *steps, ("sync", {})]:
        named = [folder / name for name in files]
        if step == "write":
            for name, lines in files.items():
                write(folder / name, lines)
        elif step == "delete":
            for path in named:
                path.unlink(missing_ok=True)
        elif step == "add" and (present := [path for path in named if path.exists()]):
            add_to_index("x", read_sources(present))
        elif step == "remove":
            known = {p.file for chunk in open_index("x").passages() for p in chunk} - {"docs/z.txt"}
            gone = [str(path) for path in named if str(path) in known]
            if gone:
                remove_from_index("x", gone)
        elif step == "rebuild":
            rebuild_index("x")
        elif step == "sync":
            sync(folder)
    build_index("whole", read_sources(find_sources([folder]).files))
    mine, whole = open_index("x"), open_index("whole")
    assert mine.hash == whole.hash
    held = [[(p, p.file, p.page) for chunk in index.passages() for p in chunk] for index in (mine, whole)]
    assert sorted(held[0], key=str) == sorted(held[1], key=str)
    for query in ("Ada in London", "Byron"):
        assert [hit.id for hit in mine.search(query, 5, "sparse")] == [
            hit.id for hit in whole.search(query, 5, "sparse")
        ]


def test_a_watched_folder_is_synced_as_it_changes_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl").write_text('{"id": "a", "text": "Text of a."}')
    home = tmp_path / "home"
    command = [sys.executable, "-m", "hopgraph", "index", "docs", "--sync", "--watch", "--name", "x"]
    variables = {**os.environ, "HOPGRAPH_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Where the tests run in the background it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        until(process, "watching for changes")
        (tmp_path / "docs" / "b.jsonl").write_text('{"id": "b", "text": "Text of b."}')
        (tmp_path / "docs" / "c.md").write_bytes(b"\x00")
        until(process, "could not be read")
        until(process, "c.md")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
        # Where the two files were not seen at once, another sync may be running.
        ended = {0: "stopped watching; index x is complete", 130: "stopped; run the same command again to resume"}
        assert ended[process.returncode] in said
    finally:
        process.kill()
        process.wait()


def test_a_watched_change_is_not_lost_where_a_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = [
        None,
        StoreError("being built"),
        EndpointError("away"),
        EndpointError("away"),
        None,
        InputError("no file"),
    ]
    tried = []

    def attempt(*_: object, **__: object) -> None:
        tried.append(1)
        if (error := outcomes[len(tried) - 1]) is not None:
            raise error

    def changes(paths: object, debounce: int, due: Callable[[], bool]) -> Iterator[None]:
        for _ in range(2):
            yield
            while due():
                yield

    monkeypatch.setattr("hopgraph.cli.syncing.RETRY", 0.0)
    monkeypatch.setattr("hopgraph.cli.syncing._sync", attempt)
    monkeypatch.setattr("hopgraph.watching.changes", changes)
    run_sync("x", [tmp_path], [], strict=False, replace=False, watch=True, as_json=False)
    assert len(tried) == len(outcomes)
    said = capsys.readouterr().err
    assert [said.count(words) for words in ("being built", "away", "no file")] == [1, 1, 1]


def until(process: subprocess.Popen[str], words: str) -> None:
    deadline = time.monotonic() + 300
    assert process.stdout is not None
    while words not in (line := process.stdout.readline()):
        assert line, f"it ended before it said {words!r}"
        assert time.monotonic() < deadline


def test_no_index_is_left_by_a_sync_that_fails(folder: Path) -> None:
    (folder / "a.jsonl").write_text("{oops")
    with pytest.raises(InputError, match="not JSON"):
        sync(folder)
    assert list_indexes() == []
