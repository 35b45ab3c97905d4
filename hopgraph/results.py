"""The result of one question: what `ask --json` prints, and each line of `results.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from inference.ledger import Call, Cost, cost_of
from nodes.kit.rendering import counted
from nodes.kit.state import RunError, Status, Step


class EvidencePassage(TypedDict):
    """A passage of the evidence."""

    id: str
    title: str
    text: str
    score: float
    found_by: str
    page: str
    """Where in its document it is, such as `page 3`; "" if unknown."""
    headings: list[str]
    """The path of headings above it, outermost first."""


class Change(TypedDict):
    """Settings that were changed when a run was resumed."""

    at: str
    """When, ISO 8601 in UTC."""
    settings: dict[str, Any]
    """The new values."""


class Waiting(TypedDict):
    """A verdict that waits for a person (`nodes.kit.person`)."""

    id: str
    """Key for its decision."""
    node: str
    about: dict[str, Any]
    """What to show: the case, `decisions`, what is `suggested`, and perhaps a `problem`."""


class Result(TypedDict):
    """One question answered, or not, by one method."""

    id: str
    method: str
    question: str
    answer: str
    """"" when there is none."""
    status: Status
    abstention: NotRequired[str]
    """The model's words where it abstained; absent otherwise."""
    evidence: list[str]
    """Ids of the passages that the method kept for the answer, best first."""
    retrieved: list[str]
    """Ids of all passages that a search of the run returned, and of the evidence, in order of appearance."""
    trajectory: list[Step]
    cost: Cost
    thread: str
    prompts: dict[str, str]
    """Hash of every prompt used, by name."""
    notes: NotRequired[list[str]]
    """Reasons to doubt the answer, such as that no passage supports it; absent if there are none."""
    tree: NotRequired[list[dict[str, Any]]]
    """The tree of questions of a method that makes one: rows of its state, with ids for passages."""
    error: NotRequired[RunError]
    """Why it failed, if it did."""
    passages: NotRequired[list[EvidencePassage]]
    """The evidence in the order of `evidence`, with its texts: in `ask --json` and `resume --json`, not in
    `results.jsonl`."""
    changes: NotRequired[list[Change]]
    """Settings that `resume --set` changed, oldest first."""
    waiting: NotRequired[list[Waiting]]
    """Decisions the run waits for; its error is then of the kind `review`."""


def result_of(
    state: Mapping[str, Any], *, id: str, method: str, question: str, thread: str, error: RunError | None = None
) -> Result:
    """The result of a run, from its state.

    Args:
        state: The run's last state; of an interrupted run, the latest one.
        id: Question id.
        method: Method id.
        question: The question, for states without one.
        thread: Thread id.
        error: Why the run did not end, if it did not.
    """
    error = error or state.get("error")
    ledger = state.get("ledger", [])
    evidence = [ref["id"] for ref in state.get("evidence", [])]
    found = [key for call in ledger for key in call.get("found", [])]
    result = Result(
        id=id,
        method=method,
        question=state.get("question") or question,
        answer=state.get("answer", "") if error is None else "",
        status="failed" if error else state.get("status", "failed"),
        evidence=evidence,
        retrieved=list(dict.fromkeys([*found, *evidence])),
        trajectory=list(state.get("trajectory", [])),
        cost=cost_of(ledger),
        thread=thread,
        prompts={call["prompt"]: call["prompt_hash"] for call in ledger if call["prompt"]},
    )
    if result["status"] == "unanswerable" and (words := state.get("abstention")):
        result["abstention"] = words
    if notes := _notes(state, result, [call for call in ledger if call["kind"] == "search"]):
        result["notes"] = notes
    if "tree" in state:
        result["tree"] = [{key: _with_ids(value) for key, value in node.items()} for node in state["tree"]]
    if error:
        result["error"] = RunError(**error)
    return result


def _with_ids(value: Any) -> Any:
    """A state's passages replaced by their ids; other values unchanged."""
    if isinstance(value, list) and all(isinstance(item, dict) and {"id", "preview"} <= item.keys() for item in value):
        return [item["id"] for item in value]
    return value


def _notes(state: Mapping[str, Any], result: Result, searches: list[Call]) -> list[str]:
    """Notes on the answer's support. A run without index and given passages needs no evidence."""
    if result["status"] == "failed" or not (state.get("index") or state.get("given")):
        return []
    unsupported = result["status"] == "answered" and not result["evidence"]
    notes = []
    knowledge = state.get("knowledge")
    if knowledge and knowledge["read"] < knowledge["passages"]:
        covered = f"{knowledge['read']:,} of {counted(knowledge['passages'], 'passage')}"
        notes.append(f"the knowledge base covers {covered}: `hopgraph read` reads the rest")
    if knowledge and not knowledge["pairs"]:
        notes.append("nothing was found: the knowledge base has no question-answer pairs")
    elif searches and not result["retrieved"]:
        notes.append(f"nothing was found: {counted(len(searches), 'search')} returned no passage")
    if unsupported and not searches and not state.get("given"):
        notes.append("no search was made: the answer is the model's own, and no passage supports it")
    elif unsupported:
        notes.append("no passage supports this answer")
    return notes
