"""Questions with gold answers: the official files of the benchmarks, our JSON Lines, and tables of one's own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hopgraph.evaluation.files import Row, read_file
from inference.errors import InputError
from nodes.intake import check_question

__all__ = ["DATASETS", "Question", "SubQuestion", "as_row", "read_questions", "sample"]


@dataclass(frozen=True)
class SubQuestion:
    """A step of a question's gold decomposition."""

    question: str
    """As the benchmark has it; `#1` stands for the first step's answer."""
    answer: str = ""
    """"" where the benchmark gives none."""
    gold_id: str = ""
    """Id of the passage that answers it, where it is known."""


@dataclass(frozen=True)
class Question:
    """A question, and what is known of its answer."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    """Every wording that is right; none when the question has no answer, or when nobody knows one."""
    type: str = ""
    """The benchmark's own kind of question, such as `bridge`."""
    hops: int | None = None
    answerable: bool = True
    """False: the right thing to say is that there is no answer (MultiHop-RAG's null queries, SQuAD 2.0)."""
    gold_ids: tuple[str, ...] = ()
    """Ids of the passages that are needed to answer it."""
    gold_titles: tuple[str, ...] = ()
    """Their titles, in the same order where both are given."""
    gold_sentences: tuple[tuple[str, int], ...] = ()
    """Supporting facts: title of the passage, index of the sentence from 0."""
    decomposition: tuple[SubQuestion, ...] = ()
    entities: tuple[tuple[str, ...], ...] = ()
    """A compound question's answers, each with its wordings."""
    contexts: tuple[dict[str, Any], ...] = ()
    """The passages that the benchmark hands over with it, gold ones and distractors: title, text, perhaps sentences."""
    gold_contexts: tuple[int, ...] = ()
    """Which of `contexts` are gold, from 0, where the benchmark says so: MuSiQue has several of one title."""


Reader = Callable[[Row, str], Iterable[Question]]
"""Questions of one row of an official file; the second argument is the id for a question that has none."""


def read_questions(path: Path, dataset: str = "own") -> list[Question]:
    """Questions of a file, in its order.

    Args:
        path: An official file of the dataset, or JSON Lines with `id, question, answers` and optionally `type, hops,
            answerable, gold_ids, gold_titles, supporting_facts, decomposition, entities, contexts, gold_contexts`, or a
            CSV or TSV file with columns of those names (`answers` separated by `|`). Plain or `.gz`.
        dataset: One of `DATASETS`.

    Raises:
        InputError: The file or a row of it is malformed (the message names file, line and field), two questions have
            the same id, or there is no such dataset.
    """
    if dataset not in DATASETS:
        raise InputError(f"--dataset: there is no {dataset!r}", hint=f"datasets: {', '.join(DATASETS)}")
    marks, official = DATASETS[dataset]
    questions: list[Question] = []
    seen: dict[str, str] = {}
    for row in read_file(path):
        reader = official if any(mark in row.values for mark in marks) else _own
        for question in reader(row, f"{dataset}-{row.number:04d}"):
            _check(question, row)
            if question.id in seen:
                raise InputError(
                    f"{row.where}: id {question.id!r} is also that of {seen[question.id]}",
                    hint="every question needs an id of its own",
                )
            seen[question.id] = row.where
            questions.append(question)
    return questions


def sample(questions: Sequence[Question], limit: int | None, seed: int | None) -> list[Question]:
    """At most `limit` questions in file order: the first ones, or with a seed a random sample that it determines."""
    if limit is None or limit >= len(questions):
        return list(questions)
    if seed is None:
        return list(questions[:limit])
    chosen = random.Random(seed).sample(range(len(questions)), limit)  # noqa: S311
    return [questions[at] for at in sorted(chosen)]


def as_row(question: Question) -> dict[str, Any]:
    """A question as a row of our JSON Lines; what is empty is left out."""
    row = asdict(question)
    row["supporting_facts"] = row.pop("gold_sentences")
    kept = {key: value for key, value in row.items() if value not in ((), [], "", None) and value is not True}
    return dict(json.loads(json.dumps({"id": question.id, "question": question.question, **kept})))


def _check(question: Question, row: Row) -> None:
    try:
        check_question(question.question)
    except InputError as error:
        raise InputError(f"{row.where}: {error.message}") from None


