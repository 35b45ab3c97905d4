"""A result on the terminal: question, steps, evidence, answer and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from hopgraph.views.console import unwrapped
from hopgraph.views.steps import Nested, evidence_ids, gave_no_answer, is_positive, nested, no_answer
from hopgraph.views.texts import cut, place_of, plain_lines, title_of
from nodes.kit.passages import find
from nodes.kit.rendering import counted, plain

if TYPE_CHECKING:
    from rich.console import Console

    from hopgraph.results import Result
    from nodes.kit.events import Event
    from nodes.kit.state import Step
    from stores.passages import Passage

MAX_TITLES = 6
MAX_EVIDENCE = 6
MAX_LINE = 200
MAX_RULE = 100
MAX_EVIDENCE_TEXT = 300
_MARKS = {"answered": "green", "unanswerable": "yellow", "failed": "red"}
_OBVIOUS = frozenset({*_MARKS, "changed", "unchanged"})
"""Verdicts that repeat the rest of the step."""


def print_result(result: Result, index: str | None, console: Console | None = None) -> None:
    """Print a result with its trajectory; passages are looked up in `index`."""
    (console or unwrapped()).print(render_result(result, find(index, evidence_ids(result))))


def render_result(result: Result, passages: Mapping[str, Passage]) -> RenderableType:
    """A result as something rich can print.

    Args:
        result: The result.
        passages: The passages it mentions, by id; an unknown one is shown by its id.
    """
    tree = Tree(Text(plain(result["question"]), style="bold"), guide_style="dim")
    _add_steps(tree, nested(result["trajectory"]), passages, frozenset({result["question"]}))
    return Group(
        Constrain(Rule(Text(result["method"]), style="dim"), MAX_RULE),
        tree,
        _evidence(result, passages),
        _answer(result),
        *(Text(f"note: {plain(note)}", style="yellow") for note in result.get("notes", [])),
        Text(_cost(result), style="dim"),
    )


def event_line(event: Event) -> str:
    """An event in one line."""
    if event["type"] == "step":
        step = event["step"]
        return _line(step["id"], step["node"], step["answer"] or step["verdict"], step["score"])
    at, node = event["step"], event["node"]
    if event["type"] == "asked":
        return _line(at, node, f"? {event['question']}")
    if event["type"] == "found":
        names = "; ".join(str(ref.get("title") or ref["id"]) for ref in event["passages"][:MAX_TITLES])
        return _line(at, node, f"found {len(event['passages'])}: {names}")
    if event["type"] == "replied":
        tokens = f"{event['prompt_tokens']:,} + {event['completion_tokens']:,} tokens, {event['seconds']:.1f} s"
        return _line(at, node, f"replied ({tokens})" + (f": {event['problem']}" if event["problem"] else ""))
    return _line(at, node, f"{event['verdict']}: {event['answer']}", event["score"])


def _line(at: str, node: str, words: str, score: float | None = None) -> str:
    return cut(plain(f"{at} {node}" + (f" {score:.3f}" if score is not None else "") + f"  {words}"), MAX_LINE)


def _add_steps(tree: Tree, rows: Sequence[Nested], passages: Mapping[str, Passage], above: frozenset[str]) -> None:
    """Add steps with their descendants; `above`: questions shown above."""
    for row in rows:
        step = row.step
        # Don't repeat a question shown above.
        repeats = step["id"] != "root" and step["question"] in above
        branch = _add_step(tree, step, passages, repeats=repeats)
        _add_steps(branch, row.below, passages, above | {step["question"]})


def _add_step(tree: Tree, step: Step, passages: Mapping[str, Passage], *, repeats: bool) -> Tree:
    """Add a step to a branch and return its own; `repeats`: its question is shown above."""
    line = Text(step["node"], style="cyan")
    if step["question"] and not repeats:
        line.append(f"  {plain(step['question'])}", style="italic")
    if step["score"] is not None:
        line.append(f"  {step['score']:.3f}", style="magenta")
    if step["verdict"].startswith("pruned"):
        line.append(f"  ✂ {plain(step['verdict'])}", style="red")
    elif step["verdict"] and step["verdict"] not in _OBVIOUS:
        line.append(f"  {plain(step['verdict'])}", style="green" if is_positive(step["verdict"]) else "yellow")
    rows = plain_lines(step["answer"])
    if len(rows) == 1 and repeats:
        line.append(f"  {rows.pop()}")
    branch = tree.add(line)
    for row in rows:
        branch.add(Text(row))
    if gave_no_answer(step):
        line.append("  no answer", style="yellow")
    if (step["searches"] and step["evidence"]) or step["kind"] == "retrieve":
        branch.add(Text(_titles(step["evidence"], passages) or "nothing found", style="dim"))
    elif step["kind"] == "judge" and step["sentences"]:
        branch.add(Text(_sentence_titles(step, passages), style="dim"))
    if step["truncated"]:
        branch.add(
            Text(f"{counted(step['truncated'], 'passage')} left out: the prompt did not fit the model", style="yellow")
        )
    if step["fallback"]:
        branch.add(Text(plain(step["fallback"]), style="yellow"))
    return branch


def _titles(ids: Sequence[str], passages: Mapping[str, Passage]) -> str:
    names = [title_of(key, passages) for key in ids[:MAX_TITLES]]
    more = f"; and {len(ids) - MAX_TITLES} more" if len(ids) > MAX_TITLES else ""
    return "; ".join(names) + more


def _sentence_titles(step: Step, passages: Mapping[str, Passage]) -> str:
    by_passage: dict[str, list[str]] = {}
    for key, index in step["sentences"]:
        by_passage.setdefault(key, []).append(str(index))
    rows = [f"{_titles([key], passages)} [{', '.join(indices)}]" for key, indices in by_passage.items()]
    more = f"; and {len(rows) - MAX_TITLES} more" if len(rows) > MAX_TITLES else ""
    return "; ".join(rows[:MAX_TITLES]) + more


def _evidence(result: Result, passages: Mapping[str, Passage]) -> RenderableType:
    if not result["evidence"]:
        return Text("evidence: none", style="dim")
    last = result["trajectory"][-1] if result["trajectory"] else None
    chosen: dict[str, list[int]] = {}
    for key, index in last["sentences"] if last else []:
        chosen.setdefault(key, []).append(index)
    rows: list[RenderableType] = [Text.assemble(("evidence: ", "bold"), _kind_of_evidence(result, chosen))]
    for number, key in enumerate(result["evidence"][:MAX_EVIDENCE], start=1):
        passage = passages.get(key)
        rows.append(Text.assemble(f"{number}. ", (title_of(key, passages), "bold"), (f"  {key}", "dim")))
        if passage is not None:
            if len(passage.headings) > 1:  # a single one is in the title
                rows.append(Padding(Text(place_of(passage), style="dim"), (0, 0, 0, 3), expand=False))
            text = " ".join(passage.sentences[i] for i in chosen.get(key, []) if i < len(passage.sentences))
            shown = Text(cut(plain(text or passage.text), MAX_EVIDENCE_TEXT), style="dim")
            rows.append(Padding(shown, (0, 0, 0, 3), expand=False))
    if (more := len(result["evidence"]) - MAX_EVIDENCE) > 0:
        rows.append(Text(f"and {more} more", style="dim"))
    return Group(*rows)


def _kind_of_evidence(result: Result, chosen: Mapping[str, Sequence[int]]) -> str:
    passages = counted(len(result["evidence"]), "passage")
    if chosen:
        return f"{counted(sum(map(len, chosen.values())), 'sentence')} selected by the method, of {passages}"
    return f"{passages} kept by the method"


def _answer(result: Result) -> Text:
    status = result["status"]
    if result.get("waiting"):
        command = f"resume with `hopgraph resume {result['thread']} --decision WORD`"
        return Text.assemble(("answer: ", "bold"), ("waiting for a person's decision", "bold yellow"), f"; {command}")
    shown = plain(result["answer"]) if status == "answered" else no_answer(result)
    return Text.assemble(("answer: ", "bold"), (shown, f"bold {_MARKS[status]}"))


def _cost(result: Result) -> str:
    cost = result["cost"]
    extra = f" ({counted(cost['repairs'], 'repair')})" if cost["repairs"] else ""
    cached = f", {cost['cached_calls']} from the cache" if cost["cached_calls"] else ""
    return (
        f"cost: {counted(cost['calls'], 'model call')}{extra}{cached}, "
        f"{cost['prompt_tokens']:,} + {cost['completion_tokens']:,} tokens, {counted(cost['searches'], 'search')}, "
        f"{cost['seconds']:.1f} s   thread {result['thread']}"
    )
