"""Reranking of a search's candidates: by a cross-encoder, or listwise by the chat model (RankGPT, Sun et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from inference.ledger import Call
from nodes.kit.model import Items, ask_model
from nodes.kit.place import ledger_entry, thread_id
from nodes.kit.rendering import counted, passage_blocks, quoted
from nodes.kit.state import Step
from nodes.kit.steps import step
from stores.index import Hit
from stores.passages import Passage
from stores.reranking import Reranked

NODE = "reranker"
"""Under which reranking is recorded, whatever node searches."""
PROMPT = "shared/listwise"
WINDOW, STRIDE = 20, 10
"""Passages that one call ranks, and by how many the window moves (Sec. 3.2)."""
_NUMBER = re.compile(r"\s*\[?\s*(\d{1,4})\s*\]?\s*", re.ASCII)


def _numbers(rows: object) -> object:
    """Numbers as they were given, such as 2, "2" and "[2]", without those of another form."""
    if not isinstance(rows, list):
        return rows
    found = [row if type(row) is int else int(m[1]) for row in rows if (m := _NUMBER.fullmatch(str(row)))]
    if not found:
        raise ValueError("it has no number of a passage")
    return found


class Ranking(BaseModel):
    """Output of the listwise reranker: the passages' numbers, the most relevant first."""

    ranking: Annotated[
        list[int],
        BeforeValidator(_numbers),
        WithJsonSchema(
            {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": WINDOW}, "maxItems": WINDOW}
        ),
    ]


@dataclass(frozen=True)
class Ranked:
    """The reranked hits of one search, with what that took."""

    hits: list[Hit]
    steps: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """Entries for the ledger."""


def by_cross_encoder(method: str, query: str, found: Reranked, candidates: int, *, at: str, parent: str) -> Ranked:
    """The record of one reranking by a cross-encoder.

    Args:
        method: The method's id.
        query: The query.
        found: Its result.
        candidates: How many there were.
        at: Id of the reranking's step.
        parent: Id of the search's step.
    """
    scores = found.scores
    row = step(
        at,
        "judge",
        node=NODE,
        parent=parent,
        question=query,
        answer=f"{len(found.hits)} of {counted(candidates, 'candidate')} kept",
        verdict=f"by {scores.model}" if scores else "",
        evidence=[hit.id for hit in found.hits],
        truncated=scores.truncated if scores else 0,
        fallback=f"{found.problem}; the search's order was kept" if found.problem else "",
    )
    entry = ledger_entry(
        f"{thread_id()}.{method}.{NODE}.{at}",
        "rerank",
        node=NODE,
        step=at,
        model=scores.model if scores else "",
        started=found.started,
        seconds=found.seconds,
    )
    return Ranked(found.hits, [row], [{**entry, "prompt_tokens": scores.tokens if scores else 0}])


async def listwise(
    runtime: Runtime[Any],
    query: str,
    hits: Sequence[Hit],
    passages: Mapping[str, Passage],
    k: int,
    *,
    at: str,
    parent: str,
) -> Ranked:
    """The k most relevant hits: the chat model ranks windows of them, from the last to the first.

    What a window's reply leaves out keeps its order after what it names; a reply that can't be used, even after a
    repair, leaves the window's order. A step is recorded for each window.

    Args:
        runtime: The node's runtime.
        query: The query.
        hits: Candidates, best first.
        passages: Their passages, by id.
        k: Number of hits.
        at: Id of the reranking; windows are numbered below it.
        parent: Id of the search's step.

    Raises:
        EndpointError, DeadlineError: As for `nodes.kit.model.ask_model`.
    """
    order = list(hits)
    steps: list[Step] = []
    calls: list[Call] = []
    # One after another: LangGraph tells the calls of a node by their order.
    for number, (start, end) in enumerate(windows(len(order)), start=1):
        window = order[start:end]
        asked = await ask_model(
            runtime,
            PROMPT,
            Ranking,
            {"query": quoted(query)},
            at=f"{at}/{number}",
            items=Items("passages", passage_blocks(passages[hit.id] for hit in window)),
            node=NODE,
        )
        places, problem = _places(asked.value.ranking if asked.value else [], len(window))
        order[start:end] = [window[i] for i in places]
        row = asked.step(
            "judge",
            parent=parent,
            question=query,
            answer=f"candidates {start + 1} to {end} ranked",
            evidence=[hit.id for hit in order[start:end]],
            problem=problem if asked.value else "",
            instead="these keep their order after the others" if asked.value else "their order was kept",
        )
        steps.append(row)
        calls += asked.calls
    return Ranked(order[:k], steps, calls)


def windows(count: int, size: int = WINDOW, stride: int = STRIDE) -> Iterator[tuple[int, int]]:
    """Start and end of each window over `count` candidates, the last candidates first; none for fewer than two."""
    end = count
    while count > 1:
        start = max(0, end - size)
        yield start, end
        if start == 0:
            return
        end -= stride


def _places(ranking: Sequence[int], count: int) -> tuple[list[int], str]:
    """Places (from 0) of a window's passages in their new order, and what was wrong with the reply."""
    named = list(dict.fromkeys(number - 1 for number in ranking if 1 <= number <= count))
    left = [place for place in range(count) if place not in set(named)]
    unknown = len({number for number in ranking if not 1 <= number <= count})
    problems = [f"{counted(unknown, 'unknown number')}"] if unknown else []
    problems += [f"{counted(len(left), 'passage')} not ranked"] if left and ranking else []
    return named + left, ", ".join(problems)
