"""Lookup: the next sentence that contains the argument, like Ctrl+F (ReAct, Sec. 3.1)."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from nodes.baselines.agent import seen, turn_id
from nodes.baselines.state import ReactState
from nodes.kit.passages import fetch
from nodes.kit.rendering import plain
from nodes.kit.state import SentenceRef
from nodes.kit.steps import logged, step


async def lookup(state: ReactState) -> dict[str, Any]:
    """Carry out the latest turn's lookup in the passages of the latest search.

    Repeating it gives the next sentence, until there is none. It is not a search: nothing is retrieved.
    """
    *before, turn = state["turns"]
    wanted = turn["argument"].casefold()
    asked_before = takewhile(lambda old: old["action"] == "lookup", reversed(before))
    nth = sum(old["argument"].casefold() == wanted for old in asked_before)
    sentences: dict[SentenceRef, str] = {
        (passage.id, place): text
        for passage in await fetch(state, [ref["id"] for ref in state["page"]])
        for place, sentence in enumerate(passage.sentences)
        if wanted in (text := plain(sentence)).casefold()
    }
    hit = next(iter(list(sentences)[nth:]), None)
    observation = "no more results" if sentences else "no sentence has it"
    if hit is not None:
        number = [ref["id"] for ref in seen(state)].index(hit[0]) + 1
        observation = f"(result {nth + 1} of {len(sentences)}, in passage {number}) {sentences[hit]}"
    found = [hit[0]] if hit else []
    row = step(turn_id(state), "retrieve", question=turn["argument"], answer=observation, evidence=found)
    return {"turns": [*before, {**turn, "observation": observation}], **logged(row)}
