"""What the oracle conditions are shown of the gold; nothing else that is run ever sees any of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import as_known, gold_passages
from hopgraph.evaluation.metrics import normalise_title
from inference.errors import InputError
from inference.heads.revelator import Route
from nodes.baselines.complexity import COMPLEXITY
from nodes.kit.context import Context
from nodes.kit.state import GivenPassage, SentenceRef
from stores.passages import Passage

__all__ = ["Oracle", "route_of"]


class Oracle:
    """Gold for the variants that are to see it.

    Args:
        contexts: The settings of all variants.
        questions: What is asked.
        index: The index that is searched; None where questions bring their own passages.
        gold: What gold passages are known by, as `gold.known_by` says.
    """

    def __init__(
        self, contexts: Iterable[Context], questions: Sequence[Question], *, index: str | None, gold: str
    ) -> None:
        self._index = index
        self._gold = gold
        self._passages: Mapping[str, Sequence[Passage]] = {}
        if index is not None and any(context.oracle == "evidence" for context in contexts):
            self._passages = gold_passages(questions, index)

    def shown(self, context: Context, question: Question) -> dict[str, Any]:
        """What a question's run is given beside the question: `gold`, `gold_route`, or nothing.

        Raises:
            InputError: The settings want gold that this question has none of.
        """
        if context.oracle == "evidence":
            return {"gold": self._evidence(question)}
        if context.oracle == "route":
            return {"gold_route": route_of(question)}
        if context.oracle == "complexity":
            return {"gold_route": COMPLEXITY[route_of(question)]}
        return {}

    def _evidence(self, question: Question) -> list[str | SentenceRef]:
        """The supporting sentences, and passages whole where the benchmark names no sentences of them."""
        found = self._passages if self._index is not None else _own_passages(question)
        ids = as_known(question, self._gold).gold_ids
        titles = [normalise_title(title) for title in question.gold_titles]
        pieces = [piece for key in ids or titles for piece in found.get(key, ())]
        if not pieces and question.answerable:
            raise InputError(
                f"question {question.id}: there is no gold evidence that the oracle condition could be shown",
                hint="it needs `gold_ids` or `gold_titles` of passages in the index, or among the question's own",
            )
        facts = [(normalise_title(title), at) for title, at in question.gold_sentences]
        articles: dict[str, dict[str, Passage]] = {}
        for piece in pieces:
            articles.setdefault(piece.source or piece.id, {})[piece.id] = piece
        refs: dict[str | SentenceRef, None] = {}
        for parts in articles.values():
            # An article that was cut has its sentences in order, each in one part.
            sentences = [(key, at) for key, part in parts.items() for at in range(len(part.sentences))]
            title = normalise_title(next(iter(parts.values())).title)
            named = [at for name, at in facts if name == title]
            known = bool(named) and max(named) < len(sentences)
            refs.update(dict.fromkeys([sentences[at] for at in named] if known else parts))
        return list(refs)


def _own_passages(question: Question) -> dict[str, list[Passage]]:
    """The passages that a question brings along, by the ids that its run will know them by, and by title."""
    from nodes.intake import store_given
    from stores.given import get_given

    found: dict[str, list[Passage]] = {}
    for passage in get_given(store_given([cast(GivenPassage, row) for row in question.contexts])):
        found[passage.id] = [passage]
        found.setdefault(normalise_title(passage.title), []).append(passage)
    return found


def route_of(question: Question) -> Route:
    """The path that a question should take through HANRAG.

    Its `type`, where that is a route; compound if it has several answers; else by hop count, or the number of steps of
    its decomposition: one is a single step, more are complex (App. C takes whole benchmarks so).

    Raises:
        InputError: Nothing of all this is known.
    """
    if question.type in get_args(Route):
        return cast(Route, question.type)
    if question.entities:
        return "compound"
    hops = question.hops if question.hops is not None else len(question.decomposition) or None
    if hops is None:
        raise InputError(
            f"question {question.id}: nothing tells its route, which the oracle is to be shown",
            hint="it needs `hops`, `decomposition`, `entities`, or one of the routes as its `type`",
        )
    # A question that has no evidence (MultiHop-RAG's null queries) is put as one of several hops.
    return "single_step" if hops == 1 else "complex"
