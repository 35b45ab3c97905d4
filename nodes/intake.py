"""Intake: check the question and everything the run needs before any cost arises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from inference.errors import InputError
from inference.structured import well_formed
from nodes.kit.context import Context
from nodes.kit.knowledge import pairs_ref
from nodes.kit.passages import index_ref
from nodes.kit.state import GivenPassage, IndexRef, Node
from prompts.loader import parse_override
from stores.given import put_given
from stores.passages import Passage

MAX_QUESTION = 20_000
"""Characters. The longest question of the benchmarks has under 1,000."""


def intake(*, resets: Callable[[Any], Mapping[str, Any]] | None = None) -> Node:
    """A graph's first node.

    It checks question, given passages, index and prompt overrides, puts given passages into the store so that the state
    needs only their ids, records the index, and resets results of an earlier run of the thread.

    Args:
        resets: Initial values of the method's own keys, from the input.

    Raises:
        InputError: The question is empty or too long, or a given passage or prompt is malformed.
        StoreError: The index, or the knowledge base that the method answers from, is missing or of no use.
    """

    async def intake(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        question = check_question(state.get("question"))
        given = state.get("contexts")
        context = context_of(runtime)

        def check() -> tuple[IndexRef | None, list[str] | None, dict[str, Any]]:
            index, rows, own = check_input(context, given)
            return index, None if rows is None else store_given(rows), own

        index, contexts, own = await asyncio.to_thread(check)
        return {**fresh(question, context, contexts or [], index), **own, **(resets(state) if resets else {})}

    return intake


def fresh(question: str, context: Context, given: list[str], index: IndexRef | None) -> dict[str, Any]:
    """State of every method when a run begins; results of an earlier run of the thread are reset."""
    return {
        "question": question,
        "settings": context.model_dump(mode="json", exclude_unset=True),
        "given": given,
        "index": index,
        "answer": "",
        "abstention": "",
        "error": None,
        "evidence": [],
        "sentences": [],
        "trajectory": Overwrite([]),
        "ledger": Overwrite([]),
    }


def check_input(
    context: Context, given: object
) -> tuple[IndexRef | None, list[str | GivenPassage] | None, dict[str, Any]]:
    """Check settings, prompt overrides, given passages and index, and write nothing.

    Args:
        context: The run's settings.
        given: The input's `contexts`; None to search.

    Returns:
        The index, the given passages or their ids, and the state's keys for a knowledge base.

    Raises:
        InputError, StoreError: As `intake`.
    """
    context.check()
    knowledge = {"knowledge": pairs_ref(index_ref(context.index))} if context.knowledge_base else {}
    for field, name in context.prompts().items():
        if text := getattr(context, field):
            parse_override(name, text, field)
    rows = None if given is None else _check_given(given)
    by_id = [row for row in rows or [] if isinstance(row, str)]
    index = index_ref(context.index) if by_id or (context.searches and rows is None) else None
    if index is not None and by_id:
        require_ids(index, by_id)
    elif index is not None and context.where:
        from stores.index import open_index

        open_index(index["name"]).allowed(context.where)
    if knowledge and (index is None or len(by_id) < len(rows or [])):
        raise InputError(
            f"contexts: {context.method} answers from a knowledge base, and these passages are not in one",
            hint="index them, `hopgraph read` the index, and give their ids",
        )
    return index, rows, knowledge


def context_of(runtime: Runtime[Any]) -> Context:
    """The run's settings.

    Raises:
        InputError: The graph was invoked without any; LangGraph makes none then.
    """
    if not isinstance(runtime.context, Context):
        raise InputError(
            "context: none is given", hint="context={} takes the defaults, and an index may be named in it"
        )
    return runtime.context


def check_question(question: object) -> str:
    """The question without surrounding space.

    Raises:
        InputError: It is no text, empty, or longer than `MAX_QUESTION`.
    """
    if not isinstance(question, str):
        raise InputError(f"question: must be text, not {type(question).__name__}")
    # Lone surrogates (bytes of a command line that are not UTF-8) can be neither stored nor sent.
    question = str(well_formed(question)).strip()
    if not question:
        raise InputError("question: is empty")
    if len(question) > MAX_QUESTION:
        raise InputError(
            f"question: has {len(question):,} characters, at most {MAX_QUESTION:,} are allowed",
            hint="documents go into an index, not into the question",
        )
    return question


def _check_given(rows: object) -> list[str | GivenPassage]:
    if not isinstance(rows, list):
        raise InputError(f"contexts: must be a list, not {type(rows).__name__}")
    for number, row in enumerate(rows):
        check_passage(row, f"contexts[{number}]")
    if not rows:
        raise InputError("contexts: is empty", hint="leave it out to search the index")
    return rows


def check_passage(row: object, field: str) -> None:
    """Check that a field of the input is a passage id or a passage.

    Raises:
        InputError: It is neither.
    """
    if isinstance(row, str):
        return
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not row["text"].strip():
        raise InputError(f"{field}: must be a passage id or an object with `title` and `text`")
    if not isinstance(row.get("title", ""), str):
        raise InputError(f"{field}.title: must be text")
    sentences = row.get("sentences", [])
    if not isinstance(sentences, list) or not all(isinstance(s, str) and s.strip() for s in sentences):
        raise InputError(f"{field}.sentences: must be a list of non-empty texts")


def require_ids(index: IndexRef, ids: list[str], field: str = "contexts") -> None:
    """Check that an index has the passages that a field of the input names.

    Raises:
        InputError: It does not have one of them.
    """
    from stores.index import open_index

    opened = open_index(index["name"])
    for key in ids:
        if key not in opened:
            raise InputError(f"{field}: passage {key!r} is not in index {index['name']}")


def store_given(rows: list[str | GivenPassage]) -> list[str]:
    """Ids of all rows, in order; passages are put into the store."""
    ids = iter(put_given(given_passages([row for row in rows if not isinstance(row, str)])))
    return list(dict.fromkeys(row if isinstance(row, str) else next(ids) for row in rows))


def given_passages(rows: list[GivenPassage]) -> list[Passage]:
    """Passages of the input as the store takes them, which gives them their ids."""
    return [
        Passage(id="", title=row.get("title", ""), text=row["text"], sentences=tuple(row.get("sentences", [])))
        for row in map(well_formed, rows)
    ]
