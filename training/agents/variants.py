"""More examples from those that were played: the same prompts with other questions, answers, evidence or values."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import cycle
from typing import cast

from hopgraph.evaluation.metrics import normalise
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.answering import comparison, dated, earlier
from hopgraph.simulation.case import Case, same
from hopgraph.simulation.kit import CLAIM, NO_ANSWER
from hopgraph.simulation.parrag import JUDGED
from nodes.chain import Hop, written
from nodes.kit.rendering import quoted
from prompts.loader import load_prompt
from training.agents.play import Exchange, answered
from training.agents.questions import Lesson

READERS = frozenset(
    {
        "adaptive_retrieval/reader",
        "hanrag/generator",
        "parrag/actor",
        "probtree/open_book",
        "self_ask/generator",
        "standard_rag/generator",
    }
)
"""Roles that answer one question from passages, which stand before it."""
_QUESTION = re.compile(r"(?<=<question>).*(?=</question>)", re.DOTALL)


def reading_variants(exchanges: Iterable[Exchange], lessons: Sequence[Lesson], seed: int) -> Iterator[Exchange]:
    """The readers' prompts again with other questions: the sub-questions, and one of another lesson.

    What is asked about the same passages is cheap to learn: they are read once. Where a perfect agent abstains though
    the passages contain the answer, a reader may find it, and nothing is learned.

    Args:
        exchanges: Exchanges without errors among them are varied.
        lessons: All.
        seed: Decides which question of another lesson is asked, and where.
    """
    dice = random.Random(seed)  # noqa: S311
    agents = PerfectAgents([lesson.case for lesson in lessons])
    decomposed = [lesson for lesson in lessons if lesson.kind == "decomposed"]
    for one in exchanges:
        if one.round.wrong or f"{one.round.method}/{one.node}" not in READERS:
            continue
        asked = _sub_questions(one.round.lesson.case) if one.round.lesson.kind == "decomposed" else []
        asked = dice.sample(asked, min(3, len(asked)))
        if dice.random() < 0.25 and decomposed:
            asked.append(dice.choice(_sub_questions(dice.choice(decomposed).case)))
        for question, answer in asked:
            messages = tuple(replace(message, content=_asking(question, message.content)) for message in one.messages)
            made = answered(agents, one, messages)
            if not (NO_ANSWER in made.reply and _words(answer).search(messages[-1].content)):
                yield made


JUDGES = frozenset({"parrag/accuracy_judge", "parrag/attribution_judge"})
"""Roles that judge an answer to one question by passages."""


def judging_variants(exchanges: Iterable[Exchange], lessons: Sequence[Lesson], seed: int) -> Iterator[Exchange]:
    """The judges' prompts again with another answer: to another part of the question, or to another question.

    Args:
        exchanges: Exchanges without errors among them are varied.
        lessons: All.
        seed: Decides which answer is judged.
    """
    dice = random.Random(seed)  # noqa: S311
    agents = PerfectAgents([lesson.case for lesson in lessons])
    for one in exchanges:
        shown = one.messages[-1].content
        judged = JUDGED.search(shown) or CLAIM.search(shown)
        if one.round.wrong or judged is None or f"{one.round.method}/{one.node}" not in JUDGES:
            continue
        others = [fact.answer for fact in one.round.lesson.case.facts] or [dice.choice(lessons).case.answers[0]]
        answer = dice.choice(others)
        if answer == judged["answer"]:
            answer = dice.choice(lessons).case.answers[0]
        begin, end = judged.span("answer")
        text = shown[:begin] + answer + shown[end:]
        yield answered(agents, one, (*one.messages[:-1], replace(one.messages[-1], content=text)))


DECOMPOSERS = frozenset({"compactrag/decomposer", "parrag/planner", "prism/analyzer", "probtree/decomposer"})
"""Roles that take a question apart, and see nothing else of it."""
KNOWN = 0.85
"""Share of the questions of a chain that have an answer."""


def decomposing_variants(exchanges: Iterable[Exchange], lessons: Sequence[Lesson], seed: int) -> Iterator[Exchange]:
    """The decomposers' prompts, and those of HANRAG's refiner, for every decomposed question.

    A question is played by a few methods only, and few of MuSiQue's and HotpotQA's have a decomposition. The refiner is
    asked for every next question of the chain that leads to the answer.

    Args:
        exchanges: Those of each role are the pattern of its prompts.
        lessons: All.
        seed: Decides the pattern, and which questions of a chain have no answer and are asked in other words.
    """
    dice = random.Random(seed)  # noqa: S311
    agents = PerfectAgents([lesson.case for lesson in lessons])
    patterns: dict[str, list[Exchange]] = {}
    for one in exchanges:
        patterns.setdefault(f"{one.round.method}/{one.node}", []).append(one)
    for lesson in lessons:
        if lesson.kind != "decomposed":
            continue
        for skill in sorted(DECOMPOSERS & patterns.keys()):
            one = _about(lesson, dice.choice(patterns[skill]))
            yield answered(agents, one, one.messages)
        if "hanrag/refiner" in patterns:
            yield from _chain(agents, lesson, patterns["hanrag/refiner"][0], dice)


def _chain(agents: PerfectAgents, lesson: Lesson, pattern: Exchange, dice: random.Random) -> Iterator[Exchange]:
    """HANRAG's refiner's prompts with the chain so far, from a question's first step to its last."""
    one = replace(pattern, round=replace(pattern.round, lesson=lesson, wrong=0.0))
    prompt = load_prompt("hanrag/refiner")
    chain: list[Hop] = []
    while True:
        values = {"question": quoted(lesson.case.question), "chain": "\n".join(written(chain)) or "(none)"}
        made = answered(agents, one, tuple(prompt.render(values)))
        asked = json.loads(made.reply)["question"]
        form = lesson.case.form_of(asked)
        if form is None or made.repeats:
            return
        yield made
        answer = form.fact.answer if dice.random() < KNOWN else ""
        chain.append(cast(Hop, {"question": asked, "answer": answer}))


