"""Examples of the relevance discriminator: a question's own passage, and the most similar one without the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from training.revelator.chains import one_line, read_chains
from training.revelator.examples import Example
from training.rows import objects_of, rows_of, text_of
from training.words import content_words, normalised, within


def paragraph_relevance(train: Path) -> Iterator[Example]:
    """SQuAD: a question's own paragraph, and the most similar paragraph of its article without the answer."""
    by_title: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    rows = []
    for where, row in rows_of(train / "single_span_qa.train.jsonl.gz"):
        asked, title, text, answer = (text_of(row, name, where) for name in ("question", "title", "context", "answer"))
        by_title[title][text] = content_words(text)
        rows.append((one_line(asked), title, text, answer, str(row.get("source", ""))))
    for question, title, text, answer, source in rows:
        others = {other: words for other, words in by_title[title].items() if other != text}
        yield from _pair(source, question, question, answer, (title.replace("_", " "), text), others)


def hop_relevance(train: Path) -> Iterator[Example]:
    """Sub-questions: the supporting paragraph with the answer, and the most similar one that supports no hop."""
    chains = {normalised(chain.question): chain for chain in read_chains(train)}
    for where, row in rows_of(train / "multihop_context.train.jsonl.gz"):
        chain = chains.get(normalised(text_of(row, "question", where)))
        paragraphs = objects_of(row, "paragraphs", where)
        if chain is None:
            continue
        titles = {one["text"]: str(one.get("title", "")) for one in paragraphs}
        others = {one["text"]: content_words(one["text"]) for one in paragraphs if not one.get("is_supporting")}
        for turn in chain.turns:
            gold = [
                (titles[one["text"]], one["text"])
                for one in paragraphs
                if one.get("is_supporting") and within(turn.answer, one["text"])
            ]
            if len(gold) == 1:
                source = f"{chain.source} sub-question"
                yield from _pair(source, chain.question, turn.question, turn.answer, gold[0], others, titles)


def _pair(
    source: str,
    root: str,
    question: str,
    answer: str,
    gold: tuple[str, str],
    others: Mapping[str, frozenset[str]],
    titles: Mapping[str, str] | None = None,
) -> Iterator[Example]:
    """The relevant passage, and the most similar of the others if there is one without the answer."""
    yield Example("relevance", source, root, question, True, title=gold[0], text=gold[1])
    words = content_words(question)
    ranked = sorted(others, key=lambda text: (-len(words & others[text]), text))
    other = next((text for text in ranked if not within(answer, text)), None)
    if other is not None:
        title = titles[other] if titles else gold[0]
        yield Example("relevance", source, root, question, False, title=title, text=other)
