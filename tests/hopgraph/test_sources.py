"""Files found in folders, and those that are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hopgraph.sources import find_sources
from inference.errors import InputError


def make(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Text.")
    return folder


def names(folder: Path, *exclude: str) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in find_sources([folder], exclude=exclude).files]


def test_patterns_exclude_files_and_folders_as_in_gitignore(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "draft-b.md", "build/c.md", "deep/build/d.md", "deep/e.txt", "f.txt")
    assert names(tmp_path, "build/", "draft-*") == ["a.md", "f.txt", "deep/e.txt"]
    assert names(tmp_path, "/build/") == ["a.md", "draft-b.md", "f.txt", "deep/e.txt", "deep/build/d.md"]
    assert names(tmp_path, "*.txt", "!f.txt", "build") == ["a.md", "draft-b.md", "f.txt"]
    found = find_sources([tmp_path], exclude=["build/", "draft-*"])
    assert found.skipped == {"excluded folder": 2, "excluded": 1}


def test_a_folder_s_own_file_of_patterns_holds_for_what_is_below_it(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "deep/a.md", "deep/b.md", "deep/er/a.md")
    (tmp_path / "deep" / ".hopgraphignore").write_text("# not these\na.md\n")
    assert names(tmp_path) == ["a.md", "deep/b.md"]
    assert find_sources([tmp_path]).skipped == {"excluded": 2}
    assert names(tmp_path / "deep" / "er") == ["a.md"]


def test_the_nearest_file_of_patterns_decides_and_the_command_line_before_it(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "deep/a.md", "deep/b.md", "deep/er/b.md")
    (tmp_path / ".hopgraphignore").write_text("*.md\n")
    (tmp_path / "deep" / ".hopgraphignore").write_text("!b.md\n")
    assert names(tmp_path) == ["deep/b.md", "deep/er/b.md"]
    assert names(tmp_path, "er/") == ["deep/b.md"]


def test_a_file_that_is_named_is_read_whatever_excludes_it(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md")
    assert len(find_sources([tmp_path, tmp_path / "a.md"], exclude=["a.md"]).files) == 2


def test_a_wrong_pattern_is_named_with_its_place(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    with pytest.raises(InputError, match="--exclude: not a pattern"):
        find_sources([tmp_path], exclude=["!"])
    (tmp_path / ".hopgraphignore").write_text("fine\n!\n")
    with pytest.raises(InputError, match=r"\.hopgraphignore, line 2: not a pattern"):
        find_sources([tmp_path])


def test_the_summary_says_what_was_read_skipped_and_why(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md", "c.png", "d.png", ".hidden.md")
    (tmp_path / "e.md").touch()
    found = find_sources([tmp_path])
    assert str(found) == "read 2 files, skipped 4 (2 .png, 1 empty, 1 hidden)"
    assert found.summary(1) == "read 1 file, could not read 1, skipped 4 (2 .png, 1 empty, 1 hidden)"
    assert found.passed == [f"{tmp_path / 'e.md'}: empty"]


def test_a_folder_that_can_t_be_read_is_reported_or_with_strict_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.md", "locked/b.md")
    scan = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refusing)
    found = find_sources([tmp_path])
    assert [path.name for path in found.files] == ["a.md"]
    assert [unread.reason for unread in found.failed] == [f"{tmp_path / 'locked'}: can't be read (Permission denied)"]
    with pytest.raises(InputError, match="Permission denied"):
        find_sources([tmp_path], strict=True)


def test_names_that_are_not_utf_8_are_reported_and_the_others_read(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md")
    (tmp_path / "b.md").rename(tmp_path / os.fsdecode(b"caf\xe9.md"))
    (tmp_path / os.fsdecode(b"\xe9")).mkdir()
    make(tmp_path / os.fsdecode(b"\xe9"), "c.md", "d.p\udce9g")
    make(tmp_path, "e.p\udce9g")
    found = find_sources([tmp_path])
    assert [path.name for path in found.files] == ["a.md"]
    assert {unread.reason.removeprefix(f"{tmp_path}/") for unread in found.failed} == {
        r"\xe9: its name is not UTF-8",
        r"caf\xe9.md: its name is not UTF-8",
    }
    assert found.skipped == {r".p\xe9g": 1}
    with pytest.raises(InputError, match="not UTF-8"):
        find_sources([tmp_path / os.fsdecode(b"caf\xe9.md")])


def test_paths_that_are_no_file_or_may_not_be_asked_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.md", "b.md")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(InputError, match="not a regular file"):
        find_sources([tmp_path / "pipe.jsonl"])
    with pytest.raises(InputError, match="can't be read"):
        find_sources([tmp_path / ("x" * 5000)])
    is_file = Path.is_file

    def locked(path: Path) -> bool:
        if path.name == "b.md":
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", locked)
    found = find_sources([tmp_path])
    assert [path.name for path in found.files] == ["a.md", "b.md"]  # reading it says why
