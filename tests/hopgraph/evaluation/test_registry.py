"""A metric is one function: what is registered is measured, summarised, compared, shown, exported and documented."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from hopgraph.evaluation.costs import COSTS, TOTALS
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.exports import export
from hopgraph.evaluation.metrics import METRICS
from hopgraph.evaluation.runs import read_runs
from hopgraph.evaluation.scoring import record_of, score
from hopgraph.evaluation.summary import ALL_METRICS, summarise
from hopgraph.generated.files import metrics
from hopgraph.views.report import write_report
from hopgraph.views.table import print_summary
from tests.hopgraph.evaluation.conftest import LINES, row
from tests.hopgraph.evaluation.test_metrics import line, result


@pytest.fixture
def length():
    """A metric that a test has registered."""

    @METRICS.register(
        "length",
        of=lambda outcome: outcome.answer,
        label="long",
        unit="characters",
        better="lower",
        source="nowhere, Sec. 1",
        places={"answers": 9, "comparison": 99},
        exported={"flashrag": "len"},
    )
    def length(prediction, answers):
        """Characters of the answer.

        No paper has it.
        """
        return float(len(prediction))

    yield length
    del METRICS["length"]


def test_a_registered_metric_is_measured_summarised_compared_and_shown(length):
    question = Question("q0", "Who?", ("Paris",))
    found = score(result(answer="Lyon"), question, {})
    assert found["length"] == 4
    rows = [
        {**line(0, 0, 1, variant=name), "metrics": {**found, "length": value}} for name, value in (("a", 4), ("b", 9))
    ]
    summary = summarise([record_of(row) for row in rows], {"q0": question}, ["a", "b"])
    assert summary["variants"][0]["metrics"]["length"]["mean"] == 4
    assert summary["comparisons"][0]["metrics"]["length"]["difference"] == 5
    shown = io.StringIO()
    print_summary(summary, Console(file=shown, width=200))
    assert "long" in shown.getvalue().splitlines()[1]
    assert "+5.0" in shown.getvalue()
    assert (
        "| `long` | Characters of the answer. | `length` | characters, lower is better | nowhere, Sec. 1 |" in metrics()
    )


def test_a_registered_metric_is_in_report_and_export(length, hopgraph, model, questions, tmp_path):
    model(lambda request: LINES[request.node])
    words = ("-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", tmp_path / "run", "--json")
    assert hopgraph("eval", *words)[0] == 0
    runs = read_runs([tmp_path / "run"])
    page = write_report(runs, tmp_path / "page.html").read_text("utf-8")
    assert '<th class="n" title="Characters of the answer.">long</th>' in page
    [path] = export(runs, "flashrag", tmp_path / "out")
    [exported] = json.loads(path.read_text())
    assert exported["output"]["metric_score"]["len"] == len("Paris")


def test_every_metric_says_what_it_is_and_where_it_comes_from():
    assert len(ALL_METRICS) == len(METRICS) + len(COSTS) + len(TOTALS)
    for name, metric in ALL_METRICS.items():
        assert metric.name == name
        assert metric.meaning.endswith(".")
        assert metric.source
    labels = [metric.label for metric in ALL_METRICS.values() if metric.places]
    assert len(set(labels)) == len(labels)
