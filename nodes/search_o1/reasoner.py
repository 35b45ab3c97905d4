"""Reasoner: continue the reasoning, up to a search or the answer (Search-o1, Sec. 3.3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited, LongText
from nodes.generator import Answer, read_answer
from nodes.kit.abstention import is_abstention
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import counted, passage_block, plain, query_key, quoted
from nodes.kit.state import PassageRef
from nodes.kit.steps import logged
from nodes.search_o1.context import SearchO1Context
from nodes.search_o1.state import SearchO1State, Turn
from stores.passages import Passage

Action = Literal["search", "answer"]
REPEATED = "This was searched for before; see above."
NOTHING = "Nothing helpful was found."
_ACTIONS: dict[Action, str] = {
    "search": '- "search": the text is a query; its result is inserted here (at most {left} left)',
    "answer": '- "answer": the text is the final answer',
}


def searches(turns: list[Turn]) -> int:
    """Searches made so far; a repeated query makes none."""
    return len({query_key(turn["query"]) for turn in turns if turn["query"]})


def all_passages(turns: list[Turn]) -> list[PassageRef]:
    """All passages found, in the order found."""
    found: dict[str, PassageRef] = {}
    for ref in (ref for turn in turns for ref in turn["passages"]):
        found.setdefault(ref["id"], ref)
    return list(found.values())


def chain(turns: list[Turn], passages: dict[str, Passage] | None = None) -> Items:
    """The reasoning so far, one block per turn.

    Where it does not fit, passages are left out first, those of the oldest search before others; then turns, from the
    second on.

    Args:
        turns: Turns that ended with a search.
        passages: By id, to insert the passages found as they are, each once; None: the refined information only.
    """
    blocks: list[str] = []
    said: list[int] = []  # where each turn's text is in `blocks`
    inserted: dict[str, int] = {}  # where each passage is
    for place, turn in enumerate(turns, start=1):
        new = [ref["id"] for ref in turn["passages"] if passages and ref["id"] not in inserted]
        numbers = {key: number for number, key in enumerate([*inserted, *new], start=1)}
        found = ", ".join(str(numbers[ref["id"]]) for ref in turn["passages"] if passages)
        result = f"Found: passages {found}" if found else f"Information: {quoted(turn['information']) or NOTHING}"
        said.append(len(blocks))
        blocks.append(f"{place}. {quoted(turn['reasoning'])}\nSearch: {quoted(turn['query'])}\n{result}")
        for key in new:
            inserted[key] = len(blocks)
            blocks.append(passage_block(numbers[key], (passages or {})[key]))
    # The first turn and the latest ones say most (the released code keeps these, too).
    latest_first = dict.fromkeys(ref["id"] for turn in reversed(turns) for ref in turn["passages"])
    order = [*said[:1], *reversed(said[1:]), *(inserted[key] for key in latest_first if key in inserted)]
    return Items("reasoning", [blocks[i] for i in order], order)


async def reasoner(state: SearchO1State, runtime: Runtime[SearchO1Context]) -> dict[str, Any]:
    """Take a turn: reasoning, and a query to search for or the answer.

    After the last search that is allowed, and in the last turn, it can only answer. A repeated query is not searched
    again, and the reasoning says so. A turn that can't be parsed searches for the question itself, if that was not done
    yet, and the step records it; else the run fails. A query without text does the same, but then the run ends without
    an answer. An abstention in the first turn searches for the question, too.
    """
    context, turns, question = runtime.context, state["turns"], state["question"]
    at = f"root/{len(turns) + 1}/reasoner"
    left = min(context.max_searches - searches(turns), context.max_turns - len(turns) - 1)
    last = left <= 0
    allowed: tuple[Action, ...] = ("answer",) if last else ("search", "answer")
    actions = [_ACTIONS[action].format(left=counted(left, "search")) for action in allowed]
    shown: dict[str, Passage] | None = None
    if "reason_in_documents" in context.ablate:
        shown = {p.id: p for p in await fetch(state, [ref["id"] for ref in all_passages(turns)])}
    asked = await ask_model(
        runtime,
        "search_o1/reasoner",
        _output(allowed),
        {"question": quoted(question), "actions": "\n".join(actions)},
        at=at,
        items=chain(turns, shown),
        role="generator",
    )
    reasoning, action, text, problem = _read(asked.value, asked.problem)
    tried = {query_key(turn["query"]) for turn in turns}
    if not problem and not turns and not last and action == "answer" and is_abstention(text):
        problem = "it abstained before anything was searched"
    instead = ""
    if problem and not last and query_key(question) not in tried:
        action, text, instead = "search", question, "the question itself is searched for"
    elif problem:
        action, text, instead = "answer", "", "there is no answer"
    if action == "search":
        again = query_key(text) in tried
        turn = Turn(reasoning=reasoning, query=text, passages=[], information=REPEATED if again else "")
        row = asked.step(
            "decompose",
            question=reasoning,
            answer=f"search: {text}",
            verdict="searched for before" if again else "",
            problem=problem,
            instead=instead,
        )
        return {"turns": [*turns, turn], **logged(row, asked)}
    final = read_answer(Answer(answer=text) if asked.value else None, context)
    evidence = all_passages(turns)
    row = asked.step(
        "answer",
        question=question,
        answer=final["answer"],
        verdict=final["status"],
        evidence=[ref["id"] for ref in evidence],
        problem=problem,
        instead=instead,
    )
    return {
        "turns": [*turns, Turn(reasoning=reasoning, query="", passages=[], information="")],
        **final,
        "error": asked.error,
        "evidence": evidence,
        **logged(row, asked),
    }


@lru_cache(maxsize=4)
def _output(allowed: tuple[Action, ...]) -> Any:
    """The output model with the allowed actions."""

    class Reasoning(BaseModel):
        reasoning: Annotated[str, Limited(1200)]
        action: Literal[allowed]  # type: ignore[valid-type]
        text: LongText

    return Reasoning


def _read(output: Any, problem: str) -> tuple[str, Action, str, str]:
    """Reasoning, action, text, and why they can't be used."""
    if output is None:
        return "", "answer", "", problem
    text = plain(output.text)
    bare = output.action == "search" and not text
    return plain(output.reasoning), output.action, text, "the query has no text" if bare else ""
