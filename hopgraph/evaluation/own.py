"""Questions in Hopgraph's own format: JSON Lines, and tables with columns of the same names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.data import Question, SubQuestion

if TYPE_CHECKING:
    from hopgraph.evaluation.files import Row

__all__ = ["own_questions", "supporting_facts"]


def own_questions(row: Row, default_id: str) -> Iterable[Question]:
    """The question of one row."""
    type_ = row.text("type", empty=True)
    contexts = tuple(_context(context) for context in row.rows("contexts"))
    yield Question(
        id=row.text("id") if "id" in row else default_id,
        question=row.text("question"),
        answers=_list(row, "answers" if "answers" in row else "answer"),
        type=type_,
        hops=row.whole("hops"),
        answerable=row.flag("answerable", type_ != "null_query"),
        gold_ids=_list(row, "gold_ids"),
        gold_titles=_list(row, "gold_titles"),
        gold_sentences=supporting_facts(row),
        decomposition=tuple(
            SubQuestion(
                step.text("question"),
                step.text("answer", empty=True),
                step.text("support_id" if "support_id" in step else "gold_id", empty=True),
            )
            for step in row.rows("decomposition")
        ),
        entities=_entities(row),
        contexts=contexts,
        gold_contexts=_places(row, "gold_contexts", len(contexts)),
    )


def _list(row: Row, field: str) -> tuple[str, ...]:
    """Texts; a table's cell separates several by `|`."""
    found = row.texts(field)
    if len(found) == 1 and isinstance(row.values[field], str) and "|" in found[0]:
        return tuple(part for piece in found[0].split("|") if (part := piece.strip()))
    return found


def _entities(row: Row) -> tuple[tuple[str, ...], ...]:
    """Answers of a compound question: a list whose items are texts or lists of aliases."""
    value = row.values.get("entities")
    if value is None:
        return ()
    items = value if isinstance(value, list) else []
    names = [row.part({"entities": item}).texts("entities") for item in items]
    if not names or not all(names):
        raise row.wrong("entities", "must be a list of answers, each a text or a list of its aliases")
    return tuple(names)


def _context(row: Row) -> dict[str, Any]:
    context: dict[str, Any] = {"title": row.text("title", empty=True), "text": row.text("text")}
    if sentences := row.texts("sentences"):
        context["sentences"] = list(sentences)
    return context


def _places(row: Row, field: str, count: int) -> tuple[int, ...]:
    """Indices into a list of `count` items."""
    value = row.values.get(field) or []
    if not isinstance(value, list) or not all(is_index(at) and at < count for at in value):
        raise row.wrong(field, f"must be a list of indices from 0, below {count}")
    return tuple(value)


def supporting_facts(row: Row) -> tuple[tuple[str, int], ...]:
    """Pairs of a passage's title and a sentence index; HotpotQA's format and our own."""
    return tuple(row.pairs("supporting_facts", is_index, "index of a sentence"))


def is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
