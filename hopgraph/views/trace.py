"""A run as one self-contained HTML page: the path through the graph, and each step with its prompts and replies."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hopgraph.drawing import svg
from hopgraph.methods import METHODS
from hopgraph.views.pages import template
from hopgraph.views.steps import Nested, evidence_ids, gave_no_answer, is_positive, nested, no_answer
from hopgraph.views.texts import plain_lines, title_of
from inference.errors import InputError
from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from hopgraph.record import Exchange, RunRecord
    from nodes.kit.state import SentenceRef, Step
    from stores.passages import Passage


def mentioned(record: RunRecord) -> set[str]:
    """Ids of all passages that a run has as evidence."""
    return evidence_ids(record.result)


def render_trace(record: RunRecord, passages: Mapping[str, Passage]) -> str:
    """The page, with all text of the run escaped.

    Args:
        record: The run.
        passages: The passages it mentions, by id; an unknown one is shown by its id.
    """
    result = record.result
    steps = result["trajectory"]
    threshold = record.thread.context.threshold_of
    by_step: dict[str, list[Exchange]] = {}
    for exchange in record.exchanges:
        by_step.setdefault(exchange.call["step"], []).append(exchange)
    known = {step["id"] for step in steps}
    numbers = {key: number for number, key in enumerate(_passage_order(record), start=1)}
    cited = _cited(record, passages)
    return template("trace.html").render(
        result={**result, "question": plain(result["question"]), "answer": plain(result["answer"])},
        about=METHODS[result["method"]],
        drawing=_drawing(record),
        tree=_rows(nested(steps), by_step, numbers, passages, threshold),
        loose=[_call(exchange) for step, rest in by_step.items() if step not in known for exchange in rest],
        stages=_stages(steps, passages),
        picture=_picture(record),
        cited=cited,
        chosen=bool(record.sentences),
        no_answer=no_answer(result),
        finished=record.thread.finished,
        passages=[_passage(key, number, passages, cited, record) for key, number in numbers.items()],
        settings=sorted(record.thread.context.model_dump(exclude_unset=True).items()),
    )


def _drawing(record: RunRecord) -> str:
    """The graph with the path taken, as SVG; "" without a current drawing."""
    from markupsafe import Markup

    try:
        # The SVG has node names only, no text of the run.
        return Markup(svg(record.result["method"], record.visits))  # noqa: S704
    except InputError:
        return ""


def _picture(record: RunRecord) -> dict[str, Any] | None:
    """The values of the method's own picture, if it has one (see `views.pictures`)."""
    name = f"hopgraph.views.pictures.{record.result['method']}"
    if find_spec(name) is None:
        return None
    values: dict[str, Any] | None = import_module(name).picture(record.state, record.thread.context)
    return values


def _passage_order(record: RunRecord) -> list[str]:
    """Evidence first, then other passages in the order in which they were found."""
    others = [key for step in record.result["trajectory"] for key in step["evidence"]]
    return list(dict.fromkeys([*record.result["evidence"], *others]))


def _rows(
    steps: Sequence[Nested],
    by_step: Mapping[str, Sequence[Exchange]],
    numbers: Mapping[str, int],
    passages: Mapping[str, Passage],
    threshold: Callable[[str], float | None],
) -> list[dict[str, Any]]:
    """The steps as template values, with their children."""
    rows = []
    for nest in steps:
        step = nest.step
        scored = step["score"] is not None and step["kind"] in ("answer", "verify", "judge")
        limit = threshold(step["node"]) if scored else None
        row = {
            **step,
            "question": plain(step["question"]),
            "verdict": plain(step["verdict"]),
            "fallback": plain(step["fallback"]),
            "answer": plain_lines(step["answer"]),
            "unanswered": gave_no_answer(step),
            "mood": _mood(step),
            "percent": None if step["score"] is None else round(100 * min(max(step["score"], 0.0), 1.0), 1),
            "tick": None if limit is None else round(100 * limit, 1),
            "found": [(numbers[key], title_of(key, passages)) for key in step["evidence"]],
            "chosen": [(_place(*ref, passages), _sentence(*ref, passages)) for ref in step["sentences"]],
            "exchanges": [_call(exchange) for exchange in by_step.get(step["id"], [])],
            "below": _rows(nest.below, by_step, numbers, passages, threshold),
        }
        rows.append(row)
    return rows


def _mood(step: Step) -> str:
    """Colour class of a verdict: good, bad, cut or none."""
    verdict = step["verdict"]
    if not verdict:
        return ""
    if verdict.startswith(("pruned", "rejected", "not ", "failed")):
        return "cut" if verdict.startswith("pruned") else "bad"
    return "good" if is_positive(verdict) else ""


def _call(exchange: Exchange) -> dict[str, Any]:
    messages = [(role, _printable(text)) for role, text in exchange.prompt]
    return {**exchange.call, "messages": messages, "reply": _printable(exchange.reply)}


def _printable(text: str) -> str:
    """Text with line breaks but without other control characters."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.splitlines())


def _stages(steps: Sequence[Step], passages: Mapping[str, Passage]) -> dict[str, Any] | None:
    """Evidence sentences by stage (PRISM's selections by iteration); None with fewer than two stages."""
    stages = [step for step in steps if step["sentences"]]
    refs = list(dict.fromkeys((key, index) for step in stages for key, index in step["sentences"]))
    if len(stages) < 2:
        return None
    held = [{(key, index) for key, index in step["sentences"]} for step in stages]
    return {
        "names": [step["id"].removeprefix("root/").replace("_", " ") for step in stages],
        "rows": [
            {
                "title": _place(key, index, passages),
                "text": _sentence(key, index, passages),
                "held": [(key, index) in stage for stage in held],
            }
            for key, index in refs
        ],
    }


def _cited(record: RunRecord, passages: Mapping[str, Passage]) -> dict[SentenceRef, str]:
    """Marked sentences, with the reason.

    For a method that selects sentences: its selection. Else the evidence sentences that contain the answer's words,
    which does not prove that the answer comes from them.
    """
    if record.sentences:
        return dict.fromkeys(record.sentences, "selected by the method")
    answer = _words(record.result["answer"])
    if answer.strip() in ("", "yes", "no"):
        return {}
    return {
        (key, index): "contains the answer's words"
        for key in record.result["evidence"]
        if key in passages
        for index, sentence in enumerate(passages[key].sentences)
        if answer in _words(sentence)
    }


_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def _words(text: str) -> str:
    """Words separated and enclosed by spaces, so that `in` finds whole words."""
    return f" {' '.join(text.casefold().translate(_PUNCTUATION).split())} "


def _passage(
    key: str,
    number: int,
    passages: Mapping[str, Passage],
    cited: Mapping[SentenceRef, str],
    record: RunRecord,
) -> dict[str, Any]:
    passage = passages.get(key)
    sentences = (passage.sentences or (passage.text,)) if passage else ()
    return {
        "number": number,
        "id": key,
        "title": title_of(key, passages),
        "headings": [plain(heading) for heading in passage.headings] if passage else [],
        "final": key in record.result["evidence"],
        "sentences": [(plain(text), cited.get((key, index), "")) for index, text in enumerate(sentences)],
    }


def _place(key: str, index: int, passages: Mapping[str, Passage]) -> str:
    return f"{title_of(key, passages)} [{index}]"


def _sentence(key: str, index: int, passages: Mapping[str, Passage]) -> str:
    sentences = passages[key].sentences if key in passages else ()
    return plain(sentences[index]) if index < len(sentences) else ""
