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
from nodes.kit.steps import logged


class _Pair(BaseModel):
    question: str = Field(max_length=200)
    answer: str = Field(max_length=300)


_Fact = Annotated[str, Field(max_length=300)]


@lru_cache(maxsize=16)
def _output(max_pairs: int, facts: bool) -> type[BaseModel]:
    """Output of the reader. The bounds limit generation on servers that enforce the schema.

    From other servers, malformed and surplus pairs are left out: one bad pair does not fail the passage.
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


async def pair_writer(state: ReaderState, runtime: Runtime[ReaderContext]) -> dict[str, Any]:
    """Write pairs, preceded by atomic facts if the context enables them.

    A reply that can't be used fails the passage.
    """
    context = runtime.context
    [passage] = await fetch(state, [state["source"]["id"]])
    asked = await ask_model(
        runtime,
        "compactrag_reader/reader" if context.atomic_facts else "compactrag_reader/reader_pairs",
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
    row = asked.step(
        "answer",
        question=state["question"],
        answer=_said(drafts),
        evidence=[passage.id],
        instead="the passage is not read",
    )
    failed = {"error": asked.error, "status": "failed"} if asked.problem else {}
    return {"drafts": drafts, "facts": facts, **failed, **logged(row, asked)}


async def coverage_repairer(state: ReaderState, runtime: Runtime[ReaderContext]) -> dict[str, Any]:
    """Write pairs about entities that no pair mentions. An unusable reply adds none."""
    [passage] = await fetch(state, [state["source"]["id"]])
    asked = await ask_model(
        runtime,
        "compactrag_reader/coverage",
        _output(runtime.context.max_pairs, False),
        {
            "passage": passage_block(1, passage),
            "pairs": "\n".join(f"{quoted(p['question'])} {quoted(p['answer'])}" for p in state["pairs"]) or "(none)",
            "entities": ", ".join(quoted(entity) for entity in state["uncovered"]),
        },
        at="root/coverage_repairer",
    )
    value: Any = asked.value
    drafts = _drafts(value.qa if value else (), coverage=True)
    row = asked.step(
        "answer",
        question=", ".join(state["uncovered"]),
        answer=_said(drafts),
        evidence=[passage.id],
        instead="nothing is added",
    )
    return {"drafts": drafts, "repaired": True, **logged(row, asked)}


def _said(drafts: Iterable[QAPair]) -> str:
    return "\n".join(f"{pair['question']} {pair['answer']}" for pair in drafts)


def _drafts(rows: Iterable[_Pair], *, coverage: bool) -> list[QAPair]:
    return [
        QAPair(question=plain(row.question), answer=plain(row.answer), verbatim=False, coverage=coverage)
        for row in rows
    ]
