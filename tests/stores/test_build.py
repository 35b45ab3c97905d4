"""Building indexes: atomic, resumable, reported."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from inference.errors import EndpointError, InputError, StoreError
from inference.settings import get_settings
from stores.build import BATCH, add_to_index, build_index, rebuild_index, remove_from_index
from stores.collect import Located
from stores.index import list_indexes, open_index
from stores.manifest import current_version, index_folder
from stores.passages import Passage
from stores.records import Records
from tests.stores.hashing_encoder import HashingEncoder

ROOT = Path(__file__).parents[2]


def passages(count: int, start: int = 0) -> list[Passage]:
    texts = {i: f"Passage number {i} speaks of topic{i % 7}." for i in range(start, start + count)}
    return [Passage(f"p{i}", f"Title {i}", text, (text,)) for i, text in texts.items()]


def versions(name: str) -> list[Path]:
    return sorted((index_folder(name) / "versions").iterdir())


def test_a_build_says_what_it_did(encoder):
    seen: list[tuple[str, int, int | None]] = []
    built = build_index("x", passages(600), progress=lambda *step: seen.append(step))
    assert (built.read, built.encoded, built.manifest.passages, built.manifest.articles) == (600, 600, 600, 600)
    assert built.size > 0
    assert {stage for stage, _, _ in seen} == {"read", "encode", "store"}
    assert ("encode", 600, 600) in seen
    assert built.manifest.libraries["chromadb"]


def test_repeated_ids_and_empty_texts_are_reported_with_their_places(encoder):
    given = [
        Located("a.jsonl, line 1", Passage("a", "", "first")),
        Located("a.jsonl, line 2", Passage("b", "only a title", " \n")),
        Located("b.jsonl, line 9", Passage("a", "", "second")),
        Passage("c", "", "third"),
    ]
    built = build_index("x", given)
    assert built.duplicates == ["b.jsonl, line 9: id a"]
    assert built.empties == ["a.jsonl, line 2"]
    assert (built.read, len(open_index("x"))) == (4, 2)
    assert open_index("x").get(["a"])[0].text == "first"


@pytest.mark.parametrize("given", [[], [Passage("a", "t", "")]])
def test_an_empty_corpus_is_refused_and_serves_nothing(encoder, given):
    with pytest.raises(InputError, match="no passages"):
        build_index("x", given)
    assert list_indexes() == []


def test_a_failed_build_leaves_the_old_index_as_it_was(encoder):
    build_index("x", passages(5))
    before = open_index("x").hash

    def failing():
        yield from passages(3, start=50)
        raise InputError("line 4 is wrong")

    with pytest.raises(InputError, match="line 4"):
        build_index("x", failing())
    assert len(versions("x")) == 1
    assert open_index("x").hash == before
    build_index("x", passages(6))
    assert len(versions("x")) == 2  # the served one, and the one that is open here


def test_wrong_input_keeps_the_vectors_that_an_earlier_build_has_made(encoder, monkeypatch):
    encode = encoder.encode_passages

    def stopped(texts):
        if encoder.passages:
            raise KeyboardInterrupt
        return encode(texts)

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "encode_passages", stopped)
        with pytest.raises(KeyboardInterrupt):
            build_index("x", passages(BATCH + 1))
    with pytest.raises(InputError):
        build_index("x", [])
    assert versions("x") == []
    assert build_index("x", passages(BATCH + 1)).encoded == 1


def test_a_wrong_setting_costs_no_vectors(encoder, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_CHROMA_URL", "localhost:8100")
    get_settings.cache_clear()
    with pytest.raises(InputError, match="HOPGRAPH_CHROMA_URL"):
        build_index("x", passages(10))
    monkeypatch.delenv("HOPGRAPH_CHROMA_URL")
    get_settings.cache_clear()
    assert build_index("x", passages(10)).encoded == 0


def test_a_damaged_index_is_mended_by_building_it_anew(encoder):
    build_index("x", passages(10))
    with closing(sqlite3.connect(current_version(index_folder("x")) / "passages.sqlite")) as database, database:
        database.execute("UPDATE passages SET sentences = '[' WHERE row = 2")
    built = build_index("x", passages(8))
    assert (built.replaces, built.removed) == (10, 2)


def test_passages_are_added_and_replaced(encoder):
    build_index("x", passages(10))
    encoder.passages = 0
    built = add_to_index("x", [Passage("p3", "New", "Rewritten about zebras."), *passages(2, start=10)])
    assert (built.replaced, built.encoded, built.manifest.passages, encoder.passages) == (1, 3, 12, 3)
    index = open_index("x")
    assert index.search("zebras", 1)[0].id == "p3"
    assert {hit.id for hit in index.search("topic3", 12, "sparse")} == {"p10"}


def test_adding_what_is_there_changes_nothing(encoder):
    article = Passage("art", "A", " ".join(f"Word{i} stands in this sentence here." for i in range(120)))
    built = build_index("x", [*passages(5), article, *passages(5, start=5)])
    before = [passage.id for chunk in open_index("x").passages() for passage in chunk]
    again = add_to_index("x", [article, *passages(3, start=4)])
    assert (again.replaced, again.encoded) == (4, 0)
    assert again.manifest.hash == built.manifest.hash
    assert [passage.id for chunk in open_index("x").passages() for passage in chunk] == before


def test_the_hash_does_not_depend_on_the_order_of_passages_but_on_that_within_an_article(encoder):
    parts = [Passage(f"doc#{i}", "T", f"Part {i}.", (f"Part {i}.",), "doc") for i in range(3)]
    hashes = [
        build_index("x", given).manifest.hash
        for given in (
            [*passages(600), *parts],
            [*parts, *reversed(passages(600))],
            [*passages(600), *reversed(parts)],
            passages(600),
        )
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def of_an_earlier_version(name: str) -> None:
    """Leave an index as it was built before rows knew their file and the hash was of the content alone."""
    version = current_version(index_folder(name))
    with closing(sqlite3.connect(version / "passages.sqlite")) as database, database:
        database.execute("ALTER TABLE passages DROP COLUMN file")
    with closing(Records(version / "passages.sqlite")) as records:
        ordered = records.ordered_hash()
    about = json.loads((version / "manifest.json").read_text())
    files = {name: (version / name).stat().st_size for name in about["files"]}
    (version / "manifest.json").write_text(json.dumps(about | {"corpus_hash": ordered, "files": files}))


def test_an_index_of_an_earlier_version_keeps_its_hash_until_it_changes(encoder):
    build_index("x", passages(10))
    of_an_earlier_version("x")
    before = open_index("x").hash
    assert open_index("x").search("topic3", 1, "sparse")[0].id == "p3"
    assert add_to_index("x", passages(3)).manifest.hash == before
    of_an_earlier_version("x")
    with pytest.raises(StoreError, match=r"not in the index: rows\.csv") as error:
        remove_from_index("x", ["rows.csv"])
    assert "did not keep which file a row came from" in error.value.hint
    changed = add_to_index("x", passages(11)).manifest
    assert changed.hash != before
    assert build_index("y", passages(11)).manifest.hash == changed.hash


def test_a_changed_article_takes_the_place_of_all_its_parts(encoder):
    def article(words: int) -> Passage:
        return Passage("art", "A", " ".join(f"Word{i} stands in this sentence here." for i in range(words)))

    build_index("x", [article(120), *passages(3)])
    assert open_index("x").manifest.articles == 4
    add_to_index("x", [article(60)])
    index = open_index("x")
    assert index.manifest.articles == 4
    assert index.search("word110", 5, "sparse") == []
    assert len(index.search("word30", 5, "sparse")) == 1


def test_passages_and_whole_articles_are_removed(encoder):
    long = Passage("art", "A", " ".join(f"Word{i} stands in this sentence here." for i in range(120)))
    build_index("x", [long, *passages(5)])
    parts = len(open_index("x")) - 5
    encoder.passages = 0
    built = remove_from_index("x", ["art", "p1"])
    assert (built.removed, built.encoded, encoder.passages) == (parts + 1, 0, 0)
    index = open_index("x")
    assert len(index) == 4
    assert "p1" not in index
    with pytest.raises(StoreError, match="not in the index: art, zz"):
        remove_from_index("x", ["zz", "art", "p2"])
    with pytest.raises(InputError, match="every passage"):
        remove_from_index("x", ["p0", "p2", "p3", "p4"])
    assert len(open_index("x")) == 4


@pytest.mark.parametrize(
    "change",
    [lambda: add_to_index("no", passages(1)), lambda: remove_from_index("no", ["a"]), lambda: rebuild_index("no")],
)
def test_what_is_not_there_cannot_be_changed(encoder, change):
    with pytest.raises(StoreError, match="no index named 'no'"):
        change()


def test_adding_under_another_encoder_is_refused(encoder):
    build_index("x", passages(3))
    with pytest.raises(StoreError, match="encoded with hashing/32"):
        add_to_index("x", passages(1, start=9), encoder=HashingEncoder("other"))
    assert len(open_index("x")) == 3


def test_damaged_kept_vectors_are_made_again(encoder):
    build_index("x", passages(10))
    (index_folder("x") / "vectors.sqlite").write_bytes(b"garbage" * 1_000)
    encoder.passages = 0
    rebuild_index("x")
    assert encoder.passages == 10


def test_vectors_of_passages_that_are_gone_are_forgotten(encoder):
    build_index("x", passages(10))
    remove_from_index("x", ["p1", "p2"])
    assert kept(index_folder("x")) == 8


def kept(folder: Path) -> int:
    if not (folder / "vectors.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "vectors.sqlite")) as db:
        try:
            return int(db.execute("SELECT count(*) FROM vectors").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def script(body: str, home: Path) -> subprocess.Popen[str]:
    lines = f"""
