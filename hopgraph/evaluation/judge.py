"""Model-judged accuracy: a model judges whether each answer means the same as the gold answer.

CompactRAG (Sec. 4.2, App. B) calls it LLM-based accuracy, PAR-RAG (Sec. 4.2) accuracy. It is a separate pass over a
run's results, optionally by another model; its cost does not count as the methods' cost.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from hopgraph.evaluation.folder import RunFolder, needs_judge
from hopgraph.evaluation.runner import in_flight
from hopgraph.workers import run_workers
from inference.errors import InputError
from inference.ledger import Call, cost_of
from nodes.kit.context import Context, prompt_field
from nodes.kit.model import ask_model, open_endpoint
from nodes.kit.rendering import quoted
from prompts.loader import load_prompt

PROMPT = "judge/correctness"


class JudgeContext(Context):
    """Settings of the judge, which is not a method."""

    method = "judge"

    prompt_correctness: str | None = prompt_field("judge/correctness", "correctness_judge")


class Verdict(BaseModel):
    """Output of the judge."""

    correct: Literal["yes", "no"]


class _State(TypedDict, total=False):
    question: str
    prediction: str
    answers: list[str]
    judged: float | None
    problem: str
    ledger: list[Call]


async def _judge(state: _State, runtime: Runtime[JudgeContext]) -> _State:
    asked = await ask_model(
        runtime,
        PROMPT,
        Verdict,
        {
            "question": quoted(state["question"]),
            "prediction": quoted(state["prediction"]),
            "answer": quoted(" / ".join(state["answers"])),
        },
        at="root/judge",
        role="judge",
    )
    judged = None if asked.value is None else float(asked.value.correct == "yes")
    return {"judged": judged, "problem": asked.problem, "ledger": asked.calls}


_builder = StateGraph(_State, context_schema=JudgeContext)
_builder.add_node("correctness_judge", _judge)
_builder.add_edge(START, "correctness_judge")
_builder.add_edge("correctness_judge", END)


async def judge_answers(folder: RunFolder, on_judged: Callable[[int, int], object] | None = None) -> None:
    """Judge the answers of a run that have no verdict yet; each verdict is written to `judgements.jsonl` immediately.

    Unusable model output counts as `no` and is recorded as the verdict's `problem`.

    Args:
        folder: The run's folder.
        on_judged: Called after each verdict with the number of new verdicts and the total.

    Raises:
        InputError: The folder has verdicts of another model or prompt.
        EndpointError: The endpoint can't be used; calling this again resumes judging.
    """
    endpoint = await open_endpoint(None, "judge")
    await endpoint.describe()
    judge = {"model": await endpoint.model_name(), "prompt_hash": load_prompt(PROMPT).hash}
    folder.judgements.keep(lambda line: True)
    done = {(line["variant"], line["id"]) for line in folder.judgements}
    for line in folder.judgements:
        if changed := [key for key, value in judge.items() if line[key] != value]:
            raise InputError(
                f"{folder.path}: judgements.jsonl is by another judge: {changed[0]} {line[changed[0]]}, "
                f"now {judge[changed[0]]}",
                hint="verdicts of two judges are not mixed: move the file away to judge again",
            )
    todo = deque(
        {key: line[key] for key in ("variant", "id", "question", "answer", "answers")}
        for line in folder.results
        if needs_judge(line) and (line["variant"], line["id"]) not in done
    )
    total, judged = len(todo), itertools.count(1)
    graph = _builder.compile(name="judge")
    with folder.judgements.appending() as append:

        async def work() -> None:
            line = todo.popleft()
            given: _State = {
                "question": line["question"],
                "prediction": line["answer"],
                "answers": line["answers"],
            }
            state: Mapping[str, Any] = await graph.ainvoke(given, context=JudgeContext())
            cost = cost_of(state["ledger"])
            about = {key: line[key] for key in ("variant", "id", "answer")}
            append({**about, "judged": state["judged"] or 0.0, "problem": state["problem"], **judge, "cost": cost})
            count = next(judged)
            if on_judged is not None:
                on_judged(count, total)

        try:
            await run_workers(work, lambda: bool(todo), in_flight)
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None
