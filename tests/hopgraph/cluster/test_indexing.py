"""`hopgraph index --ray` on a real Ray cluster of three nodes on this machine, with a real embeddings server."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter

import pytest

from hopgraph.cluster import indexing
from inference.settings import get_settings
from stores.build import BATCH, build_index
from stores.index import MODES, open_index
from stores.manifest import Manifest, index_folder
from tests.hopgraph.cluster.conftest import kill_node, until
from tests.inference.encoders.test_endpoint import Server
from tests.stores.conftest import encoder  # noqa: F401
from tests.stores.hashing_encoder import HashingEncoder
from tests.stores.test_build import kept
from tests.stores.test_shards import random_passages

PASSAGES = 1_500


class Embeddings:
    """An embeddings server that logs the texts it encodes."""

    def __init__(self, server: Server) -> None:
        self.texts: list[str] = []
        self.delay = 0.0
        self.asked = 0
        self.ends_after = 10**9
        """Texts asked for, after which the server refuses: once the build has committed some of them."""
        self.url = server.url
        self._lock = threading.Lock()
        self._encoder = HashingEncoder()
        server.answer = self.answer

    def answer(self, request):
        texts = request["input"]
        with self._lock:
            self.asked += len(texts)
            ended = self.asked > self.ends_after
        if ended:
            until(lambda: kept(index_folder("x")), 60)
            return 401, "no more"
        time.sleep(self.delay)
        vectors = self._encoder.encode_passages(texts)
        self.texts += texts
        return 200, {"data": [{"index": n, "embedding": vector.tolist()} for n, vector in enumerate(vectors)]}


@pytest.fixture
def embeddings(home, monkeypatch):
    server = Server()
    server.handle_error = lambda *_: None  # a client that was killed is no news
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Embeddings(server)
    monkeypatch.setenv("HOPGRAPH_EMBED_URL", made.url)
    monkeypatch.setenv("HOPGRAPH_EMBED_MODEL", "plain")
    get_settings.cache_clear()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def corpus(tmp_path):
    """A folder with passages as JSON Lines, half of them without sentences, and three documents."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    with (folder / "passages.jsonl").open("w") as file:
        for n, passage in enumerate(random_passages(PASSAGES)):
            row = {"id": passage.id, "title": passage.title, "text": f"{passage.text}."}
            file.write(json.dumps(row | ({"sentences": [row["text"]]} if n % 2 else {})) + "\n")
    for name in ("a", "b", "z"):
        (folder / f"{name}.md").write_text(f"# {name} of the river\n\nThe document {name} names word7.\n")
    return folder


def content(name: str):
    """Passages in their order, and what searches find."""
    index = open_index(name)
    passages = [passage for chunk in index.passages() for passage in chunk]
    queries = [passage.text for passage in passages[::400]]
    return passages, [[(hit.id, hit.named_in) for hit in index.search(q, 3, mode)] for q in queries for mode in MODES]