import sys
import stores.build, stores.index
from stores.build import *
from stores.index import open_index
from tests.stores.hashing_encoder import HashingEncoder
from tests.stores.test_build import passages
encoder = HashingEncoder()
stores.build.get_encoder = stores.index.get_encoder = lambda: encoder
{body}
"""
    return subprocess.Popen(
        [sys.executable, "-c", lines],
        cwd=ROOT,
        env={"HOPGRAPH_HOME": str(home), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_killed_build_serves_nothing_and_the_next_one_goes_on(encoder, home):
    folder = index_folder("x")
    process = script("encoder.delay = 0.3\nbuild_index('x', passages(6_000))", home)
    until(lambda: kept(folder) >= 512)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = kept(folder)
    assert 512 <= finished < 6_000
    assert list_indexes() == []
    with pytest.raises(StoreError, match="not finished"):
        open_index("x")

    built = build_index("x", passages(1_500))
    assert built.encoded == max(1_500 - finished, 0) == encoder.passages
    assert len(open_index("x")) == 1_500
    assert open_index("x").search("passage number 700", 1, "sparse")[0].id == "p700"
    assert len(versions("x")) == 1  # what the killed build left is gone


def test_a_kill_during_a_rebuild_leaves_the_old_index_served(encoder, home):
    build_index("x", passages(100))
    process = script("encoder.delay = 0.3\nbuild_index('x', passages(6_000, start=5_000))", home)
    until(lambda: kept(index_folder("x")) > 300)
    assert open_index("x").search("passage number 70", 1)[0].id == "p70"
    process.kill()
    process.wait()
    assert open_index("x").search("passage number 70", 1)[0].id == "p70"
    assert len(open_index("x")) == 100


def test_two_builds_of_one_index_at_once_are_refused(encoder, home):
    process = script("encoder.delay = 0.3\nbuild_index('x', passages(6_000))", home)
    try:
        until(lambda: kept(index_folder("x")) > 0)
        with pytest.raises(StoreError, match=f"built by another process \\(process {process.pid}\\)"):
            build_index("x", passages(3))
        build_index("y", passages(3))
    finally:
        process.kill()
        process.wait()
    build_index("x", passages(3))


READER = """
index = open_index('x')
for line in sys.stdin:
    print(index.search(line.strip(), 1)[0].id, len(index), flush=True)
