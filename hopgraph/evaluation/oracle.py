"""Gold inputs of the oracle conditions; no other run is given any gold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import as_known, gold_passages
from hopgraph.evaluation.metrics import normalise_title
from inference.errors import InputError
from inference.heads.revelator import Route
from nodes.kit.context import Context
from nodes.kit.state import GivenPassage, SentenceRef
from stores.passages import Passage


class Oracle:
    """Gold inputs for oracle variants.

    Args:
        contexts: The settings of all variants.
        questions: The run's questions.
        index: The index searched; None if questions bring their own passages.
        gold: How the run identifies gold passages, from `gold.known_by`.
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
        """Additional input of a question's run: `gold`, `gold_route`, or nothing.

        Raises:
            InputError: The question lacks the gold that the settings require.
        """
        if context.oracle == "evidence":
            return {"gold": self._evidence(question)}
        return {"gold_route": context.gold_route(route_of(question))} if context.oracle else {}

    def _evidence(self, question: Question) -> list[str | SentenceRef]:
        """The supporting sentences; the whole passage if the benchmark names no sentences of it."""
        found = self._passages if self._index is not None else _own_passages(question)
        ids = as_known(question, self._gold).gold_ids
        titles = [normalise_title(title) for title in question.gold_titles]
        pieces = [piece for key in ids or titles for piece in found.get(key, ())]
        if not pieces and question.answerable:
            raise InputError(
                f"question {question.id}: the oracle condition has no gold evidence for it",
                hint="give `gold_ids` or `gold_titles` of passages in the index or of the question's own passages",
            )
        facts = [(normalise_title(title), at) for title, at in question.gold_sentences]
        articles: dict[str, dict[str, Passage]] = {}
        for piece in pieces:
            articles.setdefault(piece.source or piece.id, {})[piece.id] = piece
        refs: dict[str | SentenceRef, None] = {}
        for parts in articles.values():
            # The parts of a split article hold its sentences in order.
            sentences = [(key, at) for key, part in parts.items() for at in range(len(part.sentences))]
            title = normalise_title(next(iter(parts.values())).title)
            named = [at for name, at in facts if name == title]
            known = bool(named) and max(named) < len(sentences)
            refs.update(dict.fromkeys([sentences[at] for at in named] if known else parts))
        return list(refs)


def _own_passages(question: Question) -> dict[str, list[Passage]]:
    """A question's own passages, by the ids that its run will use and by normalised title."""
    from nodes.intake import store_given
    from stores.given import get_given

    found: dict[str, list[Passage]] = {}
    for passage in get_given(store_given([cast(GivenPassage, row) for row in question.contexts])):
        found[passage.id] = [passage]
        found.setdefault(normalise_title(passage.title), []).append(passage)
    return found


def route_of(question: Question) -> Route:
    """The gold route of a question (HANRAG, App. C).

    Its `type`, if that is a route; `compound` if it has several answers; else by its hop count, or the length of its
    decomposition: `single_step` for one hop, `complex` for more (App. C assigns whole benchmarks this way).

    Raises:
        InputError: The question has none of these fields.
    """
    if question.type in get_args(Route):
        return cast(Route, question.type)
    if question.entities:
        return "compound"
    hops = question.hops if question.hops is not None else len(question.decomposition) or None
    if hops is None:
        raise InputError(
            f"question {question.id}: its gold route is unknown, and the oracle router needs it",
            hint="give `hops`, `decomposition`, `entities`, or a route as its `type`",
        )
    # Questions without evidence (MultiHop-RAG's null queries, 0 hops) count as multi-hop.
    return "single_step" if hops == 1 else "complex"
