"""Detects text encodings, and cleans text for storage."""

from __future__ import annotations

import codecs
import logging
import re
from pathlib import Path
from typing import NoReturn

from inference.errors import InputError

_log = logging.getLogger(__name__)
_MARKS = [
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_OTHER_FORMATS = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"{\\rtf")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_UTF8_LETTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
_SIGN_IN_A_WORD = re.compile(r"[^\W\d_][¡-©«-´¶-¹»-¿×÷€ƒ†‡ˆ‰˜][^\W\d_]")


def find_encoding(path: Path) -> str:
    """The encoding of a text file: by byte order mark, by HTML declaration, otherwise UTF-8.

    Unambiguous Windows-1252 is accepted with a warning in the log.

    Raises:
        InputError: Binary data, or bytes invalid in that encoding; the message names the line.
    """
    data = path.read_bytes()
    if marked := next((name for mark, name in _MARKS if data.startswith(mark)), ""):
        return _tried(path, data, marked)
    if b"\0" in data or data.startswith(_OTHER_FORMATS):
        raise InputError(f"{path}: not text but another kind of data", hint="give the file its real suffix")
    if path.suffix.lower() in (".html", ".htm") and (
        declared := re.search(rb"<meta[^>]{,200}?charset\s*=\s*[\"']?([\w.:-]+)", data[:4096], re.IGNORECASE)
    ):
        return _tried(path, data, declared[1].decode("ascii", "replace"))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not _is_windows_1252(data):
            _refuse(path, data, "utf-8", error.start)
        _log.warning("%s is not UTF-8; it is read as Windows-1252", path)
        return "cp1252"
    return "utf-8"


def _tried(path: Path, data: bytes, encoding: str) -> str:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        _refuse(path, data, encoding, error.start)
    except LookupError:
        raise InputError(f"{path}: declares an unknown encoding '{encoding}'", hint="save it as UTF-8") from None
    return encoding


def _refuse(path: Path, data: bytes, encoding: str, at: int) -> NoReturn:
    line = data.count(b"\n", 0, at) + 1
    hint = "save it as UTF-8, for example with: iconv -f ENCODING -t UTF-8"
    raise InputError(f"{path}, line {line}: not {encoding} (byte {at} is 0x{data[at]:02x})", hint=hint)


def _is_windows_1252(data: bytes) -> bool:
    """Whether it decodes to a Western language: not another code page, damaged UTF-8 or noise."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    mostly_ascii = sum(byte > 127 for byte in data) * 5 < len(data)
    # Letters of other code pages often decode to signs, such as "³" within a Polish word.
    wrong = _CONTROL.search(text) or _UTF8_LETTER.search(data) or _SIGN_IN_A_WORD.search(text)
    return mostly_ascii and not wrong


def clean_text(text: str) -> str:
    """Remove control characters, soft hyphens and lone surrogates."""
    text = re.sub(r"\r\n?|\f", "\n", text).replace("\u00ad", "")
    return _CONTROL.sub("", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
