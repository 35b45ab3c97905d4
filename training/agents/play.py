"""Perfect agents play lessons through the real graphs, store and prompts; what they are asked and reply is recorded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import get_args

from hopgraph.evaluation.metrics import exact_match
from hopgraph.indexing import build_index
from hopgraph.methods import make_context
from hopgraph.run import ask
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.answering import HOP
from hopgraph.simulation.endpoint import Completion, Endpoint, Request
from inference.chat import Message
from inference.settings import Role, overridden
from nodes.generator import Answer
from nodes.kit.abstention import is_abstention
from nodes.kit.model import output_schema
from nodes.kit.rendering import passage_blocks, query_key, quoted
from prompts.loader import load_prompt
from training.agents.questions import Lesson
from training.lora.chats import ChatSchema

AT_ONCE = 8
"""Questions played at a time."""
TOLD = 500
"""Rounds between two lines of progress: all of them take more than half an hour."""
ASKERS = frozenset({"hanrag/refiner", "self_ask/asker"})
"""Roles that ask the next question of a chain."""


@dataclass(frozen=True, slots=True)
class Round:
    """A lesson, and how it is played."""

    lesson: Lesson
    method: str
    retriever: str
    wrong: float
    """Probability that an agent errs: the others see what follows from it."""
    top_k: int = 0
    """Passages a search returns; 0: the method's usual number."""

    @property
    def thread(self) -> str:
        """Id of its thread."""
        facts = repr((self.lesson.case.question, self.method, self.retriever, self.wrong, self.top_k))
        return f"school-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and the right reply to it."""

    round: Round
    node: str
    messages: tuple[Message, ...]
    reply: str
    outcome: str
    """How the run ended: `right`, `abstained` or `wrong`."""
    schema: ChatSchema
    """Of the reply."""

    @property
    def compares(self) -> str | None:
        """The question's answer if this is the reply that compares facts, else None."""
        answer = self.round.lesson.case.answers[0]
        compared = len(self.round.lesson.case.last) > 1 and answer in json.loads(self.reply).values()
        return answer if compared else None

    @property
    def repeats(self) -> bool:
        """Whether this is the reply of a role that asks the next question, and asks what was asked before.

        So does a perfect agent that has no other words for a fact that no search has found.
        """
        if f"{self.round.method}/{self.node}" not in ASKERS or self.round.lesson.kind == "single":
            return False
        asked = json.loads(self.reply).get("question")
        before = [
            self.round.lesson.case.question,
            *(question for question, _ in HOP.findall(self.messages[-1].content)),
        ]
        return bool(asked) and query_key(asked) in map(query_key, before)

    @property
    def is_lesson(self) -> bool:
        """Whether to learn from it: the run ended right, or found no answer without anybody's error."""
        ended_well = self.outcome == "right" or (self.outcome == "abstained" and self.round.wrong == 0)
        return ended_well and not self.repeats


def answered(agents: PerfectAgents, one: Exchange, messages: tuple[Message, ...]) -> Exchange:
    """The exchange with other messages, and the right reply to them."""
    body = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
    reply = agents(Request(f"variant.{one.round.method}.{one.node}.0", body)).text
    return replace(one, messages=messages, reply=reply, outcome="right")


MISSING = 0.08
"""Share of questions of which a gold passage is missing."""


def read_at_once(lessons: Sequence[Lesson], seed: int) -> Iterator[Exchange]:
    """Standard RAG's answers from a question's own passages: the gold ones and up to three others, in any order.

    Without a search, their passages need no index.

    Args:
        lessons: What is asked.
        seed: Decides which passages are shown.
    """
    dice = random.Random(seed)  # noqa: S311
    agents = PerfectAgents([lesson.case for lesson in lessons])
    schema = ChatSchema(name="standard_rag__generator", schema=dict(output_schema(Answer)))
    for lesson in lessons:
        gold = [passage for passage in lesson.passages if passage.id in lesson.gold]
        others = [passage for passage in lesson.passages if passage.id not in lesson.gold]
        shown = dice.sample(gold, len(gold) - (dice.random() < MISSING))
        shown += dice.sample(others, min(dice.randrange(4), len(others)))
        dice.shuffle(shown)
        values = {"question": quoted(lesson.case.question), "evidence": "\n".join(passage_blocks(shown))}
        one = Exchange(Round(lesson, "standard_rag", "hybrid", 0.0), "generator", (), "", "right", schema)
        yield answered(agents, one, tuple(load_prompt("standard_rag/answer").render(values)))


