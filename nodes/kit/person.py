"""Human review of a verdict: the run stops, shows what to decide, and resumes with the decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from langgraph.types import interrupt

from nodes.kit.rendering import plain
from nodes.kit.state import PassageRef

LONGEST_ANSWER = 2000
"""Characters."""
_SHOWN = 5
"""Maximum number of passages shown."""


class Decision(NamedTuple):
    """A person's decision."""

    decision: str
    """One of the options."""
    answer: str
    """The person's own answer; "": the one shown."""


def decide(
    about: Mapping[str, Any], decisions: Mapping[str, str], suggested: str, *, own_answer: bool = False
) -> Decision:
    """Stop the run until a person decides. A malformed decision is requested again, with the problem.

    It is resumed with one of the decisions, or with `{"decision": ..., "answer": ...}`.

    Args:
        about: What to show: a few plain values.
        decisions: The options and their meaning.
        suggested: The method's own decision.
        own_answer: Whether the person may answer instead of the model.
    """
    shown = {**about, "decisions": dict(decisions), "suggested": suggested, "own_answer": own_answer}
    problem = ""
    while True:
        # On resuming, LangGraph replays earlier decisions in order, and stops at the first new one.
        said = interrupt(shown | {"problem": problem} if problem else shown)
        found = _read(said, decisions, own_answer)
        if isinstance(found, Decision):
            return found
        problem = found


def _read(said: Any, decisions: Mapping[str, str], own_answer: bool) -> Decision | str:
    """The decision, or what is wrong with it."""
    known = ", ".join(decisions)
    values = said if isinstance(said, dict) else {"decision": said}
    if unknown := sorted(map(str, values.keys() - {"decision", "answer"})):
        return f"{unknown[0][:60]}: unknown field; fields: decision, answer"
    word, answer = values.get("decision"), values.get("answer", "")
    chosen = plain(word).strip("\"' ").casefold() if isinstance(word, str) else ""
    if chosen not in decisions:
        return f"decision: must be one of {known}"
    if not isinstance(answer, str):
        return f"answer: must be text, not {type(answer).__name__}"
    if len(answer) > LONGEST_ANSWER:
        return f"answer: has {len(answer):,} characters, at most {LONGEST_ANSWER:,} are allowed"
    if answer and not own_answer:
        return "answer: there is none to give here"
    return Decision(chosen, plain(answer))


def shown(passages: Iterable[PassageRef], ids: Iterable[str] | None = None) -> list[str]:
    """Passages for display: title and beginning.

    Args:
        passages: The passages, best first.
        ids: Which of them; default: all.
    """
    wanted = None if ids is None else set(ids)
    kept = [ref for ref in passages if wanted is None or ref["id"] in wanted]
    return [f"{ref['title']}: {ref['preview']}" for ref in kept[:_SHOWN]]