def _own(row: Row, default_id: str) -> Iterable[Question]:
    """Our own JSON Lines, and tables."""
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
        gold_sentences=_facts(row),
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


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _list(row: Row, field: str) -> tuple[str, ...]:
    """Texts; in a table a cell holds several with `|` between them."""
    found = row.texts(field)
    if len(found) == 1 and isinstance(row.values[field], str) and "|" in found[0]:
        return tuple(part for piece in found[0].split("|") if (part := piece.strip()))
    return found


def _entities(row: Row) -> tuple[tuple[str, ...], ...]:
    """Answers of a compound question: a list whose items are texts or lists of wordings."""
    value = row.values.get("entities")
    if value is None:
        return ()
    items = value if isinstance(value, list) else []
    names = [Row({"entities": item}, row.where, row.number).texts("entities") for item in items]
    if not names or not all(names):
        raise row.wrong("entities", "must be a list of answers, each a text or a list of its wordings")
    return tuple(names)


def _context(row: Row) -> dict[str, Any]:
    context: dict[str, Any] = {"title": row.text("title", empty=True), "text": row.text("text")}
    if sentences := row.texts("sentences"):
        context["sentences"] = list(sentences)
    return context


def _places(row: Row, field: str, count: int) -> tuple[int, ...]:
    """Places in a list of so many items."""
    value = row.values.get(field) or []
    if not isinstance(value, list) or not all(_is_index(at) and at < count for at in value):
        raise row.wrong(field, f"must be a list of whole numbers from 0, below {count}")
    return tuple(value)


def _facts(row: Row) -> tuple[tuple[str, int], ...]:
    return tuple(row.pairs("supporting_facts", _is_index, "index of a sentence"))


def _hotpotqa(row: Row, default_id: str) -> Iterable[Question]:
    """hotpot_*_v1.json; 2WikiMultiHopQA's files have the same fields and `evidences` besides."""
    contexts = row.pairs("context", _is_texts, "list of sentences")
    facts = _facts(row)
    type_ = row.text("type", empty=True)
    triples = row.values.get("evidences") or []
    if not isinstance(triples, list) or not all(_is_texts(triple) and len(triple) == 3 for triple in triples):
        raise row.wrong("evidences", "must be a list of [subject, relation, object]")
    yield Question(
        id=row.text("_id"),
        question=row.text("question"),
        answers=row.texts("answer"),
        type=type_,
        hops=4 if type_ == "bridge_comparison" else 2,
        gold_titles=tuple(dict.fromkeys(title for title, _ in facts)),
        gold_sentences=facts,
        decomposition=tuple(SubQuestion(f"{subject} >> {relation}", end) for subject, relation, end in triples),
        contexts=tuple(_paragraph(title, sentences) for title, sentences in contexts),
    )


def _paragraph(title: str, sentences: list[str]) -> dict[str, Any]:
    # A blank sentence stays as one sign, or the numbers of those after it would shift.
    kept = [sentence.strip() or "." for sentence in sentences]
    return {"title": title, "text": " ".join(kept) or title, **({"sentences": kept} if kept else {})}


def _musique(row: Row, default_id: str) -> Iterable[Question]:
    """musique_{ans,full}_v1.0_*.jsonl."""
    paragraphs = list({str(p.values.get("idx")): p for p in row.rows("paragraphs")}.values())
    gold = [at for at, p in enumerate(paragraphs) if p.values.get("is_supporting") is True]
    name = row.text("id")
    digit = name[:1]
    answerable = row.flag("answerable", True)
    yield Question(
        id=name,
        question=row.text("question"),
        answers=tuple(dict.fromkeys([*row.texts("answer"), *row.texts("answer_aliases")])) if answerable else (),
        type=name.split("__")[0] if "__" in name else "",
        hops=int(digit) if digit.isdigit() and name[1:4] == "hop" else None,
        answerable=answerable,
        gold_titles=tuple(paragraphs[at].text("title", empty=True) for at in gold),
        decomposition=tuple(
            SubQuestion(step.text("question"), step.text("answer", empty=True))
            for step in row.rows("question_decomposition")
        ),
        contexts=tuple({"title": p.text("title", empty=True), "text": p.text("paragraph_text")} for p in paragraphs),
        gold_contexts=tuple(gold),
    )


def _multihoprag(row: Row, default_id: str) -> Iterable[Question]:
    """MultiHopRAG.json. A null query has no evidence, and `Insufficient information.` for an answer."""
    evidence = row.rows("evidence_list")
    type_ = row.text("question_type", empty=True)
    yield Question(
        id=row.text("id") if "id" in row else default_id,
        question=row.text("query"),
        answers=row.texts("answer"),
        type=type_,
        hops=len(evidence),
        answerable=type_ != "null_query",
        gold_titles=tuple(dict.fromkeys(item.text("title") for item in evidence)),
    )


