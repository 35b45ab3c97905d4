"""Run questions through methods concurrently, each in its own checkpointed thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.checkpoints import check_store, place_of
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.gold import as_known, gold_of
from hopgraph.evaluation.identity import oracle_of
from hopgraph.evaluation.oracle import Oracle
from hopgraph.evaluation.plan import Variant, prompt_hashes
from hopgraph.evaluation.scoring import Record, Scored, named_sentences, record_of, score
from hopgraph.results import Result
from hopgraph.run import ask, resume, thread_of
from hopgraph.threads import Thread, read_result
from hopgraph.workers import run_workers
from inference.drain import draining
from inference.endpoints import calls_at_once
from inference.errors import EndpointError, HopgraphError, InputError, StoreError
from inference.limiter import on_waiting, priority
from inference.settings import get_settings
from nodes.intake import store_given
from nodes.kit.search import search_threads
from nodes.kit.state import RunError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

RETRIED = frozenset({"endpoint", "deadline", "internal", "input"})
"""Kinds of failures not caused by the model: resuming a run retries these questions."""
PATIENCE = 20
"""Consecutive questions failed by the endpoint after which the run stops."""


@dataclass(frozen=True)
class Job:
    """A question for a variant."""

    variant: Variant
    question: Question
    number: int
    """Its position in the run."""


Progress = Callable[[Record], None]
"""Called with each result as it ends."""


def unfinished(folder: RunFolder, variants: Sequence[Variant], questions: Sequence[Question]) -> list[Job]:
    """Remaining jobs in question order; failures of a `RETRIED` kind are among them.

    Raises:
        StoreError: `results.jsonl` is damaged, or has results of another run.
    """
    pairs = [(variant, question) for question in questions for variant in variants]
    jobs = {(v.name, q.id): Job(v, q, number) for number, (v, q) in enumerate(pairs)}
    done: set[tuple[str, str]] = set()
    for line in folder.results:
        key = (line["variant"], line["id"])
        if key not in jobs:
            raise StoreError(f"{folder.path}: results.jsonl has a result of another run: {key[0]}, {key[1]}")
        if (line.get("error") or {}).get("kind") not in RETRIED:
            done.add(key)
    return [job for key, job in jobs.items() if key not in done]


def forget(folder: RunFolder, jobs: Sequence[Job]) -> None:
    """Remove earlier results of the jobs, and second copies of results, from `results.jsonl`.

    Raises:
        StoreError: `results.jsonl` is damaged or can't be written.
    """
    seen = {(job.variant.name, job.question.id) for job in jobs}

    def wanted(line: dict[str, Any]) -> bool:
        key = (line["variant"], line["id"])
        again = key in seen
        seen.add(key)
        return not again

    folder.results.keep(wanted)


def in_flight() -> int:
    """Maximum concurrent questions: twice the concurrent calls, since some questions search meanwhile."""
    settings = get_settings()
    calls = calls_at_once()
    if settings.llm_url is None and settings.llm_concurrency != "auto":
        calls = min(calls, settings.embedded_parallel)
    return 2 * calls


async def run_jobs(folder: RunFolder, jobs: Iterable[Job], on_result: Progress | None = None) -> None:
    """Run jobs; each result is written to `results.jsonl` when its question ends.

    A failed question does not affect the others. Killing the run loses no finished model call.

    Raises:
        EndpointError: The endpoint failed many questions in a row.
        StoreError: The index or the checkpoints can't be used.
        InputError: A prompt was edited during the run, or HOPGRAPH_CHECKPOINTS does not name the run's Postgres.
    """
    from stores.checkpoints import open_checkpoints

    about = folder.about()
    queue = deque(jobs)
    if not queue:
        return
    async with open_checkpoints(place_of(folder, about)) as saver:
        await check_store(folder, about, saver)
        with folder.results.appending() as append:
            asked = list({job.question.id: job.question for job in queue}.values())
            variants = list({job.variant.name: job.variant for job in queue}.values())
            oracle = await asyncio.to_thread(oracle_of, variants, asked, about["identity"])
            if not about["identity"]["contexts"]:
                await asyncio.to_thread(_warm_up, variants)
            runner = _Runner(about, oracle, saver, append, on_result)
            try:
                await run_workers(lambda: runner.work(queue), lambda: bool(queue) and not draining(), in_flight)
            except BaseExceptionGroup as problems:
                raise _first(problems) from None


def _warm_up(variants: Sequence[Variant]) -> None:
    """Search once, so that opening an index and loading the encoder don't count as cost of the first questions."""
    from stores.index import open_index

    searched = [variant.context for variant in variants if variant.context.searches]
    for name, mode in {(context.index, context.mode): None for context in searched}:
        with suppress(HopgraphError):  # the first question that searches reports it
            open_index(name or "").search("anything", 1, mode)


def _first(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    first = problems.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


class _Runner:
    """State shared by the workers."""

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
        # If all started together, the endpoint would idle until nearly all first searches had ended.
        self._beginning = asyncio.Semaphore(search_threads() + 1)

    async def work(self, queue: deque[Job]) -> None:
        """Run the next job of the queue."""
        with ExitStack() as until_first_call:
            await self._beginning.acquire()
            until_first_call.callback(self._beginning.release)
            on_waiting.set(until_first_call.close)
            if not queue or draining():
                return
            job = queue.popleft()
            last = job.number + len(queue) + 1
            # Earlier questions first, so that results come early. With an empty queue all get equal priority: otherwise
            # the endpoint would be half idle while the last questions run.
            priority.set(lambda: job.number if queue else last)
            result = await self._answer(job)
        line = await asyncio.to_thread(self._score, job, result)
        self._append(line)
        if self._on_result is not None:
            self._on_result(record_of(line))
        self._give_up(result)

    async def _answer(self, job: Job) -> Result:
        """The question's result; a result made with a changed prompt is discarded."""
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
            f"prompt {mixed[0]} has changed since the run started",
            hint="restore it and use --resume, or start another run with the changed prompt",
        )

    async def _try(self, job: Job, thread: str) -> Result:
        question, context = job.question, job.variant.context
        contexts: list[Any] | None = list(question.contexts) if self._identity["contexts"] else None
        try:
            if await self._saver.aget_tuple({"configurable": {"thread_id": thread}}) is not None:
                if contexts:
                    await asyncio.to_thread(store_given, contexts)  # another machine may have begun it
                return await resume(thread, self._saver)
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
        except Exception as problem:  # a bug must not affect the other questions
            error = RunError(kind="internal", message=_describe(problem), node="")
        return await read_result(Thread(thread, context, question.question, question.id), self._saver, error)

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
                hint=f"first: {error.get('hint') or 'fix this'}; then resume with `hopgraph eval --resume DIR`"
                if error.get("permanent")
                else "nothing is lost: resume with `hopgraph eval --resume DIR` when it is back",
                permanent=error.get("permanent", False),
            )


def _describe(problem: Exception) -> str:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
    return f"{type(problem).__name__}: {problem}{where}"[:500]
