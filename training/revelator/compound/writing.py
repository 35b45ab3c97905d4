"""Has a model write simple questions about entities, answer them, and merge them into compound ones (App. B.1)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from inference.chat import Schema
from inference.endpoint import Endpoint
from inference.errors import PromptTooLong
from inference.limiter import priority
from inference.structured import BadOutput, parse_output
from nodes.generator import Answer
from nodes.kit.model import open_endpoint, output_schema
from nodes.kit.rendering import numbered, passage_block, plain, quoted
from prompts.loader import load_prompt
from stores.passages import Passage
from stores.responses import Responses
from training.revelator.compound.checks import Part, merged_fault, part_fault
from training.revelator.compound.entities import Entity
from training.words import normalised, within

MAX_TOKENS = 256
_FILES = ("train", "dev", "test")
_ANSWER_PROMPT = "standard_rag/answer"
Output = TypeVar("Output", bound=BaseModel)
Say = Callable[[str], object]


class _Written(BaseModel):
    """Output of the first prompt."""

    question: str = Field(max_length=300)
    answer: str = Field(max_length=120)


class _Merged(BaseModel):
    """Output of the second prompt; an empty question says that the parts can't be merged."""

    question: str = Field(max_length=800)


@dataclass
class Built:
    """Results of a build."""

    rows: dict[str, list[dict[str, object]]] = field(default_factory=lambda: {name: [] for name in _FILES})
    """Compound questions of each file; an entity's are all in one."""
    passages: dict[str, Passage] = field(default_factory=dict)
    """All passages of the entities, by id."""
    counts: Counter[str] = field(default_factory=Counter)
    """Entities, simple and compound questions asked for and accepted."""
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rejected questions by step and cause."""


@dataclass(frozen=True)
class _Run:
    """What all requests of a build share."""

    endpoint: Endpoint
    replies: Responses
    dev: frozenset[str]
    verify: bool
    merges: int
    seed: int
    built: Built

    async def ask(
        self, name: str, prompt: str, values: Mapping[str, str], output: type[Output]
    ) -> tuple[Output | None, str]:
        """The model's output, or None and why not."""
        try:
            reply = await self.endpoint.complete(
                load_prompt(prompt).render(values),
                request_id=f"compound.{name}.{hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]}",
                schema=Schema(f"compound__{name}", output_schema(output)),
                max_tokens=MAX_TOKENS,
                cache=self.replies,
            )
            return parse_output(reply.text, output), ""
        except PromptTooLong:
            return None, "too long for the model"
        except BadOutput:
            return None, "unreadable"


async def build(
    entities: Sequence[Entity],
    folder: Path,
    *,
    dev: Iterable[str] = (),
    model: str | None = None,
    merges: int = 6,
    verify: bool = True,
    seed: int = 0,
    say: Say = lambda _: None,
) -> Built:
    """Have the questions written and merged.

    All entities are begun at once; the endpoint's limiter lets the calls of earlier ones go first.

    Args:
        entities: What to ask about.
        folder: Holds `replies.sqlite`, all replies so far.
        dev: Normalised questions that may not come out.
        model: Model name at the endpoint.
        merges: Compound questions to ask for, an entity.
        verify: Have each part answered from its passage, and drop it when the answer is another.
        seed: Decides which parts are merged.
        say: Receives progress messages.

    Raises:
        EndpointError: The endpoint can't be used; the build can be started again.
    """
    endpoint = await open_endpoint(model)
    replies = await asyncio.to_thread(Responses, folder / "replies.sqlite")
    built = Built()
    run = _Run(endpoint, replies, frozenset(dev), verify, merges, seed, built)

    async def one(number: int, entity: Entity) -> None:
        priority.set(number)
        parts = await _simple(entity, run)
        built.rows[_file_of(entity.name)] += await _compound(entity, parts, run)
        built.passages |= {passage.id: passage for passage in entity.passages}
        built.counts["entities"] += 1
        done, written = built.counts["entities"], sum(map(len, built.rows.values()))
        say(f"{done} of {len(entities)} entities, {written} compound questions")

    await asyncio.gather(*(one(number, entity) for number, entity in enumerate(entities)))
    for rows in built.rows.values():
        rows.sort(key=lambda row: str(row["id"]))
    return built


