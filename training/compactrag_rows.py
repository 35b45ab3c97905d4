"""Rows of training data from the examples that a model wrote; untrusted, so each is checked (CompactRAG, Sec. 3.2)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from inference.heads.pair_context import fresh_words
from training.words import normalised, within

Text = Annotated[str, Field(min_length=1, max_length=600)]
Kind = Literal["person", "place", "organisation", "work", "event", "thing"]


class Pair(BaseModel):
    """A question and its answer."""

    question: Text
    answer: Text


class ExtractorExample(BaseModel):
    """A sub-question, the pair that answers it, the words of the pair that do, and pairs that do not."""

    sub_question: Text
    pair: Pair
    span: Text
    distractors: Annotated[list[Pair], Field(min_length=1, max_length=6)]


class ExtractorExamples(BaseModel):
    """Reply to `training/prompts/extractor.md`."""

    examples: Annotated[list[ExtractorExample], Field(min_length=1, max_length=5)]


class RewriterExample(BaseModel):
    """An ambiguous question, the entity it is about, and the question that names it."""

    ambiguous: Text
    entity: Text
    kind: Kind
    rewritten: Text


class RewriterExamples(BaseModel):
    """Reply to `training/prompts/rewriter.md`."""

    examples: Annotated[list[RewriterExample], Field(min_length=1, max_length=5)]


def extractor_rows(
    examples: Sequence[ExtractorExample], passage: str, draw: random.Random
) -> Iterator[dict[str, Any] | str]:
    """Rows of the extractor's files, pairs in random order; for an example that can't be used, why.

    Args:
        examples: What the model wrote about a passage.
        passage: Its id.
        draw: Source of randomness.
    """
    for number, example in enumerate(examples):
        question, span = _line(example.sub_question), _line(example.span)
        right, *others = [
            f"{_line(pair.question)}\n{_line(pair.answer)}" for pair in (example.pair, *example.distractors)
        ]
        at = right.find(span)
        others = [pair for pair in others if not within(span, pair)]
        if at < 0:
            yield "without the span in the pair"
        elif not fresh_words(question, span):
            yield "answered by words of the question"
        elif not others:
            yield "without a distractor"
        else:
            pairs = draw.sample([right, *others], len(others) + 1)
            start = sum(len(pair) + 2 for pair in pairs[: pairs.index(right)]) + at
            answers = {"text": [span], "answer_start": [start]}
            yield {"id": f"{passage}-{number}", "question": question, "context": "\n\n".join(pairs), "answers": answers}


def rewriter_rows(
    examples: Sequence[RewriterExample], passage: str, draw: random.Random
) -> Iterator[dict[str, Any] | str]:
    """Rows of the rewriter's files: each example, with its entity masked, and with a pronoun; or why there is none.

    Arguments as for `extractor_rows`.
    """
    for number, example in enumerate(examples):
        entity, rewritten = _line(example.entity), _line(example.rewritten)
        ambiguous = _line(example.ambiguous)
        found = list(re.finditer(rf"(?<!\w){re.escape(entity)}(?!\w)", rewritten))
        if len(found) != 1:
            yield "without the entity, once, in the rewritten question"
        elif normalised(rewritten) == normalised(entity):
            yield "with no question around the entity"
        elif within(entity, ambiguous):
            yield "with the entity in the ambiguous question"
        else:
            before, after = rewritten[: found[0].start()], rewritten[found[0].end() :]
            forms = dict.fromkeys(
                [ambiguous, masked(before, example.kind, after), with_pronoun(before, example.kind, after, draw)]
            )
            for form, said in enumerate(forms):
                row = {"input": f"Q: {said} | prev_answer: {entity}", "output": rewritten}
                yield {"id": f"{passage}-{number}-{form}", **row}


def masked(before: str, kind: Kind, after: str) -> str:
    """Entity masking: the kind of thing in the entity's place, such as "this person".

    Args:
        before: The question up to the entity.
        kind: Of the entity.
        after: The question from the entity on.
    """
    return f"{before}{_begun('this ' + kind, before)}{after}"


_PRONOUNS = {"he": ("he", "him", "his"), "she": ("she", "her", "her"), "it": ("it", "it", "its")}
_AUXILIARIES = frozenset(
    {
        *("is", "was", "are", "were", "do", "does", "did", "has", "have", "had"),
        *("can", "could", "will", "would", "may", "might", "shall", "should", "must"),
    }
)


def with_pronoun(before: str, kind: Kind, after: str, draw: random.Random) -> str:
    """Pronoun insertion: a pronoun in the entity's place, in the case that the place needs.

    Arguments as for `masked`; a person is "he" or "she" at random.
    """
    subject, other, possessive = _PRONOUNS[draw.choice(["he", "she"]) if kind == "person" else "it"]
    if owns := re.match(r"['’]s?(?!\w)", after):
        return f"{before}{_begun(possessive, before)}{after[owns.end() :]}"
    last = normalised(before).rpartition(" ")[2]
    is_subject = not before or last in _AUXILIARIES
    return f"{before}{_begun(subject if is_subject else other, before)}{after}"


def _begun(words: str, before: str) -> str:
    return words if before.strip() else words[0].upper() + words[1:]


def _line(text: str) -> str:
    return " ".join(text.split())
