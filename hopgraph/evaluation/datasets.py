"""Datasets: one registered reader each for its official files; the command's help and the docs list them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.own import own_questions, supporting_facts
from inference.errors import InputError

if TYPE_CHECKING:
    from hopgraph.evaluation.files import Row

Reader = Callable[["Row", str], Iterable[Question]]
"""Questions of one row of an official file; the second argument is the default id."""


@dataclass(frozen=True)
class Dataset:
    """A dataset and its reader."""

    reader: Reader
    title: str
    form: str
    """Its official files; "" if it has none."""
    licence: str
    """Licence of the questions."""
    marks: tuple[str, ...]
    """Fields that identify a row of the official files; a row without any of them is in our own format."""


DATASETS: dict[str, Dataset] = {}
"""By id: `--dataset`."""


def dataset(
    name: str, title: str, *, form: str = "", licence: str = "", marks: tuple[str, ...] = ()
) -> Callable[[Reader], Reader]:
    """Register a reader; see `Dataset`."""

    def add(reader: Reader) -> Reader:
        DATASETS[name] = Dataset(reader, title, form, licence, marks)
        return reader

    return add


def read_questions(path: Path, dataset: str = "own") -> list[Question]:
    """Questions of a file, in file order.

    Args:
        path: An official file of the dataset, or JSON Lines with `id, question, answers` and optionally `type, hops,
            answerable, gold_ids, gold_titles, supporting_facts, decomposition, entities, contexts, gold_contexts`, or a
            CSV or TSV file with columns of those names (`answers` separated by `|`). Plain or `.gz`.
        dataset: One of `DATASETS`.

    Raises:
        InputError: The file or a row is malformed (the message names file, line and field), two questions have the
            same id, or the dataset is unknown.
    """
    from hopgraph.evaluation.files import read_file

    if dataset not in DATASETS:
        raise InputError(f"--dataset: unknown dataset {dataset!r}", hint=f"datasets: {', '.join(DATASETS)}")
    known = DATASETS[dataset]
    questions: list[Question] = []
    seen: dict[str, str] = {}
    for row in read_file(path):
        reader = known.reader if any(mark in row.values for mark in known.marks) else own_questions
        for question in reader(row, f"{dataset}-{row.number:04d}"):
            _check(question, row)
            if question.id in seen:
                raise InputError(
                    f"{row.where}: duplicate id {question.id!r}, also of {seen[question.id]}",
                    hint="every question needs a unique id",
                )
            seen[question.id] = row.where
            questions.append(question)
    return questions


def _check(question: Question, row: Row) -> None:
    from nodes.intake import check_question

    try:
        check_question(question.question)
    except InputError as error:
        raise InputError(f"{row.where}: {error.message}") from None


dataset("own", "your own")(own_questions)


@dataset("2wikimultihopqa", "2WikiMultiHopQA", form="train.json, dev.json", licence="Apache-2.0", marks=("_id",))
@dataset("hotpotqa", "HotpotQA", form="hotpot_*_v1.json", licence="CC BY-SA 4.0", marks=("_id",))
def _hotpotqa(row: Row, default_id: str) -> Iterable[Question]:
    """hotpot_*_v1.json; 2WikiMultiHopQA's files have the same fields plus `evidences`."""
    contexts = row.pairs("context", _is_texts, "list of sentences")
    facts = supporting_facts(row)
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
    # A blank sentence becomes ".": dropping it would shift the indices of the following ones.
    kept = [sentence.strip() or "." for sentence in sentences]
    return {"title": title, "text": " ".join(kept) or title, **({"sentences": kept} if kept else {})}


@dataset(
    "musique",
    "MuSiQue",
    form="musique_{ans,full}_v1.0_*.jsonl",
    licence="CC BY 4.0",
    marks=("paragraphs", "question_decomposition"),
)
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


@dataset("multihoprag", "MultiHop-RAG", form="MultiHopRAG.json", licence="ODC-BY 1.0", marks=("query",))
def _multihoprag(row: Row, default_id: str) -> Iterable[Question]:
    """MultiHopRAG.json. Null queries have no evidence and the answer `Insufficient information.`"""
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


@dataset(
    "bamboogle",
    "Bamboogle",
    form="the released sheet as CSV, or JSON",
    licence="MIT",
    marks=("Question", "Answer", "answer"),
)
def _bamboogle(row: Row, default_id: str) -> Iterable[Question]:
    """Question and Answer, two hops each; the released sheet has no ids."""
    lower = row.part({key.lower(): value for key, value in row.values.items()})
    yield Question(
        id=lower.text("id") if "id" in lower else default_id,
        question=lower.text("question"),
        answers=lower.texts("answer"),
        type="compositional",
        hops=2,
    )


@dataset(
    "nq",
    "Natural Questions",
    form="NQ-open's JSON Lines, or DPR's JSON",
    licence="CC BY-SA 3.0",
    marks=("answer", "positive_ctxs"),
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


@dataset("popqa", "PopQA", form="popQA.tsv", licence="MIT", marks=("possible_answers",))
def _popqa(row: Row, default_id: str) -> Iterable[Question]:
    """popQA.tsv. The pages of subject and object are gold, as in HippoRAG 2."""
    possible = row.values["possible_answers"]
    try:
        answers = json.loads(possible) if isinstance(possible, str) else possible
    except ValueError:
        raise row.wrong("possible_answers", "must be a JSON list") from None
    titles = [row.text(field, empty=True) for field in ("s_wiki_title", "o_wiki_title")]
    yield Question(
        id=row.text("id") if "id" in row else default_id,
        question=row.text("question"),
        answers=row.part({"possible_answers": answers}).texts("possible_answers"),
        type=row.text("prop", empty=True),
        hops=1,
        gold_titles=tuple(dict.fromkeys(filter(None, titles))),
    )


@dataset("triviaqa", "TriviaQA", form="the `unfiltered` and `wikipedia` files", licence="Apache-2.0", marks=("Data",))
def _triviaqa(row: Row, default_id: str) -> Iterable[Question]:
    """The `unfiltered` and `wikipedia` files: `Data` is a list of questions with `Answer.Value` and its aliases."""
    for item in row.rows("Data"):
        answer = item.values.get("Answer")
        if not isinstance(answer, dict):
            raise item.wrong("Answer", "must be an object with `Value` and `Aliases`")
        names = item.part(answer)
        yield Question(
            id=item.text("QuestionId"),
            question=item.text("Question"),
            answers=tuple(dict.fromkeys([names.text("Value"), *names.texts("Aliases")])),
            type="single",
            hops=1,
            gold_titles=tuple(page.text("Title") for page in item.rows("EntityPages")),
        )


@dataset("strategyqa", "StrategyQA", form="strategyqa_*.json", licence="MIT", marks=("qid",))
def _strategyqa(row: Row, default_id: str) -> Iterable[Question]:
    """strategyqa_*.json: yes/no questions with a decomposition without answers."""
    yield Question(
        id=row.text("qid"),
        question=row.text("question"),
        answers=row.texts("answer"),
        type="boolean",
        decomposition=tuple(SubQuestion(step) for step in row.texts("decomposition")),
    )


@dataset("squad", "SQuAD 1.1 and 2.0", form="train-v*.json, dev-v*.json", licence="CC BY-SA 4.0", marks=("data",))
def _squad(row: Row, default_id: str) -> Iterable[Question]:
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


dataset("compound", "compound questions (`entities`)")(own_questions)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