def _about(lesson: Lesson, pattern: Exchange) -> Exchange:
    """A pattern's prompt with the question of another lesson."""
    text = _asking(quoted(lesson.case.question), pattern.messages[-1].content)
    return replace(
        pattern,
        round=replace(pattern.round, lesson=lesson, wrong=0.0),
        messages=(*pattern.messages[:-1], replace(pattern.messages[-1], content=text)),
    )


_CURRENT = re.compile(r"(?<=^Current evidence: ).+$", re.MULTILINE)


def adding_variants(exchanges: Iterable[Exchange], lessons: Sequence[Lesson], seed: int) -> Iterator[Exchange]:
    """PRISM's Adder's prompts again with sentences missing in the current evidence: a perfect Selector leaves none out.

    Args:
        exchanges: Exchanges without errors among them are varied.
        lessons: All.
        seed: Decides what is missing.
    """
    dice = random.Random(seed)  # noqa: S311
    agents = PerfectAgents([lesson.case for lesson in lessons])
    for one in exchanges:
        shown = one.messages[-1].content
        current = _CURRENT.search(shown)
        if one.round.wrong or current is None or (one.round.method, one.node) != ("prism", "adder"):
            continue
        labels = re.findall(r"\d+\.\d+", current[0])
        if labels:
            left = ", ".join(sorted(dice.sample(labels, dice.randrange(len(labels))), key=labels.index)) or "(none)"
            text = shown[: current.start()] + left + shown[current.end() :]
            yield answered(agents, one, (*one.messages[:-1], replace(one.messages[-1], content=text)))


