"""Compound questions merged by rule: two to four simple training questions about one entity (after HANRAG, App. B.1).

The paper has a model write and merge them (`training.revelator.compound` does so). Merging by rule needs no model, and
what it makes is plainer: the parts in a row, the entity's name or "it" in the later ones.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from training.revelator.chains import as_question, one_line
from training.revelator.examples import Example
from training.rows import rows_of, text_of
from training.words import normalised, within

_NAME = re.compile(r"(?:[A-Z0-9][\w'’.&-]*)(?: (?:(?:of|the|and|in|for|de|a|on|to) )*[A-Z0-9][\w'’.&-]*)*")
_OPENINGS = frozenset(
    "what which who whom whose when where why how in on at of is are was were did does do the".title().split(" ")
)
_LONGEST = 140
"""Characters of a part at most: a longer one is seldom a simple question."""
_OF_ONE = 2
"""Merged questions of an entity at most."""


def merged_questions(train: Path) -> Iterator[Example]:
    """Routes and decompositions of merged questions; an entity's are all on one side of the split.

    The simple questions are SQuAD's that name their article's title, and those of the answer extractor's contexts.

    Raises:
        InputError: A file is missing or malformed.
    """
    for source, entity, parts in (*_of_articles(train), *_of_contexts(train)):
        ordered = sorted(dict.fromkeys(parts), key=lambda part: _number(f"{entity} {part}"))
        made = 0
        while len(ordered) >= 2 and made < _OF_ONE:
            size = min(len(ordered), (2, 2, 3, 4)[_number(f"size {ordered[0]}") % 4])
            chosen, ordered, made = ordered[:size], ordered[size:], made + 1
            question = merge(entity, chosen)
            named = f"{source}, merged by rule"
            yield Example("router", named, entity, question, "compound")
            yield Example("decomposer", named, entity, question, tuple(map(as_question, chosen)))


def merge(entity: str, parts: Sequence[str]) -> str:
    """One question that asks for all parts; the same parts always give the same one."""
    number = _number(" ".join(parts))
    texts = [part.strip().rstrip(" ?.,") for part in parts]
    if number % 2 and _is_thing(entity):
        texts[1:] = [_with_pronoun(text, entity) for text in texts[1:]]
    if number % 5 == 0:
        return " ".join(f"{one_line(text)}?" for text in texts)
    later = [text[:1].lower() + text[1:] if text.split(" ")[0] in _OPENINGS else text for text in texts[1:]]
    joined = [one_line(texts[0]), *later]
    return f"{', '.join(joined[:-1])}{',' if number % 3 else ''} and {joined[-1]}?"


def entity_of(questions: Iterable[str]) -> dict[str, list[str]]:
    """Questions by the name that two of them or more have in common; the longest such name of each."""
    texts = list(dict.fromkeys(questions))
    names = {name for text in texts for name in _names(text)}
    shared = [name for name in names if sum(within(name, text) for text in texts) > 1]
    found: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        own = [name for name in shared if within(name, text)]
        if own:
            found[max(own, key=lambda name: (len(name), name))].append(text)
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def _names(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        words = match[0].split(" ")
        while words and words[0] in _OPENINGS:
            words = words[1:]
        name = " ".join(words).removesuffix("'s").rstrip(".'’")
        if len(name) > 3 and not name.isdigit():
            yield name


def _of_articles(train: Path) -> Iterator[tuple[str, str, list[str]]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for where, row in rows_of(train / "single_span_qa.train.jsonl.gz"):
        title = re.sub(r" *\(.*\)$", "", text_of(row, "title", where).replace("_", " "))
        asked = text_of(row, "question", where)
        if title in asked and len(asked) <= _LONGEST:
            found[str(row.get("source", "")), title].append(asked)
    for (source, title), asked_of in found.items():
        yield source, title, asked_of


def _of_contexts(train: Path) -> Iterator[tuple[str, str, list[str]]]:
    found: dict[str, list[str]] = defaultdict(list)
    for where, row in rows_of(train / "extractor.train.jsonl.gz"):
        pairs = text_of(row, "context", where).split("\n\n")
        asked = [pair.partition("\n")[0].strip() for pair in pairs]
        for name, rows in entity_of(part for part in asked if part.endswith("?") and len(part) <= _LONGEST).items():
            found[name] += rows
    for name, asked in found.items():
        yield "extractor.train", name, asked


def _is_thing(entity: str) -> bool:
    """Whether "it" may stand for an entity: it is not written as a person's name is."""
    words = entity.split(" ")
    return len(words) == 1 or words[0] == "The" or any(word[:1].islower() or word[:1].isdigit() for word in words)


def _with_pronoun(text: str, entity: str) -> str:
    text = re.sub(rf"{re.escape(entity)}['’](?:s\b)?", "its", text)
    return re.sub(rf"(?:\b[Tt]he )?{re.escape(entity)}\b", "it", text)


def _number(text: str) -> int:
    return int(hashlib.sha256(normalised(text).encode()).hexdigest()[:12], 16)
