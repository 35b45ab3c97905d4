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
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How old and encrypted Office files begin."""
_FORMATS = [
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip archive or an Office file"),
    (b"PK\x05\x06", "an empty zip archive"),
    (OLE, "an old or encrypted Office file"),
    (b"\x1f\x8b", "gzip data"),
    (b"{\\rtf", "RTF"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
]
_NAMES = {"cp1252": "Windows-1252"}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_UTF8_LETTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
_SIGN_IN_A_WORD = re.compile(r"[^\W\d_][¡-©«-´¶-¹»-¿×÷€ƒ†‡ˆ‰˜][^\W\d_]")
# fmt: off
_COMMON = [
    "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874", "iso8859_2", "iso8859_5",
    "iso8859_7", "koi8_r", "koi8_u", "cp866", "cp932", "shift_jis", "euc_jp", "gb18030", "big5", "cp949", "euc_kr",
]
# fmt: on
"""Encodings that are recognised: among rarer ones, some fit any text."""
_PIECE = 1 << 20
_SAMPLE = 256 * 1024
"""Bytes around the first invalid one by which the encoding is recognised."""
_FEWEST = 6
"""Bytes above 127 without which an encoding can't be recognised."""
_MOST_CHAOS = 0.1


def find_encoding(path: Path) -> str:
    """The encoding of a text file: by byte order mark, by HTML declaration, otherwise UTF-8.

    Another encoding is accepted, with a warning in the log, if it is Windows-1252 unambiguously or charset-normalizer
    recognises it. The file is read in pieces.

    Raises:
        InputError: Binary data, or bytes invalid in that encoding; the message names the line.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if marked := next((name for mark, name in _MARKS if head.startswith(mark)), ""):
        return _tried(path, marked)
    if found := kind_of(head):
        raise InputError(f"{path}: not text but {found}", hint="give the file its real suffix")
    if path.suffix.lower() in (".html", ".htm", ".xhtml") and (
        declared := re.search(rb"<meta[^>]{,200}?charset\s*=\s*[\"']?([\w.:-]+)", head, re.IGNORECASE)
    ):
        name = declared[1].decode("ascii", "replace")
        if not _same(name, "utf-16", "utf-16-le", "utf-16-be", "utf-32"):  # it would not be legible then
            return _tried(path, name)
    invalid = _first_invalid(path, "utf-8")
    return "utf-8" if invalid is None else _recognised(path, invalid)


def _tried(path: Path, encoding: str) -> str:
    # As browsers do: most pages that say so have quotation marks of Windows.
    if _same(encoding, "iso8859-1", "ascii") and _first_invalid(path, "cp1252") is None:
        return "cp1252"
    try:
        invalid = _first_invalid(path, encoding)
    except (LookupError, UnicodeError):
        raise InputError(f"{path}: declares an unknown encoding '{encoding}'", hint="save it as UTF-8") from None
    if invalid is not None:
        _refuse(path, encoding, invalid)
    return encoding


def _same(name: str, *encodings: str) -> bool:
    """Whether an encoding is one of these, by whatever name."""
    try:
        return codecs.lookup(name).name in encodings
    except LookupError:
        return False


def _first_invalid(path: Path, encoding: str) -> int | None:
    """Offset of the first byte that is invalid in an encoding."""
    if not codecs.lookup(encoding)._is_text_encoding:
        raise LookupError(encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    binary = encoding == "utf-8"
    done = 0
    with path.open("rb") as file:
        while True:
            piece = file.read(_PIECE)
            if binary and b"\0" in piece:
                raise InputError(f"{path}: not text but binary data", hint="give the file its real suffix")
            before = len(decoder.getstate()[0])
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                return done - before + error.start
            if not piece:
                return None
            done += len(piece)


def _recognised(path: Path, invalid: int) -> str:
    """The encoding of a file that is not UTF-8."""
    with path.open("rb") as file:
        file.seek(max(0, invalid - _SAMPLE // 2))
        sample = file.read(_SAMPLE)
    if invalid > _SAMPLE // 2:
        sample = sample.partition(b"\n")[2] or sample  # it may begin within a character
    encoding = "cp1252" if _is_windows_1252(sample) else _guessed(sample)
    if not encoding or _first_invalid(path, encoding) is not None:
        _refuse(path, "utf-8", invalid)
    _log.warning("%s is not UTF-8; it is read as %s", path, _NAMES.get(encoding, encoding))
    return encoding


def _refuse(path: Path, encoding: str, at: int) -> NoReturn:
    line, left = 1, at
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, _PIECE))):
            line += piece.count(b"\n")
            left -= len(piece)
        byte = file.read(1)
    found = f"0x{byte[0]:02x}" if byte else "the end"
    hint = "save it as UTF-8, for example with: iconv -f ENCODING -t UTF-8"
    raise InputError(f"{path}, line {line}: not {encoding} (byte {at} is {found})", hint=hint)


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


def _guessed(data: bytes) -> str:
    """An encoding in which the text is of a known language; "" if none is certain."""
    from charset_normalizer import from_bytes

    high = sum(byte > 127 for byte in data)
    valid = len(data.decode("utf-8", "ignore").encode()) - (len(data) - high)
    # Mostly valid UTF-8 is damaged UTF-8.
    if high < _FEWEST or valid * 2 > high:
        return ""
    best = from_bytes(data, cp_isolation=_COMMON).best()
    if best is None or best.language == "Unknown" or best.chaos > _MOST_CHAOS:
        return ""
    encoding = best.encoding
    # They differ in few letters; each has signs or control characters where the other has letters.
    if encoding == "cp1250" and re.search(rb"[\xb1\xb6\xbc\xa6\xac]", data) and not re.search(rb"[\x80-\x9f]", data):
        encoding = "iso8859_2"
    text = data.decode(encoding, "ignore")
    return "" if _CONTROL.search(text) or _SIGN_IN_A_WORD.search(text) else encoding


def kind_of(head: bytes) -> str:
    """What kind of binary file begins with these bytes; "" if it is text."""
    found = next((kind for mark, kind in _FORMATS if head.startswith(mark)), "")
    return found or ("binary data" if b"\0" in head else "")


def clean_text(text: str) -> str:
    """Remove control characters, soft hyphens and lone surrogates."""
    text = re.sub(r"\r\n?|\f", "\n", text).replace("\u00ad", "")
    return _CONTROL.sub("", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
