"""docs/evaluation.md leaves no column and no field out."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hopgraph.evaluation.data import Question, read_questions
from hopgraph.views.table import COUNTS, SHARES

DOCS = Path(__file__).parents[1] / "docs"
EVALUATION = (DOCS / "evaluation.md").read_text()


@pytest.mark.parametrize("label", [*SHARES.values(), *COUNTS.values()])
def test_every_column_of_the_result_tables_is_explained(label):
    legend = EVALUATION.partition("\n## Reading the tables\n")[2].partition("\n## ")[0]
    assert f"`{label}`" in legend


@pytest.mark.parametrize("field", [field.name for field in fields(Question)])
def test_every_field_of_a_question_is_in_the_table(field):
    table = EVALUATION.partition("\n## Questions of your own\n")[2].partition("\n## ")[0]
    assert f"| `{'supporting_facts' if field == 'gold_sentences' else field}`" in table


def test_the_example_of_a_question_can_be_read(tmp_path):
    (tmp_path / "own.jsonl").write_text(re.search(r"```json\n(.*?)```", EVALUATION, re.DOTALL)[1])
    [question] = read_questions(tmp_path / "own.jsonl")
    assert question.gold_sentences[1] == ("The Silent Harbour: Ann Lee", 1)
    assert [step.answer for step in question.decomposition] == ["Ann Lee", "Paris"]
