"""Examples of the Revelator's five skills, made from training data alone (HANRAG, Sec. 4.2 and App. B).

An example knows the question it is held out by: all hops of a multi-hop question, and a question's relevant and
irrelevant passages, are on one side of the split. Nothing here knows a prompt; `chat` puts examples into those.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from inference.errors import InputError
from training.hop_data import dev_questions, normalised, rows_of, text_of

__all__ = [
    "ROUTES",
    "SKILLS",
    "Example",
    "Skill",
    "Turn",
    "all_examples",
    "chosen",
    "content_words",
    "divided",
    "is_held_out",
    "musique_turns",
]

Skill = Literal["router", "decomposer", "refiner", "relevance", "ending"]
SKILLS: tuple[Skill, ...] = get_args(Skill)
ROUTES = ("straightforward", "single-step", "compound", "complex")
HELD_OUT = 10
"""One question in this many is held out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A seed question that was asked on the way, and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Example:
    """One thing that the Revelator is asked, and what it should say."""

    skill: Skill
    source: str
    root: str
    """The question that decides on which side of the split the example is."""
    question: str
    target: str | bool | tuple[str, ...]
    """Route, sub-questions, next seed question, relevant or not, ended or not."""
    turns: tuple[Turn, ...] = ()
    """What is known by then (refiner, ending)."""
    title: str = ""
    text: str = ""
    """The passage (relevance)."""

    @property
    def label(self) -> str:
        """What kind of example it is, for counts and for a balanced choice."""
        match self.skill:
            case "router":
                return str(self.target)
            case "decomposer":
                parts = self.target if isinstance(self.target, tuple) else ()
                return "1 part" if len(parts) == 1 else f"{len(parts)} parts"
            case "refiner":
                return f"hop {len(self.turns) + 1}" if self.target != self.question else "stays"
            case "relevance":
                return "relevant" if self.target else "irrelevant"
            case "ending":
                return "ended" if self.target else "goes on"

    @property
    def id(self) -> str:
        """Sixteen hex digits of all that it says: the same example has the same id in every build."""
        turns = [[turn.question, turn.answer] for turn in self.turns]
        facts = [self.skill, self.question, turns, self.title, self.text, self.target]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def is_held_out(question: str) -> bool:
    """Whether a question is held out: a tenth of all, by the hash of its words."""
    return int(hashlib.sha256(normalised(question).encode()).hexdigest(), 16) % HELD_OUT == 0


def all_examples(data: Path, compound: Path | None = None) -> tuple[list[Example], list[Example], dict[str, int]]:
    """Examples to train on, held-out examples, and how many were left out for what cause (`divided`).

    Args:
        data: Folder that holds `train/` and a folder for each data set.
        compound: Questions of `training.revelator.compound`: more compound routes and decompositions.

    Raises:
        InputError: A file is missing or malformed.
    """
    return divided(_examples(data, compound), data)


def divided(examples: Iterable[Example], data: Path) -> tuple[list[Example], list[Example], dict[str, int]]:
    """Examples to train on, held-out examples, and how many were left out for what cause.

    A training example is left out when its root or its own question is a dev question (or a sub-question of one) of
    any data set, or is asked in a held-out example of the same skill.

    Args:
        examples: Examples of any skills.
        data: Folder that holds a folder for each data set.

    Raises:
        InputError: A file is missing or malformed.
    """
    dev = dev_questions(data)
    left_out = {"a dev question": 0, "asked in a held-out example": 0, "repeated": 0}
    held: list[Example] = []
    rest: list[Example] = []
    seen: set[str] = set()
    for example in examples:
        if {normalised(example.root), normalised(example.question)} & dev:
            left_out["a dev question"] += 1
        elif example.id in seen:
            left_out["repeated"] += 1
        else:
            seen.add(example.id)
            (held if is_held_out(example.root) else rest).append(example)
    asked = {(example.skill, normalised(example.question)) for example in held}
    train = [example for example in rest if (example.skill, normalised(example.question)) not in asked]
    left_out["asked in a held-out example"] = len(rest) - len(train)
    return train, held, left_out