def comparing_variants(exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
    """Comparisons again with the two compared values exchanged, and so with the other answer.

    What is compared is then told by the values alone: not by a name that is remembered, nor by the order of the facts.

    Args:
        exchanges: Exchanges without errors among them are varied.
    """
    for one in exchanges:
        case = one.round.lesson.case
        if one.round.wrong or one.compares is None or len(case.last) != 2:
            continue
        if not any(same(one.compares, name) for name in case.compared):
            continue  # yes or no, or what neither is called
        values = [fact.answer for fact in case.last]
        shown = one.messages[-1].content
        if not all(_words(value).search(shown) for value in values) or values[0] in values[1] or values[1] in values[0]:
            continue
        yield _with_values(one, values[::-1], case.other_answer())


CONCLUDERS = frozenset(
    {
        "compactrag/generator",
        "hanrag/synthesizer",
        "parrag/actor",
        "parrag/generator",
        "prism/generator",
        "probtree/child_aggregating",
        "prunerag/aggregator",
    }
)
"""Roles that compare what was found before."""
DRAWN = 8
"""Times that the values of a comparison are drawn anew."""
_FROM, _TO = date(1800, 1, 1).toordinal(), date(2020, 12, 31).toordinal()


def drawing_variants(exchanges: Iterable[Exchange], seed: int) -> Iterator[Exchange]:
    """Comparisons of what was found before again with drawn values, and the answer that follows.

    Values are dates, or equal or different countries and the like. The dates of a few hundred questions are too few to
    learn from which of two is earlier.

    Args:
        exchanges: Exchanges without errors among them are varied.
        seed: Decides the values.
    """
    dice = random.Random(seed)  # noqa: S311
    varied = [
        one
        for one in exchanges
        if f"{one.round.method}/{one.node}" in CONCLUDERS
        and not one.round.wrong
        and one.compares
        and len(one.round.lesson.case.last) == 2
    ]
    known: dict[str, set[str]] = {}
    for one in varied:
        for fact in one.round.lesson.case.last:
            known.setdefault(fact.relation, set()).add(fact.answer)
    for one in varied:
        case, shown = one.round.lesson.case, one.messages[-1].content
        values = [fact.answer for fact in case.last]
        counts = [len(_words(value).findall(shown)) for value in values]
        if not all(counts) or any(value in case.question for value in values):
            continue
        if values[0] != values[1] and (values[0] in values[1] or values[1] in values[0]):
            continue
        if values[0] == values[1] and counts[0] != len(values):
            continue  # the text does not say which of them is whose
        others = sorted(known[case.last[0].relation])
        for _ in range(DRAWN):
            drawn = _drawn_dates(case, values, dice) or _drawn_kinds(case, values, others, dice)
            if drawn is None:
                break
            yield _with_values(one, *drawn)


def _drawn_dates(case: Case, values: Sequence[str], dice: random.Random) -> tuple[list[str], str] | None:
    """Two other dates and the answer to the comparison; None if it does not compare dates."""
    formats = [found[1] for value in values if (found := dated(value))]
    first = earlier(*values)
    if len(formats) < len(values) or first is None or sum(same(case.answers[0], name) for name in case.compared) != 1:
        return None
    while True:
        day = dice.randint(_FROM, _TO)
        days = [day, day + round(10 ** dice.uniform(1.5, 4.5))]
        dice.shuffle(days)
        drawn = [_in_format(day, form) for day, form in zip(days, formats, strict=True)]
        if (now := earlier(*drawn)) is not None:
            return drawn, case.answers[0] if now == first else case.other_answer()


def _drawn_kinds(
    case: Case, values: Sequence[str], others: Sequence[str], dice: random.Random
) -> tuple[list[str], str] | None:
    """Two countries, or what else there is of a relation, and whether they are the same; None if that isn't asked."""
    answer = normalise(case.answers[0])
    if answer not in ("yes", "no") or (answer == "yes") != same(*values) or len(others) < 2:
        return None
    first = dice.choice(others)
    second = first if dice.random() < 0.5 else dice.choice([text for text in others if not same(text, first)])
    return [first, second], "yes" if first == second else "no"


def _in_format(day: int, form: str) -> str:
    """A date, given as its ordinal, in a format of `DATES`; days are written without a leading zero."""
    found = date.fromordinal(day)
    return found.strftime(form.replace("%d", str(found.day)))


def _with_values(one: Exchange, drawn: Sequence[str], answer: str) -> Exchange:
    """A comparison with other values in the place of the two, and the answer that follows from them."""
    case, shown = one.round.lesson.case, one.messages[-1].content
    numbers = [fact.number for fact in case.last]
    values = [fact.answer for fact in case.last]
    before = comparison(case, dict(zip(numbers, values, strict=True)))
    now = comparison(case, dict(zip(numbers, drawn, strict=True)), answer)

    def written(text: str) -> str:
        return now.join(_put(part, values, drawn) for part in text.split(before)) if before else text

    reply = {
        key: answer if text == one.compares else written(text) if isinstance(text, str) else text
        for key, text in json.loads(one.reply).items()
    }
    last = replace(one.messages[-1], content=_put(shown, values, drawn))
    lesson = replace(one.round.lesson, case=replace(case, answers=(answer,)))
    return replace(
        one,
        round=replace(one.round, lesson=lesson),
        messages=(*one.messages[:-1], last),
        reply=json.dumps(reply, ensure_ascii=False),
    )


def _put(text: str, values: Sequence[str], drawn: Sequence[str]) -> str:
    """A text with other values in the place of two; in turn, if the two are the same."""
    found = _words(*values)
    if values[0] != values[1]:
        return found.sub(lambda match: drawn[values.index(match[0])], text)
    turns = cycle(drawn)
    return found.sub(lambda _: next(turns), text)


def _words(*texts: str) -> re.Pattern[str]:
    """A pattern of texts as whole words: "Peru" is not found in "Peruvian"."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, texts))})(?!\w)")


def _asking(question: str, text: str) -> str:
    """A prompt with another question."""
    return _QUESTION.sub(lambda _: question, text)


def _sub_questions(case: Case) -> list[tuple[str, str]]:
    """The sub-questions with known answers filled in, and with them described, each with its answer."""
    gold = {fact.number: fact.answer for fact in case.facts}
    return list({case.ask(fact, known): fact.answer for known in (gold, {}) for fact in case.facts}.items())
