"""Merge the evidence of all iterations into the final set (PRISM, Sec. 2.4)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from inference.errors import InputError
from nodes.kit.passages import fetch, reference
from nodes.kit.rendering import counted
from nodes.kit.state import PassageRef, SentenceRef, as_refs
from nodes.kit.steps import logged, step
from nodes.prism.context import PrismContext
from nodes.prism.state import PrismState


async def merger(state: PrismState, runtime: Runtime[PrismContext]) -> dict[str, Any]:
    """Settle the final evidence: `sentences`, and their passages in the order of the pool.

    Without selection (full context, OneR) all of the pool is evidence; in the oracle condition the input's `gold` is.

    Raises:
        InputError: The oracle condition without `gold`, or with a sentence that its passage does not have.
    """
    context = runtime.context
    if context.condition in ("full_context", "oner"):
        return {"evidence": state["pool"], "sentences": []}
    if context.condition == "oracle_context":
        return await _gold(state)
    sentences = as_refs(state["selected"])
    if context.final == "union":
        sentences = list(dict.fromkeys([*as_refs(state["kept"]), *sentences]))
    elif not context.adder_first:
        sentences = [ref for ref in sentences if ref not in set(as_refs(state["added"]))]
    chosen = {key for key, _ in sentences}
    evidence = [ref for ref in state["pool"] if ref["id"] in chosen]
    place = {ref["id"]: number for number, ref in enumerate(evidence)}
    sentences = sorted((ref for ref in sentences if ref[0] in place), key=lambda ref: (place[ref[0]], ref[1]))
    return _update(state, evidence, sentences)


def _update(
    state: PrismState, evidence: list[PassageRef], sentences: list[SentenceRef], source: str = ""
) -> dict[str, Any]:
    row = step(
        "root/merger",
        "aggregate",
        question=state["question"],
        answer=f"{source}{counted(len(sentences), 'sentence')} of {counted(len(evidence), 'passage')}",
        evidence=[ref["id"] for ref in evidence],
        sentences=sentences,
    )
    return {"evidence": evidence, "sentences": sentences, **logged(row)}


def _is_sentence(row: object) -> bool:
    return isinstance(row, list | tuple) and [type(part) for part in row] == [str, int]


async def _gold(state: PrismState) -> dict[str, Any]:
    rows = state.get("oracle")
    if rows is None:
        raise InputError("gold: the oracle_context condition needs gold evidence", hint="pass `gold` with the question")
    if not all(isinstance(row, str) or _is_sentence(row) for row in rows):
        raise InputError("gold: must be a list of passage ids or [passage id, sentence index]")
    passages = await fetch(state, [row if isinstance(row, str) else row[0] for row in rows])
    length = {passage.id: len(passage.sentences) for passage in passages}
    sentences: list[SentenceRef] = []
    for row in rows:
        refs = [(row, index) for index in range(length[row])] if isinstance(row, str) else as_refs([row])
        for key, index in refs:
            if not 0 <= index < length[key]:
                raise InputError(f"gold: passage {key} has no sentence {index}; it has {length[key]}")
        sentences.extend(refs)
    evidence = [reference(passage, 1.0, "gold") for passage in passages]
    return {**_update(state, evidence, sentences, "gold evidence: "), "sentences": list(dict.fromkeys(sentences))}
