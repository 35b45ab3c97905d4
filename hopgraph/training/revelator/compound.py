"""Builds the compound-question benchmark: several questions about one entity, written by a model and merged (App. B.1).

python -m hopgraph.training.revelator.compound --data ../shared/data --to OUT             the training side's paragraphs
python -m hopgraph.training.revelator.compound --passages FILE... --to OUT                one's own

For an entity (a title) and each of up to ten passages that bear it or name it, a model writes one question with its
answer; for two to four of those it writes the question that asks for all. What fails a check is dropped and counted.
The model is the endpoint of `HOPGRAPH_LLM_URL`, or the embedded one. All replies are kept in `OUT/replies.sqlite`:
started again with the same arguments, it goes on where it was cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from hopgraph.training.hop_data import dev_questions, normalised, rows_of, text_of
from hopgraph.training.revelator.examples import content_words
from inference.adaptive import OPENING
from inference.chat import Schema
from inference.endpoint import Endpoint
from inference.errors import HopgraphError, InputError
from inference.structured import BadOutput, parse_output
from nodes.generator import Answer
from nodes.model import open_endpoint, output_schema
from nodes.rendering import numbered, passage_block, plain, quoted
from prompts.loader import load_prompt
from stores.passages import Passage, content_id, read_passages
from stores.responses import Responses

__all__ = ["Built", "Entity", "Part", "build", "entities_of", "main", "merged_fault", "part_fault"]

MAX_ANSWER_WORDS = 8
"""An answer is "a few words" (App. B.1)."""
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


@dataclass(frozen=True, slots=True)
class Entity:
    """What questions are asked about, and the passages that bear its name or mention it."""

    name: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A simple question that passed all checks."""

    question: str
    answer: str
    passage: Passage


@dataclass
class Built:
    """What a build gave."""

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
        messages = load_prompt(prompt).render(values)
        if not await self.endpoint.fits(messages, MAX_TOKENS):
            return None, "too long for the model"
        reply = await self.endpoint.complete(
            messages,
            request_id=f"compound.{name}.{hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]}",
            schema=Schema(f"compound__{name}", output_schema(output)),
            max_tokens=MAX_TOKENS,
            cache=self.replies,
        )
        try:
            return parse_output(reply.text, output), ""
        except BadOutput:
            return None, "unreadable"


