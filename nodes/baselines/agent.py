"""Agent: observe, think, act (ReAct, Yao et al. 2023)."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited, LongText
from nodes.baselines.context import ReactContext
from nodes.baselines.state import Action, ReactState, Turn
from nodes.generator import Answer, read_answer
from nodes.kit.abstention import is_abstention
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.state import PassageRef
from nodes.kit.steps import logged

_ACTIONS: dict[Action, str] = {
    "search": '- "search": looks for passages about what the argument says',
    "lookup": '- "lookup": the next sentence that has the argument in it, in the passages of the latest search',
    "finish": '- "finish": ends with the argument as the answer',
}


def turn_id(state: ReactState) -> str:
    """Id of the latest turn, counted from 1."""
    return f"root/{len(state['turns'])}"


def seen(state: ReactState) -> list[PassageRef]:
    """All observed passages, in the order found."""
    found: dict[str, PassageRef] = {}
    for ref in (ref for turn in _observed(state) for ref in turn["passages"]):
        found.setdefault(ref["id"], ref)
    return list(found.values())


async def agent(state: ReactState, runtime: Runtime[ReactContext]) -> dict[str, Any]:
    """Take a turn: a thought, and an action that the graph then carries out, or the answer.

    Nothing can be looked up before something was found, and in the last turn the agent can only finish. A turn that
    can't be parsed searches for the question itself, if that was not done yet, and the step records it; else the run
    fails. So does an action without an argument, but then the run ends without an answer. An abstention in the first
    turn searches for the question, too.
    """
    turns, question = _observed(state), state["question"]
    last = len(turns) + 1 >= runtime.context.max_steps
    allowed: tuple[Action, ...] = ("finish",) if last else tuple(a for a in _ACTIONS if a != "lookup" or state["page"])
    passages = seen(state)
    blocks, numbers = await _blocks(state, turns, passages)
    asked = await ask_model(
        runtime,
        "react/agent",
        _output(allowed),
        {
            "question": quoted(question),
            "turns": "\n".join(_written(turns, passages)) or "(none)",
            "actions": "\n".join(_ACTIONS[action] for action in allowed),
        },
        at=f"root/{len(turns) + 1}/agent",
        items=Items("evidence", blocks, numbers),
        role="generator",
    )
    thought, action, argument, problem = _read(asked.value, asked.problem)
    if not problem and not turns and not last and action == "finish" and is_abstention(argument):
        problem = "it abstained before anything was searched"
    instead = ""
    if problem and not last and not any(turn["argument"] == question for turn in turns):
        action, argument, instead = "search", question, "the question itself is searched for"
    elif problem:
        action, argument, instead = "finish", "", "there is no answer"
    turn = Turn(thought=thought, action=action, argument=argument, passages=[], observation="")
    if action != "finish":
        row = asked.step(
            "decompose", question=thought, answer=f"{action}[{argument}]", problem=problem, instead=instead
        )
        return {"turns": [*turns, turn], **logged(row, asked)}
    final = read_answer(Answer(answer=argument) if asked.value else None, runtime.context)
    row = asked.step(
        "answer",
        question=question,
        answer=final["answer"],
        verdict=final["status"],
        evidence=[ref["id"] for ref in passages],
        problem=problem,
        instead=instead,
    )
    return {
        "turns": [*turns, turn],
        **final,
        "error": asked.error,
        "evidence": passages,
        **logged(row, asked),
    }


@lru_cache(maxsize=8)
def _output(allowed: tuple[Action, ...]) -> Any:
    """The output model with the allowed actions."""

    class ThoughtAndAction(BaseModel):
        thought: Annotated[str, Limited(600)]
        action: Literal[allowed]  # type: ignore[valid-type]
        argument: LongText

    return ThoughtAndAction


def _read(output: Any, problem: str) -> tuple[str, Action, str, str]:
    """Thought, action, argument, and why they can't be used."""
    if output is None:
        return "", "finish", "", problem
    action: Action = output.action
    argument = plain(output.argument)
    bare = action != "finish" and not argument
    return plain(output.thought), action, argument, f"the action {action} has no argument" if bare else ""


def _observed(state: ReactState) -> list[Turn]:
    """The turns; the latest one with what its search found."""
    turns = state["turns"]
    if not turns or turns[-1]["action"] != "search":
        return turns
    return [*turns[:-1], {**turns[-1], "passages": state["page"]}]


def _written(turns: list[Turn], passages: list[PassageRef]) -> list[str]:
    """Thoughts, actions and observations, a line each. Passages are given by number."""
    number = {ref["id"]: str(place) for place, ref in enumerate(passages, start=1)}
    lines = []
    for place, turn in enumerate(turns, start=1):
        found = ", ".join(number[ref["id"]] for ref in turn["passages"])
        observation = quoted(turn["observation"]) or (f"found passages {found}" if found else "nothing found")
        lines += [
            f"Thought {place}: {quoted(turn['thought'])}",
            f"Action {place}: {turn['action']}[{quoted(turn['argument'])}]",
            f"Observation {place}: {observation}",
        ]
    return lines


async def _blocks(state: ReactState, turns: list[Turn], passages: list[PassageRef]) -> tuple[list[str], list[int]]:
    """Each passage once, and their numbers; the latest search's first, since the last ones are left out first."""
    number = {ref["id"]: place for place, ref in enumerate(passages, start=1)}
    latest_first = dict.fromkeys(ref["id"] for turn in reversed(turns) for ref in turn["passages"])
    blocks = [passage_block(number[passage.id], passage) for passage in await fetch(state, latest_first)]
    return blocks, [number[key] for key in latest_first]
