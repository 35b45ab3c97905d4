"""Word, PowerPoint, Excel, EPUB and PDF files as passages, with their pages and headings."""

from __future__ import annotations

import copy
import logging
import zipfile
from pathlib import Path

import pytest

from inference.errors import InputError
from stores.documents import load_documents
from stores.passages import Passage
from tests.documents import add_table, make_docx, make_epub, make_pdf, make_pptx, make_xlsx


def shown(passages: list[Passage]) -> list[tuple[str, tuple[str, ...], str, tuple[str, ...]]]:
    return [(p.title, p.sentences, p.page, p.headings) for p in passages]


def test_word_files_keep_headings_pages_and_tables(tmp_path: Path) -> None:
    assert shown(load_documents(make_docx(tmp_path / "a.docx"))) == [
        ("Annual report", ("Ann Lee leads the office.",), "page 1", ()),
        ("Annual report: London", ("Bob Ray works in London.",), "page 1", ("Staff", "London")),
        (
            "Annual report: Oslo",
            ("Carl Moe works in Oslo.", "Name: Dora; Year: 1999", "Name: Emil; Year: 2001"),
            "page 2",
            ("Staff", "Oslo"),
        ),
    ]


def test_word_s_own_page_breaks_count_where_it_has_laid_out_the_file(tmp_path: Path) -> None:
    import docx
    from docx.oxml import OxmlElement

    document = docx.Document()
    paragraph = document.add_paragraph()
    paragraph.add_run("The first page ends ")
    run = paragraph.add_run()
    run._r.append(OxmlElement("w:lastRenderedPageBreak"))
    run.add_text("within this sentence. The second page goes on.")
    document.add_page_break()  # Word marks it below, too
    run = document.add_paragraph().add_run()
    run._r.append(OxmlElement("w:lastRenderedPageBreak"))
    run.add_text("The third page.")
    document.save(str(tmp_path / "a.docx"))
    short = load_documents(tmp_path / "a.docx", max_words=7)
    assert [(p.sentences, p.page) for p in short] == [
        (("The first page ends within this sentence.",), "pages 1-2"),
        (("The second page goes on.",), "page 2"),
        (("The third page.",), "page 3"),
    ]


def test_a_word_file_without_breaks_has_no_pages(tmp_path: Path) -> None:
    import docx

    document = docx.Document()
    document.add_paragraph("Only text.")
    document.save(str(tmp_path / "a.docx"))
    assert shown(load_documents(tmp_path / "a.docx")) == [("a", ("Only text.",), "", ())]


def test_text_in_content_controls_insertions_text_boxes_and_comments_is_read_and_deleted_text_is_not(
    tmp_path: Path,
) -> None:
    import docx
    from docx.oxml import parse_xml

    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    box = (
        f"<w:p {space}><w:r><w:t>Beside a box.</w:t><w:pict><w:txbxContent><w:p><w:r><w:t>Within a box.</w:t></w:r>"
        "</w:p></w:txbxContent></w:pict></w:r></w:p>"
    )
    document = docx.Document()
    noted = document.add_paragraph("Before.")
    document.add_comment(noted.runs, text="Really?", author="x")
    body = document.element.body
    for xml in (
        f"<w:sdt {space}><w:sdtContent><w:p><w:r><w:t>A content control.</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        f"<w:p {space}><w:ins><w:r><w:t>Inserted text.</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>Deleted text.</w:delText></w:r></w:del></w:p>",
        box,
    ):
        body.insert(len(body) - 1, parse_xml(xml))
    document.save(str(tmp_path / "a.docx"))
    passages = load_documents(tmp_path / "a.docx")
    assert [sentence for p in passages for sentence in p.sentences] == [
        "Before.",
        "A content control.",
        "Inserted text.",
        "Beside a box.",
        "Within a box.",
        "Really?",
    ]
    assert passages[-1].headings == ("Comments",)


def test_merged_cells_and_tables_without_a_header_are_written_cell_by_cell(tmp_path: Path) -> None:
    import docx
    from docx.oxml.ns import qn

    document = docx.Document()
    table = add_table(document, [("Who", "When", "Where"), ("Ann", "1999", "Paris"), ("Bob", "2001", "x")])
    table.cell(1, 2).merge(table.cell(2, 2)).text = "Paris"
    table.cell(0, 0).merge(table.cell(0, 1)).text = "Who and when"
    plain = add_table(document, [("Ann", "1999"), ("Bob", "2001")])
    plain._tbl.tblPr.find(qn("w:tblLook")).set(qn("w:firstRow"), "0")
    nested = add_table(document, [("Part", "Of"), ("Wheel", "")])
    nested.cell(1, 1)._tc.insert(0, copy.deepcopy(plain._tbl))
    document.save(str(tmp_path / "a.docx"))
    assert [sentence for p in load_documents(tmp_path / "a.docx") for sentence in p.sentences] == [
        "Who and when: Ann; Who and when: 1999; Where: Paris",
        "Who and when: Bob; Who and when: 2001; Where: Paris",
        "Ann | 1999",
        "Bob | 2001",
        "Part: Wheel; Of: Ann 1999 Bob 2001",
    ]


def test_a_text_box_in_a_cell_is_read_once(tmp_path: Path) -> None:
    import docx
    from docx.oxml import parse_xml

    spaces = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    )
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    drawing = f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
    document = docx.Document()
    table = add_table(document, [("Who", "When"), ("Ann", "1999")])
    table.cell(1, 0)._tc.append(parse_xml(f"<w:p {spaces}><w:r>{drawing}</w:r></w:p>"))
    document.save(str(tmp_path / "a.docx"))
    assert [p.text for p in load_documents(tmp_path / "a.docx")] == ["Who: Ann boxed; When: 1999"]


