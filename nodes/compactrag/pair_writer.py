"""Pair writer: one model call turns a passage into atomic facts and question-answer pairs (CompactRAG, App. A)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, create_model

from nodes.compactrag.context import ReaderContext
from nodes.compactrag.state import QAPair, ReaderState
from nodes.kit.model import ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.state import Node, RunError
from nodes.kit.steps import step

__all__ = ["coverage_repairer", "pair_writer"]


class _Pair(BaseModel):
    question: str = Field(max_length=200)
    answer: str = Field(max_length=300)


_Fact = Annotated[str, Field(max_length=300)]


@lru_cache(maxsize=16)
def _output(max_pairs: int, facts: bool) -> type[BaseModel]:
    """What a reader replies with. A server that enforces the schema can't run on for ever.

    From one that does not, what is malformed or too much is left out: one bad pair does not cost the whole passage.
    """

    def usable(kind: TypeAdapter[Any]) -> BeforeValidator:
        return BeforeValidator(
            lambda rows: [row for row in rows if _fits(kind, row)][:max_pairs] if isinstance(rows, list) else rows
        )

    pairs_type = Annotated[list[_Pair], Field(min_length=1, max_length=max_pairs), usable(TypeAdapter(_Pair))]
    facts_type = Annotated[list[_Fact], Field(max_length=max_pairs), usable(TypeAdapter(_Fact))]
    fields: dict[str, Any] = {"atomic_facts": (facts_type, ...)} if facts else {}
    return create_model("Reading", **fields, qa=(pairs_type, ...))


def _fits(kind: TypeAdapter[Any], row: Any) -> bool:
    try:
        kind.validate_python(row)
    except ValidationError:
        return False
    return True


def pair_writer(prompt: str, prompt_pairs: str) -> Node:
    """A node that writes pairs. A reply that can't be used fails the passage.

    Args:
        prompt: Name of the prompt; it is given `passage` and `entities`.
        prompt_pairs: The one for pairs without atomic facts.
    """

    async def pair_writer(state: ReaderState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: ReaderContext = runtime.context
        passage = (await fetch(state, [state["source"]["id"]]))[0]
        asked = await ask_model(
            runtime,
            prompt if context.atomic_facts else prompt_pairs,
            _output(context.max_pairs, context.atomic_facts),
            {
                "passage": passage_block(1, passage),
                "entities": ", ".join(f"{quoted(e['text'])} ({e['label']})" for e in state["entities"]) or "(none)",
            },
            at="root/pair_writer",
        )
        value: Any = asked.value
        drafts = _drafts(value.qa if value else (), coverage=False)
        facts = [text for fact in getattr(value, "atomic_facts", ()) if (text := plain(fact))]
        row = step(
            "root/pair_writer",
            "answer",
            question=state["question"],
            answer="\n".join(f"{pair['question']} {pair['answer']}" for pair in drafts),
            evidence=[passage.id],
            calls=len(asked.calls),
            fallback=f"{asked.problem}; the passage is not read" if asked.problem else asked.cut,
        )
        update: dict[str, Any] = {"drafts": drafts, "facts": facts, "trajectory": [row], "ledger": asked.calls}
        if asked.problem:
            update["error"] = RunError(kind="model_output", message=asked.problem, node="pair_writer")
            update["status"] = "failed"
        return update

    return pair_writer


def coverage_repairer(prompt: str) -> Node:
    """A node that writes pairs about the entities that none mentions. A reply that can't be used adds none.

    Args:
        prompt: Name of the prompt; it is given `passage`, `pairs` and `entities`.
    """

    async def coverage_repairer(state: ReaderState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: ReaderContext = runtime.context
        passage = (await fetch(state, [state["source"]["id"]]))[0]
        asked = await ask_model(
            runtime,
            prompt,
            _output(context.max_pairs, False),
            {
                "passage": passage_block(1, passage),
                "pairs": "\n".join(f"{quoted(p['question'])} {quoted(p['answer'])}" for p in state["pairs"])
                or "(none)",
                "entities": ", ".join(quoted(entity) for entity in state["uncovered"]),
            },
            at="root/coverage_repairer",
        )
        value: Any = asked.value
        drafts = _drafts(value.qa if value else (), coverage=True)
        row = step(
            "root/coverage_repairer",
            "answer",
            question=", ".join(state["uncovered"]),
            answer="\n".join(f"{pair['question']} {pair['answer']}" for pair in drafts),
            evidence=[passage.id],
            calls=len(asked.calls),
            fallback=f"{asked.problem}; nothing is added" if asked.problem else asked.cut,
        )
        return {"drafts": drafts, "repaired": True, "trajectory": [row], "ledger": asked.calls}

    return coverage_repairer


def _drafts(rows: Iterable[_Pair], *, coverage: bool) -> list[QAPair]:
    return [
        QAPair(question=plain(row.question), answer=plain(row.answer), verbatim=False, coverage=coverage)
        for row in rows
    ]
