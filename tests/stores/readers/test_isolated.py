"""Files parsed in a process of their own."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import pytest

from inference.errors import InputError
from stores.documents import load_documents, read_document
from stores.readers import isolated, worker
from stores.readers.isolated import IsolatedParser
from tests.documents import make_docx, make_epub, make_pdf, make_pptx, make_xlsx


def test_what_comes_from_the_process_is_what_reading_here_gives(tmp_path: Path) -> None:
    (tmp_path / "f.md").write_text("# Birds\n\n## Robins\n\nThey sing.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    (tmp_path / "g.html").write_bytes('<meta charset="iso-8859-2"><p>Łódź leży tu.'.encode("iso-8859-2"))
    makers = {"a.docx": make_docx, "b.pptx": make_pptx, "c.xlsx": make_xlsx, "d.epub": make_epub}
    for name, make in makers.items():
        make(tmp_path / name)
    make_pdf(tmp_path / "e.pdf", [["They sing."], ["They rest."]])
    with IsolatedParser() as parser:
        for path in sorted(tmp_path.iterdir()):
            here, there = load_documents(path), list(read_document(path, parse=parser.parse))
            assert there == here
            assert [(p.page, p.headings) for p in there] == [(p.page, p.headings) for p in here]


def test_errors_and_warnings_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "b.md").write_bytes("A café that has been open since 1903.".encode("cp1252"))
    with IsolatedParser() as parser:
        with pytest.raises(InputError, match=r"a\.pdf: damaged, or not a PDF") as error:
            parser.parse(tmp_path / "a.pdf")
        assert error.value.hint
        with caplog.at_level(logging.WARNING):
            parser.parse(tmp_path / "b.md")
    assert "b.md is not UTF-8" in caplog.text


def test_a_file_that_takes_too_long_or_too_much_memory_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.md").write_text("Slow.")
    (tmp_path / "fine.md").write_text("Zebras eat grass.")
    with IsolatedParser() as parser:
        parser.parse(tmp_path / "fine.md")
        assert parser._process is not None
        parser._process.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(parser, "_seconds", 0.2)
            with pytest.raises(InputError, match=r"slow\.md: not read within 0 s"):
                parser.parse(tmp_path / "slow.md")
        assert list(parser.parse(tmp_path / "fine.md").sections)
    big = tmp_path / "big.html"
    big.write_text("<p>x" * 400_000)
    with IsolatedParser(memory=250_000_000) as parser:
        with pytest.raises(InputError, match=r"big\.html: needs too much memory"):
            parser.parse(big)
        assert list(parser.parse(tmp_path / "fine.md").sections)


def test_memory_that_lacks_for_the_reply_is_told_like_that_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine.md").write_text("Zebras eat grass.")
    lacking = """
def lack(_):
    raise MemoryError
import stores.readers.worker
stores.readers.worker._Warnings.taken = lack
main(int"""
    monkeypatch.setattr(isolated, "_WORKER", isolated._WORKER.replace("main(int", lacking))
    with IsolatedParser() as parser, pytest.raises(InputError, match=r"fine\.md: needs too much memory"):
        parser.parse(tmp_path / "fine.md")


def test_a_reader_that_crashes_is_an_error_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "fine.md").write_text("Zebras eat grass.")
    with IsolatedParser() as parser:
        parser.parse(tmp_path / "fine.md")
        assert parser._process is not None
        parser._process.send_signal(signal.SIGKILL)
        parser._process.wait()
        with pytest.raises(InputError, match=r"fine\.md: its reader crashed"):
            parser.parse(tmp_path / "fine.md")
        assert list(parser.parse(tmp_path / "fine.md").sections)


def test_text_that_grows_without_end_is_an_error_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.readers.worker.MOST_TEXT", 1_000)
    rows = "".join("<tr><td>1</td></tr>" for _ in range(20))
    (tmp_path / "a.html").write_text(f"<table><tr><th>{'name ' * 20}</th><th>x</th></tr>{rows}</table>")
    assert "a.html: more than 0 MB of text" in worker._parse(tmp_path / "a.html", tmp_path / "out")["error"]
    monkeypatch.setattr("stores.readers.worker.MOST_TEXT", 10_000)
    assert not worker._parse(tmp_path / "a.html", tmp_path / "out")["error"]