def _file_of(name: str) -> str:
    """Eight entities in ten are for training, one for dev, one for test."""
    place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10
    return {0: "test", 1: "dev"}.get(place, "train")


async def _simple(entity: Entity, run: _Run) -> list[Part]:
    """A question about each passage of an entity, those that pass all checks."""
    counts, rejected = run.built.counts, run.built.rejected
    parts: list[Part] = []
    written = await asyncio.gather(*(_written(entity, passage, run) for passage in entity.passages))
    for passage, (output, problem) in zip(entity.passages, written, strict=True):
        counts["simple questions asked for"] += 1
        question, answer = (plain(output.question), plain(output.answer)) if output else ("", "")
        if fault := problem or part_fault(question, answer, entity, passage, parts, run.dev):
            rejected["simple", fault] += 1
        else:
            parts.append(Part(question, answer, passage))
    if run.verify:
        agreed = await asyncio.gather(*(_answered(part, run) for part in parts))
        rejected["simple", "answered otherwise"] += agreed.count(False)
        parts = [part for part, same in zip(parts, agreed, strict=True) if same]
    counts["simple questions accepted"] += len(parts)
    return parts


async def _written(entity: Entity, passage: Passage, run: _Run) -> tuple[_Written | None, str]:
    values = {"entity": quoted(entity.name), "passage": quoted(passage.text)}
    return await run.ask("question", "revelator/question", values, _Written)


async def _answered(part: Part, run: _Run) -> bool:
    """Whether the model, given the passage, gives the intended answer."""
    values = {"question": quoted(part.question), "evidence": passage_block(1, part.passage)}
    output, _ = await run.ask("answer", _ANSWER_PROMPT, values, Answer)
    said, meant = normalised(output.answer) if output else "", normalised(part.answer)
    return bool(said) and (within(said, meant) or within(meant, said))


async def _compound(entity: Entity, parts: Sequence[Part], run: _Run) -> list[dict[str, object]]:
    """Questions merged of some of the parts, those that pass all checks."""
    counts, rejected = run.built.counts, run.built.rejected
    rows: list[dict[str, object]] = []
    known: set[str] = set()
    for group in _groups(parts, run.merges, f"{run.seed} {entity.name}"):
        counts["compound questions asked for"] += 1
        values = {"entity": quoted(entity.name), "questions": numbered(part.question for part in group)}
        merged, problem = await run.ask("merge", "revelator/merge", values, _Merged)
        question = plain(merged.question) if merged else ""
        fault = problem or merged_fault(question, entity, group, run.dev)
        if fault or normalised(question) in known:
            rejected["compound", fault or "repeats another"] += 1
        else:
            counts["compound questions accepted"] += 1
            known.add(normalised(question))
            rows.append(_row(question, entity, group))
    return rows


def _groups(parts: Sequence[Part], count: int, seed: str) -> list[tuple[Part, ...]]:
    """Two to four parts at random, no choice twice (App. B.1)."""
    sizes = [size for size in (2, 3, 4) if size <= len(parts)]
    dice = random.Random(seed)  # noqa: S311
    every = [group for size in sizes for group in itertools.combinations(parts, size)]
    dice.shuffle(every)
    by_size = {size: [group for group in every if len(group) == size] for size in sizes}
    found: list[tuple[Part, ...]] = []
    while len(found) < count and any(by_size.values()):
        size = dice.choice([size for size in sizes if by_size[size]])
        found.append(by_size[size].pop())
    return found


def _row(question: str, entity: Entity, parts: Sequence[Part]) -> dict[str, object]:
    """A compound question in the project's format; `entities` holds the answers of its parts."""
    answers = [part.answer for part in parts]
    return {
        "id": "compound-" + hashlib.sha256(f"{entity.name}\0{question}".encode()).hexdigest()[:12],
        "question": question,
        "answers": [" && ".join(answers)],
        "type": "compound",
        "hops": len(parts),
        "entity": entity.name,
        "entities": answers,
        "gold_ids": [part.passage.id for part in parts],
        "gold_titles": [part.passage.title for part in parts],
        "decomposition": [
            {"question": part.question, "answer": part.answer, "gold_id": part.passage.id} for part in parts
        ],
    }
