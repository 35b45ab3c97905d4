"""Parts of a reading: what a cluster has read is taken over, and what is under way there is not read elsewhere."""

from __future__ import annotations

import json

import numpy as np

from hopgraph.knowledge.parts import as_line, open_parts, start_parts
from stores.index import open_index
from stores.passages import content_id
from stores.readings import Pair, Reading
from tests.hopgraph.evaluation.conftest import hopgraph  # noqa: F401
from tests.reading import corpus, reader


def test_every_passage_belongs_to_one_part(home):
    corpus(1)
    ids = [f"p{n}" for n in range(500)]
    own = [part.own(ids) for part in start_parts("towns", 3)]
    assert sorted(key for keys in own for key in keys) == sorted(ids)
    assert min(map(len, own)) > 100
    assert len(start_parts("towns", 7)) == 3  # those of the unfinished reading


def test_what_a_part_has_read_is_taken_over_and_the_rest_waits_for_the_cluster(hopgraph, model):  # noqa: F811
    server = model(reader)
    corpus(3)
    first, second, _ = open_index("towns").get(["p00", "p01", "p02"])
    parts = start_parts("towns", 2)
    vectors = np.ones((1, 384), np.float32)
    with parts[0].lines.appending() as append:
        append(
            as_line(
                Reading(first.id, content_id(first.title, first.text)), [Pair(first.id, 1, "Who?", "Person 0")], vectors
            )
        )
        append(as_line(Reading(second.id, "another text"), [], vectors[:0]))
        append(as_line(Reading("gone", "x"), [], vectors[:0]))
    with parts[1].path("jsonl").open("a") as file:
        file.write('{"reading": {"pass')  # torn by a kill
    code, _, err = hopgraph("read", "--index", "towns")
    assert code == 2
    assert "the reading of index 'towns' was started with --ray, in 2 parts" in err
    assert "--ray local" in err
    assert server.requests == []
    code, out, _ = hopgraph("read", "--index", "towns", "--anew", "--json")
    assert code == 0
    assert json.loads(out)["read"] == len(server.requests) == 3
    assert open_parts("towns") == []


def test_a_part_that_has_read_everything_needs_no_cluster(hopgraph, model):  # noqa: F811
    server = model(reader)
    corpus(1)
    (passage,) = open_index("towns").get(["p00"])
    (part,) = start_parts("towns", 1)
    reading = Reading(passage.id, content_id(passage.title, passage.text))
    with part.lines.appending() as append:
        append(as_line(reading, [Pair(passage.id, 1, "Who?", "Person 0")], np.ones((1, 384), np.float32)))
    code, out, err = hopgraph("read", "--index", "towns", "--json")
    assert code == 0, err
    assert (json.loads(out)["read"], json.loads(out)["pairs"]) == (1, 1)
    assert server.requests == []
    assert open_parts("towns") == []
