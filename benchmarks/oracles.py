"""What limits the embedded model: its answers with a part of the work done by an oracle.

    python benchmarks/oracles.py DATA OUT [--only 2wikimultihopqa] [--method standard_rag,self_ask] [--limit 100]

DATA, the indexes and the runs in OUT are as for `answers.py`. Each set is evaluated

    as it is       the embedded model plays every role
    gold passages  and is given a question's gold passages instead of searching; Standard RAG only
    gold roles     answers are read by the embedded model; every other role (decomposition, selection, verdicts) is
                   played by perfect agents, from gold decompositions
    gold reader    answers are read by perfect agents, every other role is played by the embedded model

Answers are read by the nodes of the role `generator`, which in ReAct, Self-Ask and Search-o1 also ask. The last two are
left out where questions have no decompositions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from answers import SETS, evaluated, show

from hopgraph.evaluation.data import Question, as_row, sample
from hopgraph.evaluation.datasets import read_questions
from hopgraph.evaluation.gold import gold_passages
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from inference.embedded import ensure_server
from stores.build import build_index
from stores.index import open_index
from stores.passages import Passage, read_passages


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the data sets.")],
    out: Annotated[Path, typer.Argument(help="Folder for the runs.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
    method: Annotated[str, typer.Option(help="Methods separated by commas.")] = "standard_rag,self_ask",
    limit: Annotated[int, typer.Option(help="Questions of a set.")] = 100,
) -> None:
    """Print a table for each set: a row per method, columns per oracle."""
    embedded = {
        "HOPGRAPH_LLM_URL": ensure_server().url,
        "HOPGRAPH_SYNTHESIZER_URL": ensure_server(role="synthesizer").url,
    }
    for name in only or SETS:
        index = f"recall-{name}"
        build_index(index, read_passages(data / name / "corpus.jsonl.gz"))
        questions = sample(read_questions(data / name / "questions.jsonl.gz", name), limit, 0)
        out.mkdir(parents=True, exist_ok=True)
        asked = _written(out / f"{name}.jsonl", questions)
        run = ["--dataset", name, "--questions", str(asked), "--index", index, "--method", method]
        found = {"as it is": evaluated(out / f"{name}-embedded", run, embedded)}
        gold = gold_passages(questions, index)
        given = _written(out / f"{name}-gold.jsonl", [_with_gold(question, gold) for question in questions])
        run_given = ["--dataset", name, "--questions", str(given), "--contexts", "--method", "standard_rag"]
        found["gold passages"] = evaluated(out / f"{name}-passages", run_given, embedded)
        if all(question.decomposition for question in questions):
            agents = PerfectAgents(cases_of(questions, gold))
            with Endpoint(agents, "perfect-agents").running() as perfect:
                roles = embedded | {
                    "HOPGRAPH_LLM_URL": perfect.url,
                    "HOPGRAPH_GENERATOR_URL": embedded["HOPGRAPH_LLM_URL"],
                }
                found["gold roles"] = evaluated(out / f"{name}-roles", run, roles)
                reader = {"HOPGRAPH_LLM_URL": embedded["HOPGRAPH_LLM_URL"], "HOPGRAPH_GENERATOR_URL": perfect.url}
                found["gold reader"] = evaluated(out / f"{name}-reader", run, reader)
        show(name, len(open_index(index)), found)


def _written(path: Path, questions: Sequence[Question]) -> Path:
    path.write_text("".join(json.dumps(as_row(question)) + "\n" for question in questions), "utf-8")
    return path


def _with_gold(question: Question, gold: Mapping[str, Sequence[Passage]]) -> Question:
    """The question with its gold passages as contexts."""
    passages = [passage for key in question.gold_ids for passage in gold.get(key, [])]
    rows = tuple({"title": one.title, "text": one.text, "sentences": list(one.sentences)} for one in passages)
    return replace(question, contexts=rows, gold_contexts=tuple(range(len(rows))), gold_ids=())


if __name__ == "__main__":
    typer.run(main)
