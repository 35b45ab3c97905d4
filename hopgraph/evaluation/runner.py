"""Run questions through methods: every question a checkpointed thread of its own, many at a time, none lost."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder, differences
from hopgraph.evaluation.gold import as_known, gold_of, known_by
from hopgraph.evaluation.oracle import Oracle
from hopgraph.evaluation.plan import Variant, identity, prompt_hashes, surroundings, versions
from hopgraph.evaluation.scoring import Record, Scored, named_sentences, record_of, score
from hopgraph.evaluation.simulated import is_simulated
from hopgraph.results import Result
from hopgraph.run import ask, failed, resume, thread_of
from hopgraph.workers import run_workers
from inference.drain import draining
from inference.endpoint import calls_at_once
from inference.errors import EndpointError, HopgraphError, InputError, StoreError
from inference.limiter import on_waiting, priority
from inference.settings import get_settings
from nodes.kit.search import search_threads
from nodes.kit.state import RunError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["MAY_DIFFER", "RETRIED", "Job", "Progress", "check", "run_jobs", "start", "unfinished"]

RETRIED = frozenset({"endpoint", "deadline", "internal", "input"})
"""Kinds of failures that are not the model's: going on with a run tries these questions again."""
MAY_DIFFER = "What may differ: the endpoint's URL and key, its concurrency, time-outs and patience, --price, --judge"
"""When a run goes on: no result depends on it."""
PATIENCE = 20
"""Questions in a row that the endpoint fails before the run stops: it is gone, and nothing is lost by waiting."""


@dataclass(frozen=True)
class Job:
    """A question to be put to a variant."""

    variant: Variant
    question: Question
    number: int
    """Its place in the run."""


Progress = Callable[[Record], None]
"""Called with each result as it ends."""


async def check(
    variants: Sequence[Variant], questions: Sequence[Question], *, dataset: str, contexts: bool
) -> dict[str, Any]:
    """See that everything a run needs is there, before anything is spent; says what its results will depend on.

    Raises:
        InputError: A prompt or a setting is wrong, or `contexts` is wanted of questions that have none.
        StoreError: The index is missing.
        EndpointError: The endpoint can't be used.
    """
    if get_settings().otel == "on":
        from hopgraph.telemetry import tracer

        tracer()
    for variant in variants:
        await asyncio.to_thread(variant.context.check)
    if contexts and (bare := next((question for question in questions if not question.contexts), None)):
        raise InputError(f"--contexts: question {bare.id} has no passages of its own")
    indexes = [] if contexts else await asyncio.to_thread(_indexes, variants)
    gold = await asyncio.to_thread(known_by, questions, indexes, contexts=contexts)
    models = await _models(variants)
    found = await asyncio.to_thread(
        lambda: identity(
            variants,
            questions,
            dataset=dataset,
            contexts=contexts,
            index=indexes[0] if indexes else None,
            models=models,
        )
    )
    bases = await asyncio.to_thread(_knowledge_bases, variants)
    found |= {"gold": gold, "knowledge_base": bases[0] if bases else None}
    found |= {"other_indexes": indexes[1:], "other_knowledge_bases": bases[1:]} if indexes[1:] else {}
    await asyncio.to_thread(_check_oracle, variants, questions, found)
    return found


