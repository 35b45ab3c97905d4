"""Entities to ask compound questions about: titles, and the passages with that title or a mention of it."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nodes.kit.rendering import plain
from stores.passages import Passage, content_id
from training.rows import objects_of, rows_of, text_of


@dataclass(frozen=True, slots=True)
class Entity:
    """The subject of compound questions, and the passages that have it as title or mention it."""

    name: str
    passages: tuple[Passage, ...]


def entities_of(passages: Iterable[Passage], documents: int = 10) -> list[Entity]:
    """Entities with two passages or more: a title, the passages that have it, and then those that mention it.

    A name that two titles share, such as `Mercury (planet)` and `Mercury (element)`, is left out; where a title has to
    say which one it means, mentions are not looked for.

    Args:
        passages: The corpus; a passage without a title names no entity.
        documents: Passages of an entity at most.
    """
    rows = [passage for passage in passages if passage.text.strip()]
    titled: dict[str, dict[str, list[Passage]]] = defaultdict(lambda: defaultdict(list))
    for passage in rows:
        titled[_name(passage.title)][passage.title].append(passage)
    own = {name: next(iter(by.values())) for name, by in titled.items() if len(by) == 1 and len(name) > 3}
    sought = {_tokens(name): name for name, by in titled.items() if name in own and "(" not in next(iter(by))}
    longest = max(map(len, sought), default=0)
    mentioned: dict[str, list[Passage]] = defaultdict(list)
    for passage in rows:
        tokens = _tokens(passage.text)
        spans = {tokens[i : i + n] for n in range(1, longest + 1) for i in range(len(tokens) - n + 1)}
        for span in sorted(spans & sought.keys()):
            mentioned[sought[span]].append(passage)
    found = []
    for name, bearing in own.items():
        texts = {passage.text: passage for passage in (*bearing, *mentioned[name])}
        if len(texts) > 1:
            found.append(Entity(name, tuple(itertools.islice(texts.values(), documents))))
    return found


def _name(title: str) -> str:
    """A title without what only tells it apart from others."""
    return plain(re.sub(r"\([^()]*\)", " ", title.replace("_", " ")))


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text))


def training_passages(data: Path) -> Iterator[Passage]:
    """Paragraphs of the training side: of MuSiQue, HotpotQA and 2WikiMultiHopQA training questions, and of SQuAD."""
    for where, row in rows_of(data / "train" / "multihop_context.train.jsonl.gz"):
        for one in objects_of(row, "paragraphs", where):
            text = text_of(one, "text", where)
            yield Passage(content_id(str(one.get("title", "")), text), str(one.get("title", "")), text)
    for where, row in rows_of(data / "train" / "single_span_qa.train.jsonl.gz"):
        title, text = text_of(row, "title", where).replace("_", " "), text_of(row, "context", where)
        yield Passage(content_id(title, text), title, text)


def sampled(entities: Iterable[Entity], count: int, seed: int) -> list[Entity]:
    """Some of the entities: which ones depends on the seed and their names alone."""

    def place(entity: Entity) -> str:
        return hashlib.sha256(f"{seed}\0{entity.name}".encode()).hexdigest()

    return sorted(entities, key=place)[:count]
