"""Makes the papers' retrieval corpus: the passages of a sample of questions, pooled (CompactRAG, Sec. 4.1).

    python benchmarks/pooled.py hotpot_dev_distractor_v1.json --dataset hotpotqa --to POOL
    python benchmarks/pooled.py DATA/hotpotqa/questions.jsonl.gz --dataset hotpotqa --index hotpotqa --to POOL
    hopgraph index POOL/corpus.jsonl --name pool

The sample has the file's shares of types and hops. Its questions go to `POOL/questions.jsonl`, their passages, each
once, to `POOL/corpus.jsonl`. Where questions come without passages, an index (--index) gives their gold ones and the
nearest by BM25 as distractors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hopgraph.evaluation.data import Question, as_row, sample
from hopgraph.evaluation.datasets import read_questions
from inference.errors import HopgraphError, InputError
from stores.index import Index, open_index
from stores.passages import content_id

Rows = dict[str, dict[str, Any]]
"""Passages by id, as rows of a file to index."""


def main(
    questions: Annotated[Path, typer.Argument(help="Questions, with their passages or without.")],
    to: Annotated[Path, typer.Option(help="Folder to write.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    limit: Annotated[int, typer.Option(min=1, help="How many questions.")] = 250,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    index: Annotated[str, typer.Option(help="Index of the passages, where questions bring none.")] = "",
    passages: Annotated[int, typer.Option(min=1, help="With --index: passages a question.")] = 10,
) -> None:
    """Write sample and corpus, and print how many there are."""
    try:
        asked = sample(read_questions(questions, dataset), limit, seed, stratified=True)
        pooled, corpus = pool(asked, open_index(index) if index else None, passages)
        to.mkdir(parents=True, exist_ok=True)
        _write(to / "questions.jsonl", map(as_row, pooled))
        _write(to / "corpus.jsonl", corpus.values())
    except (HopgraphError, OSError) as error:
        hint = getattr(error, "hint", "")
        typer.echo(f"{error}\n{hint}".rstrip(), err=True)
        raise typer.Exit(getattr(error, "exit_code", 2)) from None
    print(f"{len(pooled)} questions, {len(corpus)} passages: {to}")


def pool(questions: Sequence[Question], index: Index | None, passages: int) -> tuple[list[Question], Rows]:
    """Questions with the ids of their gold passages in the corpus and without passages of their own; the corpus.

    Args:
        questions: The sample.
        index: Gives the passages of questions that bring none.
        passages: That it gives of a question.

    Raises:
        InputError: A question has no passages, and there is no index.
    """
    corpus: Rows = {}
    pooled = []
    for question in questions:
        if question.contexts:
            own = [_row(row) for row in question.contexts]
            gold = question.gold_contexts or [n for n, row in enumerate(own) if row["title"] in question.gold_titles]
            question = replace(question, gold_ids=tuple(own[n]["id"] for n in gold))
        elif index is not None:
            own = _found(question, index, passages)
        else:
            raise InputError(f"question {question.id} comes without passages", hint="name an index of them: --index")
        corpus |= {row["id"]: row for row in own}
        pooled.append(replace(question, contexts=(), gold_contexts=()))
    return pooled, corpus


def _row(passage: Mapping[str, Any]) -> dict[str, Any]:
    title, text = passage["title"], passage["text"]
    kept = {"sentences": list(passage["sentences"])} if passage.get("sentences") else {}
    return {"id": content_id(title, text), "title": title, "text": text, **kept}


def _found(question: Question, index: Index, passages: int) -> list[dict[str, Any]]:
    near = [hit.id for hit in index.search(question.question, passages, "sparse")]
    ids = list(dict.fromkeys([*sorted(index.known(question.gold_ids)), *near]))[: max(passages, len(question.gold_ids))]
    return [
        {"id": row.id, "title": row.title, "text": row.text, "sentences": list(row.sentences)} for row in index.get(ids)
    ]


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    typer.run(main)
