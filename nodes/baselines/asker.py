"""Asker: a follow-up question, or the final answer once no further one is needed (Self-Ask, Press et al. 2023)."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, RootModel

from inference.limits import LongText, QuestionText
from nodes.baselines.context import SelfAskContext
from nodes.baselines.state import SelfAskState
from nodes.chain import asked_before, chain_evidence, hop_id, next_hop, written
from nodes.generator import Answer, read_answer
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.steps import logged


class FollowUp(BaseModel):
    """Output of the asker: the next question to answer."""

    type: Literal["follow_up"]
    question: QuestionText


class Final(BaseModel):
    """Output of the asker: no follow-up question is needed."""

    type: Literal["final"]
    answer: LongText


class FollowUpOrFinal(RootModel[FollowUp | Final]):
    """Output of the asker."""


class OnlyFinal(FollowUpOrFinal):
    """Output of the asker after the last follow-up question."""

    root: Final


_FOLLOW_UP = '- {"type": "follow_up", "question": "..."} if something has to be found out first'
_FINAL = '- {"type": "final", "answer": "..."} if the question can be answered now'
_ONLY_FINAL = '- {"type": "final", "answer": "..."}: the question has to be answered now'


async def asker(state: SelfAskState, runtime: Runtime[SelfAskContext]) -> dict[str, Any]:
    """Ask the next follow-up question, or end the run with the answer.

    After the last follow-up question that is allowed only the answer is. A repeated question is not looked up again:
    the model is asked once more, for the answer. A first output that can't be parsed makes the question itself the
    follow-up question, and the step records it; a later one, or if none is allowed, fails the run. A later empty
    question ends it without an answer.
    """
    chain, at, repeated = state["chain"], hop_id(next_hop(state)), state["repeated"]
    may_ask = len(chain) < runtime.context.max_follow_ups and not repeated
    asked = await ask_model(
        runtime,
        "self_ask/asker",
        FollowUpOrFinal if may_ask else OnlyFinal,
        {"question": quoted(state["question"]), "choices": f"{_FOLLOW_UP}\n{_FINAL}" if may_ask else _ONLY_FINAL},
        at=f"{at}/asker/final" if repeated else f"{at}/asker",
        items=Items("chain", written(chain)),
        role="generator",
    )
    chosen = asked.value.root if asked.value else None
    seed = plain(chosen.question) if isinstance(chosen, FollowUp) else ""
    empty = "the follow-up question is empty" if isinstance(chosen, FollowUp) and not seed else ""
    if (asked.problem or empty) and may_ask and not chain:
        seed = state["question"]
    if seed:
        repeated = asked_before(seed, chain)
        row = asked.step(
            "decompose",
            question=state["question"],
            answer=seed,
            verdict="asked before" if repeated else "",
            problem=empty,
            instead="the question itself is asked",
        )
        return {"at": at, "seed": seed, "repeated": repeated, **logged(row, asked)}
    # An empty follow-up question was parsed, so the run does not fail: it has no answer.
    final = read_answer(Answer(answer="") if isinstance(chosen, FollowUp) else chosen, runtime.context)
    evidence = chain_evidence(state)
    row = asked.step(
        "answer",
        question=state["question"],
        answer=final["answer"],
        verdict=final["status"],
        evidence=[ref["id"] for ref in evidence],
        problem=empty,
        instead="there is no answer",
    )
    return {
        "seed": "",
        "repeated": False,
        **final,
        "error": asked.error,
        "evidence": evidence,
        **logged(row, asked),
    }