"""


def ask(process: subprocess.Popen[str], query: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(query + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_readers_in_other_processes_are_not_disturbed_by_rebuilds(encoder, home):
    build_index("x", passages(300))
    served = current_version(index_folder("x"))
    readers = [script(READER, home) for _ in range(3)]
    try:
        assert [ask(reader, "passage number 70") for reader in readers] == ["p70 300"] * 3
        for size in (5, 6):
            build_index("x", passages(size, start=1_000))
        assert served in versions("x")
        for number in (7, 131, 299):
            assert [ask(reader, f"passage number {number}") for reader in readers] == [f"p{number} 300"] * 3
        assert open_index("x").search("passage number 1003", 1)[0].id == "p1003"
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    rebuild_index("x")
    assert served not in versions("x")


def test_many_processes_open_an_index_at_the_same_moment(encoder, home):
    build_index("x", passages(300))
    readers = [script(READER, home) for _ in range(5)]
    try:
        for reader in readers:
            reader.stdin.write("passage number 70\n")
            reader.stdin.flush()
        assert [reader.stdout.readline().strip() for reader in readers] == ["p70 300"] * 5
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


@contextmanager
def chroma_server(folder: Path, port: int = 0):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_chroma_server_can_hold_the_vectors(encoder, tmp_path, monkeypatch):
    with chroma_server(tmp_path / "chroma") as url:
        monkeypatch.setenv("HOPGRAPH_CHROMA_URL", url)
        get_settings.cache_clear()
        build_index("x", passages(50))
        assert open_index("x").search("passage number 33", 1, "dense")[0].dense_rank == 1
        first = open_index("x")
        add_to_index("x", passages(10, start=50))
        assert len(open_index("x").search("passage", 60)) == 60
        assert len(first.search("passage", 60)) == 50
    with pytest.raises(EndpointError, match="Chroma server failed"):
        open_index("x").search("passage", 1)
    assert open_index("x").search("passage number 33", 1, "sparse")[0].id == "p33"


def test_a_chroma_server_that_is_down_is_named(encoder, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_CHROMA_URL", "http://127.0.0.1:9")
    get_settings.cache_clear()
    with pytest.raises(EndpointError, match="Chroma server failed"):
        build_index("x", passages(3))
    assert list_indexes() == []


def test_a_home_that_cannot_be_written_is_named(encoder, home):
    home.mkdir(parents=True)
    (home / "indexes").write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match="can't write the index"):
        build_index("x", passages(3))
