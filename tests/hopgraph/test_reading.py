"""Folders as people have them: twelve kinds of files, and hostile ones among them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopgraph.reading import Reading, read_sources
from hopgraph.sources import find_sources
from inference.errors import InputError
from stores.build import build_index
from stores.collect import Located
from stores.index import open_index
from stores.passages import Passage
from tests.documents import make_docx, make_epub, make_pdf, make_pptx, make_xlsx
from tests.stores.conftest import encoder  # noqa: F401
from tests.stores.test_documents import make_pdf as make_small_pdf

FACTS = [
    ("Who leads the office?", "Ann Lee leads the office.", "report.docx", "page 1"),
    ("Where does Carl Moe work?", "Carl Moe works in Oslo.", "report.docx", "page 2"),
    ("When did Emil come?", "Name: Emil; Year: 2001", "report.docx", "page 2"),
    ("What has the harbour?", "The harbour has a master.", "talk.pptx", "slide 1"),
    ("How long is the Silent Sea?", "Ship: Silent Sea; Length: 90 m", "talk.pptx", "slide 2"),
    ("When did the ship sink?", "Say that the ship sank in 1911.", "talk.pptx", "slide 2"),
    ("How many tons in the West?", "West; Tons: 2.5", "talk.pptx", "slide 2"),
    ("What was the price of the tower?", "Item: Tower; Price: 12.5", "costs.xlsx", "sheet Costs, row 4"),
    ("When do robins sing?", "Robins sing at night.", "birds.epub", ""),
    ("What do owls hunt?", "Owls hunt mice.", "owls.pdf", "page 2"),
    ("What do zebras eat?", "Zebras eat grass.", "zebra.txt", ""),
    ("Which mountain is the highest?", "Mountain: Everest; Height: 8849 m", "peaks.md", ""),
    ("Which river is the longest?", "River: Nile; Length: 6650 km", "rivers.html", ""),
    ("Which metal is liquid?", "metal: mercury", "metals.csv", "line 3"),
    ("Which planet has rings?", "planet: Saturn", "planets.tsv", "line 2"),
    ("Who composed The Blue Tower?", "Bob Ray composed The Blue Tower.", "rows.jsonl", ""),
    ("Who painted the green door?", "Eve Orr painted the green door.", "more.jsonl.gz", ""),
]


def fill(folder: Path) -> None:
    make_docx(folder / "report.docx")
    make_pptx(folder / "talk.pptx")
    make_xlsx(folder / "costs.xlsx")
    make_epub(folder / "birds.epub")
    forest = ["There is more about forests."] * 40
    make_pdf(folder / "owls.pdf", [["Nothing here."] * 40, [*forest, "Owls hunt mice.", *forest]])
    (folder / "zebra.txt").write_text("Zebras eat grass. They live in Africa.")
    (folder / "peaks.md").write_text(
        "# Peaks\n\n| Mountain | Height |\n|---|---|\n| Everest | 8849 m |\n| K2 | 8611 m |\n"
    )
    rows = "<tr><th>River<th>Length</tr><tr><td>Nile<td>6650 km</tr><tr><td>Amazon<td>6400 km</tr>"
    (folder / "rivers.html").write_text(f"<title>Rivers</title><table>{rows}</table>")
    (folder / "metals.csv").write_text("metal,state\niron,solid\nmercury,liquid\n")
    (folder / "planets.tsv").write_text("planet\thas\nSaturn\trings\n")
    (folder / "rows.jsonl").write_text(json.dumps({"id": "ray", "text": "Bob Ray composed The Blue Tower."}))
    with gzip.open(folder / "more.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": "orr", "text": "Eve Orr painted the green door."}))


@pytest.mark.usefixtures("encoder")
def test_every_fact_in_twelve_kinds_of_files_is_found_with_its_page(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    fill(folder)
    sources = find_sources([folder])
    assert len({path.suffix for path in sources.files}) == 12
    build_index("x", read_sources(sources.files))
    index = open_index("x")
    for question, fact, file, page in FACTS:
        hits = index.get([hit.id for hit in index.search(question, 5)])
        found = [p for p in hits if fact in p.text]
        assert found, question
        assert (file, page) in {(Path(p.file).name, p.page) for p in found}, question


def zipped(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def of_docx(**changed: bytes) -> dict[str, bytes]:
    """The entries of a Word file, some of them changed."""
    made = io.BytesIO()
    import docx

    docx.Document().save(made)
    with zipfile.ZipFile(made) as archive:
        return {name: archive.read(name) for name in archive.namelist()} | {
            name.replace("__", "/").replace("_xml", ".xml"): data for name, data in changed.items()
        }


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)
)


def fill_hostile(folder: Path) -> dict[str, str]:
    """Twenty hostile files, by name; each with what is said about it."""
    made: dict[str, str] = {}

    def says(name: str, message: str) -> Path:
        made[name] = message
        return folder / name

    make_small_pdf(says("scan.pdf", "no text on its 2 page"), [[], []])
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=make_pdf(folder / "x.pdf", [["Secret."]]))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(says("locked.pdf", "protected by a password"))
    whole = (folder / "x.pdf").read_bytes()
    (folder / "x.pdf").unlink()
    says("cut.pdf", "damaged, or not a PDF").write_bytes(whole[:150])
    says("text.pdf", "not a PDF: it begins like text").write_text("Only text.")
    encrypted = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
    says("locked.docx", "protected by a password").write_bytes(encrypted)
    says("old.docx", "the old Office formats").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1024))
    says("picture.pptx", "begins like a PNG image").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    says("word.txt", "not text but a zip archive").write_bytes(b"PK\x03\x04" + b"x" * 50)
    zipped(says("bomb.docx", "too much to be a document"), of_docx(word__document_xml=bytes(500_000_000)))
    zipped(says("bomb.epub", "an archive of 30,000 files"), {f"{n}": b"" for n in range(30_000)})
    lying = says("lying.xlsx", "damaged, or not a .xlsx file")
    zipped(lying, {"xl/workbook.xml": bytes(50_000_000)})
    # Declared to be ten bytes, in the local header and in the directory.
    size = (50_000_000).to_bytes(4, "little")
    lying.write_bytes(lying.read_bytes().replace(size, (10).to_bytes(4, "little")))
    zipped(says("entities.docx", "declares XML entities"), of_docx(word__document_xml=BOMB + b"]><x>&j;</x>"))
    container = BOMB + b"]><container>&j;</container>"
    zipped(says("entities.epub", "damaged, or not a .epub file"), {"META-INF/container.xml": container})
    zipped(says("empty.xlsx", "damaged, or not a .xlsx file"), {"nothing.txt": b""})
    damaged = of_docx(word__document_xml=b"<w:document><unclosed>")
    zipped(says("damaged.docx", "damaged, or not a .docx file"), damaged)
    says("rows.csv", "line 3: 3 cells, but the header has 2").write_text("a,b\n1,2\n1,2,3\n")
    says("rows.jsonl", "line 2: not JSON").write_text('{"text": "fine"}\n{oops')
    says("cut.jsonl.gz", "damaged gzip data").write_bytes(gzip.compress(b'{"text": "fine"}\n' * 1000)[:60])
    says("noise.txt", "not text").write_bytes(bytes(range(256)) * 20)
    says("blank.md", "no text in it").write_text("<!-- nothing -->\n")
    return made


@pytest.mark.usefixtures("encoder")
def test_twenty_hostile_files_stop_nothing_and_none_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    says = fill_hostile(folder)
    assert len(says) == 20
    (folder / "zebra.txt").write_text("Zebras eat grass.")
    (folder / "empty.txt").touch()
    (folder / "self.md").symlink_to("self.md")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.csv")
    sources = find_sources([folder])
    reading = Reading(sources.files)
    built = build_index("x", reading.read())
    assert [p.text for chunk in open_index("x").passages() for p in chunk] == ["Zebras eat grass."]
    assert built.read == 1
    reasons = {Path(unread.file).name: unread.reason for unread in reading.failed}
    assert reasons.keys() == says.keys()
    for name, reason in reasons.items():
        assert reason.startswith(str(folder / name))
        assert says[name] in reason
    assert all(unread.hint for unread in reading.failed)
    assert sources.skipped == {"empty": 1, "broken link": 1, "link to a folder": 1, "not a regular file": 1}
    assert len(sources.passed) == 3
    with pytest.raises(InputError, match=r"blank\.md"):
        list(Reading(sources.files, strict=True).read())


def test_a_broken_line_keeps_all_of_its_file_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "first"}\n{oops')
    (tmp_path / "b.csv").write_text("text\nsecond\n")
    reading = Reading([tmp_path / "a.jsonl", tmp_path / "b.csv"])
    assert [located.passage.text for located in reading.read()] == ["second"]
    assert (reading.done, reading.passages) == (2, 1)


def test_nothing_but_broken_files_is_an_error_that_names_the_first(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=r"a\.md: the file is empty; and 2 more files"):
        list(Reading([tmp_path / name for name in ("a.md", "b.md", "c.md")]).read())


def test_a_table_with_a_column_of_text_keeps_its_line(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], ["x", "Two\nlines."], ["y", "One."]])
    assert [located.passage.page for located in read_sources([tmp_path / "a.csv"])] == ["line 3", "line 4"]


def test_a_file_that_breaks_halfway_stops_everything(tmp_path: Path) -> None:
    def halfway(path: Path) -> Iterator[Located]:
        yield Located("a", Passage("a", "", "First."))
        raise InputError(f"{path}: changed while it was read")

    with pytest.raises(InputError, match="changed while it was read"):
        list(Reading([tmp_path / "a.txt"]).tried(halfway))