def _nq(row: Row, default_id: str) -> Iterable[Question]:
    """NQ-open's JSON Lines (`question`, `answer`), and DPR's files, which add `positive_ctxs`."""
    gold = row.rows("positive_ctxs")[:1]
    yield Question(
        id=row.text("id") if "id" in row else default_id,
        question=row.text("question"),
        answers=row.texts("answers" if "answers" in row else "answer"),
        type="single",
        hops=1,
        gold_titles=tuple(context.text("title") for context in gold),
    )


def _popqa(row: Row, default_id: str) -> Iterable[Question]:
    """popQA.tsv. The pages of subject and object are gold, as HippoRAG 2 takes them."""
    possible = row.values["possible_answers"]
    try:
        answers = json.loads(possible) if isinstance(possible, str) else possible
    except ValueError:
        raise row.wrong("possible_answers", "must be a JSON list") from None
    titles = [row.text(field, empty=True) for field in ("s_wiki_title", "o_wiki_title")]
    yield Question(
        id=row.text("id") if "id" in row else default_id,
        question=row.text("question"),
        answers=Row({"possible_answers": answers}, row.where, row.number).texts("possible_answers"),
        type=row.text("prop", empty=True),
        hops=1,
        gold_titles=tuple(dict.fromkeys(filter(None, titles))),
    )


def _triviaqa(row: Row, default_id: str) -> Iterable[Question]:
    """The `unfiltered` and `wikipedia` files: `Data` is a list of questions with `Answer.Value` and its aliases."""
    for item in row.rows("Data"):
        answer = item.values.get("Answer")
        if not isinstance(answer, dict):
            raise item.wrong("Answer", "must be an object with `Value` and `Aliases`")
        names = Row(answer, item.where, item.number)
        yield Question(
            id=item.text("QuestionId"),
            question=item.text("Question"),
            answers=tuple(dict.fromkeys([names.text("Value"), *names.texts("Aliases")])),
            type="single",
            hops=1,
            gold_titles=tuple(page.text("Title") for page in item.rows("EntityPages")),
        )


def _strategyqa(row: Row, default_id: str) -> Iterable[Question]:
    """strategyqa_*.json: yes/no questions with a decomposition that has no answers."""
    yield Question(
        id=row.text("qid"),
        question=row.text("question"),
        answers=row.texts("answer"),
        type="boolean",
        decomposition=tuple(SubQuestion(step) for step in row.texts("decomposition")),
    )


def _squad(row: Row, default_id: str) -> Iterable[Question]:
    """SQuAD 1.1 and 2.0."""
    for article in row.rows("data"):
        title = article.text("title", empty=True).replace("_", " ")
        for paragraph in article.rows("paragraphs"):
            context = {"title": title, "text": paragraph.text("context")}
            for item in paragraph.rows("qas"):
                answers = tuple(dict.fromkeys(answer.text("text") for answer in item.rows("answers")))
                impossible = item.flag("is_impossible", False)
                yield Question(
                    id=item.text("id"),
                    question=item.text("question"),
                    answers=() if impossible else answers,
                    type="single",
                    hops=1,
                    answerable=not impossible,
                    gold_titles=(title,) if title and not impossible else (),
                    contexts=(context,),
                    gold_contexts=() if impossible else (0,),
                )


def _bamboogle(row: Row, default_id: str) -> Iterable[Question]:
    """Question and Answer, two hops each; the released sheet has no ids."""
    lower = Row({key.lower(): value for key, value in row.values.items()}, row.where, row.number)
    yield Question(
        id=lower.text("id") if "id" in lower else default_id,
        question=lower.text("question"),
        answers=lower.texts("answer"),
        type="compositional",
        hops=2,
    )


DATASETS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "own": ((), _own),
    "hotpotqa": (("_id",), _hotpotqa),
    "2wikimultihopqa": (("_id",), _hotpotqa),
    "musique": (("paragraphs", "question_decomposition"), _musique),
    "multihoprag": (("query",), _multihoprag),
    "bamboogle": (("Question", "Answer", "answer"), _bamboogle),
    "nq": (("answer", "positive_ctxs"), _nq),
    "popqa": (("possible_answers",), _popqa),
    "triviaqa": (("Data",), _triviaqa),
    "strategyqa": (("qid",), _strategyqa),
    "squad": (("data",), _squad),
    "compound": ((), _own),
}
"""Dataset ids: fields by which a row of the official files is known, and its reader. Other rows are in our format."""