@pytest.mark.slow
def test_a_node_killed_in_the_middle_costs_nothing(cluster, hopgraph, embeddings, corpus):
    embeddings.delay = 0.25
    killed: list[int] = []

    def kill() -> None:
        until(lambda: len(embeddings.texts) >= PASSAGES // 3)
        kill_node(cluster)
        killed.append(len(embeddings.texts))

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    code, out, err = hopgraph("index", corpus, "-n", "ray", "--shards", "3", "--ray", cluster.address, "--json")
    assert code == 0, err
    assert killed
    assert "3 nodes, 3 CPUs" in err
    built = json.loads(out)
    assert (built["shards"], built["encoded"], built["passages"]) == (3, PASSAGES + 3, PASSAGES + 3)
    repeated = sum(count - 1 for count in Counter(embeddings.texts).values())
    assert repeated <= BATCH  # of the one task that was killed

    embeddings.delay = 0
    code, out, _ = hopgraph("index", corpus, "-n", "whole", "--json")
    assert code == 0
    assert json.loads(out)["hash"] == built["hash"]
    assert content("ray") == content("whole")
    version = open_index("ray")._folder
    assert not (version / "attempts").exists()


@pytest.mark.slow
def test_a_stopped_build_goes_on_with_every_vector_and_errors_are_clear(
    cluster, hopgraph, embeddings, corpus, monkeypatch
):
    words = ("index", corpus, "-n", "x")
    ray = ("--ray", cluster.address)
    with monkeypatch.context() as patch:
        elsewhere = {"HOPGRAPH_EMBED_URL": embeddings.url, "HOPGRAPH_EMBED_MODEL": "another"}
        patch.setattr(indexing, "variables_of_workers", lambda _: elsewhere)
        code, _, err = hopgraph(*words, *ray)
        assert code == 2
        assert "hopgraph: node " in err
        assert "instead of" in err
    assert embeddings.texts == []
    embeddings.ends_after = 3 * BATCH  # three tasks at a time: one of them ends
    code, _, err = hopgraph(*words, *ray)
    assert code == 3
    assert "hopgraph: node " in err
    assert "401" in err
    committed = kept(index_folder("x"))
    assert committed >= BATCH
    embeddings.ends_after = 10**9
    code, out, _ = hopgraph(*words, "--json")  # Ray is not needed to go on
    assert code == 0
    assert json.loads(out)["encoded"] == PASSAGES + 3 - committed


@pytest.mark.slow
def test_sentences_of_another_language_are_split_by_its_rules(cluster, hopgraph, embeddings, tmp_path):
    text = "Der Turm steht am Marktplatz Nr. 3 der Stadt. Er wurde 1912 gebaut, bzw. erneuert. "
    (tmp_path / "turm.jsonl").write_text(json.dumps({"id": "a", "title": "Turm", "text": text * 40}))
    (tmp_path / "fluss.md").write_text(f"# Fluss\n\n{text * 60}\n")
    words = ("index", tmp_path, "--language", "de", "--json")
    found = {}
    for name, ray in (("ray", ("--ray", cluster.address)), ("whole", ())):
        code, _, err = hopgraph(*words, "-n", name, *ray)
        assert code == 0, err
        index = open_index(name)
        found[name] = [passage for chunk in index.passages() for passage in chunk]
        assert index.manifest.language == "de"
    assert found["ray"] == found["whole"]
    assert open_index("ray").hash == open_index("whole").hash
    code, _, err = hopgraph("index", tmp_path, "-n", "english", "--ray", cluster.address)
    assert code == 0, err
    english = [passage.sentences for chunk in open_index("english").passages() for passage in chunk]
    assert english != [passage.sentences for passage in found["ray"]]


def test_options_that_do_not_fit_are_named(hopgraph, embeddings, corpus):
    for words, said in (
        (("--remove", "x", "--ray", "auto"), "--ray: can't be combined with --remove"),
        ((corpus, "--add", "--shards", "2"), "--shards requires files, without --add"),
        ((corpus, "--reshard", "2"), "give one of: files"),
        ((corpus, "--ray", "nowhere"), "--ray nowhere: must be HOST:PORT, auto or local"),
    ):
        code, _, err = hopgraph("index", "-n", "x", *words)
        assert code == 2
        assert said in err
    assert embeddings.texts == []


@pytest.mark.parametrize("shards", [1, 2])
def test_a_shard_that_two_nodes_write_is_there_once(encoder, shards):  # noqa: F811
    given = random_passages(8)
    version = index_folder("x") / "versions" / build_index("x", given, shards=shards).manifest.version
    stored = Manifest.read(version)
    shutil.rmtree(version / "dense")
    for _ in range(2):
        counts = [indexing._store_shard(None, (str(version), stored, shard)) for shard in range(shards)]
        assert sum(counts) == 8
    assert list((version / "attempts").iterdir()) == []
    assert [open_index("x").search(p.text, 1, "dense")[0].id for p in given] == [p.id for p in given]
