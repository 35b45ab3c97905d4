"""Which indexes there are, and deleting one."""

from __future__ import annotations

import fcntl

import pytest

from inference.errors import StoreError
from stores.build import build_index
from stores.index import list_indexes, open_index
from stores.manifest import current_version, index_folder
from stores.overview import index_infos, remove_index
from tests.stores.test_build import passages


def test_indexes_are_listed_with_their_sizes_and_states(encoder):
    build_index("good", passages(5))
    build_index("bad", passages(3))
    (current_version(index_folder("bad")) / "passages.sqlite").unlink()
    (index_folder("begun") / "versions").mkdir(parents=True)
    build_index("busy", passages(4))
    with (index_folder("busy") / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = {info.name: info for info in index_infos()}
    states = {name: (info.state, info.passages) for name, info in found.items()}
    assert states == {
        "good": ("complete", 5),
        "bad": ("damaged", 3),
        "begun": ("unfinished", None),
        "busy": ("being built", 4),
    }
    assert found["good"].bytes > 10_000


@pytest.mark.parametrize(
    ("file", "says"), [("lock", "being built"), ("pairs.lock", "being read"), ("in_use", "being searched")]
)
def test_an_index_in_use_is_not_deleted(encoder, file, says):
    build_index("x", passages(5))
    folder = index_folder("x")
    with ((current_version(folder) if file == "in_use" else folder) / file).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(StoreError, match=says):
            remove_index("x")
    assert len(open_index("x")) == 5


def test_a_deleted_index_is_gone(encoder):
    build_index("x", passages(5))
    build_index("y", passages(5))
    remove_index("x")
    assert list_indexes() == ["y"]
    assert not index_folder("x").exists()
    with pytest.raises(StoreError, match="no index named 'x'; known: y"):
        remove_index("x")