def chosen(examples: Iterable[Example], limit: int | None, seed: int) -> list[Example]:
    """At most `limit` examples of each skill, as many of each label as there are or an equal share, in random order.

    The choice depends on the seed and the examples alone, not on their order.
    """

    def place(example: Example) -> str:
        return hashlib.sha256(f"{seed}\0{example.id}".encode()).hexdigest()

    groups: dict[Skill, dict[str, list[Example]]] = defaultdict(lambda: defaultdict(list))
    for example in sorted(examples, key=place):
        groups[example.skill][example.label].append(example)
    kept: list[Example] = []
    for skill in SKILLS:
        labels = sorted(groups[skill].values(), key=len)
        room = limit if limit is not None else sum(map(len, labels))
        for number, rows in enumerate(labels):
            share = rows[: room // (len(labels) - number)]
            kept += share
            room -= len(share)
    return sorted(kept, key=place)


def _examples(data: Path, compound: Path | None) -> Iterator[Example]:
    train = data / "train"
    singles = list(_single_steps(train))
    yield from _routes(train)
    yield from _sub_question_routes(train)
    yield from _split_conjunctions(train)
    yield from _split_comparisons(train)
    yield from (Example("decomposer", source, question, question, (question,)) for question, source in singles[::4])
    yield from _hops(train)
    yield from (Example("refiner", source, question, question, question) for question, source in singles[1::4])
    yield from _paragraph_relevance(train)
    yield from _hop_relevance(train)
    if compound is not None:
        yield from _benchmark(compound)


# Router


def _routes(train: Path) -> Iterator[Example]:
    """`router.train`; its labels are weak, as its sources say."""
    for where, row in rows_of(train / "router.train.jsonl.gz"):
        if row.get("label") not in ROUTES:
            raise InputError(f"{where}: field 'label' must be one of {', '.join(ROUTES)}", hint="see data/SOURCES.md")
        question = _asked(text_of(row, "question", where))
        yield Example("router", str(row.get("source", "")), question, question, str(row["label"]))


def _sub_question_routes(train: Path) -> Iterator[Example]:
    """Sub-queries of multi-hop questions are single-step questions (Sec. 4.2)."""
    for chain in _chains(train):
        for turn in chain.turns:
            yield Example("router", f"{chain.source} sub-question", chain.question, turn.question, "single-step")


def _single_steps(train: Path) -> Iterator[tuple[str, str]]:
    """Questions of one step, and their sources."""
    for example in _routes(train):
        if example.target == "single-step":
            yield example.question, example.source


def _asked(question: str) -> str:
    """A question in one line. Some sources write all in lower case: the first letter does not tell them apart."""
    question = " ".join(question.split())
    return question[:1].upper() + question[1:]


# Decomposer

_JOINTS = ("? Also, ", "? And ", ", and ", " and ")
"""How the two questions of a synthetic compound question are joined."""


def _split_conjunctions(train: Path) -> Iterator[Example]:
    """Synthetic compound questions, taken apart where they were joined; not those with several such places."""
    for example in _routes(train):
        parts = _taken_apart(example.question) if example.source.startswith("synthetic conjunction") else []
        if parts:
            yield Example("decomposer", example.source, example.question, example.question, tuple(parts))


def _taken_apart(question: str) -> list[str]:
    joint = next((joint for joint in _JOINTS if joint in question), None)
    parts = question.split(joint) if joint else []
    return [_as_question(part) for part in parts] if len(parts) == 2 else []


def _as_question(part: str) -> str:
    return _asked(part.rstrip(" ?.,")) + "?"


def _split_comparisons(train: Path) -> Iterator[Example]:
    """Comparisons of 2WikiMultiHopQA whose look-ups do not need each other."""
    compound = {normalised(row.question) for row in _routes(train) if row.target == "compound"}
    for chain in _chains(train):
        if normalised(chain.question) in compound:
            parts = tuple(turn.question for turn in chain.turns)
            yield Example("decomposer", chain.source, chain.question, chain.question, parts)


# Refiner and ending discriminator


@dataclass(frozen=True, slots=True)
class _Chain:
    """A multi-hop question with all its hops."""

    question: str
    turns: tuple[Turn, ...]
    source: str


def _hops(train: Path) -> Iterator[Example]:
    """For each hop: what to ask next, knowing the hops before it; and whether the question can be answered after it."""
    for chain in _chains(train):
        for number, turn in enumerate(chain.turns):
            known = chain.turns[:number]
            yield Example("refiner", chain.source, chain.question, chain.question, turn.question, known)
            ended = number + 1 == len(chain.turns)
            yield Example("ending", chain.source, chain.question, chain.question, ended, (*known, turn))


def _chains(train: Path) -> Iterator[_Chain]:
    """Training questions of MuSiQue and 2WikiMultiHopQA with their hops: each hop a question that stands alone."""
    for where, row in rows_of(train / "decomposition.train.jsonl.gz"):
        source = str(row.get("source", ""))
        read = _READERS.get(source.partition("-")[0])
        if read is None:
            continue
        parts = row.get("subquestions")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise InputError(f"{where}: field 'subquestions' must be a list of objects", hint="see data/SOURCES.md")
        turns = read(row, [(text_of(part, "question", where), text_of(part, "answer", where)) for part in parts])
        if len(turns) > 1:
            yield _Chain(_asked(text_of(row, "question", where)), turns, source)


_REFERENCE = re.compile(r"#\s?(\d+)")


def musique_turns(row: Mapping[str, Any], parts: list[tuple[str, str]]) -> tuple[Turn, ...]:
    """Hops that stand alone: `#k` becomes the answer of hop k; `subject >> relation` is put into words."""
    answers = [answer for _, answer in parts]

    def answer(match: re.Match[str]) -> str:
        number = int(match[1])
        return answers[number - 1] if 1 <= number <= len(answers) else match[0]

    return tuple(Turn(_as_question(_REFERENCE.sub(answer, _in_words(asked))), said) for asked, said in parts)


def _two_wiki_turns(row: Mapping[str, Any], parts: list[tuple[str, str]]) -> tuple[Turn, ...]:
    """Its answers are sentences by a model: the object of the official evidence that one contains stands for it."""
    objects = [str(evidence[2]) for evidence in row.get("evidences") or () if len(evidence) == 3]
    turns = []
    for number, (asked, said) in enumerate(parts):
        own_first = objects[number : number + 1] + objects
        within = f" {normalised(said)} "
        short = next((item for item in own_first if f" {normalised(item)} " in within), said.rstrip(". "))
        turns.append(Turn(_as_question(asked), short))
    return tuple(turns)


_READERS: Mapping[str, Callable[[Mapping[str, Any], list[tuple[str, str]]], tuple[Turn, ...]]] = {
    "musique": musique_turns,
    "2wikimultihopqa": _two_wiki_turns,
}

_RELATIONS = {
    "author": "Who wrote {}",
    "capital of": "What is {} the capital of",
    "child": "Who is the child of {}",
    "conflict": "In which conflict did {} take part",
    "continent": "On which continent is {}",
    "country": "In which country is {}",
    "country of citizenship": "Of which country is {} a citizen",
    "educated at": "Where was {} educated",
    "father": "Who is the father of {}",
    "follows": "What does {} follow",
    "instance of": "What is {} an instance of",
    "licensed to broadcast to": "Where is {} licensed to broadcast to",
    "located in or next to body of water": "In or next to which body of water is {}",
    "located in the administrative territorial entity": "In which administrative area is {} located",
    "location": "Where is {} located",
    "location of formation": "Where was {} formed",
    "member of political party": "Of which political party is {} a member",
    "member of sports team": "Of which sports team is {} a member",
    "mouth of the watercourse": "Into what does {} flow",
    "part of": "What is {} part of",
    "performer": "Who performed {}",
    "place of birth": "Where was {} born",
    "place of death": "Where did {} die",
    "producer": "Who produced {}",
    "shares border with": "What shares a border with {}",
    "sibling": "Who is the sibling of {}",
    "sport": "Which sport does {} belong to",
    "spouse": "Who is the spouse of {}",
}
"""Questions for Wikidata's relations, as MuSiQue has them; for others "What is the RELATION of SUBJECT"."""


def _in_words(asked: str) -> str:
    subject, arrow, relation = (part.strip() for part in asked.partition(">>"))
    if not arrow:
        return asked
    return _RELATIONS.get(relation, f"What is the {relation} of {{}}").format(subject)


# Relevance discriminator


def _paragraph_relevance(train: Path) -> Iterator[Example]:
    """SQuAD: a question's own paragraph, and the most similar paragraph of its article without the answer."""
    by_title: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    rows = []
    for where, row in rows_of(train / "single_span_qa.train.jsonl.gz"):
        asked, title, text, answer = (text_of(row, name, where) for name in ("question", "title", "context", "answer"))
        by_title[title][text] = content_words(text)
        rows.append((_asked(asked), title, text, answer, str(row.get("source", ""))))
    for question, title, text, answer, source in rows:
        others = {other: words for other, words in by_title[title].items() if other != text}
        yield from _pair(source, question, question, answer, (title.replace("_", " "), text), others)


def _hop_relevance(train: Path) -> Iterator[Example]:
    """Sub-questions: the supporting paragraph with the answer, and the most similar one that supports no hop."""
    chains = {normalised(chain.question): chain for chain in _chains(train)}
    for where, row in rows_of(train / "multihop_context.train.jsonl.gz"):
        chain = chains.get(normalised(text_of(row, "question", where)))
        paragraphs = row.get("paragraphs")
        if not isinstance(paragraphs, list) or not all(isinstance(one, dict) for one in paragraphs):
            raise InputError(f"{where}: field 'paragraphs' must be a list of objects", hint="see data/SOURCES.md")
        if chain is None:
            continue
        titles = {one["text"]: str(one.get("title", "")) for one in paragraphs}
        others = {one["text"]: content_words(one["text"]) for one in paragraphs if not one.get("is_supporting")}
        for turn in chain.turns:
            within = f" {normalised(turn.answer)} "
            gold = [
                (titles[one["text"]], one["text"])
                for one in paragraphs
                if one.get("is_supporting") and within in f" {normalised(one['text'])} "
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
    within = f" {normalised(answer)} "
    ranked = sorted(others, key=lambda text: (-len(words & others[text]), text))
    other = next((text for text in ranked if within not in f" {normalised(text)} "), None)
    if other is not None:
        title = titles[other] if titles else gold[0]
        yield Example("relevance", source, root, question, False, title=title, text=other)


_COMMON = frozenset(
    normalised(
        "a an and are at by did do does for from how in is it of on or that the to was were what when where which who "
        "whom whose why with"
    ).split()
)


def content_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(normalised(text).split()) - _COMMON


# The compound benchmark


def _benchmark(path: Path) -> Iterator[Example]:
    """Compound questions that a model wrote: their route, and the questions they were merged from (App. B.2, B.3)."""
    for where, row in rows_of(path):
        question = text_of(row, "question", where)
        parts = row.get("decomposition")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise InputError(f"{where}: field 'decomposition' must be a list of objects")
        asked = tuple(text_of(part, "question", where) for part in parts)
        yield Example("router", "compound benchmark", question, question, "compound")
        yield Example("decomposer", "compound benchmark", question, question, asked)