def test_slides_are_sections_with_their_tables_charts_groups_and_notes(tmp_path: Path) -> None:
    assert shown(load_documents(make_pptx(tmp_path / "c.pptx"))) == [
        ("c: Harbour", ("The harbour has a master.", "He is old."), "slide 1", ("Harbour",)),
        (
            "c: Ships",
            (
                "Ship: Silent Sea; Length: 90 m",
                "East; Tons: 1.5",
                "West; Tons: 2.5",
                "The anchor weighs two tons.",
                "Say that the ship sank in 1911.",
            ),
            "slide 2",
            ("Ships",),
        ),
    ]


def test_rows_of_a_spreadsheet_are_passages_with_column_names(tmp_path: Path) -> None:
    assert [(p.title, p.text, p.page, p.headings) for p in load_documents(make_xlsx(tmp_path / "b.xlsx"))] == [
        ("b: Costs", "Costs of 2020", "sheet Costs, row 1", ("Costs",)),
        ("b: Costs", "Item: Tower; Price: 12.5; Paid on: 2020-01-02; Late: no", "sheet Costs, row 4", ("Costs",)),
        ("b: Costs", "Item: Bridge; Price: 3; Late: yes", "sheet Costs, row 5", ("Costs",)),
        ("b: Years", "1999 | 2001", "sheet Years, row 1", ("Years",)),
    ]


def test_cells_of_a_spreadsheet_are_metadata_with_their_types(tmp_path: Path) -> None:
    assert [dict(p.metadata) for p in load_documents(make_xlsx(tmp_path / "b.xlsx"))] == [
        {},
        {"Item": "Tower", "Price": 12.5, "Paid on": "2020-01-02", "Late": False},
        {"Item": "Bridge", "Price": 3, "Late": True},
        {},
    ]


def test_rows_of_a_table_are_lines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Before. Still.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nAfter.")
    [passage] = load_documents(tmp_path / "a.md")
    assert passage.text == "Before. Still.\na: 1; b: 2\na: 3; b: 4\nAfter."


def test_column_names_without_rows_are_not_lost(tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["Item", "Price"])
    book.save(tmp_path / "a.xlsx")
    assert [p.text for p in load_documents(tmp_path / "a.xlsx")] == ["Item | Price"]


def test_books_are_read_in_order_with_their_chapters(tmp_path: Path) -> None:
    assert shown(load_documents(make_epub(tmp_path / "d.epub"))) == [
        ("Field guide: Birds: Robins", ("Robins sing at night.",), "", ("Birds", "Robins")),
        ("Field guide: Afterword", ("Wrens are small.",), "", ("Afterword",)),
    ]


def test_a_book_that_lacks_a_chapter_is_read_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = make_epub(tmp_path / "d.epub")
    with zipfile.ZipFile(whole) as book, zipfile.ZipFile(tmp_path / "e.epub", "w") as copy_of:
        for name in book.namelist():
            if not name.endswith("one.xhtml"):
                copy_of.writestr(name, book.read(name))
    with caplog.at_level(logging.WARNING):
        assert [p.text for p in load_documents(tmp_path / "e.epub")] == ["Wrens are small."]
    assert "e.epub lacks its chapter OEBPS/one.xhtml" in caplog.text


def test_a_book_with_drm_is_refused_and_encrypted_fonts_are_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="DRM"):
        load_documents(make_epub(tmp_path / "d.epub", encrypted="one.xhtml"))
    assert load_documents(make_epub(tmp_path / "e.epub", encrypted="font.ttf"))


def test_pdf_passages_know_their_pages_and_the_headings_of_the_outline(tmp_path: Path) -> None:
    pages = [
        ["1 Birds", "1.1 Robins", "Robins sing at night. They also"],
        ["sing by day.", "1.2 Wrens", "Wrens are small."],
        ["Wrens hide."],
    ]
    outline = [(0, "Birds", 1), (1, "Robins", 1), (1, "Wrens", 2), (0, "Not in the text", 3)]
    path = make_pdf(tmp_path / "a.pdf", pages, outline=outline)
    assert shown(load_documents(path, max_words=5)) == [
        ("a: Robins", ("Robins sing at night.",), "page 1", ("Birds", "Robins")),
        ("a: Robins", ("They also sing by day.",), "pages 1-2", ("Birds", "Robins")),
        ("a: Wrens", ("Wrens are small.", "Wrens hide."), "pages 2-3", ("Birds", "Wrens")),
    ]


def test_a_pdf_that_opens_without_a_password_is_read(tmp_path: Path) -> None:
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=make_pdf(tmp_path / "a.pdf", [["They sing."]]))
    writer.encrypt("", owner_password="owner", algorithm="AES-256")
    writer.write(tmp_path / "b.pdf")
    assert [p.text for p in load_documents(tmp_path / "b.pdf")] == ["They sing."]


def test_pages_of_sentences_follow_from_where_they_stand(tmp_path: Path) -> None:
    pages = [[f"Sentence {n} stands on page {n}, and nowhere else."] for n in range(1, 8)]
    passages = load_documents(make_pdf(tmp_path / "a.pdf", pages), max_words=9)
    assert [p.page for p in passages] == [f"page {n}" for n in range(1, 8)]
    assert all(f"on {p.page}," in p.text for p in passages)
    [whole] = load_documents(tmp_path / "a.pdf")
    assert whole.page == "pages 1-7"
