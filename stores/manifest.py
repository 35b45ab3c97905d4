"""Layout of an index on disk, and its manifest.

HOME/indexes/<name>/
    current             id of the version that is served; replaced atomically
    lock                held by whoever builds
    vectors.sqlite      every passage's vector by content: a killed build goes on, later ones encode only what is new
    versions/<id>/      never changed once `current` has named it
        manifest.json  passages.sqlite  sparse/  links/  dense/
        shards.npy      of an index in several shards: the shard of each row; dense/ has a folder a shard
        in_use          held by readers, so that a build does not remove what is being read
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from inference.errors import InputError, StoreError
from inference.settings import get_settings
from stores.languages import ENGLISH

FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Manifest:
    """Content and provenance of one version of an index."""

    name: str
    version: str
    created: str
    """Time of building, ISO 8601, UTC."""
    passages: int
    articles: int
    """Passages before long ones were split."""
    corpus_hash: str
    """Hash of all passages with their sentences (`Records.hash`). Indexes built by an earlier version keep their
    order-dependent hash as long as passages and order are unchanged."""
    encoder: str
    dimension: int
    tokenizer: str
    chroma_url: str
    """URL of the Chroma server with the vectors, or of several, separated by commas; "" for embedded Chroma."""
    libraries: dict[str, str]
    """Versions of the libraries that wrote the files."""
    language: str = ENGLISH
    """Of its words' stems and stop words, and of its sentences; part of the tokenizer's name too."""
    files: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes of the immutable files."""
    format: int = FORMAT
    shards: int = 1
    """Parts of the dense half, by hash of the passage id. A search finds the same in any number of them."""

    @property
    def hash(self) -> str:
        """Hash of everything a search depends on: passages, encoder and tokenizer; the same on every machine."""
        seen = [self.format, self.corpus_hash, self.encoder, self.dimension, self.tokenizer]
        return hashlib.sha256(json.dumps(seen).encode()).hexdigest()

    @property
    def collection(self) -> str:
        """Name of the collection on a Chroma server."""
        return f"hopgraph-{self.name}-{self.version}"

    def fits(self, encoder: str, tokenizer: str) -> bool:
        """Whether it was made with these."""
        return (self.encoder, self.tokenizer) == (encoder, tokenizer)

    def write(self, folder: Path) -> None:
        """Write `manifest.json` and sync it to disk."""
        values = asdict(self)
        if self.shards == 1:  # as earlier versions wrote it, and can read it
            del values["shards"]
        _write_synced(folder / "manifest.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a version's folder.

        Raises:
            StoreError: It is missing, not a manifest, or has another format.
        """
        path = folder / "manifest.json"
        try:
            values: dict[str, Any] = json.loads(path.read_text("utf-8"))
            found = values["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(path, f"can't be read ({error})") from error
        if found != FORMAT:
            raise _damaged(path, f"has format {found}, this version of Hopgraph reads {FORMAT}")
        values = {"language": ENGLISH, **values}  # indexes of earlier versions are all English
        if {"shards", *values} != {f.name for f in fields(cls)}:
            raise _damaged(path, "lacks fields or has unknown ones")
        return cls(**values)

    def check_files(self, folder: Path) -> None:
        """Check that the version's files exist with the recorded sizes.

        Raises:
            StoreError: A file is missing or has another size.
        """
        for name, size in self.files.items():
            path = folder / name
            if not path.is_file():
                raise _damaged(path, "is missing")
            if path.stat().st_size != size:
                raise _damaged(path, f"has {path.stat().st_size} bytes instead of {size}")


def check_encoder(manifest: Manifest, encoder: str) -> None:
    """Check that an index was built with this encoder.

    Raises:
        StoreError: It was built with another one.
    """
    if manifest.encoder != encoder:
        raise StoreError(
            f"index {manifest.name!r} was encoded with {manifest.encoder}, the settings name {encoder}",
            hint="set HOPGRAPH_EMBED_URL and HOPGRAPH_EMBED_MODEL as they were (unset: the built-in encoder), "
            f"or encode it anew: `hopgraph index --name {manifest.name} --rebuild`",
        )


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path} {what}", hint=index_again(path))


def index_again(path: Path) -> str:
    """The hint for a damaged file or folder of the index in the path."""
    inside = path.parts[len(indexes_folder().parts) :] if path.is_relative_to(indexes_folder()) else ()
    name = inside[0] if inside else "NAME"
    return (
        f"index its files again, with `--name {name} --replace`: vectors are kept. If its passages can still be read, "
        f"`hopgraph index --name {name} --rebuild` does it without the files"
    )


def index_command(name: str = "mine") -> str:
    """A runnable command that builds an index, of the example documents or of the demo's corpus."""
    examples, root = Path("examples", "documents"), Path(__file__).resolve().parents[1]
    found = [path for path in (examples, root / examples) if path.is_dir()]
    source = found[0] if found else root / "hopgraph" / "data" / "demo" / "passages.jsonl"
    return f"hopgraph index {shlex.quote(str(source))} --name {name}"


def indexes_folder() -> Path:
    """Folder of all indexes."""
    return get_settings().home / "indexes"


def is_index_name(name: str) -> bool:
    """Whether it can name an index: a portable file name."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def index_folder(name: str) -> Path:
    """Folder of an index; it need not exist.

    Raises:
        InputError: The name is not a portable file name.
    """
    if not is_index_name(name):
        raise InputError(
            f"not a name for an index: {name!r}", hint="use 1 to 64 letters, digits, '-', '_' and '.', such as my-notes"
        )
    return indexes_folder() / name


def current_version(folder: Path) -> Path | None:
    """Folder of the served version; None before the first build completes."""
    try:
        version = (folder / "current").read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(folder / "current", f"can't be read ({error})") from error
    if not _NAME.fullmatch(version):
        raise _damaged(folder / "current", "names no version")
    return folder / "versions" / version


def set_current(folder: Path, version: str) -> None:
    """Switch the served version atomically."""
    _write_synced(folder / "current.new", version + "\n")
    (folder / "current.new").replace(folder / "current")
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sizes(folder: Path, names: list[str]) -> dict[str, int]:
    """Sizes in bytes of files and of all files in folders, by relative path."""
    found = [
        path
        for name in names
        for path in ([folder / name] if (folder / name).is_file() else (folder / name).rglob("*"))
    ]
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(found) if path.is_file()}


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