def entities_of(passages: Iterable[Passage], documents: int = 10) -> list[Entity]:
    """Entities with two passages or more: a title, the passages that bear it, and then those whose text names it.

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


def part_fault(
    question: str, answer: str, entity: Entity, passage: Passage, taken: Iterable[Part], dev: Iterable[str] = ()
) -> str:
    """Why a simple question is of no use; "" if it is."""
    asked, said = normalised(question), normalised(answer)
    if not asked or not question.rstrip().endswith("?"):
        return "no question"
    if not said or len(said.split()) > MAX_ANSWER_WORDS:
        return "answer not of a few words"
    if not _within(said, normalised(passage.text)):
        return "answer not in the passage"
    if not _within(normalised(entity.name), asked):
        return "entity not named"
    if _within(said, asked):
        return "answer given away"
    if asked in dev:
        return "a dev question"
    if any(asked == normalised(part.question) or said == normalised(part.answer) for part in taken):
        return "repeats another part"
    return ""


def merged_fault(question: str, entity: Entity, parts: Sequence[Part], dev: Iterable[str] = ()) -> str:
    """Why a compound question is of no use; "" if it is."""
    asked = normalised(question)
    if not asked:
        return "declined"
    if not question.rstrip().endswith("?"):
        return "no question"
    if not _within(normalised(entity.name), asked):
        return "entity not named"
    if any(_within(normalised(part.answer), asked) for part in parts):
        return "answer given away"
    if any(not _asked_for(part, entity, asked) for part in parts):
        return "a part is lost"
    if asked in dev:
        return "a dev question"
    return ""


def _within(words: str, text: str) -> bool:
    """Whether normalised words stand in a normalised text, whole."""
    return f" {words} " in f" {text} "


_COMMON = frozenset(
    normalised("a an and are at did do does for from how in is it of on that the to was were who").split()
)


def _asked_for(part: Part, entity: Entity, asked: str) -> bool:
    """Whether half of a part's own words come back, inflected perhaps."""
    own = content_words(part.question) - content_words(entity.name)
    stems = {word[:5] for word in asked.split()}
    return 2 * sum(word[:5] in stems for word in own) >= len(own)


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

    Args:
        entities: What to ask about.
        folder: Holds `replies.sqlite`, all replies so far.
        dev: Normalised questions that may not come out.
        model: Model name at the endpoint.
        merges: Compound questions to ask for, an entity.
        verify: Have each part answered from its passage, and drop it when the answer is another.
        seed: Decides which parts are merged.
        say: Is told how far it is.

    Raises:
        EndpointError: The endpoint can't be used; the build can be started again.
    """
    endpoint = await open_endpoint(model)
    replies = await asyncio.to_thread(Responses, folder / "replies.sqlite")
    built = Built()
    run = _Run(endpoint, replies, frozenset(dev), verify, merges, seed, built)
    concurrency = endpoint.settings.llm_concurrency
    at_once = asyncio.Semaphore(4 * OPENING if concurrency == "auto" else concurrency)
    done = 0

    async def one(entity: Entity) -> None:
        nonlocal done
        async with at_once:
            rows = await _compound(entity, run)
        built.rows[_file_of(entity.name)] += rows
        built.passages |= {passage.id: passage for passage in entity.passages}
        done += 1
        say(f"{done} of {len(entities)} entities, {sum(map(len, built.rows.values()))} compound questions")

    try:
        async with asyncio.TaskGroup() as group:
            for entity in entities:
                group.create_task(one(entity))
    except* HopgraphError as errors:
        raise next(_leaves(errors)) from None
    built.counts["entities"] = len(entities)
    for rows in built.rows.values():
        rows.sort(key=lambda row: str(row["id"]))
    return built


def _leaves(group: BaseExceptionGroup[HopgraphError]) -> Iterator[HopgraphError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _file_of(name: str) -> str:
    """Eight entities in ten are for training, one for dev, one for test."""
    place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10
    return {0: "test", 1: "dev"}.get(place, "train")


async def _compound(entity: Entity, run: _Run) -> list[dict[str, object]]:
    written = await asyncio.gather(*(_write(entity, passage, run) for passage in entity.passages))
    parts: list[Part] = []
    for passage, output, problem in written:
        run.built.counts["simple questions asked for"] += 1
        question, answer = (plain(output.question), plain(output.answer)) if output else ("", "")
        fault = problem or part_fault(question, answer, entity, passage, parts, run.dev)
        if fault:
            run.built.rejected["simple", fault] += 1
        else:
            parts.append(Part(question, answer, passage))
    if run.verify:
        agreed = await asyncio.gather(*(_answered(part, run) for part in parts))
        run.built.rejected["simple", "answered otherwise"] += agreed.count(False)
        parts = [part for part, same in zip(parts, agreed, strict=True) if same]
    run.built.counts["simple questions accepted"] += len(parts)
    rows: list[dict[str, object]] = []
    for group in _groups(parts, run.merges, f"{run.seed} {entity.name}"):
        run.built.counts["compound questions asked for"] += 1
        values = {"entity": quoted(entity.name), "questions": numbered(part.question for part in group)}
        merged, problem = await run.ask("merge", "revelator/merge", values, _Merged)
        question = plain(merged.question) if merged else ""
        fault = problem or merged_fault(question, entity, group, run.dev)
        if not fault and normalised(question) in {normalised(str(row["question"])) for row in rows}:
            fault = "repeats another"
        if fault:
            run.built.rejected["compound", fault] += 1
        else:
            run.built.counts["compound questions accepted"] += 1
            rows.append(_row(question, entity, group))
    return rows


async def _write(entity: Entity, passage: Passage, run: _Run) -> tuple[Passage, _Written | None, str]:
    values = {"entity": quoted(entity.name), "passage": quoted(passage.text)}
    output, problem = await run.ask("question", "revelator/question", values, _Written)
    return passage, output, problem


async def _answered(part: Part, run: _Run) -> bool:
    """Whether the model, given the passage, answers the question as it was meant."""
    values = {"question": quoted(part.question), "evidence": passage_block(1, part.passage)}
    output, _ = await run.ask("answer", _ANSWER_PROMPT, values, Answer)
    said, meant = normalised(output.answer) if output else "", normalised(part.answer)
    return bool(said) and (_within(said, meant) or _within(meant, said))


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


def report(built: Built) -> str:
    """Markdown: what was asked for and accepted, and what was rejected for which cause."""
    lines = ["| | |", "|---|---:|", *(f"| {name} | {count} |" for name, count in built.counts.items())]
    lines += [f"| in {name}.jsonl | {len(rows)} |" for name, rows in built.rows.items()]
    hops = Counter(str(row["hops"]) for rows in built.rows.values() for row in rows)
    lines += [f"| of {number} parts | {count} |" for number, count in sorted(hops.items())]
    causes = sorted((item for item in built.rejected.items() if item[1]), key=lambda item: (item[0][0], -item[1]))
    lines += ["", "| rejected | cause | |", "|---|---|---:|"]
    lines += [f"| {step} | {cause} | {count} |" for (step, cause), count in causes]
    return "\n".join(lines) + "\n"


def training_passages(data: Path) -> Iterator[Passage]:
    """Paragraphs of the training side: of MuSiQue, HotpotQA and 2WikiMultiHopQA training questions, and of SQuAD."""
    for where, row in rows_of(data / "train" / "multihop_context.train.jsonl.gz"):
        for one in row.get("paragraphs") or ():
            text = text_of(one, "text", where)
            yield Passage(content_id(str(one.get("title", "")), text), str(one.get("title", "")), text)
    for where, row in rows_of(data / "train" / "single_span_qa.train.jsonl.gz"):
        title, text = text_of(row, "title", where).replace("_", " "), text_of(row, "context", where)
        yield Passage(content_id(title, text), title, text)


def _write_files(built: Built, folder: Path) -> None:
    passages: list[dict[str, object]] = [
        {"id": passage.id, "title": passage.title, "text": passage.text}
        for _, passage in sorted(built.passages.items())
    ]
    for name, rows in [*built.rows.items(), ("passages", passages)]:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")
    (folder / "report.md").write_text(report(built), "utf-8")


def _sampled(entities: Iterable[Entity], count: int, seed: int) -> list[Entity]:
    def place(entity: Entity) -> str:
        return hashlib.sha256(f"{seed}\0{entity.name}".encode()).hexdigest()

    return sorted(entities, key=place)[:count]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hopgraph.training.revelator.compound", description="Build the compound-question benchmark."
    )
    parser.add_argument("--to", type=Path, required=True, help="folder to write; holds the replies, too")
    parser.add_argument(
        "--data", type=Path, help="folder with train/ and the data sets, whose dev questions are barred"
    )
    parser.add_argument("--passages", type=Path, nargs="+", help="the corpus (default: the training side's paragraphs)")
    parser.add_argument("--entities", type=int, default=100, help="entities to ask about")
    parser.add_argument("--documents", type=int, default=10, help="passages of an entity")
    parser.add_argument("--merges", type=int, default=6, help="compound questions to ask for, an entity")
    parser.add_argument("--model", help="model name at the endpoint")
    parser.add_argument("--no-verify", action="store_true", help="do not have the parts answered from their passages")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        if options.passages is None and options.data is None:
            raise InputError("--passages or --data is missing", hint="give a corpus, or the data folder")
        files = options.passages or ()
        corpus = itertools.chain.from_iterable(map(read_passages, files)) if files else training_passages(options.data)
        entities = _sampled(entities_of(corpus, options.documents), options.entities, options.seed)
        if not entities:
            raise InputError("no title has two passages", hint="passages need titles that other passages mention")
        options.to.mkdir(parents=True, exist_ok=True)
        built = asyncio.run(
            build(
                entities,
                options.to,
                dev=dev_questions(options.data) if options.data else (),
                model=options.model,
                merges=options.merges,
                verify=not options.no_verify,
                seed=options.seed,
                say=lambda line: sys.stderr.write(line + "\n"),
            )
        )
    except HopgraphError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    _write_files(built, options.to)
    sys.stdout.write(report(built))
    return 0


if __name__ == "__main__":
    sys.exit(main())
