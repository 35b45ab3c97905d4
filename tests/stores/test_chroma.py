from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stores.chroma import Chroma

SECRET = b"sk-verysecret-0123456789"


def vectors(count):
    values = np.random.default_rng(0).normal(size=(count, 384)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def leave_in_memory(secret):
    """Free memory that holds the secret, in blocks of the sizes that Chroma asks for."""
    sizes = [400, 4_000, 100_000, 180_000, 1_000_000]
    # The first free of a large block makes the C library keep blocks of that size for whoever asks next.
    for _ in range(3):
        blocks = [secret * (size // len(secret)) for size in sizes for _ in range(20)]
        del blocks


@pytest.mark.parametrize("count", [36, 1_001, 1_500])
def test_what_the_process_had_in_memory_is_in_no_file_of_an_index(tmp_path, count):
    leave_in_memory(SECRET)
    Chroma(tmp_path / "dense").build([vectors(count)])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "data_level0.bin" in {path.name for path in files}
    for path in files:
        assert SECRET[:8] not in path.read_bytes(), path


@pytest.mark.parametrize("count", [36, 1_001, 2_500])
def test_vectors_are_found_in_what_was_written_and_searching_leaves_the_files_as_they_are(tmp_path, count):
    store = Chroma(tmp_path / "dense")
    rows = vectors(count)
    store.build([rows])
    before = hashes(tmp_path)
    found = store.open()
    assert len(found) == count
    for row in (0, count // 2, count - 1):
        assert found.search(rows[row], 3)[0][0] == row
    assert hashes(tmp_path) == before


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.bin")}
