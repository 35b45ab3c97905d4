"""Documents made with the libraries of their formats, for the tests of the readers."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def make_docx(path: Path) -> Path:
    """A Word file of two pages, with a title, headings and a table."""
    import docx

    document = docx.Document()
    document.add_heading("Annual report", 0)
    document.add_paragraph("Ann Lee leads the office.")
    document.add_heading("Staff", 1)
    document.add_heading("London", 2)
    document.add_paragraph("Bob Ray works in London.")
    document.add_page_break()
    document.add_heading("Oslo", 2)
    document.add_paragraph("Carl Moe works in Oslo.")
    add_table(document, [("Name", "Year"), ("Dora", "1999"), ("Emil", "2001")])
    document.save(str(path))
    return path


def add_table(document: Any, rows: Sequence[Sequence[str]]) -> Any:
    """A table at the end of a Word document."""
    table = document.add_table(rows=len(rows), cols=len(rows[0]))
    for i, row in enumerate(rows):
        for j, text in enumerate(row):
            table.cell(i, j).text = text
    return table


def make_pptx(path: Path) -> Path:
    """Two slides: text, and a table, a chart, a group and notes."""
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Harbour"
    first.placeholders[1].text = "The harbour has a master.\nHe is old."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Ships"
    place = (Inches(1), Inches(1), Inches(4), Inches(1))
    table = second.shapes.add_table(2, 2, *place).table
    for i, row in enumerate([("Ship", "Length"), ("Silent Sea", "90 m")]):
        for j, text in enumerate(row):
            table.cell(i, j).text = text
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Tons", (1.5, 2.5))
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(*place).text_frame.text = "The anchor weighs two tons."
    second.notes_slide.notes_text_frame.text = "Say that the ship sank in 1911."
    presentation.save(str(path))
    return path


def make_xlsx(path: Path) -> Path:
    """Two sheets: one with a caption above the column names, one without names."""
    import datetime

    import openpyxl

    book = openpyxl.Workbook()
    costs = book.active
    costs.title = "Costs"
    costs.append(["Costs of 2020"])
    costs.append([])
    costs.append(["Item", "Price", "Paid on", "Late"])
    costs.append(["Tower", 12.5, datetime.date(2020, 1, 2), False])
    costs.append(["Bridge", 3, None, True])
    years = book.create_sheet("Years")
    years.append([1999, 2001])
    book.save(path)
    return path


def make_epub(path: Path, *, encrypted: str = "") -> Path:
    """A book of two chapters, the second of which has no heading but a title."""
    chapters = {
        "one.xhtml": "<html><head><title>x</title></head><body><h1>Birds</h1><h2>Robins</h2><p>Robins sing at night."
        "</p></body></html>",
        "two.xhtml": "<html><head><title>Afterword</title></head><body><p>Wrens are small.</p></body></html>",
    }
    items = "".join(f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in chapters)
    refs = "".join(f'<itemref idref="{n}"/>' for n in chapters)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        )
        book.writestr(
            "OEBPS/book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>Field guide</dc:title></metadata><manifest>{items}</manifest><spine>{refs}</spine></package>",
        )
        for name, text in chapters.items():
            book.writestr(f"OEBPS/{name}", f'<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html>{text}')
        if encrypted:
            book.writestr(
                "META-INF/encryption.xml",
                '<encryption><EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#"><CipherData>'
                f'<CipherReference URI="OEBPS/{encrypted}"/></CipherData></EncryptedData></encryption>',
            )
    return path


def make_pdf(path: Path, pages: Sequence[Sequence[str]], *, outline: Sequence[tuple[int, str, int]] = ()) -> Path:
    """A PDF by reportlab.

    Args:
        path: Where.
        pages: The lines of each page.
        outline: Level from 0, text and page (from 1) of its entries.
    """
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path))
    for number, lines in enumerate(pages, start=1):
        for level, text, page in outline:
            if page == number:
                canvas.bookmarkPage(text)
                canvas.addOutlineEntry(text, text, level)
        for i, line in enumerate(lines):
            canvas.drawString(72, 800 - 14 * i, line)
        canvas.showPage()
    canvas.save()
    return path
