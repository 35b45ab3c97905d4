"""Answer Generator: write the final answer from the evidence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from inference.limits import Limited, LongText
from inference.settings import Role
from nodes.kit.abstention import is_abstention
from nodes.kit.context import Context
from nodes.kit.model import NO_ITEMS, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.place import node_name
from nodes.kit.rendering import passage_blocks, plain, quoted, sentence_block
from nodes.kit.state import Node, PassageRef, SentenceRef, State, Status, as_refs
from nodes.kit.steps import logged


class Answer(BaseModel):
    """Output of the generator."""

    answer: LongText


class FinalAnswer(TypedDict):
    """The end of a run, as the state has it."""

    answer: str
    status: Status
    abstention: str


class ReasonedAnswer(BaseModel):
    """Output of a generator that reasons first."""

    thought: Annotated[str, Limited(800)]
    answer: LongText


Blocks = Callable[[Any, Any], Awaitable[list[str]]]
"""Returns the input of the answer, as blocks of text, best first, for a state and context."""


async def passages_or_sentences(state: State, context: Any) -> list[str]:
    """The state's `evidence`: the chosen `sentences`, if the context asks for them and there are any, else passages."""
    passages = await fetch(state, [ref["id"] for ref in state["evidence"]])
    sentences = _sentences(state, context)
    if not sentences:
        return passage_blocks(passages)
    chosen = {p.id: sorted(i for key, i in sentences if key == p.id and 0 <= i < len(p.sentences)) for p in passages}
    return [sentence_block(number, p, chosen[p.id]) for number, p in enumerate(passages, start=1) if chosen[p.id]]


def generator(
    prompt: str | Callable[[Any], str],
    *,
    blocks: Blocks | None = passages_or_sentences,
    evidence: Callable[[Any], list[PassageRef]] | None = None,
    values: Callable[[Any], Mapping[str, str]] = lambda state: {},
    output: type[BaseModel] = Answer,
    role: Role = "generator",
) -> Node:
    """A node that writes the answer and ends the run.

    Args:
        prompt: Name of the prompt, or what gives it for a context; it is given `question` and, with blocks, `evidence`.
        blocks: Input of the answer; None: the question alone.
        evidence: Passages recorded as its evidence; by default the state's `evidence`.
        values: Values of further variables of the prompt.
        output: Schema of the reply; it has a field `answer`.
        role: The model to call; the synthesizer's if it concludes from answers to sub-questions.
    """

    async def generator(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        asked = await ask_model(
            runtime,
            prompt if isinstance(prompt, str) else prompt(runtime.context),
            output,
            {"question": quoted(state["question"]), **values(state)},
            at=f"root/{node_name()}",
            items=Items("evidence", await blocks(state, runtime.context)) if blocks else NO_ITEMS,
            role=role,
        )
        rests_on = evidence(state) if evidence else state["evidence"]
        final = read_answer(asked.value, runtime.context)
        row = asked.step(
            "answer",
            question=state["question"],
            answer=final["answer"],
            verdict=final["status"],
            evidence=[ref["id"] for ref in rests_on],
            sentences=_sentences(state, runtime.context),
            instead="there is no answer",
        )
        return {**final, "error": asked.error, "evidence": rests_on, **logged(row, asked)}

    return generator


def _sentences(state: State, context: Any) -> list[SentenceRef]:
    """The evidence sentences if the context has the answer written from sentences; else none."""
    return as_refs(state["sentences"]) if getattr(context, "answer_from", "passages") == "sentences" else []


def read_answer(output: Any, context: Context, *, final: bool = True) -> FinalAnswer:
    """The answer of an output (None: it can't be parsed), "" if there is none, and the status of the run.

    Where abstaining is off, words such as `Unknown` are answers. That is so for the `final` answer alone: a step before
    it may find none.
    """
    if output is None:
        return FinalAnswer(answer="", status="failed", abstention="")
    answer = plain(output.answer)
    if is_abstention(answer, words=not final or context.abstain == "on"):
        return FinalAnswer(answer="", status="unanswerable", abstention=answer)
    return FinalAnswer(answer=answer, status="answered", abstention="")
