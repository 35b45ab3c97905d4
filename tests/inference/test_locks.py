"""Locks between processes: a second open file stands for another process, as `flock` has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inference.locks import claimed, exclusive, is_locked, lock, unlock


def test_a_lock_excludes_others_until_it_is_released(tmp_path):
    path = tmp_path / "lock"
    with path.open("ab") as mine, path.open("ab") as other:
        assert lock(mine)
        assert not lock(other)
        assert not lock(other, shared=True)
        unlock(mine)
        assert lock(other)


def test_readers_share_a_lock_and_keep_a_writer_out(tmp_path):
    path = tmp_path / "lock"
    with path.open("ab") as one, path.open("ab") as two, path.open("ab") as writer:
        assert lock(one, shared=True)
        assert lock(two, shared=True)
        assert not lock(writer)


def test_a_claimed_file_raises_what_the_caller_says(tmp_path):
    held, taken = exclusive(tmp_path / "lock"), claimed(tmp_path / "lock", ValueError("taken"))
    with held, pytest.raises(ValueError, match="taken"), taken:
        pass
    with claimed(tmp_path / "lock", ValueError("taken")):
        assert is_locked(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock")


def test_a_file_that_is_not_there_is_not_locked_and_is_not_made(tmp_path):
    assert not is_locked(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()


def test_an_ended_process_holds_no_lock(tmp_path):
    path = tmp_path / "lock"
    code = "import sys; from inference.locks import lock; assert lock(open(sys.argv[1], 'ab')); import os; os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    with path.open("ab") as mine:
        assert lock(mine)
