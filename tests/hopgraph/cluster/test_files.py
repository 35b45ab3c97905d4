"""Files that other processes write."""

from __future__ import annotations

from pathlib import Path

from hopgraph.cluster.files import Tail


def test_new_lines_are_read_once_and_a_torn_one_when_it_is_whole(tmp_path):
    path = tmp_path / "lines.jsonl"
    tail = Tail(path)
    assert tail.new() == []
    with path.open("a") as file:
        file.write('{"n": 1}\n{"n": ')
        file.flush()
        assert tail.new() == [{"n": 1}]
        file.write("2}\n")
    assert tail.new() == [{"n": 2}]
    assert tail.new() == []


def test_a_file_that_is_replaced_while_it_is_read_is_read_anew(tmp_path, monkeypatch):
    path, other = tmp_path / "lines.jsonl", tmp_path / "other.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n')
    other.write_text('{"n": 3}\n{"n": 4}\n')
    opened = Path.open

    def open_and_replace(self, *words):
        file = opened(self, *words)
        other.replace(path)
        return file

    tail = Tail(path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_and_replace)
        assert tail.new() == [{"n": 1}, {"n": 2}]
    assert tail.new() == [{"n": 3}, {"n": 4}]
