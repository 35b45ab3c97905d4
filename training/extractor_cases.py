"""Cases that the extractor's training data lack: pairs that do not answer, answers in a pair's question (Eq. 1)."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from zlib import crc32

from inference.heads.pair_context import fresh_words
from training.extractor_data import Example
from training.words import normalised, within


class Lookalikes:
    """Pairs of other rows whose question starts alike ("When was ..."): noise that a retriever brings."""

    def __init__(self, rows: Sequence[Example]) -> None:
        self._pairs: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            for pair in row.context.split("\n\n"):
                self._pairs[_opening(pair)].append(pair)

    def some(self, example: Example, count: int, draw: random.Random) -> list[str]:
        """At most `count` such pairs; none has the example's answer, nor all content words of its question."""
        known = self._pairs[_opening(example.question)]
        found = draw.sample(known, min(4 * count, len(known)))
        return [
            pair
            for pair in found
            if not within(example.answer, pair) and fresh_words(pair, example.question) and pair not in example.context
        ][:count]


def _opening(text: str) -> str:
    return " ".join(normalised(text).split()[:2])


def without_answer(example: Example) -> Example:
    """The example without the right pair and without every other one that has a word of its answer: nothing answers it.

    Function words and words of the question do not count. The context may be empty.
    """
    kept = [
        pair
        for start, pair in _placed(example.context)
        if not start <= example.start < start + len(pair) + 2 and not _shares(pair, example)
    ]
    return replace(example, context="\n\n".join(kept), answer="", start=-1)


def _shares(pair: str, example: Example) -> bool:
    """Whether a pair has a word of the example's answer that its question lacks, or the whole answer."""
    words = {example.answer[start:end].casefold() for start, end in fresh_words(example.question, example.answer)}
    return within(example.answer, pair) or not words.isdisjoint(re.findall(r"\w+", pair.casefold()))


def reversed_pair(example: Example) -> Example | None:
    """The example with its right pair inverted: the answer in the question, the entity asked about as the answer.

    "Who wrote Emma?" beside "What did Jane Austen write? Emma". None where no pattern fits.
    """
    turned = _turned(example.question, example.answer)
    if turned is None:
        placed = _placed(example.context)
        said = next((pair for at, pair in placed if at <= example.start < at + len(pair)), "")
        turned = _asked_back(example.question, said.partition("\n")[2], example.answer)
    if turned is None:
        return None
    others = without_answer(example).context
    context = f"{turned}\n\n{others}" if others else turned
    start = context.index(example.answer)
    return replace(example, context=context, start=start) if fresh_words(example.question, example.answer) else None


_WHO = re.compile(r"Who (?P<verb>\w+ed|wrote|won|sang|led|built|made) (?P<entity>.+)\?")
_WAS = re.compile(
    r"(?P<place>Where|When|In (?:which|what) \w+) (?P<is>was|were|is) (?P<entity>.+) "
    r"(?P<verb>\w+ed|born|set|built|held|made)\?"
)
_ARTICLES = ("The", "A", "An")
_BASES = {"wrote": "write", "won": "win", "sang": "sing", "led": "lead", "built": "build", "made": "make"}


def _turned(question: str, answer: str) -> str | None:
    """The pair asked from the other end, by the form of the question."""
    if found := _WHO.fullmatch(question):
        verb = found["verb"]
        base = _BASES.get(verb) or re.sub(r"(?<=[cguvz])ed$|(?<=[^s]s)ed$|(?<=[ai][tr])ed$", "e", verb).removesuffix(
            "ed"
        )
        return f"What did {answer} {base}?\n{found['entity']}"
    if found := _WAS.fullmatch(question):
        who = "Who" if found["verb"] == "born" else "What"
        return f"{who} {found['is']} {found['verb']} in {answer}?\n{found['entity']}"
    return None


def _asked_back(question: str, said: str, answer: str) -> str | None:
    """The pair's sentence as a question after the longest stretch of it that the asked question has, too."""
    at = said.find(answer)
    known, runs, run = set(normalised(question).split()), [], list[re.Match[str]]()
    for word in [*re.finditer(r"\S+", said), None]:
        if word and normalised(word[0]) in known and not at <= word.start() < at + len(answer):
            run.append(word)
        elif run:
            runs.append(run)
            run = []
    named = [run for run in runs if any(word[0][0].isupper() for word in run if word[0] not in _ARTICLES)]
    if at < 0 or not named:
        return None
    longest = max(named, key=lambda run: run[-1].end() - run[0].start())
    start, end = longest[0].start(), longest[-1].end()
    entity = said[start:end].rstrip(".,")
    asked = f"{said[:start]}{'what' if start else 'What'}{said[start + len(entity) :]}".rstrip(". ") + "?"
    return f"{asked}\n{entity}" if answer in asked else None


def _placed(context: str) -> list[tuple[int, str]]:
    """The pairs of a context and where each starts."""
    placed, at = [], 0
    for pair in context.split("\n\n"):
        placed.append((at, pair))
        at += len(pair) + 2
    return placed


def apart(rows: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and a tenth, by the hash of the question, to fit the score of no answer on."""
    chosen = [crc32(normalised(row.question).encode()) % 10 == 0 for row in rows]
    return [row for row, held in zip(rows, chosen, strict=True) if not held], list(compress(rows, chosen))


def training_cases(rows: Sequence[Example], seed: int = 0) -> list[Example]:
    """Examples made of examples with an answer: of every second, one without an answer; of a third of those, another.

    The first keeps the example's other pairs and gets up to two lookalikes, the second has lookalikes only. Where the
    right pair can be inverted, there is an example of that, its pairs in random order.

    Args:
        rows: As `training_examples` gives them, with sentences and with phrases in turn; of each of these two, one
            is taken.
        seed: Of what is drawn.
    """
    draw, lookalikes, made = random.Random(seed), Lookalikes(rows), list[Example]()  # noqa: S311
    for number, row in enumerate(rows[at + at // 2 % 2] for at in range(0, len(rows) - 1, 2)):
        bare = without_answer(row)
        noise = lookalikes.some(row, 2, draw)
        contexts = [[*filter(None, bare.context.split("\n\n")), *noise[: draw.randrange(3)]]]
        if number % 3 == 0:
            contexts.append(noise)
        for pairs in contexts:
            if pairs:
                draw.shuffle(pairs)
                made.append(replace(bare, context="\n\n".join(pairs)))
        if turned := reversed_pair(row):
            made.append(_shuffled(turned, draw))
    return made


def _shuffled(example: Example, draw: random.Random) -> Example:
    """The example, whose first pair is the right one, with its pairs in random order."""
    right, *others = example.context.split("\n\n")
    draw.shuffle(others)
    place = draw.randrange(len(others) + 1)
    before = "".join(f"{pair}\n\n" for pair in others[:place])
    return replace(
        example,
        context="\n\n".join([*others[:place], right, *others[place:]]),
        start=len(before) + example.start,
    )
