"""EPUB: the book's XHTML files in reading order, read as HTML."""

from __future__ import annotations

import logging
import posixpath
import re
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from inference.errors import InputError
from stores.readers.archives import check_archive, damaged
from stores.readers.markup import parse_html
from stores.readers.sections import Parsed, Section

_log = logging.getLogger(__name__)
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"


def read_epub(path: Path) -> Parsed:
    """An EPUB file without DRM.

    Raises:
        InputError: It is damaged, encrypted or a bomb.
    """
    from defusedxml.ElementTree import fromstring

    check_archive(path, dtd=True)
    try:
        with zipfile.ZipFile(path) as book:
            container = fromstring(book.read(_CONTAINER))
            package_name = str(next(_all(container, "rootfile")).get("full-path"))
            package = fromstring(book.read(package_name))
            title = next((element.text or "" for element in _all(package, "title")), "")
            locked, names = _locked(book, fromstring), set(book.namelist())
            sections: list[Section] = []
            for name in _chapters(package, package_name):
                if name in locked:
                    raise InputError(f"{path}: protected (DRM)", hint="give a book without protection")
                if name in names:
                    sections += _chapter(book.read(name), title)
                else:
                    _log.warning("%s lacks its chapter %s; the others are read", path, name)
            return Parsed(title, sections)
    except (ImportError, InputError, OSError, MemoryError):
        raise
    # On a damaged file, the readers of archives and XML raise exceptions of many types.
    except Exception as error:
        raise damaged(path, error) from error


def _chapters(package: Any, package_name: str) -> list[str]:
    """Names of the book's XHTML files, in reading order."""
    items = {item.get("id"): item for item in _all(package, "item")}
    folder = posixpath.dirname(package_name)
    found = []
    for reference in _all(package, "itemref"):
        item = items.get(reference.get("idref"))
        if item is not None and "html" in str(item.get("media-type")):
            found.append(posixpath.normpath(posixpath.join(folder, unquote(str(item.get("href"))))))
    return found


def _chapter(data: bytes, book: str) -> list[Section]:
    """The sections of a chapter. Without headings of its own, it has its title as heading."""
    declared = re.match(rb"\s*<\?xml[^>]{,200}?encoding\s*=\s*[\"']([\w.-]+)", data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16")
    else:
        text = data.decode(declared[1].decode() if declared else "utf-8-sig", "replace")
    chapter = parse_html(text)
    name = " ".join(chapter.title.split())
    sections = list(chapter.sections)
    if name and name != book and not any(section.headings for section in sections):
        return [Section(name, section.parts, (name,)) for section in sections]
    return sections


def _locked(book: zipfile.ZipFile, fromstring: Any) -> set[str]:
    """Names of encrypted files. Fonts may be, in any book."""
    if _ENCRYPTION not in book.namelist():
        return set()
    references = _all(fromstring(book.read(_ENCRYPTION)), "CipherReference")
    return {posixpath.normpath(unquote(str(reference.get("URI")))) for reference in references}


def _all(element: Any, name: str) -> Any:
    """All elements of a name below an element, in any namespace."""
    return (found for found in element.iter() if isinstance(found.tag, str) and found.tag.rpartition("}")[2] == name)