def _indexes(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """The indexes that are searched, nearly always one."""
    from nodes.kit.passages import index_ref

    names = dict.fromkeys(variant.context.index for variant in variants if variant.context.searches)
    return [dict(index_ref(name)) for name in names]  # type: ignore[arg-type]


def _knowledge_bases(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Which knowledge bases are searched, and how far each was read, if a method needs one."""
    from nodes.compactrag.pairs import pairs_ref
    from nodes.kit.passages import index_ref

    names = dict.fromkeys(variant.context.index for variant in variants if variant.context.knowledge_base)
    found: list[dict[str, Any]] = []
    for ref in (index_ref(name) for name in names):
        # Which is said of simulated ones only: what a model has read is as it always was.
        found.append({**pairs_ref(ref), **({"simulated": True} if _read_by_agents(ref["name"]) else {})})
    return found


def _read_by_agents(index: str) -> bool:
    """Whether any passage was read by perfect agents instead of a model."""
    from stores.index import open_index
    from stores.pairs import open_pairs

    return any(is_simulated(reading.model) for reading in open_pairs(open_index(index)).readings())


def _oracle(variants: Sequence[Variant], questions: Sequence[Question], identity: Mapping[str, Any]) -> Oracle:
    index = None if identity["contexts"] else (identity["index"] or {}).get("name")
    return Oracle([v.context for v in variants], questions, index=index, gold=identity["gold"])


def _check_oracle(variants: Sequence[Variant], questions: Sequence[Question], identity: Mapping[str, Any]) -> None:
    """Whether there is gold for all that is to be shown some."""
    seeing = [variant for variant in variants if variant.context.oracle]
    oracle = _oracle(seeing, questions, identity)
    for variant in seeing:
        for question in questions:
            oracle.shown(variant.context, question)


async def _models(variants: Sequence[Variant]) -> dict[str, str]:
    """The models that will be asked, by what for; each endpoint is asked whether it is there."""
    from nodes.kit.model import open_endpoint

    settings = get_settings()
    models: dict[str, str] = {}
    for context in (variant.context for variant in variants):
        roles = {"llm": context.model}
        if settings.generator_url or settings.generator_model or context.generator_model:
            roles["generator"] = context.generator_model
        if getattr(context, "attribution", "") == "attrscore":
            roles["attribution"] = None
        for role, model in roles.items():
            endpoint = await open_endpoint(model, role)  # type: ignore[arg-type]
            models[role] = await endpoint.check()
    return models


def start(
    folder: RunFolder,
    variants: Sequence[Variant],
    questions: Sequence[Question],
    found: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Start a run in its folder, or see that the one that is there is the same.

    Args:
        folder: The run's folder.
        variants: What is run.
        questions: What is asked.
        found: What `check` returned.
        about: What else `run.json` shall say.

    Raises:
        InputError: The folder holds another run, or something else; the message says what differs.
    """
    if folder.started:
        known = folder.about()
        if changed := differences(known["identity"], found):
            more = f"; and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise InputError(
                f"{folder.path} holds a run that differs: {'; '.join(changed[:5])}{more}",
                hint="results of two runs are not mixed: put it back as it was, or start another run with another "
                f"--out. {MAY_DIFFER}",
            )
        return
    rows = [
        {"name": v.name, "method": v.method, "values": dict(v.values)}
        | ({"oracle": v.context.oracle} if v.context.oracle else {})
        for v in variants
    ]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    text = {"run": str(uuid.uuid4()), "created": created, **about, "variants": rows}
    folder.create({**text, "versions": versions(), "surroundings": surroundings(), "identity": found}, list(questions))


def unfinished(
    folder: RunFolder, variants: Sequence[Variant], questions: Sequence[Question], *, drop: bool = False
) -> list[Job]:
    """What is still to be done, question by question; failures that were not the question's are done again.

    Args:
        folder: The run's folder.
        variants: What is run.
        questions: What is asked.
        drop: Take the results of what is done again out of `results.jsonl`, since it begins now.

    Raises:
        StoreError: `results.jsonl` is damaged, or has results of another run.
    """
    names = {variant.name for variant in variants}
    ids = {question.id for question in questions}
    done: set[tuple[str, str]] = set()

    def wanted(line: dict[str, Any]) -> bool:
        key = (line["variant"], line["id"])
        if key[0] not in names or key[1] not in ids:
            raise StoreError(f"{folder.path}: results.jsonl has a result of {key[0]}, {key[1]}: not of this run")
        if key in done or (line.get("error") or {}).get("kind") in RETRIED:
            return False
        done.add(key)
        return True

    if drop:
        folder.results.keep(wanted)
    else:
        deque(filter(wanted, folder.results), maxlen=0)
    pairs = [(variant, question) for question in questions for variant in variants]
    jobs = [Job(variant, question, number) for number, (variant, question) in enumerate(pairs)]
    return [job for job in jobs if (job.variant.name, job.question.id) not in done]


def in_flight() -> int:
    """Questions worked on at present: more than the endpoint takes calls, since some search meanwhile."""
    settings = get_settings()
    calls = calls_at_once()
    if settings.llm_url is None and settings.llm_concurrency != "auto":
        calls = min(calls, settings.embedded_parallel)
    return 2 * calls


async def run_jobs(folder: RunFolder, jobs: Iterable[Job], on_result: Progress | None = None) -> None:
    """Do what is to be done; each result is in `results.jsonl` when its question ends.

    Whatever becomes of one question, the others go on. Stopping it, however hard, loses no finished model call.

    Raises:
        EndpointError: The endpoint failed many questions in a row.
        StoreError: The index or the checkpoints can't be used (any more).
        InputError: A prompt was edited meanwhile.
    """
    from stores.checkpoints import open_checkpoints

    about = folder.about()
    queue = deque(jobs)
    if not queue:
        return
    async with open_checkpoints(folder.checkpoints) as saver:
        with folder.results.appending() as append:
            asked = list({job.question.id: job.question for job in queue}.values())
            variants = list({job.variant.name: job.variant for job in queue}.values())
            oracle = await asyncio.to_thread(_oracle, variants, asked, about["identity"])
            if not about["identity"]["contexts"]:
                await asyncio.to_thread(_warm_up, variants)
            runner = _Runner(about, oracle, saver, append, on_result)
            try:
                await run_workers(lambda: runner.work(queue), lambda: bool(queue) and not draining(), in_flight)
            except BaseExceptionGroup as problems:
                raise _first(problems) from None


def _warm_up(variants: Sequence[Variant]) -> None:
    """Search once: opening an index and loading the encoder are no cost of the questions that happen to come first."""
    from stores.index import open_index

    searched = [variant.context for variant in variants if variant.context.searches]
    for name, mode in {(context.index, context.mode): None for context in searched}:
        with suppress(HopgraphError):  # the first question that searches will say so
            open_index(name or "").search("anything", 1, mode)


def _first(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    first = problems.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


class _Runner:
    """Workers' common state."""

    def __init__(
        self,
        about: Mapping[str, Any],
        oracle: Oracle,
        saver: BaseCheckpointSaver[str],
        append: Callable[[Mapping[str, Any]], None],
        on_result: Progress | None,
    ) -> None:
        self._run = str(about["run"])
        self._identity = about["identity"]
        self._oracle = oracle
        self._saver = saver
        self._append = append
        self._on_result = on_result
        self._failed_in_a_row = 0
        # If all began together, no first search would end before nearly all had, and the endpoint would idle meanwhile.
        self._beginning = asyncio.Semaphore(search_threads() + 1)

    async def work(self, queue: deque[Job]) -> None:
        """Take the oldest question, and put it."""
        with ExitStack() as until_first_call:
            await self._beginning.acquire()
            until_first_call.callback(self._beginning.release)
            on_waiting.set(until_first_call.close)
            if not queue or draining():
                return
            job = queue.popleft()
            last = job.number + len(queue) + 1
            # What was begun ends before more begins, so that results come early. When there is no more to begin, all
            # take turns: the endpoint would stand half empty if the last question still had all its steps before it.
            priority.set(lambda: job.number if queue else last)
            result = await self._answer(job)
        line = await asyncio.to_thread(self._score, job, result)
        self._append(line)
        if self._on_result is not None:
            self._on_result(record_of(line))
        self._give_up(result)

    async def _answer(self, job: Job) -> Result:
        """The question's result; one that another wording of a prompt had part in is thrown away."""
        thread = thread_of(self._run, job.variant.context, job.question.id)
        known = self._identity["variants"][job.variant.name]["prompts"]
        for _ in range(2):
            result = await self._try(job, thread)
            mixed = [name for name, hash in result["prompts"].items() if known.get(name) != hash]
            if not mixed:
                return result
            await self._saver.adelete_thread(thread)
            if await asyncio.to_thread(prompt_hashes, job.variant.context) != known:
                break
        raise InputError(
            f"prompt {mixed[0]} is not as it was when the run started",
            hint="put it back and go on with --resume; with another prompt start another run",
        )

    async def _try(self, job: Job, thread: str) -> Result:
        question, context = job.question, job.variant.context
        try:
            if await self._saver.aget_tuple({"configurable": {"thread_id": thread}}) is not None:
                return await resume(thread, self._saver)
            contexts = list(question.contexts) if self._identity["contexts"] else None
            shown = await asyncio.to_thread(self._oracle.shown, context, question) if context.oracle else {}
            return await ask(
                question.question,
                context,
                self._saver,
                thread=thread,
                question_id=question.id,
                contexts=contexts,
                **shown,
            )
        except StoreError:
            raise
        except HopgraphError as problem:
            error = RunError(kind=problem.kind, message=problem.message, node="")
        except Exception as problem:  # a mistake of ours must not cost the other questions
            error = RunError(kind="internal", message=_describe(problem), node="")
        return await failed(thread, context, self._saver, question.id, question.question, error)

    def _score(self, job: Job, result: Result) -> Scored:
        from nodes.kit.passages import find, sentence_starts

        index = None if self._identity["contexts"] else job.variant.context.index
        question = as_known(job.question, self._identity["gold"])
        passages = find(index, {*result["retrieved"], *result["evidence"]}) if gold_of(question) else {}
        starts = {}
        if index and question.gold_sentences:
            starts = sentence_starts(index, [key for key, _ in named_sentences(result) or []])
        scores = score(result, question, passages, starts=starts)
        return Scored(**result, variant=job.variant.name, answers=list(job.question.answers), metrics=scores)

    def _give_up(self, result: Result) -> None:
        error = result.get("error")
        self._failed_in_a_row = self._failed_in_a_row + 1 if error and error["kind"] == EndpointError.kind else 0
        if error and self._failed_in_a_row >= PATIENCE:
            raise EndpointError(
                f"{PATIENCE} questions in a row failed at the endpoint, the last one with: {error['message']}",
                hint=f"first: {error.get('hint') or 'mend that'}; then `hopgraph eval --resume DIR` goes on from there"
                if error.get("permanent")
                else "nothing is lost: `hopgraph eval --resume DIR` goes on when it is back",
                permanent=error.get("permanent", False),
            )


def _describe(problem: Exception) -> str:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
    return f"{type(problem).__name__}: {problem}{where}"[:500]
