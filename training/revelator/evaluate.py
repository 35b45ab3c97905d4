"""Measures each of the Revelator's skills on held-out examples, through an endpoint: before and after fine-tuning.

HOPGRAPH_EMBEDDED_LORA=none \
python -m training.revelator.evaluate --examples DATA/heldout.jsonl --to BEFORE
HOPGRAPH_EMBEDDED_LORA=OUT/adapter.gguf \
python -m training.revelator.evaluate --examples DATA/heldout.jsonl --to AFTER --before BEFORE

What is sent is what the graph's nodes send, schema and log-probabilities included. `TO` keeps all replies: an
interrupted run continues when it is started again. Give each model a folder of its own.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from hopgraph.evaluation.metrics import exact_match, normalise, token_f1
from inference.chat import Reply, Schema
from inference.structured import BadOutput, parse_output, true_probability
from nodes.kit.model import output_schema
from training.command import guarded
from training.lora.chats import Chat, read_chats
from training.lora.replies import Said, compared, first, flags_of, grouped, replies_to, reported, said_to
from training.measures import ranked_right, table
from training.revelator.chat import OUTPUTS
from training.revelator.examples import SKILLS

METRICS: dict[str, tuple[str, ...]] = {
    "router": ("accuracy",),
    "decomposer": ("exact", "f1", "right number"),
    "refiner": ("exact", "f1"),
    "relevance": ("accuracy", "AUC"),
    "ending": ("accuracy", "AUC"),
}
"""What is reported. Accuracy takes the likelier verdict, AUC is that of the probability of `true`; `exact` and `f1` are
of the words (SQuAD), sub-questions without regard to their order."""
_ALTERNATIVES = 10
_VERDICTS = ("relevance", "ending")
_TRUE = ("relevant", "ended")
"""Labels of verdicts that are true."""


class Scored(Said):
    """A held-out example with what the model said, and its scores."""

    probability: float | None
    """Of `true`, where the skill is a verdict and the server gives log-probabilities."""
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Asked:
    text: str
    value: BaseModel | None
    probability: float | None


async def evaluate(
    chats: Sequence[Chat],
    folder: Path,
    *,
    model: str | None = None,
    max_tokens: int = 256,
) -> list[Scored]:
    """Ask for each example, and score the replies.

    Args:
        chats: Held-out examples.
        folder: Keeps the replies.
        model: Model name at the endpoint.
        max_tokens: Longest reply.

    Raises:
        EndpointError: The endpoint can't be used; what it said so far is kept.
    """
    replies = await replies_to(
        chats,
        folder,
        lambda chat: Schema(f"hanrag__{chat['skill']}", output_schema(OUTPUTS[chat["skill"]])),
        model=model,
        max_tokens=max_tokens,
        alternatives=lambda chat: _ALTERNATIVES if chat["skill"] in _VERDICTS else None,
    )
    return [score(chat, _read(chat, reply)) for chat, reply in zip(chats, replies, strict=True)]


def _read(chat: Chat, reply: Reply | None) -> _Asked:
    output = OUTPUTS[chat["skill"]]
    if reply is None:
        return _Asked("", None, None)
    try:
        value = parse_output(reply.text, output)
    except BadOutput:
        return _Asked(reply.text, None, None)
    field = next(iter(output.model_fields))
    judged = chat["skill"] in _VERDICTS
    return _Asked(reply.text, value, true_probability(reply.text, reply.tokens, (field,)) if judged else None)


def score(chat: Chat, asked: _Asked) -> Scored:
    """Compare a reply with the example's; one that can't be read scores 0."""
    gold = OUTPUTS[chat["skill"]].model_validate_json(chat["completion"][0]["content"])
    scores = dict.fromkeys((name for name in METRICS[chat["skill"]] if name != "AUC"), 0.0)
    if asked.value is not None:
        scores = _SCORES[chat["skill"]](asked, gold)
    said = said_to(chat, asked.text, asked.value is not None)
    return Scored(**said, probability=asked.probability, scores=scores)


def _same(asked: _Asked, gold: BaseModel) -> dict[str, float]:
    return {"accuracy": float(asked.value == gold)}


def _verdict(asked: _Asked, gold: Any) -> dict[str, float]:
    (field,) = type(gold).model_fields
    said = getattr(asked.value, field) if asked.probability is None else asked.probability >= 0.5
    return {"accuracy": float(said == getattr(gold, field))}


def _parts(asked: _Asked, gold: Any) -> dict[str, float]:
    value: Any = asked.value
    said, meant = (sorted(map(normalise, output.subquestions)) for output in (value, gold))
    return {
        "exact": float(said == meant),
        "f1": token_f1(" ".join(said), [" ".join(meant)]),
        "right number": float(len(said) == len(meant)),
    }


def _question(asked: _Asked, gold: Any) -> dict[str, float]:
    value: Any = asked.value
    return {"exact": exact_match(value.question, [gold.question]), "f1": token_f1(value.question, [gold.question])}


_SCORES: dict[str, Callable[[_Asked, Any], dict[str, float]]] = {
    "router": _same,
    "decomposer": _parts,
    "refiner": _question,
    "relevance": _verdict,
    "ending": _verdict,
}


def report(rows: Sequence[Scored], before: Sequence[Scored] = ()) -> str:
    """Markdown: each skill's metrics, beside those of an earlier run if one is given, and accuracy by label and source.

    Raises:
        InputError: The earlier run is of other examples.
    """
    runs = compared(rows, before)
    heads = ["before", "after"] if before else ["score"]
    lines: list[list[object]] = []
    for skill in SKILLS:
        of = [[row for row in run if row["skill"] == skill] for run in runs]
        if of[0]:
            lines += [[skill, name, len(of[0]), *(_mean(run, name) for run in of)] for name in METRICS[skill]]
            lines.append([skill, "unreadable", len(of[0]), *(sum(not row["readable"] for row in run) for run in of)])
    details: list[list[object]] = []
    for (place, label, source), group in grouped(
        runs, lambda row: (SKILLS.index(row["skill"]), row["label"], row["source"])
    ):
        metric = METRICS[SKILLS[place]][0]
        details.append(
            [f"{SKILLS[place]} ({metric})", label, source, len(group[0]), *(_mean(run, metric) for run in group)]
        )
    whole = table(["skill", "metric", "examples", *heads], lines, texts=2)
    return f"{whole}\n\n{table(['skill', 'label', 'source', 'examples', *heads], details, texts=3)}\n"


def _mean(rows: Sequence[Scored], metric: str) -> str:
    if metric != "AUC":
        return f"{sum(row['scores'][metric] for row in rows) / len(rows):.3f}"
    judged = [(row["probability"], row["label"] in _TRUE) for row in rows if row["probability"] is not None]
    area = ranked_right(np.array([score for score, _ in judged]), np.array([true for _, true in judged], bool))
    return "-" if np.isnan(area) else f"{area:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = flags_of("revelator.evaluate", "Measure the Revelator's skills.", "revelator.build")
    flags.add_argument("--skill", nargs="+", choices=SKILLS, default=SKILLS, help="only these")
    options = flags.parse_args(arguments)
    return guarded(lambda: _evaluate(options))


def _evaluate(options: Namespace) -> str:
    chats = first(list(read_chats(options.examples, SKILLS)), options.skill, options.limit)
    options.to.mkdir(parents=True, exist_ok=True)
    rows = asyncio.run(evaluate(chats, options.to, model=options.model, max_tokens=options.max_tokens))
    return reported(options, rows, report)


if __name__ == "__main__":
    sys.exit(main())