@dataclass
class _Recorder:
    """Agents that remember what they were asked on each thread, and what they replied where they did not err."""

    agents: PerfectAgents
    said: dict[str, list[tuple[str, tuple[Message, ...], str, ChatSchema]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request) -> Completion:
        reply = self.agents(request)
        if not self.agents.errs(request):
            messages = tuple(Message(m["role"], str(m["content"])) for m in request.body["messages"])
            with self.lock:
                thread = request.id.rsplit(".", 3)[0]
                schema = request.body["response_format"]["json_schema"]
                self.said.setdefault(thread, []).append(
                    (request.node, messages, reply.text, ChatSchema(name=schema["name"], schema=schema["schema"]))
                )
        return reply


def index_lessons(name: str, lessons: Iterable[Lesson]) -> int:
    """Index all passages of lessons; gives their number."""
    passages = {passage.id: passage for lesson in lessons for passage in lesson.passages}
    return build_index(name, list(passages.values())).manifest.passages


def read_lessons(name: str, lessons: Sequence[Lesson]) -> None:
    """Index the passages of lessons and have the perfect reader extract their question-answer pairs, for CompactRAG."""
    from hopgraph.knowledge.reading import read_index
    from nodes.compactrag.context import ReaderContext

    index_lessons(name, lessons)
    with _playing(PerfectAgents([lesson.case for lesson in lessons])):
        asyncio.run(read_index(ReaderContext(index=name), anew=True))


def play(rounds: Sequence[Round], index: str) -> Iterator[Exchange]:
    """Play rounds; those of one error rate at a time.

    Args:
        rounds: What to play.
        index: Name of the index to search.

    Raises:
        HopgraphError: The index can't be used.
    """
    for wrong in sorted({one.wrong for one in rounds}):
        some = [one for one in rounds if one.wrong == wrong]
        # A question with two cases (of different data sets) would be played by the wrong agent: the first counts.
        cases = {one.lesson.case.question: one.lesson.case for one in some}
        recorder = _Recorder(PerfectAgents(list(cases.values()), wrong=wrong))
        with _playing(recorder):
            outcomes = asyncio.run(_play_all(some, index))
        for one in some:
            for node, messages, reply, schema in recorder.said.get(one.thread, ()):
                yield Exchange(one, node, messages, reply, outcomes[one.thread], schema)


@contextmanager
def _playing(agents: Callable[[Request], Completion]) -> Iterator[None]:
    """Serve agents as the model of this process."""
    servers = {f"{role}_{part}": None for role in get_args(Role) for part in ("url", "model", "api_key")}
    with (
        Endpoint(agents, "perfect-agents").running() as endpoint,
        overridden(**servers | {"llm_url": endpoint.url, "cache": "off"}),
    ):
        yield


async def _play_all(rounds: Sequence[Round], index: str) -> dict[str, str]:
    """How each round ended, by thread; tells on stderr how many have."""
    places = asyncio.Semaphore(AT_ONCE)
    outcomes: dict[str, str] = {}

    async def one(played: Round) -> None:
        async with places:
            outcomes[played.thread] = await _play(played, index)
        if len(outcomes) % TOLD == 0 or len(outcomes) == len(rounds):
            sys.stderr.write(f"{len(outcomes)} of {len(rounds)} rounds of {index} played\n")

    await asyncio.gather(*map(one, rounds))
    return outcomes


async def _play(played: Round, index: str) -> str:
    from langgraph.checkpoint.memory import InMemorySaver

    case = played.lesson.case
    fewer = {"top_k": played.top_k} if played.top_k else {}
    context = make_context(played.method, {"index": index, "retriever": played.retriever, **fewer})
    result = await ask(case.question, context, InMemorySaver(), thread=played.thread)
    answer = result["answer"] or ""
    if result["status"] != "answered" or is_abstention(answer):
        return "abstained" if result["status"] in ("answered", "unanswerable") else "wrong"
    return "right" if exact_match(answer, case.answers) else "wrong"
