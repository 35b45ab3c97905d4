"""PowerPoint (pptx), with python-pptx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stores.readers.office import opened
from stores.readers.sections import Parsed, Part, Section, keep_headings, table_rows


def read_pptx(path: Path) -> Parsed:
    """A PowerPoint file: a section a slide, with text, tables, charts and the speaker's notes.

    Raises:
        InputError: It is damaged, encrypted or a bomb.
    """
    with opened(path):
        import pptx

        presentation = pptx.Presentation(str(path))
        sections = [_slide(slide, number) for number, slide in enumerate(presentation.slides, start=1)]
        return Parsed(str(presentation.core_properties.title or ""), keep_headings(sections))


def _slide(slide: Any, number: int) -> Section:
    title = slide.shapes.title
    heading = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
    shapes = (shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id)
    parts = list(_parts(shapes, number))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        parts.append(Part(slide.notes_slide.notes_text_frame.text + "\n\n", number))
    return Section(heading, parts or [Part("", number)], (heading,) if heading else (), "slide")


def _parts(shapes: Iterable[Any], number: int) -> Iterator[Part]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _parts(shape.shapes, number)
        elif getattr(shape, "has_table", False):
            rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
            header = int(bool(shape.table.first_row) and len(rows) > 1)
            yield from (Part(row, number, row=True) for row in table_rows(rows, header))
        elif getattr(shape, "has_chart", False):
            yield from (Part(row, number, row=True) for row in _chart(shape.chart))
        elif shape.has_text_frame:
            yield Part("\n\n".join(paragraph.text for paragraph in shape.text_frame.paragraphs) + "\n\n", number)


def _chart(chart: Any) -> list[str]:
    """Title and data of a chart, as far as the file says them."""
    texts: list[str] = []
    with suppress(AttributeError, KeyError, ValueError):
        if chart.has_title and chart.chart_title.has_text_frame:
            texts.append(chart.chart_title.text_frame.text)
    with suppress(AttributeError, KeyError, ValueError):
        for plot in chart.plots:
            series = [(str(one.name), [_number(value) for value in one.values]) for one in plot.series]
            categories = [str(category) for category in plot.categories]
            rows = [["", *(name for name, _ in series)]]
            for i, category in enumerate(categories):
                rows.append([category, *(values[i] if i < len(values) else "" for _, values in series)])
            texts += table_rows(rows, 1)
    return texts


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
