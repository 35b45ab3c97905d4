"""Indexes from Python: passages as objects, LangChain documents or files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopgraph.reading import Reading, located_by
from hopgraph.sources import Unread, find_sources
from inference.errors import InputError
from stores.build import add_to_index
from stores.build import build_index as build
from stores.collect import Built, Located, Progress
from stores.passages import Passage, as_passage
from stores.readers.isolated import IsolatedParser

if TYPE_CHECKING:
    from langchain_core.documents import Document


def build_index(
    name: str,
    passages: Iterable[Passage | Document | Mapping[str, Any] | str | Path] | str | Path,
    *,
    add: bool = False,
    language: str | None = None,
    strict: bool = True,
    shards: int | None = None,
    progress: Progress | None = None,
) -> Built:
    """Make an index, or replace all passages of the one there is. Blocks until it can be searched.

    Example:
        >>> built = build_index("mine", [{"title": "Ann Lee", "text": "Ann Lee was born in Paris."}, "notes.md"])
        >>> built.manifest.passages

    Args:
        name: Letters, digits, '-', '_' and '.'.
        passages: Each one a mapping with `text` and optionally `id`, `title` and `sentences`, whose other fields are
            metadata; a `Passage`; a LangChain `Document` (`metadata["title"]` is its title); or the path of a file
            (.jsonl, .jsonl.gz, txt, md, html, pdf, docx, pptx, xlsx, epub, csv) or of a folder with such files. A
            single path may stand for the list.
        add: Add to the index that is there; a passage with a known id takes the place of that one.
        language: Language of the passages, such as `de`. Default: as the index has, or English.
        strict: Raise for a file that can't be read; otherwise it is in `Built.failed`, with the reason, and the others
            are indexed.
        shards: Number of parts of a large index. Default: as many as it has, or one. Not with `add`.
        progress: Called during the work with the stage ("read", "encode" or "store"), how many passages it has
            done, and of how many (None: not known yet).

    Raises:
        InputError: Something is no passage or can't be read, the name is none, or there are no passages.
        StoreError: Another process is building this index, the disk refuses, or with `add`, there is no such index.
        EndpointError: The embeddings or Chroma server fails.
    """
    given = [passages] if isinstance(passages, str | Path) else passages
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError(f"passages: must be a list, not {type(given).__name__}")
    failed: list[Unread] = []
    located = _located(given, strict, failed)
    if add and shards is not None:
        raise InputError("shards: can't be given with add", hint="stores.build.rebuild_index changes the number")
    if add:
        built = add_to_index(name, located, progress=progress, language=language)
    else:
        built = build(name, located, shards=shards, progress=progress, language=language)
    built.failed = [unread.reason for unread in failed]
    return built


def _located(given: Iterable[object], strict: bool, failed: list[Unread]) -> Iterator[Located]:
    with IsolatedParser() as parser:
        for number, one in enumerate(given):
            where = f"passages[{number}]"
            if isinstance(one, Passage):
                yield Located(where, one)
            elif isinstance(one, Mapping):
                yield Located(where, as_passage(dict(one), where))
            elif isinstance(one, str | Path):
                sources = find_sources([Path(one)], strict=strict)
                reading = Reading(sources.files, strict=strict)
                yield from reading.tried(located_by(parser))
                failed += [*sources.failed, *reading.failed]
            else:
                yield Located(where, _of_document(one, where))


def _of_document(one: Any, where: str) -> Passage:
    """The passage of a LangChain document."""
    text, about = getattr(one, "page_content", None), getattr(one, "metadata", None)
    if not isinstance(text, str) or not isinstance(about, Mapping):
        hint = 'give {"title": ..., "text": ...}, a Passage, a LangChain Document, or a path'
        raise InputError(f"{where}: is no passage but {type(one).__name__}", hint=hint)
    return as_passage({**about, "id": getattr(one, "id", None), "text": text}, where)
